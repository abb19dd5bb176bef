"""Figures of segmentations: one bar per prediction, time from left to right, a colour per action."""

from __future__ import annotations

import warnings
from collections.abc import Container, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from mucon.errors import DataWarning, InputError, Problem, nearest, some
from mucon.evaluation import Evaluation
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary

COLOURS = (
    "#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#F0E442", "#332288", "#882255", "#999933",
    "#6B4226", "#AAF0D1",
)  # fmt: skip
"""Palettes of Okabe and Ito (without black) and of Tol, for the colour-blind; two more for twelve actions."""
GREYS = ("#DADADA", "#B4B4B4", "#8E8E8E")
"""Colours of background actions."""
HATCHES = ("", "////", "....", "xxxx", "----", "++++", "\\\\\\\\")
"""Patterns of the first, second, ... dozen of actions."""
SUFFIXES = ("png", "svg", "pdf")
"""Endings of the files that the help names; `suffixes` lists all."""


def suffixes() -> list[str]:
    """Endings of the files that can be drawn, such as `png`."""
    from matplotlib.figure import Figure

    return list(dict.fromkeys((*SUFFIXES, *Figure().canvas.get_supported_filetypes())))


def action_looks(actions: Sequence[int], background: Container[int] = ()) -> dict[int, dict[str, Any]]:
    """Colour of each action, grey for background, and patterns beyond a dozen actions.

    >>> looks = action_looks(range(15), background=[0])
    >>> [looks[i]["facecolor"] for i in (0, 1, 13)], [looks[i]["hatch"] for i in (0, 12, 13)]
    (['#DADADA', '#0072B2', '#0072B2'], ['', '', '////'])
    >>> len({tuple(look.values()) for look in action_looks(range(53)).values()})
    53
    """
    looks = {}
    for of_background, colours in ((True, GREYS), (False, COLOURS)):
        for i, action in enumerate(action for action in actions if (action in background) == of_background):
            colour = colours[i % len(colours)]
            light = sum(int(colour[at : at + 2], 16) for at in (1, 3, 5)) > 380
            hatch = HATCHES[i // len(colours) % len(HATCHES)]
            looks[action] = {"facecolor": colour, "hatch": hatch, "edgecolor": "#000000" if light else "#ffffff"}
    return looks


def segmentation_figure(
    rows: Mapping[str, Sequence[tuple[str, Segmentation]]], vocabulary: Vocabulary, *, fps: float | None = None
) -> Any:
    """Draws a group of bars for each recording; an empty segmentation keeps its row.

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
    looks = action_looks(used, vocabulary.background_ids)
    heights = [len(bars) for bars in rows.values()]
    longest = max((len(vocabulary.actions[action]) for action in used), default=0)
    columns = max(min(len(used), 5, 140 // (longest + 8)), 1)  # 140 characters fit side by side
    legend = 0.2 * -(-len(used) // columns)
    figure = Figure(figsize=(9, 0.27 * sum(heights) + 0.5 * len(rows) + 0.5 + legend), layout="constrained")
    axes = figure.subplots(len(rows), 1, squeeze=False, height_ratios=heights)[:, 0]
    for axis, (recording, bars) in zip(axes, rows.items(), strict=True):
        for position, (_, segmentation) in enumerate(bars):
            draw_bar(axis, position, segmentation, looks, fps or 1.0)
        axis.set_yticks(range(len(bars)), [name for name, _ in bars])
        axis.set_ylim(len(bars) - 0.5, -0.5)
        axis.set_title(recording, loc="left", fontsize=9)
        axis.margins(x=0)
        axis.grid(visible=False)
        axis.spines[:].set_visible(False)
        axis.tick_params(length=0, labelsize=8)
    axes[-1].set_xlabel("seconds" if fps else "frames", fontsize=8)
    handles = [Patch(**looks[action], lw=0, label=vocabulary.actions[action]) for action in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=columns, fontsize=8, frameon=False)
    show_texts(figure)
    return figure


def show_texts(figure: Any) -> str:
    """Gives the texts of a figure fonts that have their signs, and shows names with dollar signs as they are.

    Returns:
        The signs that no installed font has.
    """
    from matplotlib.text import Text

    texts = figure.findobj(Text)
    families, missing = _families("".join(text.get_text() for text in texts))
    for text in texts:
        text.set(parse_math=False, usetex=False, fontfamily=families)
    return missing


def save(figure: Any, target: Path | BinaryIO, option: str, kind: str | None = None) -> None:
    """Writes a figure with fonts that have the signs of its texts.

    Args:
        figure: a `matplotlib.figure.Figure`.
        target: a file that ends in one of `suffixes`, or a stream.
        option: the option that asks for the figure, for the problems.
        kind: one of `suffixes`, for a stream.

    Raises:
        InputError: the file cannot be written.

    Warns:
        DataWarning: the texts contain signs that no installed font has.
    """
    if signs := show_texts(figure):
        message = f"no installed font has the signs {some(signs, 10)}; the figure shows boxes instead"
        warnings.warn(DataWarning(Problem(rule="missing", place=option, value=signs, message=message)), stacklevel=3)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph ")
            figure.savefig(target, dpi=130, format=kind)
    except (OSError, ValueError, RuntimeError) as error:
        message = f"cannot write {target}: {error}"
        raise InputError(Problem(rule="unwritable", place=option, value=str(target), message=message)) from error


def draw_bar(
    axis: Any, position: int, segmentation: Segmentation, looks: Mapping[int, Mapping[str, Any]], rate: float
) -> None:
    """Draws one bar with a segment per action, or a note that there are none."""
    if not segmentation.n_segments:
        note = {"fontsize": 8, "style": "italic", "color": "#666666"}
        axis.text(0.005, position, "no segments", va="center", transform=axis.get_yaxis_transform(), **note)
    for action, start, stop in segmentation.spans():
        span = {"width": (stop - start) / rate, "left": start / rate}
        axis.barh(position, height=0.86, lw=0, **looks[action], **span)
        axis.barh(position, height=0.86, fill=False, edgecolor="#ffffff", lw=0.8, **span)


def _families(text: str) -> tuple[list[str], str]:
    """Font families that together have the signs of a text, and the signs that no installed font has."""
    import matplotlib
    from matplotlib import font_manager

    families = list(matplotlib.rcParams["font.family"])
    missing = set(text) - set("\n")
    missing -= _signs(font_manager.findfont(font_manager.FontProperties(family=families)))
    for font in font_manager.fontManager.ttflist:
        if not missing:
            break
        if not font.name.startswith("Last Resort") and (found := missing & _signs(font.fname)):
            families.append(font.name)
            missing -= found
    return list(dict.fromkeys(families)), "".join(sorted(missing))


@cache
def _signs(font_file: str) -> frozenset[str]:
    from matplotlib.ft2font import FT2Font

    return frozenset(map(chr, FT2Font(font_file).get_charmap()))


class Named(Protocol):
    """A recording with a name."""

    @property
    def id(self) -> str:
        """Its name."""


N = TypeVar("N", bound=Named)


def chosen_recordings(videos: Sequence[N], ids: Sequence[str] | None) -> list[N]:
    """The recordings to draw.

    Args:
        videos: the evaluated or predicted recordings.
        ids: ids of some of them; None for the first three.

    Raises:
        InputError: one problem per unknown id.
    """
    by_id = {video.id: video for video in videos}
    problems = [
        Problem(
            rule="unknown", place="--recordings", value=id, message=f"no recording {id!r}{nearest(id, list(by_id))}"
        )
        for id in ids or ()
        if id not in by_id
    ]
    if problems:
        raise InputError(problems)
    return [by_id[id] for id in dict.fromkeys(ids or list(by_id)[:3])]


def draw_evaluation(
    evaluation: Evaluation, videos: Sequence[Video], vocabulary: Vocabulary, path: Path, *, fps: float | None = None
) -> None:
    """Writes the true and the predicted segmentations of some recordings as a figure.

    Args:
        evaluation: an evaluation of at least these recordings.
        videos: recordings to draw; without lengths there is no true bar, without a prediction an empty one.
        vocabulary: the actions.
        path: a file that ends in one of `suffixes`.
        fps: frames per second for an axis in seconds; None for frames.

    Raises:
        InputError: the file cannot be written.

    Warns:
        DataWarning: names contain signs that no installed font has.
    """
    none = Segmentation.of((), ())
    rows = {
        video.id: [
            *([("truth", truth)] if (truth := video.segmentation) is not None else []),
            *(
                (name, of_video[video.id]) if video.id in of_video else (f"{name} (undefined)", none)
                for name, of_video in evaluation.segmentations.items()
            ),
        ]
        for video in videos
    }
    draw(rows, vocabulary, path, fps=fps)


def draw(
    rows: Mapping[str, Sequence[tuple[str, Segmentation]]],
    vocabulary: Vocabulary,
    target: Path | BinaryIO,
    *,
    kind: str | None = None,
    fps: float | None = None,
    option: str = "--figure",
) -> None:
    """Writes `segmentation_figure`.

    Args:
        rows: as for `segmentation_figure`.
        vocabulary: as for `segmentation_figure`.
        target: as for `save`.
        kind: as for `save`.
        fps: as for `segmentation_figure`.
        option: as for `save`.

    Raises:
        InputError: the file cannot be written.

    Warns:
        DataWarning: names contain signs that no installed font has.
    """
    save(segmentation_figure(rows, vocabulary, fps=fps), target, option, kind)
