"""Settings of inference that do not affect training."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace
from typing import Literal

from mucon.errors import InputError, Problem, check_ranges

PRIORS_WITH_SPREAD = ("gaussian", "log_normal", "negative_binomial", "equal_negative_binomial")
"""Length priors with an adjustable width."""

LengthPriorName = Literal[
    "segment",
    "class",
    "none",
    "gaussian",
    "log_normal",
    "negative_binomial",
    "equal",
    "equal_negative_binomial",
    "fitted",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodingConfig:
    """How the `full` prediction determines the lengths of the segments.

    Attributes:
        method: `exact`, or `published`: the published program's decoder including its faults, to reproduce its
            numbers. It aligns the greedy transcript of the segment branch, with Poisson priors with the mean predicted
            length of each action (`length_prior` is `class`, or left at its default).
        step: frames per step of `published`; `exact` decides every frame.
        length_prior: Poisson with the segment's predicted length as its mean (`segment`, paper) or with the mean of
            the predicted lengths of its action in that video (`class`, published program), or `none`; or another
            distribution with the segment's predicted length as its mean: `gaussian`, `log_normal`,
            `negative_binomial`; or a distribution with the equal length T/M as the mean of every segment: Poisson
            (`equal`) or `equal_negative_binomial`, for networks whose predicted lengths are worse than equal ones; or
            `fitted`: negative binomial, with centre and spread fitted on alignments of the training videos, see
            `mucon.decoding.fitted`.
        length_spread: standard deviation / mean of those that are not Poisson; see `mucon.decoding.spread_priors`.
            Another prior has no such setting.
        transcripts: transcripts that `full` chooses from: those of the segment branch (paper), or all distinct ones of
            the training videos, equally likely, with Poisson priors with the mean length of each action in the
            training videos (as NNV and CDFL do); `length_prior` is then left at its default. `bigram`: any transcript,
            as likely as a bigram of the training transcripts says, with lengths as for `training`, `fitted` or `none`.
        background_offset: nats that are taken off the log posterior of every background action before anything is
            decoded, which equals a change of the frame classifier's bias; 0 (paper) takes nothing off. Deviation: the
            background claims the uncertain frames beside it, and so more than its share.
        background_rule: `offset` takes `background_offset`. The others choose it, without labels of the scored
            recordings, see `mucon.decoding.background`: `share` by `background_share`, `labelled` by the likelihood of
            the labelled training recordings, `held_out` by recordings that training left out, `score` by the lowest
            score of the alignments of the training recordings.
        background_share: share of the background in the frames of the training recordings when they are aligned, from
            0 to 1, for the rule `share`. It is knowledge of the user.
        class_prior: `training` divides the frame branch's probabilities by each action's share of the training frames
            as predicted by the network; `none` (paper) does not.
        max_length: longest segment in frames; None for no limit. Deviation: the published program stops at 2,000
            frames; `published` does so if this is None.
        beam: number of transcripts of the segment branch that are aligned; the highest joint score wins. 1 is greedy
            decoding (paper).
        prefix_beam: number of prefixes of each length that are followed in alignment against all training
            transcripts; None for exact search.

    Raises:
        InputError: a value outside its range, or (rule `conflict`) a choice that another one would ignore.
    """

    method: Literal["exact", "published"] = "exact"
    step: int = 30
    length_prior: LengthPriorName = "segment"
    length_spread: float = 0.5
    transcripts: Literal["segment_branch", "training", "bigram"] = "segment_branch"
    background_offset: float = 0.0
    background_rule: Literal["offset", "share", "labelled", "held_out", "score"] = "offset"
    background_share: float | None = None
    class_prior: Literal["none", "training"] = "none"
    max_length: int | None = None
    beam: int = 1
    prefix_beam: int | None = None

    @property
    def needs_training_facts(self) -> bool:
        """Decoding needs statistics of the training videos."""
        return (
            self.transcripts != "segment_branch"
            or self.class_prior == "training"
            or self.background_rule != "offset"
            or self.length_prior == "fitted"
        )

    @property
    def background_key(self) -> str:
        """The rule with its number, under which the training facts contain its offset."""
        rule = self.background_rule
        return f"{rule} {self.background_share:g}" if self.background_share is not None else rule

    def canonical(self, task: str = "segmentation") -> DecodingConfig:
        """The choices that all choices with the same predictions share: defaults where they have no effect.

        Args:
            task: `segmentation`, or `alignment`, whose transcripts are given.
        """
        unused = ["length_prior"] if self.method == "published" else []
        if task == "alignment":
            unused += ["transcripts", "beam", "prefix_beam"]
        default = DecodingConfig()
        return replace(self, **{name: getattr(default, name) for name in unused})

    def __post_init__(self) -> None:
        longest, prefixes, share = self.max_length, self.prefix_beam, self.background_share
        offset = self.background_offset
        check_ranges(
            "decoding.",
            [
                ("step", self.step, "at least 1 frame", self.step >= 1),
                ("length_spread", self.length_spread, "above 0 and finite", 0 < self.length_spread < math.inf),
                ("background_offset", offset, "finite", math.isfinite(offset)),
                ("background_share", share, "above 0 and below 1, or none", share is None or 0 < share < 1),
                ("max_length", longest, "at least 1 frame, or none", longest is None or longest >= 1),
                ("beam", self.beam, "at least 1", self.beam >= 1),
                ("prefix_beam", prefixes, "at least 1, or none", prefixes is None or prefixes >= 1),
            ],
        )
        published, training = self.method == "published", self.transcripts == "training"
        named = self.transcripts == "segment_branch"
        of_actions = ("segment", "fitted", "none") if self.transcripts == "bigram" else ("segment",)
        defaults = {field.name: field.default for field in fields(self)}
        ignored = [
            ("step", "method", not published),
            ("transcripts", "method", published),
            ("beam", "method", published),
            ("beam", "transcripts", not named and not published),
            ("length_prior", "method", published and self.length_prior != "class"),
            ("length_prior", "transcripts", not named and not published and self.length_prior not in of_actions),
            ("length_spread", "length_prior", self.length_prior not in PRIORS_WITH_SPREAD),
            ("prefix_beam", "transcripts", not training),
            ("background_offset", "background_rule", self.background_rule != "offset"),
            ("background_share", "background_rule", self.background_rule != "share"),
        ]
        problems = [
            Problem(
                rule="conflict",
                place=f"decoding.{name}",
                value=getattr(self, name),
                message=f"{getattr(self, name)!r} has no effect with decoding.{other}={getattr(self, other)}",
                hint=f"change decoding.{other}, or set decoding.{name}={str(defaults[name]).lower()}",
            )
            for name, other, is_ignored in ignored
            if is_ignored and getattr(self, name) != defaults[name]
        ]
        if self.background_rule == "share" and share is None:
            hint = "set it, such as decoding.background_share=0.2"
            message = "decoding.background_rule=share needs the share"
            problems.append(Problem(rule="missing", place="decoding.background_share", message=message, hint=hint))
        if problems:
            raise InputError(problems)
