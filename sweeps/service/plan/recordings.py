"""Facts about a store that a sweep needs besides training, computed without reading features."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from mucon.baselines import alignment_baseline, blind_baseline, pooling_ceiling
from mucon.checkpoint_files import of_run, trained_on
from mucon.configuration import Config
from mucon.errors import InputError, Problem, some
from mucon.identity.fingerprint import VideoFacts, data_fingerprint
from mucon.identity.trained_on import seen_problem
from mucon.method import models_of, training_of
from mucon.metrics.alignment import alignment_scores
from mucon.metrics.boundaries import boundary_scores
from mucon.metrics.confusion import frames_per_action
from mucon.metrics.scores import Scores, score
from mucon.segments import Segmentation
from mucon.training.supervision import labelled_of
from mucon.videos import ScoredPart, training_videos_of, videos_of, vocabulary_of
from storage import Store, open_store
from storage.held_out import held_out
from sweeps.service.trials.trial import Trial


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitData:
    """A split of a store.

    The test videos are those that are scored: in a sweep on the validation part, the videos of that part.

    Attributes:
        fingerprint: fingerprint of its videos without labelled training videos, see `SplitFacts.fingerprint`.
        blind: metric -> value of the feature-free baseline: the most frequent training transcript with equal lengths.
        blind_alignment: the same for alignment: the true transcript with equal lengths.
        ceilings: frames per latent frame -> highest MoF that `frames` can reach.
        commonest: name of the action with most test frames; None if no test video has lengths.
        commonest_share: its share of the test frames, 0 to 1; None likewise.
        n_train: number of training videos.
        n_test: number of test videos.
        n_test_with_lengths: number of test videos with lengths; None if all have them.
        validation: ids of the validation part; empty if the test part is scored.
        validation_groups: its groups, such as subjects; empty where the store does not know them.
        validation_only: names of its actions that no remaining training video contains.
    """

    fingerprint: str
    blind: Mapping[str, float]
    commonest: str | None
    commonest_share: float | None
    n_train: int
    n_test: int
    n_test_with_lengths: int | None = None
    blind_alignment: Mapping[str, float] = field(default_factory=dict)
    ceilings: Mapping[str, float] = field(default_factory=dict)
    validation: tuple[str, ...] = ()
    validation_groups: tuple[str, ...] = ()
    validation_only: tuple[str, ...] = ()

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `dataclasses.asdict`, also after a way through JSON."""
        values: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in value.items()}
        return cls(**values)

    @property
    def held_out(self) -> str:
        """Size and groups of the validation part as text; without groups, its recordings."""
        groups = self.validation_groups
        named = f"group{'s' * (len(groups) > 1)} {some(groups)}" if groups else f"no groups: {some(self.validation)}"
        return f"{self.n_test} of the {self.n_train + self.n_test} videos outside the test part, {named}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFacts:
    """Facts about a split's videos that determine what is learned and measured.

    Attributes:
        train: training videos, with all lengths in the store, whether training uses them or not.
        test: the scored videos; without lengths, only their transcripts are compared.
        actions: names of the actions.
        background: names of the background actions.
    """

    train: tuple[VideoFacts, ...]
    test: tuple[VideoFacts, ...]
    actions: tuple[str, ...]
    background: tuple[str, ...]

    def fingerprint(self, labelled: float = 0.0, seed: int = 1) -> str:
        """The fingerprint of what a training uses.

        The lengths of the scored part are always in it, because the scores come from them; of the training part only
        those of the labelled videos.

        Args:
            labelled: share of labelled training videos.
            seed: seed of the trial, which selects them.
        """
        chosen: set[str] = set()
        if labelled:
            known = [video.id for video in self.train if video.lengths is not None]
            chosen = set(labelled_of(known, len(self.train), labelled, seed))
        train = (video if video.id in chosen else replace(video, lengths=None) for video in self.train)
        return data_fingerprint(train, self.test, self.actions, self.background)


def split_facts(store: Store, split: str, part: ScoredPart = "test") -> SplitFacts:
    """The facts about a split's videos, of which a part is scored; no record of another part is read.

    Raises:
        StoreError: no such split, or a training part that is too small for a validation part.
    """
    vocabulary = vocabulary_of(store)
    train, test = (
        tuple(VideoFacts.of(video, vocabulary) for video in videos)
        for videos in (training_videos_of(store, split, part), videos_of(store, split, part))
    )
    return SplitFacts(train=train, test=test, actions=vocabulary.actions, background=vocabulary.background)


def split_data(
    store: Store,
    split: str,
    facts: SplitFacts | None = None,
    poolings: Collection[int] = (),
    *,
    part: ScoredPart = "test",
) -> SplitData:
    """Counts, baselines and ceilings of a split.

    Args:
        store: the recordings.
        split: one with a training and a test part.
        facts: the split's facts; read if None.
        poolings: numbers of frames per latent frame for which a ceiling is computed.
        part: the scored part; no record of another part but the training part is read.

    Raises:
        StoreError: no such split, or a training part that is too small for a validation part.
        InputError: one problem per training video without transcript.
    """
    train, test = training_videos_of(store, split, part), videos_of(store, split, part)
    problems = [
        Problem(
            rule="missing",
            place=f"{store.address}: {video.id}",
            value=video.id,
            message="training video without transcript",
            hint="annotate it, or remove it from the split",
        )
        for video in train
        if not video.transcript
    ]
    if problems:
        raise InputError(problems)
    vocabulary = vocabulary_of(store)
    truth = [video.truth for video in test]
    annotated = [video for video in test if video.lengths is not None]
    segmented = [one for one in truth if isinstance(one, Segmentation)]
    frames = frames_per_action(truth, vocabulary.n_actions)
    background, fps = vocabulary.background_ids, store.manifest.fps

    def scores(predicted: Sequence[Segmentation | None]) -> Scores:
        return score(truth, predicted, background) | boundary_scores(truth, predicted, fps=fps)

    aligned = alignment_baseline(test)
    held = held_out(store, split) if part == "validation" else None
    return SplitData(
        fingerprint=(facts or split_facts(store, split, part)).fingerprint(),
        blind=scores(blind_baseline(train, test)).values,
        blind_alignment=(scores(aligned) | alignment_scores(truth, aligned, background, fps=fps)).values,
        ceilings={
            str(factor): score(segmented, pooling_ceiling(annotated, factor)).values["mof"]
            for factor in set(poolings)
            if annotated
        },
        commonest=vocabulary.actions[int(frames.argmax())] if annotated else None,
        commonest_share=float(frames.max() / frames.sum()) if annotated else None,
        n_train=len(train),
        n_test=len(test),
        n_test_with_lengths=None if len(annotated) == len(test) else len(annotated),
        validation=held.validation if held else (),
        validation_groups=held.groups if held else (),
        validation_only=vocabulary.names(held.only_here) if held else (),
    )


def fingerprints(facts: Mapping[str, SplitFacts]) -> Callable[[str, Config, int], str]:
    """Returns the fingerprint of a split's data for a configuration and a seed; cells with the same data share it."""
    fingerprints: dict[tuple[str, float, int | None], str] = {}

    def fingerprint(split: str, config: Config, seed: int) -> str:
        share = training_of(config).labelled
        key = (split, share, seed if share else None)
        if key not in fingerprints:
            fingerprints[key] = facts[split].fingerprint(share, seed)
        return fingerprints[key]

    return fingerprint


def model_problems(trials: Iterable[Trial]) -> list[Problem]:
    """One problem per model and split whose scored recordings the model saw before trials use its weights or labels."""
    uses = {
        (setting, folder, trial.store, trial.split, trial.part)
        for trial in trials
        for setting, folder in models_of(trial.config).items()
    }
    problems = []
    for setting, folder, store, split, part in sorted(uses):
        data = trained_on(of_run(Path(folder)))
        if data is not None:
            place = f"{setting}: {folder}: split {split}"
            problems.append(seen_problem(data, videos_of(open_store(store), split, part), place=place))
    return [problem for problem in problems if problem is not None]


def split_names(store: Store, part: ScoredPart = "test") -> tuple[str, ...]:
    """The splits that have a training part and, if it is scored, a test part; sorted."""
    parts = {name.rpartition(":")[::2] for name in store.parts}
    asked = {"train", "test"} if part == "test" else {"train"}
    return tuple(sorted(name for name in {name for name, _ in parts} if {(name, one) for one in asked} <= parts))


def also_tested(store: Store, splits: Mapping[str, SplitData]) -> Iterator[Problem]:
    """One problem per split whose validation part has recordings that another of the splits tests."""
    for name, split in splits.items():
        tested = {id: other for other in splits if other != name for id in store.parts.get(f"{other}:test", ())}
        if seen := {id: tested[id] for id in split.validation if id in tested}:
            others = ", ".join(sorted(set(seen.values())))
            message = f"its validation part has {len(seen)} recordings of the test part of split {others}"
            hint = "choose on one split if these are tested later"
            yield Problem(rule="conflict", place=f"split {name}", value=sorted(seen), message=message, hint=hint)


def validation_lines(splits: Mapping[str, SplitData]) -> Iterator[str]:
    """Which recordings the validation parts have, and which of their actions training does not see."""
    for name, split in splits.items():
        if split.validation:
            yield f"scores on the validation part of split {name}: {split.held_out}"
        if split.validation_only:
            only = some(split.validation_only)
            yield f"actions in the validation part of split {name} that its training does not see: {only}"
