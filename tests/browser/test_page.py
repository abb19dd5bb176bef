"""A sweep's page in a browser: sorting, enlarged figures, links, colours, and no errors on the console."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from sweeps.service.compare.comparison import compare
from sweeps.service.compare.page import make_page
from sweeps.service.plan.plan import Plan
from tests.browser.chromium import Chromium
from tests.helpers.planted_models import planted
from tests.helpers.planted_pages import HOSTILE, planted_page
from tests.helpers.services import need

pytestmark = pytest.mark.browser
HEAD = "document.querySelectorAll('section table')[0].tHead.rows[0].cells[{place}]"
NAMES = "return [...document.querySelectorAll('section table')[0].tBodies[0].rows].map(row => row.cells[0].innerText)"
HIDDEN = "return [...document.querySelectorAll('{element}')].filter(e => e.getBoundingClientRect().height < 1).length"


class Runs(BaseHTTPRequestHandler):
    """Stands in for the pages of the tracking server."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<link rel='icon' href='data:,'><h1>the run's page</h1>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    need(Chromium.is_installed(), "chromium with chromedriver")
    with ThreadingHTTPServer(("127.0.0.1", 0), Runs) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}"
        listening.shutdown()


@pytest.fixture(scope="module")
def plan(server: str, tmp_path_factory: pytest.TempPathFactory) -> Plan:
    return planted_page(tmp_path_factory.mktemp("page"), server)


@pytest.fixture(scope="module")
def browser(plan: Plan) -> Iterator[Chromium]:
    with Chromium(width=1280, height=900) as started:
        yield started


@pytest.fixture
def page(browser: Chromium, plan: Plan) -> Iterator[Chromium]:
    """The page, freshly loaded from its file; fails if the test leaves messages on the console."""
    browser.console()
    browser.open((plan.folder / f"{plan.name}.html").as_uri())
    yield browser
    assert browser.console() == []


def count(page: Chromium, selector: str) -> int:
    """Number of elements that a selector matches."""
    return int(page.run(f"return document.querySelectorAll('{selector}').length"))


def box(page: Chromium, selector: str) -> dict[str, float]:
    """Position and size of the first element that a selector matches."""
    return dict(page.run(f"return document.querySelector('{selector}').getBoundingClientRect().toJSON()"))


def style(page: Chromium, selector: str, name: str) -> str:
    """Computed value of a style property."""
    return str(page.run(f"return getComputedStyle(document.querySelector('{selector}')).{name}"))


def sort_state(page: Chromium) -> list[Any]:
    return list(
        page.run("return [...document.querySelectorAll('section table')[0].tHead.rows[0].cells].map(c => c.ariaSort)")
    )


def test_rows_are_sorted_as_numbers_and_extra_rows_stay_below(page: Chromium) -> None:
    assert page.run(NAMES) == ["nine", "ten", "hundred", HOSTILE]
    assert sort_state(page) == [None] * 4
    page.run(f"{HEAD.format(place=1)}.querySelector('button').click()")
    assert page.run(NAMES) == ["hundred", HOSTILE, "ten", "nine"]
    assert sort_state(page) == [None, "descending", None, None]
    page.run(f"{HEAD.format(place=1)}.querySelector('button').click()")
    assert page.run(NAMES) == ["nine", "ten", HOSTILE, "hundred"]
    assert sort_state(page) == [None, "ascending", None, None]
    page.run(f"{HEAD.format(place=0)}.querySelector('button').click()")
    assert page.run(NAMES) == [HOSTILE, "hundred", "nine", "ten"]
    last = page.run("return [...document.querySelectorAll('section table')[0].rows].at(-1).innerText")
    assert last.startswith("ceiling of frames")


def test_a_table_is_sorted_with_the_keyboard_alone(page: Chromium) -> None:
    page.run(f"{HEAD.format(place=1)}.querySelector('button').focus()")
    page.press("\ue007")  # enter
    assert page.run(NAMES) == ["hundred", HOSTILE, "ten", "nine"]
    page.press(" ")
    assert page.run(NAMES) == ["nine", "ten", HOSTILE, "hundred"]


def test_a_figure_is_opened_large_and_closed_with_escape(page: Chromium) -> None:
    assert count(page, "figure") == 2
    small = box(page, "figure svg")["width"]
    page.run("document.querySelector('figure button.open').click()")
    assert box(page, "dialog[open] svg")["width"] > 1.2 * small
    page.press("\ue00c")  # escape
    assert count(page, "dialog[open]") == 0
    assert count(page, "dialog svg") == 0


def test_links_lead_to_sections_and_to_runs(page: Chromium, plan: Plan, server: str) -> None:
    page.run("document.querySelector('nav a[href=\"#trials\"]').click()")
    assert page.run("return location.hash") == "#trials"
    assert abs(box(page, "#trials")["top"]) < 900
    page.run("document.querySelector('#trials tbody a[href^=http]').click()")
    page.wait_for("the run's page")
    assert page.run("return location.href") == f"{server}/#/experiments/1/runs/{plan.cells[0].identity}?a=1&b=2"


def test_a_command_of_a_trial_is_copied_or_selected(page: Chromium, plan: Plan) -> None:
    page.run("document.querySelector('#trials td details').open = true")
    page.run("document.querySelector('#trials button.copy').click()")
    page.wait_until("return document.querySelector('#trials button.copy').innerText !== 'copy'", "a copied command")
    selected = str(page.run("return getSelection().toString()"))
    assert selected.startswith(f"mucon evaluate {plan.results.trial(plan.cells[0].identity).run_path} ")


def test_errors_of_a_page_are_detected(browser: Chromium, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.html"
    wrong.write_text("<!DOCTYPE html><title>x</title><script>undefined.x</script><img src='gone.png' alt=''>")
    browser.console()
    browser.open(wrong.as_uri())
    messages = " ".join(browser.console())
    assert "TypeError" in messages
    assert "gone.png" in messages


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_light_and_dark_colours_and_fits_a_phone(page: Chromium, scheme: str, tmp_path: Path) -> None:
    page.emulate(scheme=scheme, width=390, height=1200)
    try:
        ground, ink = page.run(
            "const style = getComputedStyle(document.documentElement);"
            "const sum = colour => colour.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + Number(b), 0);"
            "return [sum(style.backgroundColor), sum(style.color)]"
        )
        assert (ground > 700 and ink < 120) if scheme == "light" else (ground < 120 and ink > 600)
        assert style(page, "figure svg text", "fill") == style(page, "body", "color")
        assert page.run("return document.documentElement.scrollWidth") <= page.run("return innerWidth")
        for element in ("figure", "section table", "svg.curve"):
            assert count(page, element) > 0
            assert page.run(HIDDEN.format(element=element)) == 0
        page.screenshot(tmp_path / f"{scheme}.png")
        assert (tmp_path / f"{scheme}.png").stat().st_size > 10_000
    finally:
        page.emulate(scheme="light", width=1280, height=900)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_comparison_shows_bars_and_matrices_in_both_colours_and_fits_a_phone(
    browser: Chromium, scheme: str, tmp_path: Path
) -> None:
    actions = [f"{HOSTILE} {i}" for i in range(12)]
    entrants = [
        planted(
            name,
            {f"v{i}": 0.5 + shift * i for i in range(8)},
            segments={f"v{i}": {"transcript": actions[:5], "lengths": [10] * 5} for i in range(8)},
            recall={"full": dict.fromkeys(actions, 0.5 + shift)},
            confusion={"full": [[3 + (i == j) + shift * i for j in range(12)] for i in range(12)]},
        )
        for name, shift in ((HOSTILE, 0.0), ("other", 0.05))
    ]
    path = tmp_path / "why.html"
    path.write_text(make_page(compare(entrants, "mof")), encoding="utf-8")
    browser.console()
    browser.emulate(scheme=scheme, width=390, height=1200)
    try:
        browser.open(path.as_uri())
        for selector, n in (("figure svg", 1), ("#matrix-A .share", 144), ("#confusions tbody tr", 132)):
            assert count(browser, selector) == n
        assert style(browser, "figure svg text", "fill") == style(browser, "body", "color")
        assert style(browser, "#matrix-B .share", "backgroundColor") != "rgba(0, 0, 0, 0)"
        assert browser.run("return document.documentElement.scrollWidth") <= 390
        assert browser.console() == []
    finally:
        browser.emulate(scheme="light", width=1280, height=900)
