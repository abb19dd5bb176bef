"""The style of all figures: rows differ by marker and line as well as by colour; no window is opened.

Figures are made and written inside `style()`, which leaves matplotlib's global settings unchanged.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

INK, PALE, RULE, PAPER = "#1c1e21", "#9aa3ad", "#d5d9de", "#ffffff"
"""Colours of text and lines, background data, grid and background; the page replaces them by its own."""
BAR = "#a9cfe6"
"""Colour of bars, on which text, lines and points are drawn; the page replaces it, too."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6d5f")
"""Palette of Okabe and Ito, safe for colour-blind readers, without colours too pale for white paper."""
RAMP = ("#08306b", "#2a6fb0", "#6ba3d0", "#a3c4e0", "#c9d6e2")
"""Colours of scores from the best to the worst, of growing lightness; the page replaces them, too."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">", "*")
LINES = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (8, 3)))
WIDTH = 6.4
"""Text width of a page in inches, or two columns of a paper."""
SUFFIXES = ("svg", "png")
DPI = 160
NEAR = 7.0
"""Distance in points up to which a label needs no line to its point."""
_SETTINGS: dict[str, Any] = {
    "font.size": 9,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "text.parse_math": False,  # row names may contain dollar signs
    "svg.fonttype": "none",  # keeps text searchable, accessible and colourable
    "svg.hashsalt": "mucon",  # makes files reproducible
}


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Applies the style regardless of the user's matplotlibrc, and restores all settings afterwards."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_SETTINGS)
        yield


def new_figure(width: float, height: float) -> Any:
    """An empty figure, size in inches, outside pyplot's list of open figures."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, folder: Path, name: str) -> dict[str, Path]:
    """Writes a figure as SVG and PNG; returns file name -> path."""
    paths = {f"{name}.{suffix}": folder / f"{name}.{suffix}" for suffix in SUFFIXES}
    plain = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    figure.savefig(paths[f"{name}.svg"], metadata=plain)
    figure.set_layout_engine("none")  # the layout is final
    figure.savefig(paths[f"{name}.png"], dpi=DPI, metadata={"Software": None})
    return paths


def looks(n: int) -> list[dict[str, Any]]:
    """Colour, marker and line of N rows; combinations of colour and marker are distinct below N = 70."""
    combinations = zip(itertools.cycle(COLOURS), itertools.cycle(MARKERS), itertools.cycle(LINES), strict=False)
    return [
        {"color": colour, "marker": marker, "linestyle": line}
        for colour, marker, line in itertools.islice(combinations, n)
    ]


def plain_ticks(axis: Any, low: float, high: float) -> None:
    """Labels a logarithmic axis with few plain numbers.

    Args:
        axis: `axes.xaxis` or `axes.yaxis`.
        low: smallest drawn value.
        high: largest drawn value.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1.0,) if high / low > 100 else (1.0, 2.0, 5.0)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def place_labels(axes: Any, points: Sequence[tuple[float, float]], names: Sequence[str]) -> None:
    """Labels points such that labels cover neither each other nor points; distant labels get a line to their point.

    Args:
        axes: axes with final limits.
        points: (x, y) in data coordinates.
        names: one per point.
    """
    from matplotlib.transforms import Bbox

    figure = axes.figure
    figure.draw_without_rendering()
    frame = axes.get_window_extent()
    pixels = figure.dpi / 72
    centres = axes.transData.transform(points)
    dots = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in centres]
    taken: list[Any] = []
    for point, (x, y), dot, name in zip(points, centres, dots, names, strict=True):
        text = axes.annotate(name, point, (0, 0), fontsize=8, textcoords="offset points")
        size = text.get_window_extent()
        best: tuple[float, Any, Any] | None = None
        for order, (across, up, far) in enumerate(_label_places()):
            left = x + across * far * pixels - (0.5 - 0.5 * across) * size.width
            bottom = y + up * far * pixels - (0.5 - 0.5 * up) * size.height
            box = Bbox.from_bounds(left, bottom, size.width, size.height)
            hidden = sum(_common(box, other) for other in (*taken, *(other for other in dots if other is not dot)))
            cost = hidden + box.width * box.height - _common(box, frame) + 0.01 * order
            if best is None or cost < best[0]:
                best = (cost, box, far)
        assert best is not None
        _, box, far = best
        taken.append(box)
        text.set_position(((box.x0 - x) / pixels, (box.y0 - y) / pixels))
        if far > NEAR:
            nearest = min(max(x, box.x0), box.x1), min(max(y, box.y0), box.y1)
            ends = axes.transData.inverted().transform([(x, y), nearest])
            axes.plot(*ends.T, color=PALE, lw=0.7, zorder=1, scalex=False, scaley=False)


def _label_places() -> Iterator[tuple[int, int, float]]:
    """Horizontal and vertical direction (-1, 0 or 1) and distance in points, in order of preference."""
    for far in (NEAR, 20.0, 34.0, 50.0):
        for across, up in ((1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)):
            yield across, up, far


def _common(one: Any, other: Any) -> float:
    """Area of the intersection of two boxes."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return float(max(width, 0) * max(height, 0))
