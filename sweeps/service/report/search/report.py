"""Writes the files of a search for people to look at: figures, the numbers of each, the page, a description."""

from __future__ import annotations

import math
from pathlib import Path

from sweeps.service.report.figures.pictures import draw_pictures
from sweeps.service.report.search.charts import charts_of
from sweeps.service.report.search.findings import Findings, page_name
from sweeps.service.report.search.page import make_page
from sweeps.service.report.search.texts import markdown
from sweeps.service.report.search.values import Shown

DIGESTS = "search_figures.json"
"""File with a digest of each figure's data and drawing code."""


def write_search_report(findings: Findings, folder: Path, until: float = math.inf) -> dict[str, Path]:
    """Writes the report of a search into its sweep's directory.

    Figures are written as `SWEEP_FIGURE.svg`, `.png` and their numbers as `.csv`, the page as `SWEEP_search.html`, and
    a table of the best points as `SWEEP_search.md`. Figures that show the same numbers already are left as they are.

    Args:
        findings: the search.
        folder: the sweep's directory.
        until: when no further figure is begun, on the monotonic clock; the page lacks those that are left.

    Returns:
        File name -> path, for the tracking server.
    """
    search = findings.history.search
    name = search["name"]
    charts = charts_of(Shown.of(findings.history, findings.held_out or search["title"]), search["title"])
    files = draw_pictures([chart.picture for chart in charts], folder, DIGESTS, until)
    drawn = [chart for chart in charts if f"{chart.picture.name}.svg" in files]
    texts = {f"{chart.picture.name}.csv": chart.csv for chart in charts}
    texts[f"{name}_search.md"] = markdown(findings)
    texts[page_name(name)] = make_page(findings, drawn, folder)
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    return files | {file: folder / file for file in texts}
