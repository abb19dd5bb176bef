"""The record of the data that a model was trained on, `data.json` in a checkpoint."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from mucon.errors import DataWarning, Problem
from mucon.identity.fingerprint import DIGITS, VideoFacts, data_fingerprint
from mucon.videos import Source, Video
from mucon.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedOn:
    """The data of a training.

    Attributes:
        fingerprint: digest of all that training uses of its recordings: ids, frames, features, transcripts, actions,
            and the lengths of labelled recordings.
        recordings: id -> digest of the features of each recording, None if unknown.
        source: store and split, with the times of the frames.
        earlier: the same for the recordings of the model from which training started.
    """

    fingerprint: str
    recordings: Mapping[str, str | None]
    source: Source = field(default_factory=Source)
    earlier: Mapping[str, str | None] = field(default_factory=dict)

    @classmethod
    def of(cls, videos: Iterable[Video], vocabulary: Vocabulary, source: Source) -> Self:
        """The record of videos, whose lengths count only if they are labelled."""
        facts = [VideoFacts.of(video, vocabulary, lengths=video.labelled) for video in videos]
        return cls(
            fingerprint=data_fingerprint(facts, (), vocabulary.actions, vocabulary.background),
            recordings={one.id: one.sha256[:DIGITS] or None for one in sorted(facts, key=lambda one: one.id)},
            source=source,
        )

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`.

        Raises:
            KeyError, TypeError: missing entries, or entries of other types.
        """
        record = cls(**{**value, "source": Source(**value["source"])})
        wholes = [record.recordings, record.earlier]
        is_whole = isinstance(record.fingerprint, str) and all(isinstance(one, dict) for one in wholes)
        if not is_whole or not isinstance(record.source.fps, float | int | None):
            raise TypeError("fingerprint, recordings, earlier or fps")
        return record

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)

    @property
    def seen(self) -> dict[str, str | None]:
        """The recordings that have affected the weights, as in `recordings`."""
        return {**self.earlier, **self.recordings}

    def __str__(self) -> str:
        split = "" if self.source.split is None else f"split {self.source.split}, "
        return f"{split}{len(self.recordings)} recordings with the fingerprint {self.fingerprint}"

    def among(self, videos: Iterable[Video]) -> list[str]:
        """Ids of the videos that the model has seen in training: those with the same features.

        Where the features of either side are unknown, the id decides.
        """
        seen = self.seen
        contents = {content for content in seen.values() if content is not None}

        def is_seen(video: Video) -> bool:
            if video.checksum is None or seen.get(video.id, "") is None:
                return video.id in seen
            return video.checksum()[:DIGITS] in contents

        return [video.id for video in videos if is_seen(video)]

    def conflict(self, run: Path, now: TrainedOn) -> Problem | None:
        """The problem of training a run further on the data `now`; None if they are the same.

        Args:
            run: folder of the run, named in the problem.
            now: the present data.
        """
        splits = (self.source.split, now.source.split)
        if self.fingerprint == now.fingerprint and (None in splits or splits[0] == splits[1]):
            return None
        return Problem(
            rule="conflict",
            place=str(run),
            value=now.source.split if self.fingerprint == now.fingerprint else now.fingerprint,
            message=f"this run was trained on {self}, not on {now}{self._difference(now)}",
            hint="choose another folder for other data (--out), or restore the data of that run",
        )

    def _difference(self, now: TrainedOn) -> str:
        if self.fingerprint == now.fingerprint:
            return ""
        before, after = dict(self.recordings), dict(now.recordings)
        kinds = {
            "new": sorted(after.keys() - before.keys()),
            "missing": sorted(before.keys() - after.keys()),
            "with other features": sorted(id for id in before.keys() & after.keys() if before[id] != after[id]),
        }
        texts = [f"{len(ids)} {kind}: {some_ids(ids)}" for kind, ids in kinds.items() if ids]
        return f" ({'; '.join(texts) or 'lengths, transcripts, labels or actions differ'})"


def some_ids(ids: Sequence[str]) -> str:
    """Up to three ids.

    >>> some_ids(["a", "b", "c", "d"])
    "'a', 'b', 'c', ..."
    """
    return ", ".join([*map(repr, ids[:3]), *(["..."] if len(ids) > 3 else [])])


def seen_problem(trained_on: TrainedOn, videos: Sequence[Video], *, place: str) -> Problem | None:
    """The problem of scoring a model on recordings that it has seen in training; None if there are none.

    Args:
        trained_on: the data of the model.
        videos: recordings on which it is scored.
        place: what the problem is about.
    """
    seen = trained_on.among(videos)
    if not seen:
        return None
    message = f"trained on {len(seen)} of the {len(videos)} recordings that are scored: {some_ids(seen)}"
    hint = "their scores do not show how well it works on new recordings"
    return Problem(rule="conflict", place=place, value=tuple(seen), message=message, hint=hint)


def warn_if_seen(trained_on: TrainedOn, videos: Sequence[Video], *, place: str) -> None:
    """Warns about recordings that a model has seen in training, see `seen_problem`.

    Warns:
        DataWarning: at least one of the recordings was trained on.
    """
    problem = seen_problem(trained_on, videos, place=place)
    if problem is not None:
        warnings.warn(DataWarning(problem), stacklevel=3)
