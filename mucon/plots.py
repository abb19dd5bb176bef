"""Figures of segmentations: one bar per prediction, time from left to right, a colour per action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem, nearest
from mucon.evaluation import Evaluation
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

COLOURS = ("#0072B2", "#F0E442", "#D55E00", "#56B4E9", "#000000", "#009E73", "#CC79A7", "#E69F00")
"""Okabe and Ito's palette for the colour-blind; the first five also differ in grey, the others by patterns."""
HATCHES = ("////", "....", "xxxx", "----", "++++", "\\\\\\\\")
_PLAIN = 5


def action_looks(n_actions: int) -> list[dict[str, Any]]:
    """Colours of N actions, and patterns if there are more actions than distinct greys.

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
    """Draws a group of bars for each recording.

    Args:
        rows: recording -> (name of the bar, segmentation), from top to bottom.
        vocabulary: the actions, for the legend.
        fps: frames per second for an axis in seconds; None for frames.

    Returns:
        A `matplotlib.figure.Figure`.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    used = sorted({int(action) for bars in rows.values() for _, bar in bars for action in bar.transcript})
    looks = dict(zip(used, action_looks(len(used)), strict=True))
    heights = [len(bars) for bars in rows.values()]
    columns = min(max(len(used), 1), 5)
    legend = 0.2 * -(-len(used) // columns)
    figure = Figure(figsize=(9, 0.27 * sum(heights) + 0.5 * len(rows) + 0.5 + legend), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    rate = fps or 1.0
    for axis, (recording, bars) in zip(axes, rows.items(), strict=True):
        for position, (_, segmentation) in enumerate(bars):
            for action, start, stop in segmentation.spans():
                span = {"width": (stop - start) / rate, "left": start / rate}
                axis.barh(position, height=0.86, lw=0, **looks[action], **span)
                axis.barh(position, height=0.86, fill=False, edgecolor="#ffffff", lw=0.8, **span)
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
    evaluation: Evaluation,
    videos: Sequence[Video],
    ids: Sequence[str] | None,
    vocabulary: Vocabulary,
    path: Path,
    *,
    fps: float | None = None,
) -> None:
    """Writes the true and the predicted segmentations of some recordings as a figure.

    Args:
        evaluation: the evaluation of `videos`.
        videos: recordings; one without true lengths has no bar of the truth.
        ids: recordings to draw; None for the first three.
        vocabulary: the actions.
        path: a .png, .svg or .pdf file.
        fps: frames per second for an axis in seconds; None for frames.

    Raises:
        InputError: an id that was not evaluated, or a file that cannot be written.
    """
    by_id = {video.id: video for video in videos}
    chosen = list(ids or list(by_id)[:3])
    problems = [
        Problem(
            rule="unknown", place=id, value=id, message=f"no such recording was evaluated{nearest(id, list(by_id))}"
        )
        for id in chosen
        if id not in by_id
    ]
    if problems:
        raise InputError(problems)
    rows = {
        id: [
            *(("truth", truth) for truth in [by_id[id].segmentation] if truth is not None),
            *(
                (prediction, of_video[id]) if id in of_video else (f"{prediction} (undefined)", Segmentation.of([], []))
                for prediction, of_video in evaluation.segmentations.items()
            ),
        ]
        for id in chosen
    }
    try:
        segmentation_figure(rows, vocabulary, fps=fps).savefig(path, dpi=130)
    except (OSError, ValueError) as error:
        raise InputError(
            Problem(
                rule="unsupported",
                place=str(path),
                message=f"cannot write the figure: {error}",
                hint="use a .png, .svg or .pdf file in an existing folder",
            )
        ) from error
