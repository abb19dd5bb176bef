"""The files of each recording's prediction: a text in one of the formats and, if wanted, a timeline."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from mucon.errors import InputError, Problem, some
from mucon.outputs.batch import checksum_of
from mucon.outputs.files import OutputFolder, stamp_of
from mucon.outputs.formats import text
from mucon.outputs.results import Segment, Segments
from mucon.plots import SUFFIXES, draw
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary


class Readable(Protocol):
    """A recording that has not been read yet."""

    @property
    def id(self) -> str:
        """Its name, distinct among all recordings."""

    @property
    def file(self) -> Path | None:
        """The file of its features; None if they are not in a file of their own."""

    @property
    def load(self) -> Callable[[], Video]:
        """Reads it."""


@dataclass(frozen=True, slots=True)
class PredictedFiles:
    """The files of all recordings in a folder.

    Attributes:
        folder: where they are.
        kinds: their formats and suffixes, of `mucon.outputs.formats` and `mucon.plots.SUFFIXES`.
        vocabulary: the actions.
        confidence: add confidences to texts that have them only if wanted.
        absent: id of a recording -> kinds that are still to be written.
    """

    folder: OutputFolder
    kinds: Sequence[str]
    vocabulary: Vocabulary
    confidence: bool = False
    absent: dict[str, list[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        folder: OutputFolder,
        kinds: Sequence[str],
        recordings: Iterable[Readable],
        vocabulary: Vocabulary,
        *,
        confidence: bool = False,
    ) -> PredictedFiles:
        """Examines the folder.

        Raises:
            InputError: files of the recordings exist that the same request has not written.
        """
        absent, others = {}, []
        for one in recordings:
            states = {kind: _state(folder, one, kind) for kind in kinds}
            absent[one.id] = [kind for kind, state in states.items() if state == "absent"]
            others += [str(folder.path / f"{one.id}.{kind}") for kind, state in states.items() if state == "other"]
        if others:
            message = f"{some(others)} would be overwritten; they are of another prediction or program"
            hint = "choose another folder or pass --replace"
            raise InputError(Problem(rule="exists", place="--out", value=len(others), message=message, hint=hint))
        return cls(folder, kinds, vocabulary, confidence, absent)

    def of_recording(self, id: str) -> list[Path]:
        """The files of a recording, written or not."""
        return [self.folder.path / f"{id}.{kind}" for kind in self.kinds]

    def write(self, one: Readable, segments: Segments, features: str) -> None:
        """Writes the absent files of a recording.

        Args:
            one: the recording.
            segments: its prediction.
            features: digest of its features.

        Raises:
            InputError: a file cannot be written.
        """
        stamp = "" if one.file is None else stamp_of(one.file)
        for kind in self.absent[one.id]:
            if kind in SUFFIXES:
                stream = io.BytesIO()
                bars = timelines({one.id: segments}, self.vocabulary)
                draw(bars, self.vocabulary, stream, kind=kind, fps=segments.fps, option="--plot")
                content = stream.getvalue()
            else:
                content = text(one.id, segments, kind, confidence=self.confidence).encode()
            self.folder.write(f"{one.id}.{kind}", content, stamp=stamp, features=features)


def _state(folder: OutputFolder, one: Readable, kind: str) -> str:
    """As `OutputFolder.state`; features that cannot be read count as absent files, so that the reason is reported."""
    try:
        return folder.state(
            f"{one.id}.{kind}", "" if one.file is None else stamp_of(one.file), lambda: checksum_of(one.load())
        )
    except InputError:
        return "absent"


def timelines(results: Mapping[str, Segments], vocabulary: Vocabulary) -> dict[str, list[tuple[str, Segmentation]]]:
    """The bars of `mucon.plots.draw`: the prediction of each recording and its alternatives."""

    def bar(segments: Sequence[Segment]) -> Segmentation:
        ids = vocabulary.ids(segment.action for segment in segments)
        return Segmentation.of(ids, [segment.stop - segment.start for segment in segments])

    return {
        id: [
            (result.prediction, bar(result.segments)),
            *((f"alternative {rank}", bar(one.segments)) for rank, one in enumerate(result.alternatives, 1)),
        ]
        for id, result in results.items()
    }
