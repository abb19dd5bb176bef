"""Models of a sweep that has run: registered once, fetched, loaded, and served where the project is not installed."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import mucon
from mucon import cli as mucon_cli
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
from tests.test_docs import code_blocks

pytestmark = pytest.mark.service

N_RECORDINGS = 200
PAGE = Path(__file__).parents[3] / "docs" / "models.md"
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
    """A results folder, its server with a registered model, and an environment without the project."""

    results: Path
    python: Path

    @property
    def uri(self) -> str:
        return ResultsFolder.at(self.results).tracking_uri

    def command(self, *words: str) -> list[str]:
        return [*words, "--results", str(self.results)]

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
    shutil.copyfile(empty_mlflow_database, folder / "results" / "mlflow.db")
    found = Registered(folder / "results", folder / "environment" / "bin" / "python")
    assert main(None, ["sync", str(found.results), "--tracking-uri", found.uri]) == 0
    assert main(None, found.command("promote", "ablation_masks", "--alias", "champion")) == 0
    make_environment(folder / "environment", REQUIREMENTS, ours=())
    for name in ("mlflow", "uvicorn"):
        script = found.python.with_name(name)
        script.write_text(f"#!{found.python}\nimport runpy\nrunpy.run_module({name!r}, run_name='__main__')\n")
        script.chmod(0o755)
    return found


@pytest.fixture(scope="module")
def fetched(registered: Registered, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("fetched") / "model"
    assert main(None, registered.command("fetch", "models:/mucon@champion", str(target))) == 0
    return target


@pytest.fixture(scope="module")
def recordings(fetched: Path) -> dict[str, np.ndarray]:
    random, dim = np.random.default_rng(0), mucon.load(fetched, "cpu").dim
    lengths = [*range(1, 40), *random.integers(40, 300, size=N_RECORDINGS - 39).tolist()]
    return {f"{i}": random.normal(size=(T, dim)).astype(np.float32) for i, T in enumerate(lengths)}


def expected(model: mucon.Model, features: np.ndarray) -> list[tuple[str, int, int]]:
    return [(one.action, one.start, one.stop) for one in model.predict(features).segments]


def named(rows: list[dict[str, Any]]) -> list[tuple[str, int, int]]:
    return [(row["action"], row["start"], row["stop"]) for row in rows]


def test_a_version_has_its_lineage_and_the_same_model_is_not_registered_twice(registered: Registered) -> None:
    from mlflow import MlflowClient

    from sweeps.service.track.client import Client

    assert main(None, registered.command("promote", "ablation_masks", "--alias", "again")) == 0
    client = Client(registered.uri, "mucon", create=False)
    (version,) = client.versions("mucon")
    assert MlflowClient(registered.uri).get_registered_model("mucon").description
    assert version == client.version("mucon", None, "champion") == client.version("mucon", None, "again")
    (trial,) = version.tags["trials"].split(",")
    assert client.get_run(version.run_id).tags["trial"] == trial
    assert (version.tags["sweep"], version.tags["split"]) == ("ablation_masks", "1")
    assert (
        version.tags["data_fingerprint"]
        == ResultsFolder.at(registered.results).reading(trial).trial["data_fingerprint"]
    )
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


def test_a_registered_model_is_compared_as_its_exported_folder_and_its_trial(
    registered: Registered, fetched: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (member,) = json.loads((fetched / exported.RECORD).read_text())["members"]
    capsys.readouterr()
    words = registered.command("compare", "models:/mucon@champion", str(fetched), member["run"], "--json")
    assert main(None, words) == 0
    pairs = json.loads(capsys.readouterr().out)["pairs"]
    assert [pair["comparable"] for pair in pairs] == [True, True]
    assert {one["first"] - one["second"] for pair in pairs for one in pair["videos"]} == {0.0}
    assert main(None, registered.command("compare", "models:/mucon@nobody", str(fetched))) == 2


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
    assert main(None, [*words, "--tracking-uri", new_mlflow_uri(tmp_path)]) == 2


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


def test_the_commands_of_the_documentation_lead_to_a_server_that_segments_recordings_of_any_length(
    registered: Registered, fetched: Path, recordings: dict[str, np.ndarray], tiny_store: Path, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("stores", "models", "DATA/tug/features"):
        Path(name).mkdir(parents=True)
    Path("results").symlink_to(registered.results)
    Path("stores/tug").symlink_to(tiny_store)
    np.save("DATA/tug/features/s01_01.npy", recordings["150"])
    text = PAGE.read_text(encoding="utf-8")
    (block,), (example,) = code_blocks(text, "sh"), code_blocks(text, "python server")
    *lines, serve = block.splitlines()
    for line in lines:
        program, *words = shlex.split(line)
        words += ["--dry-run"] if words[0] == "run" else []
        assert (mucon_cli.main(words) if program == "mucon" else main(None, words)) == 0, line
    model, port = mucon.load(fetched, "cpu"), str(free_port())
    shown = [f"{start} {stop} {action}" for action, start, stop in expected(model, recordings["150"])]
    with (tmp_path / "log").open("wb") as log:
        server = subprocess.Popen(
            ["bash", "-c", serve.replace("5001", port)],
            env=registered.environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        wait_until(lambda: answers(f"http://127.0.0.1:{port}/health") or server.poll() is not None, 180, "a server")
        assert server.poll() is None, (tmp_path / "log").read_text()
        capsys.readouterr()
        exec(compile(example.replace("5001", port), str(PAGE), "exec"), {})
        assert [line.rpartition(" ")[0] for line in capsys.readouterr().out.splitlines()] == shown

        def ask(features: np.ndarray, **params: str) -> list[tuple[str, int, int]]:
            content = json.dumps({"inputs": features.tolist(), "params": params}).encode()
            url, header = f"http://127.0.0.1:{port}/invocations", {"Content-Type": "application/json"}
            with urllib.request.urlopen(urllib.request.Request(url, content, header), timeout=60) as response:
                return named(json.load(response)["predictions"])

        for features in recordings.values():
            assert ask(features) == expected(model, features)
        features, transcript = recordings["150"], [*model.actions[:2]]
        aligned = [(one.action, one.start, one.stop) for one in model.align(features, transcript).segments]
        assert ask(features, transcript=",".join(transcript)) == aligned
        frames = [(one.action, one.start, one.stop) for one in model.predict(features, "frames").segments]
        assert ask(features, prediction="frames") == frames
        with pytest.raises(urllib.error.HTTPError, match="400"):
            ask(features[:, :-1])
        with pytest.raises(urllib.error.HTTPError, match="400") as caught:
            ask(features, prediction="nothing")
        answer = json.load(caught.value)
        assert "nothing" in answer["message"]
        assert "stack_trace" not in answer
    finally:
        end_group(server)
