"""Predicted segments as text: for people, as JSON lines, and as files for other programs."""

from __future__ import annotations

import csv
import io
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mucon.segments import Segmentation
    from mucon.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Predicted:
    """The prediction for a recording.

    Attributes:
        id: name of the recording.
        n_frames: T.
        cut: see `mucon.inference.Prediction`.
        segmentation: the predicted segments; none for an empty transcript.
        vocabulary: the actions.
        fps: frames per second; None if unknown.
        confidence: per segment, the mean probability of its action over its frames, None for a segment without
            frames; None if it was not computed.
    """

    id: str
    n_frames: int
    cut: bool
    segmentation: Segmentation
    vocabulary: Vocabulary
    fps: float | None
    confidence: Sequence[float | None] | None = None

    def segments(self) -> list[dict[str, Any]]:
        """Action, first frame, frame after the last, number of frames; times in seconds and confidence if known."""
        segments = []
        for i, (action, start, stop) in enumerate(self.segmentation.spans()):
            name = self.vocabulary.actions[action]
            one: dict[str, Any] = {"start": start, "stop": stop, "frames": stop - start, "action": name}
            if self.fps is not None:
                one |= {"start_s": start / self.fps, "stop_s": stop / self.fps}
            if self.confidence is not None:
                one["confidence"] = self.confidence[i]
            segments.append(one)
        return segments

    def summary(self) -> str:
        """One line for people."""
        n = self.segmentation.n_segments
        return f"{self.id}: {self.n_frames} frames, {n} segments{' (truncated)' if self.cut else ''}"

    def lines(self) -> str:
        """The summary and one line per segment for people: first frame, number of frames, action."""
        rows = [f"{one['start']:>8} {one['frames']:>7}  {one['action']}" for one in self.segments()]
        return "\n".join([self.summary(), *rows])

    def as_json(self) -> str:
        """One line of JSON, with its end."""
        value = {"id": self.id, "n_frames": self.n_frames, "cut": self.cut, "segments": self.segments()}
        return f"{json.dumps(value)}\n"

    def as_csv(self) -> str:
        """A heading and one row per segment."""
        text = io.StringIO()
        columns = ["start", "stop", "frames", "action"]
        columns += ["start_s", "stop_s"] * (self.fps is not None) + ["confidence"] * (self.confidence is not None)
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.segments())
        return text.getvalue()

    def as_txt(self) -> str:
        """The action of each frame, one per line; empty without segments."""
        return "".join(f"{one['action']}\n" * one["frames"] for one in self.segments())

    def write(self, folder: Path, kind: str) -> Path:
        """Writes `FOLDER/ID.KIND`; the file is complete or not there.

        Args:
            folder: created if absent.
            kind: one of `mucon.commands.options.FORMATS`.

        Raises:
            InputError: the file cannot be written, or the id leads out of the folder.
        """
        path = folder / f"{self.id}.{kind}"
        if not Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder)):
            message = "leads out of the folder of the predictions"
            raise InputError(Problem(rule="unwritable", place=self.id, value=str(path), message=message))
        text = {"txt": self.as_txt, "csv": self.as_csv, "json": self.as_json}[kind]()
        fresh = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh.write_text(text, encoding="utf-8")
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            message = f"cannot be written ({error.strerror})"
            raise InputError(Problem(rule="unwritable", place=str(path), value=str(path), message=message)) from error
        return path
