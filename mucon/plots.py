"""Figures of segmentations: one bar per prediction, time from left to right, a colour per action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mucon.errors import InputError, nearest
from mucon.evaluation import Evaluation
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

COLOURS = ("#0072B2", "#F0E442", "#D55E00", "#56B4E9", "#000000", "#009E73", "#CC79A7", "#E69F00")
"""Okabe and Ito's palette, apart for the colour-blind; the first five are apart in grey too, the others by patterns."""
HATCHES = ("////", "....", "xxxx", "----", "++++", "\\\\\\\\")
_PLAIN = 5


def action_looks(n_actions: int) -> list[dict[str, Any]]:
    """How N actions look: colours, and patterns where there are more actions than greys.

    >>> [look["hatch"] for look in action_looks(7)]
    ['', '', '', '', '', '////', '....']
    >>> len({tuple(look.values()) for look in action_looks(53)})
    53
    """
    looks = []
    for i in range(n_actions):
        colour, beyond = COLOURS[i % len(COLOURS)], i - _PLAIN
        hatch = "" if beyond < 0 else HATCHES[(beyond + beyond // 24) % len(HATCHES)]  # 24: least common multiple
        light = colour in ("#F0E442", "#56B4E9", "#E69F00")
        looks.append({"facecolor": colour, "hatch": hatch, "edgecolor": "#000000" if light else "#ffffff"})
    return looks


def segmentation_figure(
    rows: Mapping[str, Sequence[tuple[str, Segmentation]]], vocabulary: Vocabulary, *, fps: float | None = None
) -> Any:
    """A figure with a group of bars for each recording.

    Args:
        rows: recording -> (name of the bar, segmentation) from top to bottom.
        vocabulary: the actions, for the legend.
        fps: frames per second for the axis, or None for frames.

    Returns:
        Matplotlib's figure, for `savefig`.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    used = sorted({int(action) for bars in rows.values() for _, bar in bars for action in bar.transcript})
    looks = dict(zip(used, action_looks(len(used)), strict=True))
    heights = [len(bars) for bars in rows.values()]
    columns = min(len(used), 5)
    legend = 0.2 * -(-len(used) // columns)
    figure = Figure(figsize=(9, 0.27 * sum(heights) + 0.5 * len(rows) + 0.5 + legend), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    rate = fps or 1.0
    for axis, (recording, bars) in zip(axes, rows.items(), strict=True):
        for place, (_, segmentation) in enumerate(bars):
            for action, start, stop in segmentation.spans():
                span = {"width": (stop - start) / rate, "left": start / rate}
                axis.barh(place, height=0.86, lw=0, **looks[action], **span)
                axis.barh(place, height=0.86, fill=False, edgecolor="#ffffff", lw=0.8, **span)
        axis.set_yticks(range(len(bars)), [name for name, _ in bars])
        axis.set_title(recording, loc="left", fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0, y=0.01)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0, labelsize=8)
    axes[-1].set_xlabel("seconds" if fps else "frames", fontsize=8)
    handles = [Patch(**look, lw=0, label=vocabulary.actions[action]) for action, look in looks.items()]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    return figure


def draw_evaluation(
    found: Evaluation,
    videos: Sequence[Video],
    chosen: Sequence[str] | None,
    vocabulary: Vocabulary,
    path: Path,
    *,
    fps: float | None = None,
) -> None:
    """Writes the true and the predicted segmentations of some recordings as a figure.

    Args:
        found: the evaluation of `videos`.
        videos: with true lengths.
        chosen: ids of the recordings to draw; the first three when None.
        vocabulary: the actions.
        path: .png, .svg or .pdf.
        fps: frames per second for the axis, or None for frames.

    Raises:
        InputError: an id that was not evaluated, or a file that cannot be written.
    """
    known = {video.id: video for video in videos}
    ids = list(chosen or list(known)[:3])
    unknown = [name for name in ids if name not in known]
    if unknown:
        raise InputError(
            f"{name!r} is not among the evaluated recordings{nearest(name, list(known))}: name one of them"
            for name in unknown
        )
    rows = {
        name: [
            ("truth", Segmentation.of(known[name].transcript, known[name].lengths or ())),
            *((prediction, of_video[name]) for prediction, of_video in found.segmentations.items()),
        ]
        for name in ids
    }
    try:
        segmentation_figure(rows, vocabulary, fps=fps).savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be drawn ({error}): name a .png, .svg or .pdf file in a folder") from error
