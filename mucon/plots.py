"""Figures of segmentations: one bar per prediction, time from left to right, a colour per action."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mucon.errors import InputError
from mucon.evaluation import Evaluation
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary, nearest


def action_colours(n_actions: int) -> list[Any]:
    """Colours of N actions, different in lightness too, so that they stay apart in grey and for the colour-blind."""
    import matplotlib

    if n_actions <= 8:  # Okabe and Ito's palette, sorted by lightness
        return ["#000000", "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#F0E442"][:n_actions]
    colours = matplotlib.colormaps["turbo"]
    order = sorted(range(n_actions), key=lambda i: (i % 3, i))
    return [colours((place + 0.5) / n_actions) for place in order]


def segmentation_figure(
    rows: Mapping[str, Sequence[tuple[str, Segmentation]]],
    vocabulary: Vocabulary,
    path: Path,
    *,
    fps: float | None = None,
) -> None:
    """Writes a figure with a group of bars for each recording.

    Args:
        rows: recording -> (name of the bar, segmentation) from top to bottom.
        vocabulary: the actions, for the legend.
        path: .png, .svg or .pdf.
        fps: frames per second for the axis, or None for frames.
    """
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    colours = action_colours(vocabulary.n_actions)
    heights = [len(bars) for bars in rows.values()]
    figure = Figure(figsize=(9, 0.34 * sum(heights) + 0.55 * len(rows) + 0.9), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    used: set[int] = set()
    rate = fps or 1.0
    for axis, (recording, bars) in zip(axes, rows.items(), strict=True):
        for place, (_, segmentation) in enumerate(bars):
            for action, start, stop in segmentation.spans():
                used.add(action)
                span = {"width": (stop - start) / rate, "left": start / rate}
                axis.barh(place, height=0.82, color=colours[action], edgecolor="white", lw=0.6, **span)
        axis.set_yticks(range(len(bars)), [name for name, _ in bars])
        axis.set_title(recording, loc="left", fontsize=9)
        axis.invert_yaxis()
        axis.margins(x=0)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0, labelsize=8)
    axes[-1].set_xlabel("seconds" if fps else "frames", fontsize=8)
    handles = [Patch(color=colours[action], label=vocabulary.actions[action]) for action in sorted(used)]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(len(handles), 5), fontsize=8, frameon=False)
    figure.savefig(path, dpi=130)


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
        segmentation_figure(rows, vocabulary, path, fps=fps)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be drawn ({error}): name a .png, .svg or .pdf file in a folder") from error
