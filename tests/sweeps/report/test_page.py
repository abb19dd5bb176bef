"""A sweep's page is valid and self-contained, has every number and escapes names."""

import dataclasses
import html
import json
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from mucon.cli import build_parser
from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import Links, read_links, write_links
from sweeps.service.report.report import write_report
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_pages import FAILED, HOSTILE, planted_page
from tests.sweeps import small

VOID = {"meta", "link", "br", "input", "img"}
INDEPENDENT = {"script", "style"}
RUNS = "http://tracks.example/#/experiments/1/runs"


class Page(HTMLParser):
    """Elements, texts, and whether tags are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not (self.open and self.open[-1] in INDEPENDENT):
            self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planted_page(tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="module")
def text(plan: Plan) -> str:
    return (plan.folder / f"{plan.name}.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def page(text: str) -> Page:
    return Page(text)


def test_tags_are_closed_in_order_and_ids_are_unique(text: str, page: Page) -> None:
    assert text.startswith("<!DOCTYPE html>")
    assert page.open == []
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids)) > 50
    for _, attributes in page.elements:
        target = attributes.get("href") or ""
        if target.startswith("#"):
            assert target[1:] in ids
    for name in re.findall(r"url\(#([^)]*)\)", text):
        assert name in ids


def test_the_page_is_self_contained_and_links_only_to_runs_and_folders(plan: Plan, text: str, page: Page) -> None:
    assert not any("src" in attributes for _, attributes in page.elements)
    outward = [a["href"] for a in page.all("a") if not (a["href"] or "").startswith("#")]
    folders = {f"../../trials/{cell.identity}/" for cell in plan.cells}
    assert folders == {href for href in outward if href and href.startswith("../")}
    assert all((plan.folder / folder).is_dir() for folder in folders)
    pages = [href or "" for href in outward if href not in folders]
    assert pages
    assert all(page.startswith("http://tracks.example/#/experiments/1/runs") for page in pages)
    assert not re.search(r"@import|url\((?!#)", text)
    assert not re.search(r"https?://(?!tracks\.example)", text)


def test_every_number_of_the_table_is_on_the_page_with_its_digits_as_sort_key(plan: Plan, page: Page) -> None:
    shown = set(page.texts)
    keys = {attributes.get("data-key") for _, attributes in page.elements}
    table = Standing.of(plan).tables[plan.name]
    n_numbers = 0
    for row in table.rows:
        for column, summary in zip(table.columns, row.summaries, strict=True):
            if summary is not None:
                n_numbers += 1
                assert summary.text(column.shown_unit) in shown
                assert repr(float(summary.mean)) in keys
    assert n_numbers >= 8
    assert table.notes.missing
    for note in table.notes:
        assert note in shown


def test_names_and_reasons_are_escaped(text: str, page: Page) -> None:
    assert HOSTILE in "".join(page.texts)
    assert HOSTILE not in text
    assert "<script>alert" not in text
    assert len(page.all("script")) == 1
    assert not page.all("b")


def test_every_trial_without_results_is_listed_with_its_reason(plan: Plan, text: str) -> None:
    section = Page(text.partition("<section id='without'>")[2].partition("</section>")[0])
    heading, *fields = [field for field in section.texts if field.strip()]
    assert heading.endswith("(2)")
    failed, missing = (
        next(cell.identity for cell in plan.cells if (cell.variant.name, cell.seed) == place)
        for place in (("hundred", 3), (HOSTILE, 2))
    )
    n_heads = len(section.all("button"))
    assert fields[n_heads:] == [
        *(HOSTILE, "1", "2", "missing", f"trials/{missing}"),
        *("hundred", "1", "3", "failed", FAILED, f"trials/{failed}"),
    ]
    causes = Page(text.partition("<section id='failures'>")[2].partition("</section>")[0])
    assert any(f"mucon-sweeps debug {plan.results.argument(failed)}" in field for field in causes.texts)


def test_the_page_has_configuration_environment_curves_and_runs(plan: Plan, page: Page) -> None:
    shown = "\n".join(page.texts)
    for fact in (
        "loss.smoothing",
        "torch",
        "2.13.0",
        "node-1",
        "python sweeps/planted_page.py --seeds 3",
        "git_commit",
    ):
        assert fact in shown
    results = plan.read_results()
    finished = [cell for cell in plan.cells if results[cell.key].is_finished]
    assert len(finished) == len(plan.cells) - 2
    curves = [attributes for attributes in page.all("svg") if attributes.get("class") == "curve"]
    assert len(curves) == 2 * len(finished)
    assert re.findall(r"\d+(?:\.\d+)?", str(curves[0]["aria-label"])) == ["1", "4", "3.01", "0.76"]
    links = [str(a["href"]) for a in page.all("a")]
    assert f"http://tracks.example/#/experiments/1/runs/{finished[0].identity}?a=1&b=2" in links
    assert f"{RUNS}/parent" in links


def test_the_trials_have_test_scores_and_commands_that_parse(plan: Plan, text: str) -> None:
    section = text.partition("<section id='trials'>")[2].partition("</section>")[0]
    heads = re.findall(r"<button type='button'>(.*?)</button></th>", section)
    rows = [re.findall(r"<t[hd].*?data-key='(.*?)'>(.*?)</t[hd]>", row) for row in section.split("<tr>")[2:]]
    assert len(rows) == len(plan.cells)
    results = plan.read_results()
    for cell, row in zip(plan.cells, rows, strict=True):
        shown = dict(zip(heads, row, strict=True))
        mof = results[cell.key].value("full", "mof")
        if mof is None:
            assert (shown["MoF"], shown["commands"][1]) == (("", "–"), "–")
            continue
        assert shown["MoF"] == (repr(mof), f"{100 * mof:.1f}")
        assert shown["training MoF"][1] == "80.0"
        assert shown["s/epoch"][1] == "2", "the median is not that of the first epoch"
        commands = [html.unescape(command) for command in re.findall(r"<code>(mucon .*?)</code>", shown["commands"][1])]
        assert [shlex.split(command)[1] for command in commands] == ["evaluate", "predict"]
        for command in commands:
            build_parser().parse_args(shlex.split(command)[1:])
        assert all(str(plan.results.trial(cell.identity).run_path) in command for command in commands)


def test_the_runs_are_said_to_need_the_server_that_a_command_starts(plan: Plan, tmp_path: Path) -> None:
    shutil.copytree(plan.results.path, tmp_path, dirs_exist_ok=True)
    moved = dataclasses.replace(plan, results=ResultsFolder(tmp_path))
    serve = "mlflow server --port 5000 --backend-store-uri sqlite:////data/mlflow.db"
    write_links(
        moved.folder, Links(sweep="http://h/1", runs="http://h/?a=1&b", serve=serve, trials={"x": "http://h/x"})
    )
    assert read_links(moved.folder).serve == serve
    write_report(Standing.of(moved))
    page = Page((moved.folder / f"{moved.name}.html").read_text(encoding="utf-8"))
    assert serve in page.texts
    assert "http://h/?a=1&b" in [a["href"] for a in page.all("a")]
    (tmp_path / "mlflow.db").touch()
    (line,) = re.findall("mlflow server .*", read_links(moved.folder).serve or "")
    assert shlex.split(line)[-1] == moved.results.tracking_uri, "the recorded database is gone, and this folder has one"


def test_a_page_without_tracking_has_neither_links_nor_a_column_of_runs(plan: Plan, tmp_path: Path) -> None:
    shutil.copytree(plan.results.path, tmp_path, dirs_exist_ok=True)
    alone = dataclasses.replace(plan, results=ResultsFolder(tmp_path))
    write_links(alone.folder, Links())
    write_report(Standing.of(alone))
    page = Page((alone.folder / f"{alone.name}.html").read_text(encoding="utf-8"))
    assert [a for a in page.all("a") if not str(a["href"]).startswith(("#", "../../trials/"))] == []
    assert "MLflow" not in "".join(page.texts).replace("packages.mlflow", "")
    assert "run" not in page.texts


def test_report_writes_the_same_page_without_ray_mlflow_and_matplotlib(plan: Plan) -> None:
    page = plan.folder / f"{plan.name}.html"
    before = page.read_bytes()
    page.unlink()
    small.report_without(plan.results.path, plan.name, "ray", "mlflow", "matplotlib")
    assert page.read_bytes() == before


def test_the_digests_of_the_figures_are_kept_in_a_file(plan: Plan) -> None:
    kept: dict[str, Any] = json.loads((plan.folder / "figures.json").read_text())
    assert sorted(kept) == ["planted_page", "planted_page_training"]
