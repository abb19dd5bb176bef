"""A search in a browser: its page, and its study in optuna-dashboard."""

from __future__ import annotations

import importlib.metadata
import math
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweeps.service.report.search.findings import Findings
from sweeps.service.report.search.report import write_search_report
from sweeps.service.search.points import Job, Measured, SearchHistory
from sweeps.service.spec.search import Choice, LogUniform
from tests.browser.chromium import Chromium, Missing
from tests.helpers.planted_points import planted_search
from tests.helpers.services import answers, end_group, free_port, need, wait_until
from tests.helpers.simulated_searches import queue_on, run, search_of

pytestmark = pytest.mark.browser
COMMAND = "optuna-dashboard"
SPACE = {"training.learning_rate": LogUniform(1e-5, 1e-1), "mask.shape": Choice(("box", "bell", None))}
BASE = {"training.learning_rate": 1e-3, "mask.shape": "box"}
COUNT = "return document.querySelectorAll(arguments[0]).length"
ORDER = "return [...document.querySelectorAll('#points tbody tr')].map(row => Number(row.cells[{place}].dataset.key))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    need(Chromium.is_installed(), "chromium with chromedriver")
    with Chromium(width=1280, height=900) as started:
        yield started


def objective(job: Job) -> Measured | str:
    """Best at a learning rate of 0.01; diverges above 0.05."""
    rate = job.point.settings["training.learning_rate"]
    assert isinstance(rate, float)
    return "diverged" if rate > 0.05 else Measured((0.7 - 0.05 * abs(math.log10(rate) + 2) + 0.001 * job.seed,))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SearchHistory]:
    """A study in a file, and what the report says of it."""
    place = tmp_path_factory.mktemp("study") / "study.journal"
    queue = queue_on(place, search_of(SPACE, trials=14, seeds=2), base=BASE)
    run(queue, objective)
    return place, queue.history()


@pytest.fixture(scope="module")
def dashboard(study: tuple[Path, SearchHistory]) -> Iterator[str]:
    """Address of optuna-dashboard with the study, started by its own command."""
    programs = importlib.metadata.entry_points(group="console_scripts", name=COMMAND)
    need(programs, COMMAND)
    (program,) = programs
    start = f"import sys; from {program.module} import {program.attr}; sys.exit({program.attr}())"
    port = free_port()
    words = [sys.executable, "-c", start, str(study[0]), "--port", str(port), "--server", "wsgiref"]
    log = study[0].with_name("dashboard.log")
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdout=output, stderr=output, start_new_session=True)
    try:
        address = f"http://127.0.0.1:{port}/dashboard"
        wait_until(lambda: answers(address), 120, f"the start of {COMMAND} ({log})")
        yield address
    finally:
        end_group(process)


def test_optuna_dashboard_shows_the_study_its_best_value_and_its_settings(
    browser: Chromium, dashboard: str, study: tuple[Path, SearchHistory], tmp_path: Path
) -> None:
    place, history = study
    before = place.read_bytes()
    best = history.record(history.best[0])
    browser.console()
    browser.open(dashboard)
    browser.wait_for("simulated")
    browser.open(f"{dashboard}/studies/0")
    browser.wait_for(f"number={best.point.number}", repr(best.mean[0]), "MoF", *SPACE)
    browser.screenshot(tmp_path / "dashboard.png")
    assert (tmp_path / "dashboard.png").stat().st_size > 10_000
    browser.open(f"{dashboard}/studies/0/trials")
    browser.wait_for(f"{len(history.records) + history.duplicates} Trials", "Best Trial")
    assert any(record.state == "failed" for record in history.records)
    assert browser.text().count("\nFail") == sum(record.state == "failed" for record in history.records)
    assert not [message for message in browser.console() if "SEVERE" in message]
    assert place.read_bytes() == before
    browser.patience, patience = 0.5, browser.patience
    try:
        with pytest.raises(Missing, match="absent row"):
            browser.wait_for("absent row")
    finally:
        browser.patience = patience


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_search_is_sorted_has_figures_in_both_colours_and_fits_a_phone(
    browser: Chromium, scheme: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.getbasetemp() / "search_page"
    if not folder.exists():
        folder.mkdir()
        write_search_report(Findings(history=planted_search(20, 4), storage="study.journal"), folder)
    browser.console()
    browser.emulate(scheme=scheme, width=390, height=1200)
    try:
        browser.open((folder / "planted_search.html").as_uri())
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        assert browser.run(COUNT, "figure svg") == 4
        for name in ("ink", "ramp-0"):
            colour = browser.run(f"return getComputedStyle(document.documentElement).getPropertyValue('--{name}')")
            dark = sum(int(colour[i : i + 2], 16) for i in (1, 3, 5)) > 400
            assert dark == (scheme == "dark")
        assert browser.run(COUNT, "#figure-planted_parallel svg [style*='var(--ramp-0)']") > 0
        browser.run("document.querySelectorAll('#points thead button')[4].click()")
        numbers = browser.run(ORDER.format(place=4))
        scored = [number for number in numbers if number]
        assert scored == sorted(scored, reverse=True)
        assert len(scored) > 5
        browser.run("document.querySelector('figure button.open').click()")
        assert browser.run(COUNT, "dialog[open] svg") == 1
        assert browser.console() == []
    finally:
        browser.emulate(scheme="light", width=1280, height=900)
