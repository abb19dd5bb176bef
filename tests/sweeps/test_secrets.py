"""Passwords of tracking servers: in no file, page, tag, artifact or line, also if an older record has one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main
from sweeps.service.plan.sweep_folder import Shipped, SweepInfo, mark_shipped, read_sweep, write_sweep
from sweeps.service.run.executor.verdicts import mark_failed
from sweeps.service.run.preflight import Answer, Question, problems
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.text import redacted
from sweeps.service.track.content.changes import Shipment
from sweeps.service.track.server import ServerError, checked_uri, run_page, ui_command
from sweeps.service.track.tracker import unreachable
from sweeps.service.trials import provenance
from sweeps.service.trials.folder import State
from sweeps.service.trials.results_folder import ResultsFolder
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.tracked import MASKS
from tests.helpers.trial_folders import START, append, append_status, write_trial
from tests.sweeps.small import make_trial

SECRET = "pla-nted!S3cret"
ADDRESSES = (
    f"postgresql+psycopg2://sweep:{SECRET}@db.example:5432/mlflow",
    f"http://me:{SECRET}@tracks.example:5000",
    f"https://tracks.example/mlflow?access_token={SECRET}&x=1",
    f"postgresql://db.example/mlflow?user=u&password={SECRET}",
    f"mysql://u:{SECRET}@h/x?ssl_passphrase={SECRET}",
)
COMMAND = f"mucon-sweeps run masks --tracking-uri {ADDRESSES[0]}"


def holders(folder: Path) -> list[Path]:
    """The files that contain the secret."""
    return [path for path in folder.rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]


@pytest.mark.parametrize("uri", ADDRESSES)
def test_no_message_and_no_command_contains_the_password_of_an_address(uri: str) -> None:
    assert SECRET not in redacted(f"--tracking-uri {uri} 'of {uri}'")
    assert redacted(uri).startswith(uri.partition("://")[0])
    error = unreachable(uri, ServerError(f"no answer from {uri}")).problems[0]
    shipment = Shipment(pending={"ab": "no answer"}, unreachable=f"no answer from {redacted(uri)}")
    texts = [str(error), repr(error), *shipment.lines("results", uri), ui_command(uri), run_page(uri, "1", "2")]
    assert not [text for text in texts if SECRET in text]


@pytest.mark.parametrize(
    "text", ["http://host:5000/#/experiments/1", "sqlite:////data/a@b.db", "postgresql://me@host/db", "a: b@c"]
)
def test_texts_without_a_secret_are_left_as_they_are(text: str) -> None:
    assert redacted(text) == text


def test_values_of_variables_with_secrets_are_removed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", SECRET)
    monkeypatch.setenv("PWD", str(tmp_path))
    assert redacted(f"401 for {SECRET} in {tmp_path}") == f"401 for *** in {tmp_path}"


def test_a_refused_command_line_neither_prints_nor_writes_the_password(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    uri = f"postgresql+psycopg2://sweep:{SECRET}@127.0.0.1:9/mlflow"
    words = ["--store", str(tiny_store), "--results", str(tmp_path), "--device", "cpu"]
    assert main(EXPERIMENT, [*words, "--tracking-uri", uri]) == 2
    assert main(EXPERIMENT, [*words, "--tracking-ur", uri, f"--tracking-urr={uri}"]) == 2
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"oracle://u:{SECRET}@h/x")
    assert main(EXPERIMENT, words) == 2
    said = capsys.readouterr()
    assert SECRET not in said.out + said.err
    assert "***" in said.err
    assert holders(tmp_path) == []


def test_the_environment_of_a_trial_contains_no_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/mucon-sweeps", "run", "x", "--tracking-uri", ADDRESSES[0]])
    facts = provenance.environment("cpu", 1)
    assert SECRET not in json.dumps(facts)
    assert "postgresql+psycopg2://sweep:***@" in facts["command"]


def test_a_report_of_older_records_shows_no_password(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = tuple(Variant(labels=(name,)) for name in ("box", "bell"))
    shape = Experiment(name="masks", title="Masks", label_titles=("Row",), variants=rows)
    plan = make_sweep(tmp_path, shape, lambda *_: 0.5, n_seeds=1)
    older = SweepInfo(name="masks", title="Masks", command=COMMAND, config={})
    write_sweep(plan.results, older, "mucon", plan.rows)
    for folder in plan.tracked.folders:
        append(folder, {"kind": "environment", "timestamp": START, "command": COMMAND})
    plan.tracked.folders[0].result_path(plan.cells[0].evaluation).unlink()
    append_status(plan.tracked.folders[0], "failed", START, f"no answer from {ADDRESSES[1]}")
    assert main(None, ["report", "masks", "--results", str(tmp_path)]) == 0
    assert SECRET not in capsys.readouterr().out
    page = plan.folder / "masks.html"
    assert "postgresql+psycopg2://sweep:***@" in page.read_text()
    record = read_sweep(plan.folder)
    assert record is not None
    assert SECRET not in record.sweep.command
    mark_shipped(plan.folder, ADDRESSES[0], Shipped())
    assert {path.name for path in holders(tmp_path)} == {"journal.jsonl"}


@pytest.mark.service
def test_sync_of_older_records_sends_no_password(tmp_path: Path, mlflow_uri: str) -> None:
    results = ResultsFolder(tmp_path / "results")
    folder = write_trial(results.path)
    append(folder, {"kind": "environment", "timestamp": START, "command": COMMAND})
    older = SweepInfo(name=MASKS.name, title="t", command=COMMAND, config={})
    write_sweep(results, older, "mucon", {folder.identity: "box"})
    (results.sweep(MASKS.name) / "page.html").write_text(f"<code>{COMMAND}</code>")
    assert main(None, ["sync", str(results.path), "--tracking-uri", mlflow_uri]) == 0
    database = Path(checked_uri(mlflow_uri).removeprefix("sqlite:///"))
    assert database.exists()
    assert holders(database.parent / "mlartifacts") == []
    assert b"***@db.example" in database.read_bytes()
    assert SECRET.encode() not in database.read_bytes()


@pytest.mark.parametrize(
    "address",
    [
        "postgresql://me:hunter2secret@host/db",
        "postgresql+psycopg2://me@corp:hunter2secret@127.0.0.1:1/db",
        "postgresql://me:it's-hunter2secret@host/db",
        "http://me:a/b?hunter2secret@host",
        "postgresql://host/db?user=me&password=hunter2secret",
    ],
)
def test_a_password_in_an_address_is_redacted(address: str) -> None:
    assert "hunter2secret" not in redacted(f"cannot reach {address} (refused)")


@pytest.mark.parametrize("name", ["PGPASSWORD", "MYSQL_PWD", "MLFLOW_TRACKING_TOKEN", "AWS_SECRET_ACCESS_KEY"])
def test_the_value_of_a_secret_variable_is_redacted(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "/hunter2secret+x")
    assert "hunter2secret" not in redacted("tried /hunter2secret+x")


def test_the_reason_of_a_worker_that_died_contains_no_password(tmp_path: Path, tiny_store: Path) -> None:
    results, trial = ResultsFolder(tmp_path), make_trial(tiny_store)
    mark_failed(trial, results, f"its worker process died: no answer from {ADDRESSES[0]}")
    assert results.reading(trial.identity).state()[0] is State.FAILED
    assert holders(tmp_path) == []


def test_the_token_of_a_cluster_is_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", SECRET)
    failure = Answer(failure=f"cannot run trials (invalid token {SECRET})")
    question = Question(results="/r", mark="/r/m", store="/s")
    (problem,) = problems(question, {}, {"a": failure}, on_gpus=False)
    assert SECRET not in redacted(f"error: {problem}")
