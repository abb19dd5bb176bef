"""The predicted segments of a recording as values with the names of the actions."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from mucon.errors import InputError, Problem
from mucon.inference.requests import Prediction
from mucon.segments import Segmentation
from mucon.vocabulary import Vocabulary

FRAMES = ("pandas", "polars")
"""Libraries with data frames, the preferred one first."""


class Segment(NamedTuple):
    """One segment of a recording.

    Attributes:
        action: name of the action.
        start: first frame.
        stop: frame after the last one.
        confidence: mean probability of the action over the frames of the segment, from 0 to 1, see
            `mucon.inference.requests.mean_probabilities`; None for a segment of an alternative.
    """

    action: str
    start: int
    stop: int
    confidence: float | None = None


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another segmentation of the recording, with another transcript.

    Attributes:
        segments: consecutive segments from frame 0 to T.
        score: joint log score; only differences between the segmentations of one recording mean something.
    """

    segments: list[Segment]
    score: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """The predicted segments of a recording.

    Attributes:
        segments: consecutive segments from frame 0 to T, none of them without frames; empty if the model predicts an
            empty transcript.
        prediction: name of the prediction, such as `full`.
        n_frames: T.
        fps: frames per second; None if unknown.
        cut: the model did not end its transcript, or predicted more segments than frames.
        score: joint log score, to compare with those of the alternatives; None without alternatives.
        alternatives: the next best segmentations, the best first.
    """

    segments: list[Segment]
    prediction: str
    n_frames: int
    fps: float | None = None
    cut: bool = False
    score: float | None = None
    alternatives: tuple[Alternative, ...] = ()

    @classmethod
    def of(
        cls, prediction: Prediction, name: str, vocabulary: Vocabulary, n_frames: int, fps: float | None = None
    ) -> Self:
        """The segments of one prediction.

        Raises:
            InputError: the prediction is undefined for the recording.
        """
        found = prediction.whole().segmentations[name]
        return cls(
            segments=_named(found, vocabulary, prediction.confidences.get(name)),
            prediction=name,
            n_frames=n_frames,
            fps=fps,
            cut=prediction.cut,
            score=prediction.score,
            alternatives=tuple(
                Alternative(_named(one.segmentation, vocabulary), one.score) for one in prediction.alternatives
            ),
        )

    @property
    def labels(self) -> list[str]:
        """Action of each frame, T names; empty without segments."""
        return [segment.action for segment in self.segments for _ in range(segment.start, segment.stop)]

    @property
    def transcript(self) -> list[str]:
        """Action of each segment."""
        return [segment.action for segment in self.segments]

    @property
    def confidences(self) -> list[float | None]:
        """Confidence of each segment."""
        return [segment.confidence for segment in self.segments]

    @property
    def seconds(self) -> list[tuple[float, float]] | None:
        """Start and stop of each segment in seconds; None if the frame rate is unknown."""
        if self.fps is None:
            return None
        return [(segment.start / self.fps, segment.stop / self.fps) for segment in self.segments]

    def rows(self) -> list[dict[str, Any]]:
        """Per segment `start`, `stop`, `frames`, `action`, `confidence`, and `start_s`, `stop_s` if fps is known."""
        return _rows(self.segments, self.fps)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        value = {"n_frames": self.n_frames, "cut": self.cut, "segments": self.rows()}
        if self.score is None and not self.alternatives:
            return value
        others = [{"score": one.score, "segments": _rows(one.segments, self.fps)} for one in self.alternatives]
        return {**value, "score": self.score, "alternatives": others}

    def to_dataframe(self, library: str | None = None) -> Any:
        """The segments as a data frame with one row per segment and the columns of `rows`.

        Args:
            library: `pandas` or `polars`; by default the first one that is installed.

        Raises:
            InputError: an unknown library, or one that is not installed.
        """
        if library not in (None, *FRAMES):
            raise InputError(Problem(rule="unknown", place="library", value=library, expected=" or ".join(FRAMES)))
        columns = list(_rows([Segment("", 0, 1)], self.fps)[0])
        for name in FRAMES if library is None else (library,):
            try:
                frames = importlib.import_module(name)
            except ModuleNotFoundError:
                continue
            return frames.DataFrame({column: [row[column] for row in self.rows()] for column in columns})
        wanted = " or ".join(FRAMES) if library is None else library
        message, hint = f"requires {wanted}, which is not installed", f"pip install {library or FRAMES[0]}"
        raise InputError(Problem(rule="unsupported", place="to_dataframe", message=message, hint=hint))


def _named(
    segmentation: Segmentation, vocabulary: Vocabulary, confidences: tuple[float | None, ...] | None = None
) -> list[Segment]:
    known = confidences or (None,) * segmentation.n_segments
    return [
        Segment(vocabulary.actions[action], start, stop, confidence)
        for (action, start, stop), confidence in zip(segmentation.spans(), known, strict=True)
        if stop > start
    ]


def _rows(segments: list[Segment], fps: float | None) -> list[dict[str, Any]]:
    rows = []
    for action, start, stop, confidence in segments:
        row: dict[str, Any] = {"start": start, "stop": stop, "frames": stop - start, "action": action}
        if fps is not None:
            row |= {"start_s": start / fps, "stop_s": stop / fps}
        rows.append({**row, "confidence": confidence})
    return rows
