"""Fuses the evidence of the frame branch with the transcripts and lengths of the segment branch, on arrays: `full`.

Everything here releases the interpreter lock while it decodes. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mucon.arrays import Ints
from mucon.decoding.alignment import best_lengths
from mucon.decoding.class_means import class_mean_lengths
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fitted import FittedLengths
from mucon.decoding.length_priors import Flat, LengthPrior, Poisson, PoissonPerClass
from mucon.decoding.prefix_tree import PrefixTree
from mucon.decoding.published import published_lengths
from mucon.decoding.spread_priors import Gaussian, LogNormal, NegativeBinomial
from mucon.decoding.transcripts import Candidate, best_joint, best_of_transcripts
from mucon.errors import InputError, Problem
from mucon.segments import Segmentation

LEAST_SHARE = 1e-6
"""Lower bound of an action's prior, so that an action absent from the training videos is not divided by zero."""
SPREAD_PRIORS: Mapping[str, Callable[[ArrayLike, ArrayLike], LengthPrior]] = {
    "gaussian": Gaussian,
    "log_normal": LogNormal,
    "negative_binomial": NegativeBinomial,
}
PUBLISHED_LENGTH = 2000
"""Longest segment of the published program's decoder, in frames."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingFacts:
    """Facts about the training videos that inference may use; computed when training finishes.

    Attributes:
        transcripts: the distinct ones, sorted.
        mean_lengths: `[N]` mean frames of a segment of each action, in the network's own alignment.
        frame_shares: `[N]` share of each action in the frames, in the network's own alignment.
        mean_posteriors: `[N]` mean probability of each action over all frames; empty if not known.
        background_offsets: rule (`DecodingConfig.background_key`) -> its offset in nats, for the rules that were asked
            for; `labelled` whenever training recordings are labelled.
        fitted: length prior fitted on alignments by the evidence alone; None if it is not known.
        counts: number of training videos with each transcript; empty if not known, and they then count once.
    """

    transcripts: tuple[tuple[int, ...], ...]
    mean_lengths: tuple[float, ...]
    frame_shares: tuple[float, ...]
    mean_posteriors: tuple[float, ...] = ()
    background_offsets: Mapping[str, float] = field(default_factory=dict)
    fitted: FittedLengths | None = None
    counts: tuple[int, ...] = ()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`."""
        return cls(
            transcripts=tuple(tuple(transcript) for transcript in value["transcripts"]),
            mean_lengths=tuple(value["mean_lengths"]),
            frame_shares=tuple(value["frame_shares"]),
            mean_posteriors=tuple(value.get("mean_posteriors", ())),
            background_offsets=dict(value.get("background_offsets", {})),
            counts=tuple(value.get("counts", ())),
            fitted=None if value.get("fitted") is None else FittedLengths.from_dict(value["fitted"]),
        )


class Transcript(Protocol):
    """A transcript that the segment branch has decoded."""

    @property
    def transcript(self) -> tuple[int, ...]:
        """Action ids without the end symbol."""

    @property
    def log_prob(self) -> float:
        """Log probability of the transcript."""


def evidence(
    log_probs: NDArray[np.floating], facts: TrainingFacts | None, decoding: DecodingConfig
) -> NDArray[np.floating]:
    """`[T, N]`: the frames' log probabilities, minus the log of each action's prior if `class_prior` asks for it.

    Raises:
        InputError: the facts about the training videos are needed and absent.
    """
    if decoding.length_prior == "fitted":
        fitted_lengths(facts)
    if decoding.class_prior == "none":
        return log_probs
    shares = np.maximum(np.asarray(known_facts(facts, "decoding.class_prior").frame_shares), LEAST_SHARE)
    divided: NDArray[np.floating] = log_probs - np.log(shares)
    return divided


def background_offset(facts: TrainingFacts | None, decoding: DecodingConfig) -> float:
    """Nats that are taken off the background: the stated number, or that of the rule.

    Raises:
        InputError: the training facts contain no offset by that rule.
    """
    if decoding.background_rule == "offset":
        return decoding.background_offset
    offsets = known_facts(facts, "decoding.background_rule").background_offsets
    if decoding.background_key not in offsets:
        raise InputError(
            Problem(
                rule="missing",
                place="decoding.background_rule",
                value=decoding.background_rule,
                message=f"the checkpoint contains no offset of the background by the rule {decoding.background_key!r}",
                hint="evaluate it with the store that it was trained on, or train it with this setting",
            )
        )
    return offsets[decoding.background_key]


def best_training_transcript(
    log_probs: NDArray[np.floating], facts: TrainingFacts, decoding: DecodingConfig
) -> Segmentation:
    """The training transcript that fits the evidence `[T, N]` best, or any transcript under their bigram.

    Raises:
        InputError: no transcript can fill the recording: all have more segments than frames, or too few for the length
            cap.
    """
    if decoding.transcripts == "bigram":
        return _best_under_bigram(log_probs, facts, decoding)
    index, lengths, _ = best_of_transcripts(
        log_probs,
        _prefix_tree(facts.transcripts),
        facts.mean_lengths,
        max_length=decoding.max_length,
        beam=decoding.prefix_beam,
    )
    return Segmentation(np.asarray(facts.transcripts[index], dtype=np.int64), lengths)


def best_candidate(
    log_probs: NDArray[np.floating],
    named: Sequence[tuple[Transcript, NDArray[np.float64]]],
    decoding: DecodingConfig,
    facts: TrainingFacts | None = None,
) -> Segmentation:
    """The transcript of a beam with the highest joint score for the evidence `[T, N]`.

    No segment if no transcript has 1 to T segments, and one is empty or there is none.

    Raises:
        InputError: no transcript can fill the recording: all have more segments than frames, or too few for the length
            cap; or values are NaN.
    """
    fitting = [(one, lengths) for one, lengths in named if 0 < len(one.transcript) <= len(log_probs)]
    if not fitting and not (named and all(one.transcript for one, _ in named)):
        return Segmentation.of([], [])
    named = fitting or named
    transcripts = [np.asarray(one.transcript, dtype=np.int64) for one, _ in named]
    candidates = [
        Candidate(transcript, one.log_prob, length_prior(transcript, lengths, log_probs.shape[1], decoding, facts))
        for transcript, (one, lengths) in zip(transcripts, named, strict=True)
    ]
    index, lengths, _ = best_joint(log_probs, candidates, max_length=decoding.max_length)
    return Segmentation(transcripts[index], lengths)


def _best_under_bigram(log_probs: NDArray[np.floating], facts: TrainingFacts, decoding: DecodingConfig) -> Segmentation:
    from mucon.decoding.bigram import best_under_bigram, bigram_of

    n_actions = log_probs.shape[1]
    bigram = bigram_of(facts.transcripts, facts.counts or (1,) * len(facts.transcripts), n_actions)
    prior: LengthPrior = PoissonPerClass(facts.mean_lengths)
    if decoding.length_prior == "none":
        prior = Flat()
    elif decoding.length_prior == "fitted":
        prior = fitted_lengths(facts).per_action()
    return best_under_bigram(log_probs, bigram, prior, max_length=decoding.max_length)[0]


@lru_cache(maxsize=8)
def _prefix_tree(transcripts: tuple[tuple[int, ...], ...]) -> PrefixTree:
    return PrefixTree.of(transcripts)


def known_facts(facts: TrainingFacts | None, setting: str) -> TrainingFacts:
    """Facts about the training videos that a setting of decoding needs.

    Raises:
        InputError: there are none.
    """
    if facts is None:
        raise InputError(
            Problem(
                rule="missing",
                place=setting,
                value="training",
                message="the checkpoint contains no facts about its training videos",
                hint="evaluate it with the store that it was trained on",
            )
        )
    return facts


def fitted_lengths(facts: TrainingFacts | None) -> FittedLengths:
    """The fitted prior of the training facts.

    Raises:
        InputError: there is none.
    """
    found = known_facts(facts, "decoding.length_prior").fitted
    if found is None:
        message, hint = "the checkpoint contains no fitted length prior", "evaluate it with the store of its training"
        place = "decoding.length_prior"
        raise InputError(Problem(rule="missing", place=place, value="fitted", message=message, hint=hint))
    return found


def align(
    log_probs: NDArray[np.floating],
    transcript: Ints,
    lengths: NDArray[np.float64],
    decoding: DecodingConfig,
    facts: TrainingFacts | None = None,
) -> Segmentation:
    """The transcript with the lengths that fit the frames and the predicted lengths best.

    Args:
        log_probs: `[T, N]` of the frame branch.
        transcript: `[M]`, M <= T.
        lengths: `[M]` real frames, predicted by the segment branch.
        decoding: prior on the lengths and their cap. With `method=published` the result has the published program's
            labels, whose runs may differ from the transcript.
        facts: facts about the training videos, for `length_prior=fitted`.

    Raises:
        InputError: the facts are needed and absent.

    Source: paper, equations (14) and (15).
    """
    n_actions = log_probs.shape[1]
    if decoding.method == "published":
        means = _class_means(transcript, lengths, n_actions)
        cap = PUBLISHED_LENGTH if decoding.max_length is None else decoding.max_length
        labels, _, _ = published_lengths(log_probs, transcript, means, step=decoding.step, max_length=cap)
        return Segmentation.from_frame_labels(labels)
    prior = length_prior(transcript, lengths, n_actions, decoding, facts)
    best, _ = best_lengths(log_probs, transcript, prior, max_length=decoding.max_length)
    return Segmentation(transcript, best)


def length_prior(
    transcript: Ints,
    lengths: NDArray[np.float64],
    n_actions: int,
    decoding: DecodingConfig,
    facts: TrainingFacts | None = None,
) -> LengthPrior:
    """Prior of a transcript's lengths around the predicted ones, around equal ones of the same sum, or fitted.

    Raises:
        InputError: the facts are needed and absent.
    """
    if decoding.length_prior == "fitted":
        return fitted_lengths(facts).prior(transcript, lengths)
    if decoding.length_prior == "none":
        return Flat()
    if decoding.length_prior == "class":
        return PoissonPerClass(_class_means(transcript, lengths, n_actions))
    family = decoding.length_prior
    if family.startswith("equal"):
        lengths = np.full(len(transcript), lengths.sum() / max(len(transcript), 1))
    if family in ("segment", "equal"):
        return Poisson(lengths)
    return SPREAD_PRIORS[family.removeprefix("equal_")](lengths, decoding.length_spread)


def _class_means(transcript: Ints, lengths: NDArray[np.float64], n_actions: int) -> NDArray[np.float64]:
    """`[N]` mean predicted length of each action in this recording, 1 for absent actions."""
    return class_mean_lengths([(transcript, lengths)], n_actions, fallback=1.0)
