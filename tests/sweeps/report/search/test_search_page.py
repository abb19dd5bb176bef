"""The page of a search is valid and self-contained, has every number and escapes names."""

from __future__ import annotations

import csv
import html
import re
import shlex
from pathlib import Path

import pytest

from mucon.configuration import setting_text
from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.report import DIGESTS, write_search_report
from sweeps.service.report.search.texts import search_lines, search_metrics
from sweeps.service.search.points import SearchHistory
from sweeps.service.spec.columns import Column
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.notes import Notes
from sweeps.service.tables.table import Row, Table
from tests.helpers.planted_points import HOSTILE, planted_search
from tests.sweeps.report.test_page import Page

STORAGE = "/data/my results/sweeps/planted/study.log"
OPTIMISTIC = f"the search is optimistic about {HOSTILE}"
HELD_OUT = f"scores of the validation part of {HOSTILE}"


def findings_of(history: SearchHistory) -> Findings:
    """A search whose best points are 1.0 worse with fresh seeds."""
    nothing = {"default": False, "bold": (False,) * 3, "against_default": (None,) * 3, "against_best": (None,) * 3}
    rows = [
        Row(
            labels=(str(number), HOSTILE),
            summaries=(Summary(mean, None, 3), Summary(mean - 0.01, 0.002, 5), Summary(0.01, None, 1)),
            seeds=None,
            **nothing,
        )
        for number in history.best[:3]
        for mean in (history.record(number).mean[0],)
    ]
    optimism = Table(
        name="planted_optimism",
        title="Optimism",
        label_titles=("point", "settings"),
        columns=tuple(Column(metric="mof", title=title) for title in ("in the search", "afresh", "optimism")),
        rows=tuple(rows),
        notes=Notes(statistics=(OPTIMISTIC,)),
    )
    return Findings(history=history, held_out=HELD_OUT, optimism=optimism, storage=STORAGE)


@pytest.fixture(scope="module")
def findings() -> Findings:
    return findings_of(planted_search(20, 5, 2))


@pytest.fixture(scope="module")
def folder(findings: Findings, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search")
    write_search_report(findings, folder)
    return folder


@pytest.fixture(scope="module")
def text(folder: Path) -> str:
    return (folder / "planted_search.html").read_text(encoding="utf-8")


def section(text: str, name: str) -> Page:
    return Page(text.partition(f"<section id='{name}'>")[2].partition("</section>")[0])


def test_the_page_is_valid_self_contained_and_escaped(text: str) -> None:
    page = Page(text)
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 50
    assert not any("src" in attributes for _, attributes in page.elements)
    assert not re.search(r"@import|url\((?!#)|https?://", text)
    links = {a["href"] for a in page.all("a") if not (a["href"] or "").startswith("#")}
    figures = ("history", "pareto", "parallel", "importance", "slices_1", "slices_2")
    assert links == {"planted.html", *(f"planted_{figure}.csv" for figure in figures)}
    assert HOSTILE in "".join(page.texts)
    assert HOSTILE not in text
    assert len(page.all("script")) == 1
    assert not page.all("b")


def test_every_point_has_its_state_scores_and_settings(findings: Findings, text: str) -> None:
    rows = section(text, "points")
    keys = [attributes.get("data-key") for name, attributes in rows.elements if name in ("td", "th")]
    for record in findings.history.records:
        assert record.state in rows.texts
        assert all(repr(mean) in keys for mean in record.mean)
        for value in record.point.settings.values():
            assert (repr(float(value)) if isinstance(value, int | float) else setting_text(value)) in keys
    assert f"Points ({len(findings.history.records)})" in rows.texts


def test_the_best_points_have_what_differs_from_the_default_and_settings_to_copy(findings: Findings, text: str) -> None:
    best = section(text, "best")
    default = findings.default
    assert default is not None
    for record in findings.chosen:
        for path, value in record.point.settings.items():
            assert (path in findings.changed(record)) == (default.point.settings.get(path) != value)
    front = len(findings.history.front)
    assert {one.point.number for one in findings.chosen[:front]} == set(findings.history.front)
    commands = [html.unescape(one) for one in re.findall(r"<code>(--set .*?)</code>", text)]
    assert len(commands) >= len(findings.chosen)
    words = shlex.split(commands[0])
    assert words[1::2] == [f"{path}={setting_text(one)}" for path, one in findings.chosen[0].point.settings.items()]
    assert any("training.learning_rate=" in one for one in best.texts)


def test_the_optimism_of_the_search_is_on_the_page(findings: Findings, text: str) -> None:
    fresh = section(text, "optimism")
    assert fresh.texts.count("1.0") == 3
    assert OPTIMISTIC in fresh.texts


def test_the_terminal_names_the_best_points_the_default_and_the_study(findings: Findings) -> None:
    lines = search_lines(findings)
    assert any(HELD_OUT in line for line in lines)
    numbers = [number for line in lines for number in re.findall(r"^  \w+: +point (\d+), MoF", line)]
    assert numbers == [str(record.point.number) for record in findings.chosen[:3]] + ["0"]
    assert lines[-1].endswith(f"optuna-dashboard '{STORAGE}'")
    assert sum("training.learning_rate 50 %" in line for line in lines) == 2


def test_a_search_without_results_has_a_page(tmp_path: Path) -> None:
    findings = Findings(history=planted_search(0, 2))
    files = write_search_report(findings, tmp_path)
    assert set(files) == {"planted_search.html", "planted_search.md"}
    assert search_metrics(findings) == {"search/points": 0, "search/duplicates": 2}
    assert len(search_lines(findings)) == 1


def test_passwords_of_a_database_are_not_on_the_page(tmp_path: Path) -> None:
    findings = Findings(history=planted_search(0, 2), storage="postgresql://me:hidden-word@host/db")
    write_search_report(findings, tmp_path)
    assert "hidden-word" not in (tmp_path / "planted_search.html").read_text() + "".join(search_lines(findings))


def test_figures_are_drawn_once_and_csv_files_have_a_row_per_mark(findings: Findings, folder: Path) -> None:
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.png")}
    assert len(before) == 6
    assert (folder / DIGESTS).exists()
    files = write_search_report(findings, folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.glob("*.png")} == before
    for name in before:
        path = folder / name.replace(".png", ".csv")
        with path.open(newline="", encoding="utf-8") as file:
            assert len(list(csv.reader(file))) > 5
        assert {path.name, name, name.replace(".png", ".svg")} <= set(files)
