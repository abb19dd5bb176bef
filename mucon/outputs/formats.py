"""Predicted segments as text: lines for people, and the formats of other programs.

| format | content |
|---|---|
| txt | the action of each frame, one per line, as in `groundTruth/` of MS-TCN |
| csv | a heading and one row per segment |
| json | one object with the segments and their alternatives |
| vtt | WebVTT, one cue per segment, for players of videos |
| tsv | tab-delimited text with the headings of ELAN's export, which its import assigns to tiers |

vtt and tsv have times in seconds and require the frame rate.
"""

from __future__ import annotations

import csv
import html
import io
import json
from collections.abc import Callable, Mapping

from mucon.errors import InputError, Problem, counted
from mucon.outputs.results import Segments

ELAN_HEADINGS = (
    "Tier", "Begin Time - ss.msec", "End Time - ss.msec", "Duration - ss.msec", "Annotation",
)  # fmt: skip
TIMED = ("vtt", "tsv")
"""Formats whose times are seconds."""


def summary(id: str, result: Segments) -> str:
    """One line for people."""
    counts = f"{counted(result.n_frames, 'frame')}, {counted(len(result.segments), 'segment')}"
    return f"{one_line(id)}: {counts}{' (truncated)' if result.cut else ''}"


def lines(id: str, result: Segments, *, confidence: bool = False) -> str:
    """The summary and one line per segment for people: first frame, number of frames, action, confidence if wanted."""
    rows = [
        f"{one.start:>8} {one.stop - one.start:>7}  {_with_confidence(one.action, one.confidence, confidence)}"
        for one in result.segments
    ]
    for rank, other in enumerate(result.alternatives, 1):
        difference = "" if result.score is None else f", log score {other.score - result.score:+.2f}"
        rows.append(f"  alternative {rank}{difference}: {' '.join(one.action for one in other.segments)}")
    return "\n".join([summary(id, result), *rows])


def as_json(id: str, result: Segments) -> str:
    """One line of JSON, with its end."""
    return f"{json.dumps({'id': id, **result.to_dict()})}\n"


def text(id: str, result: Segments, kind: str, *, confidence: bool = False) -> str:
    """The content of a file.

    Args:
        id: name of the recording.
        result: its segments.
        kind: one of the formats above.
        confidence: add the confidences to the texts of vtt and tsv; csv and json always have them.

    Raises:
        InputError: a format with times of a recording whose frame rate is unknown.
    """
    if kind in TIMED:
        check_fps(result.fps, kind)
    makers: Mapping[str, Callable[[], str]] = {
        "txt": lambda: "".join(f"{label}\n" for label in result.labels),
        "csv": lambda: _csv(result),
        "json": lambda: as_json(id, result),
        "vtt": lambda: _vtt(result, confidence),
        "tsv": lambda: _tsv(result, confidence),
    }
    return makers[kind]()


def check_fps(fps: float | None, kind: str) -> None:
    """Checks that the times of a format can be written.

    Raises:
        InputError: the frame rate is unknown and the format has times in seconds.
    """
    if fps is None and kind in TIMED:
        message, hint = f"{kind} has times in seconds, and the frame rate is unknown", "pass --fps"
        raise InputError(Problem(rule="missing", place="--fps", value=kind, message=message, hint=hint))


def _with_confidence(action: str, confidence: float | None, wanted: bool) -> str:
    return f"{action} ({confidence:.2f})" if wanted and confidence is not None else action


def _csv(result: Segments) -> str:
    written = io.StringIO()
    times = ["start_s", "stop_s"] * (result.fps is not None)
    writer = csv.DictWriter(written, ["start", "stop", "frames", "action", *times, "confidence"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(result.rows())
    return written.getvalue()


def _vtt(result: Segments, confidence: bool) -> str:
    """WebVTT; a cue begins where the one before ends, to the millisecond.

    Source: W3C, WebVTT: The Web Video Text Tracks Format, section 4.
    """
    cues = ["WEBVTT\n"]
    for number, ((start, stop), one) in enumerate(zip(result.seconds or (), result.segments, strict=True), 1):
        shown = html.escape(one_line(_with_confidence(one.action, one.confidence, confidence)), quote=False)
        cues.append(f"{number}\n{_clock(start)} --> {_clock(stop)}\n{shown}\n")
    return "\n".join(cues)


def _clock(seconds: float) -> str:
    """Hours, minutes, seconds and milliseconds.

    >>> _clock(3661.5), _clock(0.0004)
    ('01:01:01.500', '00:00:00.000')
    """
    whole, milliseconds = divmod(round(1000 * seconds), 1000)
    minutes, rest = divmod(whole, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}.{milliseconds:03}"


def _tsv(result: Segments, confidence: bool) -> str:
    """Tab-delimited text; the tier has the name of the prediction, and confidences are a tier of their own.

    Source: ELAN's manual, "Export as: Tab-delimited text" and "Import CSV / Tab-delimited text file".
    """
    rows = [ELAN_HEADINGS]
    for (start, stop), one in zip(result.seconds or (), result.segments, strict=True):
        times = (f"{start:.3f}", f"{stop:.3f}", f"{stop - start:.3f}")
        rows.append((result.prediction, *times, one_line(one.action)))
        if confidence and one.confidence is not None:
            rows.append((f"{result.prediction} confidence", *times, f"{one.confidence:.3f}"))
    return "".join("\t".join(row) + "\n" for row in rows)


def one_line(text: str) -> str:
    """A text whose tabs and line breaks, which would end a field, are blanks."""
    return " ".join(text.splitlines()).replace("\t", " ")
