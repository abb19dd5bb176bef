"""Checks the MLflow pages of a sweep in a browser; fails if something that users look for is not shown.

    python -m tests.browser.mlflow_ui --tracking-uri URI --experiment NAME --expect TEXT ... --out DIR

For a bare database, starts a server on a free loopback port and stops it afterwards. Checks the list of runs (the
sweep, unfolded to its trials), a score of all trials as bars with their names, the page of a trial (its name, every
parameter that differs between trials, every metric), the schema of its data, its charts (a curve with more than one
point), its artifacts, and the page of the sweep. Selects trials of distinct rows in the list, compares them, and checks
the values that differ and the axes of the parallel coordinates: the first parameters that differ, and a score. Each
`--expect` text must occur on at least one of these pages.
Writes a PNG of each page, and `missing.png` of a page that lacks something.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.browser.chromium import Chromium, Missing

COMPARED = 6
"""Number of runs on the page of the comparison."""
LISTED = 15
"""Number of trials that the table of runs shows for sure; it draws about twenty rows at once."""
DRAWN = 10
"""Number of runs, sweeps among them, that a chart draws unless a user asks for more."""
SELECTED = 3
"""Number of differing parameters, the first by name, that the plot of a comparison shows at first."""
SCORE = "final_test/full/mof"
WORKFLOW = "workflowType=machine_learning"
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # saves eight idle processes
}
START_SECONDS = 240.0
"""Time limit for a server to start on a busy machine."""


def main(arguments: list[str] | None = None) -> int:
    """Checks the pages; returns 0 if everything is shown, 1 if something is missing, 2 without a browser."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tracking-uri", required=True)
    parser.add_argument("--experiment", required=True)
    parser.add_argument("--sweep", help="name of the parent run (default: the newest)")
    parser.add_argument("--expect", nargs="*", default=[], metavar="TEXT")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends the started processes, too
    if not Chromium.is_installed():
        print("chromium not found; apt-get install chromium chromium-driver", file=sys.stderr)
        return 2
    options.out.mkdir(parents=True, exist_ok=True)
    try:
        with served(options.tracking_uri, options.out) as server, Chromium() as browser:
            pages = Pages(server, options.experiment, options.sweep, browser, options.out)
            try:
                shown = pages.look()
            except Missing:
                browser.screenshot(options.out / "missing.png")
                raise
    except Missing as missing:
        print(missing, file=sys.stderr)
        return 1
    absent = [text for text in options.expect if text not in shown]
    for text in absent:
        print(f"{options.experiment}: missing {text!r} on all pages", file=sys.stderr)
    print(f"checked {len(pages.names)} trials of {pages.sweep['info']['run_name']}, pictures in {options.out}")
    return 1 if absent else 0


@contextlib.contextmanager
def served(uri: str, out: Path) -> Iterator[str]:
    """The address of a server: the given one, or a temporary one for the given database."""
    if uri.startswith("http"):
        yield uri.rstrip("/")
        return
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    environment = {**ENVIRONMENT, **os.environ}
    with (out / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--backend-store-uri", uri], stdout=log, stderr=log, env=environment, start_new_session=True
        )
    try:
        server = f"http://127.0.0.1:{port}"
        deadline = time.monotonic() + START_SECONDS
        while not is_healthy(server):
            if time.monotonic() > deadline or process.poll() is not None:
                raise RuntimeError(f"mlflow server for {uri} failed to start; see {out / 'server.log'}")
            time.sleep(0.2)
        yield server
    finally:
        for which in (signal.SIGTERM, signal.SIGKILL):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, which)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)


def is_healthy(server: str) -> bool:
    """Whether a server responds."""
    try:
        with urllib.request.urlopen(f"{server}/health", timeout=5) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


class Pages:
    """The pages of one sweep.

    Args:
        server: address of the tracking server.
        experiment: name of MLflow's experiment.
        sweep: name of the parent run; None for the newest.
        browser: a started browser.
        out: directory of the pictures.
    """

    def __init__(self, server: str, experiment: str, sweep: str | None, browser: Chromium, out: Path) -> None:
        self.server, self.browser, self.out = server, browser, out
        name = urllib.parse.quote(experiment)
        self.experiment = self._ask(f"experiments/get-by-name?experiment_name={name}")["experiment"]["experiment_id"]
        every = self._ask("runs/search", {"experiment_ids": [self.experiment], "max_results": 1000}).get("runs", [])
        sweeps = [run for run in every if "sweep" in tags(run)]
        parents = [run for run in sweeps if sweep in (None, run["info"]["run_name"])]
        if not parents:
            raise Missing(f"experiment {experiment}: missing sweep {sweep or ''}")
        self.base = f"{server}/#/experiments/{self.experiment}/runs"
        self.sweep = parents[0]
        parent = self.sweep["info"]["run_id"]
        self.trials = [run for run in every if tags(run).get("mlflow.parentRunId") == parent]
        self.trials.sort(key=lambda run: -run["info"]["start_time"])
        if len(self.trials) < 2:
            raise Missing(f"sweep {self.sweep['info']['run_name']}: expected at least 2 trials, got {len(self.trials)}")
        self.names = [run["info"]["run_name"] for run in self.trials]
        self.are_drawn = len(sweeps) + len(self.names) <= DRAWN
        self.shown = ""

    def look(self) -> str:
        """Checks all pages and returns their text.

        Raises:
            Missing: a page lacks something.
        """
        trial = next((run for run in self.trials if run["info"]["status"] == "FINISHED"), self.trials[0])
        base = self.base
        self._unfold(f"{base}?{WORKFLOW}")
        self._shoot("runs", [run["info"]["run_name"] for run in self.trials[:LISTED]])
        self.scores()
        self._page("trial", f"{base}/{trial['info']['run_id']}?{WORKFLOW}", self._of_trial(trial))
        self._data(trial)
        self._charts(f"{base}/{trial['info']['run_id']}/model-metrics?{WORKFLOW}", trial)
        files = ("checkpoint", "predictions", "config.json")
        self._page("artifacts", f"{base}/{trial['info']['run_id']}/artifacts?{WORKFLOW}", files)
        self._page("sweep", f"{base}/{self.sweep['info']['run_id']}?{WORKFLOW}", [self.sweep["info"]["run_name"]])
        self.compare()
        return self.shown

    @property
    def score(self) -> str:
        """A final score of the trials; `final_test/full/mof` if they have it."""
        finals = {m["key"] for run in self.trials for m in run["data"].get("metrics", []) if not m.get("step", 0)}
        if not finals:
            raise Missing(f"sweep {self.sweep['info']['run_name']}: missing scores")
        return str(min(finals, key=lambda name: (name != SCORE, name)))

    @staticmethod
    def differing(runs: list[dict[str, Any]]) -> dict[str, set[str]]:
        """Parameters that differ between runs, with their values."""
        values: dict[str, set[str]] = {}
        for run in runs:
            for param in run["data"].get("params", []):
                values.setdefault(param["key"], set()).add(param["value"])
        return {name: distinct for name, distinct in values.items() if len(distinct) > 1}

    def _of_trial(self, trial: dict[str, Any]) -> list[str]:
        metrics = [metric["key"] for metric in trial["data"].get("metrics", [])]
        own = {param["key"]: param["value"] for param in trial["data"]["params"]}
        differing = [text for name in self.differing(self.trials) for text in (name, own[name])]
        return [trial["info"]["run_name"], self.sweep["info"]["run_name"], *metrics, *differing]

    def scores(self) -> None:
        """Checks that a score has a bar for each trial, and that the chart names them.

        Raises:
            Missing: the page lacks one of them.
        """
        self._unfold(f"{self.base}?compareRunsMode=CHART&{WORKFLOW}")
        self.browser.type("input[placeholder^='Search metric']", self.score)
        self.browser.wait_until(
            "return document.querySelectorAll('.barlayer path').length > 1", f"bars for {self.score}"
        )
        self._shoot("scores", [self.score])
        chart = "[data-testid=experiment-view-compare-runs-card]"
        shown = str(self.browser.run(f"return document.querySelector('{chart}').innerText")).split("\n")
        names = self.names if self.are_drawn else []
        _require(f"chart of {self.score}", [self.score, *names], shown)

    def _unfold(self, url: str) -> None:
        name = self.sweep["info"]["run_name"]
        self.browser.open(url)
        self.browser.wait_for(name)
        self._close_assistant()
        unfold = (
            f"const link = [...document.querySelectorAll('a')].find(a => a.innerText.trim() === {json.dumps(name)});"
            "const row = link && link.closest('[role=gridcell], [role=cell], td, [role=row], tr');"
            "const button = row && row.querySelector('button'); if (button) button.click(); return !!button"
        )
        deadline = time.monotonic() + self.browser.patience
        while not any(trial in self.browser.text() for trial in self.names):
            if time.monotonic() > deadline:
                raise Missing(f"{url}: missing trials of {name}")
            self.browser.wait_until(unfold, f"button that unfolds {name}")
            time.sleep(3)

    def _charts(self, url: str, trial: dict[str, Any]) -> None:
        """Selects a curve with the search field of the page, since charts are drawn only when scrolled into view."""
        curves = [metric["key"] for metric in trial["data"].get("metrics", []) if metric.get("step", 0) > 1]
        if not curves:
            raise Missing(f"{trial['info']['run_name']}: missing a metric with more than one step")
        self.browser.open(url)
        self.browser.wait_for("Model metrics")
        self._close_assistant()
        drawn = "return [...document.querySelectorAll('path.js-line')].some(p => p.getAttribute('d').includes('L'))"
        for curve in curves[:1]:
            self.browser.type("input[placeholder^='Search metric']", curve)
            self.browser.wait_until(drawn, f"line for {curve}")
            self._shoot("charts", [curve])

    def _data(self, trial: dict[str, Any]) -> None:
        """Opens the data set on the page of a trial, and checks its schema; older trials have none."""
        for used in trial.get("inputs", {}).get("dataset_inputs", []):
            schema = json.loads(used["dataset"].get("schema") or "{}")
            columns = [str(column[key]) for column in schema.get("mlflow_colspec", []) for key in ("name", "type")]
            name = json.dumps(used["dataset"]["name"])
            opened = (
                "const buttons = [...document.querySelectorAll('[role=button]')];"
                f"const found = buttons.find(button => button.innerText.includes({name}));"
                "if (found) found.click(); return !!found"
            )
            self.browser.wait_until(opened, f"data set {name}")
            self._shoot("data", [used["dataset"]["name"], *columns])

    def compare(self) -> None:
        """Selects trials of distinct rows in the list, and checks the page that compares them.

        Raises:
            Missing: the page lacks a name or value that differs, or the plot an axis.
        """
        first = self.trials[:LISTED]
        rows = {tags(run).get("row"): run for run in reversed(first)}
        chosen = [*rows.values(), *(run for run in first if run not in rows.values())][:COMPARED]
        self._unfold(f"{self.base}?{WORKFLOW}")
        for run in chosen:
            link = f"a[href*={json.dumps(run['info']['run_id'])}]"
            tick = (
                f"const link = document.querySelector({json.dumps(link)}), row = link && link.closest('[role=row]');"
                "const whole = row && `[row-id=\"${row.getAttribute('row-id')}\"]`;"  # name and box are in two tables
                "const box = row && document.querySelector(`${whole} input[type=checkbox]`);"
                "if (box && !box.checked) box.click(); return !!box && box.checked"
            )
            self.browser.wait_until(tick, f"checkbox of {run['info']['run_name']}")
        press = (
            "const button = [...document.querySelectorAll('button')].find(b => b.innerText.trim() === 'Compare');"
            "if (button && !button.disabled) button.click(); return !!button && !button.disabled"
        )
        self.browser.wait_until(press, "button Compare")
        self.browser.wait_for(f"Comparing {len(chosen)} Runs")
        self._close_assistant()
        differing = self.differing(chosen)
        metrics = "const boxes = document.querySelectorAll('[role=combobox]'); return boxes.length > 1 && boxes[1].id"
        self.browser.type(f"#{self.browser.wait_until(metrics, 'choice of metrics')}", f"{self.score}\ue007")
        axes = (
            "const axes = [...document.querySelectorAll('.parcoords .axis-title')].map(axis => axis.textContent);"
            f"return axes.includes({json.dumps(self.score)}) && axes"
        )
        drawn = self.browser.wait_until(axes, f"axis {self.score} of the parallel coordinates")
        _require("parallel coordinates", sorted(differing)[:SELECTED], drawn)
        self.browser.press("\ue00c")  # escape closes the list of metrics
        values = {value for distinct in differing.values() for value in distinct}
        self._shoot("compare", [*(run["info"]["run_name"] for run in chosen), *differing, *values])

    def _page(self, name: str, url: str, texts: list[str] | tuple[str, ...]) -> None:
        self.browser.open(url)
        self.browser.wait_for(texts[0])
        self._close_assistant()
        self._shoot(name, texts)

    def _shoot(self, name: str, texts: list[str] | tuple[str, ...]) -> None:
        try:
            self.browser.wait_for(*texts)
            time.sleep(1)  # animations end
        finally:
            self.shown += self.browser.text() + "\n"
            self.browser.screenshot(self.out / f"{name}.png")

    def _close_assistant(self) -> None:
        self.browser.run("document.querySelectorAll('button[aria-label=Close]').forEach(button => button.click())")

    def _ask(self, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.server}/api/2.0/mlflow/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)


def _require(place: str, names: Iterable[str], shown: Collection[str]) -> None:
    absent = [repr(name) for name in names if name not in shown]
    if absent:
        raise Missing(f"{place}: missing {', '.join(absent)}")


def tags(run: dict[str, Any]) -> dict[str, str]:
    """A run's tags."""
    return {tag["key"]: tag["value"] for tag in run["data"].get("tags", [])}


if __name__ == "__main__":
    sys.exit(main())
