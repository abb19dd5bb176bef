"""Models of a sweep that has run: registered once, fetched, loaded, and served where the project is not installed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mucon
from mucon.export import folder as exported
from sweeps.service.cli import main
from sweeps.service.track.compare import registered_trials
from sweeps.service.track.registry import fetch_once
from sweeps.service.track.served import REQUIREMENTS
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.environments import make_environment
from tests.helpers.exported import changed
from tests.helpers.refusals import refused
from tests.helpers.services import answers, end_group, free_port, wait_until
from tests.sweeps.conftest import Finished

pytestmark = pytest.mark.service

LENGTHS = (1, 2, 33, 400)
FORBIDDEN = ("mucon", "storage", "sweeps", "ray", "optuna")
LOAD = """
import importlib.util, json, sys
import mlflow, numpy as np
assert not [name for name in {forbidden} if importlib.util.find_spec(name) is not None]
model = mlflow.pyfunc.load_model("models:/mucon@champion")
data = np.load(sys.argv[1])
print(json.dumps([model.predict(data[name]).to_dict("records") for name in data.files]))
"""


class Registered(NamedTuple):
    """A server with a registered model, the results folder it comes from, and an environment without the project."""

    uri: str
    results: Path
    python: Path

    def command(self, *words: str) -> list[str]:
        return [*words, "--results", str(self.results), "--tracking-uri", self.uri]

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
        path = f"{self.python.parent}{os.pathsep}{kept['PATH']}"
        return {**kept, "PATH": path, "MLFLOW_TRACKING_URI": self.uri, "MLFLOW_DISABLE_TELEMETRY": "true"}


@pytest.fixture(scope="module")
def registered(
    finished_sweep: Finished, empty_mlflow_database: Path, tmp_path_factory: pytest.TempPathFactory
) -> Registered:
    folder = tmp_path_factory.mktemp("registry")
    shutil.copytree(finished_sweep.results, folder / "results")
    shutil.copyfile(empty_mlflow_database, folder / "mlflow.db")
    uri = f"sqlite:///{folder}/mlflow.db"
    found = Registered(uri, folder / "results", folder / "environment" / "bin" / "python")
    assert main(None, ["sync", str(found.results), "--tracking-uri", found.uri]) == 0
    assert main(None, found.command("promote", "ablation_masks", "--alias", "champion")) == 0
    make_environment(folder / "environment", REQUIREMENTS, ours=())
    server = found.python.with_name("uvicorn")  # `mlflow models serve` starts it by its name
    server.write_text(f"#!{found.python}\nimport runpy\nrunpy.run_module('uvicorn', run_name='__main__')\n")
    server.chmod(0o755)
    return found


@pytest.fixture(scope="module")
def fetched(registered: Registered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("fetched") / "model"
    assert main(None, registered.command("fetch", "models:/mucon@champion", str(target))) == 0
    return target


@pytest.fixture(scope="module")
def recordings(fetched: Path) -> dict[str, np.ndarray]:
    random, dim = np.random.default_rng(0), mucon.load(fetched, "cpu").dim
    return {f"T{T}": random.normal(size=(T, dim)).astype(np.float32) for T in LENGTHS}


def expected(model: mucon.Model, features: np.ndarray) -> list[tuple[str, int, int]]:
    return [(one.action, one.start, one.stop) for one in model.predict(features).segments]


def named(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["action"], row["start"], row["stop"]) for row in rows]


def test_a_version_has_its_lineage_and_the_same_model_is_not_registered_twice(registered: Registered) -> None:
    from sweeps.service.track.client import Client

    assert main(None, registered.command("promote", "ablation_masks", "--alias", "again")) == 0
    client = Client(registered.uri, "mucon", create=False)
    (version,) = client.versions("mucon")
    assert version == client.version("mucon", None, "champion") == client.version("mucon", None, "again")
    (trial,) = version.tags["trials"].split(",")
    assert client.get_run(version.run_id).tags["trial"] == trial
    assert (version.tags["sweep"], version.tags["split"]) == ("ablation_masks", "1")
    results = ResultsFolder.at(registered.results)
    assert registered_trials(results, registered.uri) == {trial}
    assert client.get_run(version.run_id).status == "FINISHED"


def test_a_fetched_model_is_the_trial(
    registered: Registered, fetched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    exported.check(fetched)
    (member,) = json.loads((fetched / exported.RECORD).read_text())["members"]
    trial = ResultsFolder.at(registered.results).trial(member["run"])
    assert mucon.load(fetched, "cpu").predictor.weights_sha256() == mucon.load(trial.path).predictor.weights_sha256()
    assert main(None, registered.command("fetch", "models:/mucon/1", str(fetched))) == 2
    assert main(None, registered.command("fetch", "models:/mucon/1", str(fetched), "--replace")) == 0


def test_an_address_is_loaded_from_a_cache_that_a_damaged_file_does_not_spoil(
    registered: Registered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registered.uri)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = fetch_once("models:/mucon@champion")
    before = (folder / "weights.safetensors").stat().st_ino
    assert (fetch_once("models:/mucon/1") / "weights.safetensors").stat().st_ino == before
    changed(folder / "config.json")
    exported.check(fetch_once("models:/mucon@champion"))
    assert mucon.load("models:/mucon@champion", "cpu").dim == mucon.load(folder, "cpu").dim


@pytest.mark.parametrize(
    ("reference", "rule"),
    [("models:/mucon@nobody", "unknown"), ("models:/other/1", "unknown"), ("models:/mucon/9", "unknown")]
    + [(text, "type") for text in ("mucon", "models:/mucon", "models:/../x@y", "models:/mucon@a/b")],
)
def test_unknown_models_are_refused(
    registered: Registered, monkeypatch: pytest.MonkeyPatch, reference: str, rule: Any
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", registered.uri)
    with refused(rule, "model", reference):
        fetch_once(reference)


@pytest.mark.parametrize("name", ["v1", "latest", "a/b", "", "x" * 101, "a'b"])
def test_names_that_mlflow_or_an_address_cannot_have_are_refused(registered: Registered, name: str) -> None:
    assert main(None, registered.command("promote", "ablation_masks", "--alias", name)) == 2
    assert main(None, registered.command("promote", "ablation_masks", "--alias", "x", "--model", name)) == 2


def test_a_trial_without_a_run_on_the_server_is_refused(
    registered: Registered, new_mlflow_uri: Any, tmp_path: Path
) -> None:
    words = registered.command("promote", "ablation_masks", "--alias", "champion")
    assert main(None, [*words[:-1], new_mlflow_uri(tmp_path)]) == 2


def test_mlflow_loads_the_model_where_the_project_is_not_installed(
    registered: Registered, fetched: Path, recordings: dict[str, np.ndarray], tmp_path: Path
) -> None:
    np.savez(tmp_path / "data.npz", **recordings)
    words = [registered.python, "-c", LOAD.format(forbidden=FORBIDDEN), tmp_path / "data.npz"]
    done = subprocess.run(words, env=registered.environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    model = mucon.load(fetched, "cpu")
    for rows, features in zip(json.loads(done.stdout.splitlines()[-1]), recordings.values(), strict=True):
        assert named(rows) == expected(model, features)


def test_a_server_of_the_model_segments_recordings_of_any_length(
    registered: Registered, fetched: Path, recordings: dict[str, np.ndarray], tmp_path: Path
) -> None:
    port = free_port()
    words = [registered.python, "-m", "mlflow", "models", "serve", "--model-uri", "models:/mucon@champion"]
    words += ["--env-manager", "local", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            words, env=registered.environment, cwd=tmp_path, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/health") or server.poll() is not None, 180, "a server")
        assert server.poll() is None, (tmp_path / "log").read_text()
        model = mucon.load(fetched, "cpu")

        def ask(features: np.ndarray, **params: str) -> list[dict[str, Any]]:
            content = json.dumps({"inputs": features.tolist(), "params": params}).encode()
            request = urllib.request.Request(
                f"http://127.0.0.1:{port}/invocations", content, {"Content-Type": "application/json"}
            )
            with urllib.request.urlopen(request, timeout=60) as response:
                rows: list[dict[str, Any]] = json.load(response)["predictions"]
                return rows

        for features in recordings.values():
            assert named(ask(features)) == expected(model, features)
        features, transcript = recordings["T400"], [*model.actions[:2]]
        aligned = [(one.action, one.start, one.stop) for one in model.align(features, transcript).segments]
        assert named(ask(features, transcript=",".join(transcript))) == aligned
        frames = [(one.action, one.start, one.stop) for one in model.predict(features, "frames").segments]
        assert named(ask(features, prediction="frames")) == frames
    finally:
        end_group(server)
