"""What is sent to a cluster, and what is refused before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sweeps import ablation_masks
from sweeps.service.commands.run import script_parser
from sweeps.service.run.executor.cluster.jobs import Job, Jobs
from sweeps.service.run.executor.cluster.sending import ending
from sweeps.service.run.executor.cluster.submission import Submission, sender, sender_lines, submission
from tests.helpers.refusals import refused
from tests.helpers.services import free_port

WORDS = (
    "--store",
    "/data/store",
    "--results=/data/results",
    "--submit",
    "http://head:8265",
    "--detach",
    "--seeds",
    "3",
)


def sent(words: tuple[str, ...] = WORDS, name: str = "ablation_masks", **changes: Any) -> Submission:
    values: dict[str, Any] = {"results": Path("/data/results"), "store": Path("/data/store"), "environment": {}}
    return submission("masks", name, words, **{**values, **changes})


def test_the_command_on_the_cluster_is_the_own_one_without_the_words_about_sending() -> None:
    expected = "mucon-sweeps run ablation_masks --store /data/store --results=/data/results --seeds 3"
    assert sent().entrypoint == expected
    assert sent(("--submit=http://head:8265", *WORDS)).entrypoint == expected


def test_a_file_travels_with_the_sweep_and_is_named_without_its_folder(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("name: mine\n")
    first = sent(name=str(path))
    assert first.file == path
    assert first.words[:3] == ("mucon-sweeps", "run", "mine.yaml")
    before = first.metadata
    path.write_text("name: other\n")
    assert sent(name=str(path)).metadata != before, "another content is another sweep"


def test_a_store_at_a_uri_is_sent_and_the_folder_of_this_machine_s_cache_is_not() -> None:
    environment = {"MUCON_CACHE_DIR": "/mine", "MUCON_CACHE_SIZE": "1TB", "AWS_SECRET_ACCESS_KEY": "hidden-secret"}
    assert sent(store="s3://lab/stores/tug", environment=environment).variables == {"MUCON_CACHE_SIZE": "1TB"}


@pytest.mark.parametrize(
    ("changes", "rule", "place"),
    [
        ({"results": Path("results")}, "range", "--results"),
        ({"store": Path("stores/tug")}, "range", "--store"),
        ({"store": None}, "missing", "--store"),
        ({"words": ("--tracking-uri", "sqlite:///mlflow.db")}, "range", "--tracking-uri"),
        ({"words": ("--tracking-uri=mlruns",)}, "range", "--tracking-uri"),
        ({"environment": {"MLFLOW_TRACKING_URI": "mlruns"}}, "range", "MLFLOW_TRACKING_URI"),
        ({"words": ("--tracking-uri", "postgresql://me:secret@host/db")}, "unsupported", "--tracking-uri"),
        ({"words": ("--notify", "https://host/secret")}, "unsupported", "--notify"),
    ],
)
def test_what_would_mean_something_else_on_the_cluster_or_is_secret_is_refused(
    changes: dict[str, Any], rule: str, place: str
) -> None:
    with refused(rule, place=place, n=1) as caught:
        sent(**changes)
    assert not any(word in str(problem) for problem in caught.problems for word in ("me:secret", "host/secret"))


@pytest.mark.parametrize("word", ["--submi=http://head:8265", "--notif=https://host/secret"])
def test_an_option_whose_name_is_incomplete_is_refused_before_anything_is_sent_or_recorded(word: str) -> None:
    name = word.partition("=")[0]
    with refused("unknown", place=name, value=name, n=1):
        script_parser(ablation_masks.EXPERIMENT, "run").parse([word])


def test_absolute_addresses_are_sent() -> None:
    for address in (
        "sqlite:////data/mlflow.db",
        "http://mlflow:5000",
        "/data/mlruns",
        "postgresql+psycopg2://me@host/db",
    ):
        assert sent(("--tracking-uri", address)).words[-1] == address


def test_settings_are_sent_and_secrets_are_only_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "0123456789abcdef")
    environment = {
        "HOME": "/root",
        "MLFLOW_TRACKING_URI": "http://mlflow:5000",
        "MLFLOW_TRACKING_PASSWORD": "secret",
        "MUCON_CORES": "/tmp/cores",
        "MUCON_MAX_CONCURRENT": "4",
        "MUCON_NOTIFY": "https://host/secret",
        "RAY_AUTH_TOKEN": "0123456789abcdef",
    }
    found = sent(environment=environment)
    assert found.variables == {"MLFLOW_TRACKING_URI": "http://mlflow:5000", "MUCON_MAX_CONCURRENT": "4"}
    assert found.kept == ("MLFLOW_TRACKING_PASSWORD", "MUCON_NOTIFY")
    hidden = sent(environment={"MLFLOW_TRACKING_URI": "http://me:secret@mlflow:5000", "MUCON_X": "0123456789abcdef"})
    assert not hidden.variables
    assert hidden.kept == ("MLFLOW_TRACKING_URI", "MUCON_X")
    with refused("unsupported", place="--submit", n=1):
        sent(("--set", "x=0123456789abcdef"))


def test_the_cluster_says_which_versions_of_the_sender_differ() -> None:
    own = sender()
    assert sender_lines({}) == sender_lines(own) == []
    ((name, text),) = own.items()
    (line,) = sender_lines({name: json.dumps({**json.loads(text), "torch": "1.0.0"})})
    assert "torch 1.0.0" in line


@pytest.mark.parametrize(
    ("state", "code", "status", "speaks"),
    [
        ("SUCCEEDED", 0, 0, False),
        ("FAILED", 2, 2, False),
        ("FAILED", 3, 3, False),
        ("FAILED", 130, 130, False),
        ("STOPPED", None, 130, True),
        ("FAILED", 127, 2, True),
        ("FAILED", -9, 3, True),
        ("FAILED", None, 3, True),
    ],
)
def test_the_end_of_a_job_is_the_exit_status_of_the_sweep(
    state: str, code: int | None, status: int, speaks: bool
) -> None:
    facts = {"identity": "masks-1", "sweep": "masks", "results": "/r", "command": "", "entrypoint": "", "message": ""}
    found, line = ending(Job(state=state, exit_status=code, started=None, **facts))
    assert (found, bool(line)) == (status, speaks)


@pytest.mark.parametrize(
    ("address", "rule"),
    [("head:8265", "range"), ("http://head:port", "range"), ("http://127.0.0.1:PORT", "unreachable")],
)
def test_what_is_no_dashboard_is_refused(address: str, rule: str) -> None:
    address = address.replace("PORT", str(free_port()))
    with refused(rule, place="--submit", value=address, n=1):
        Jobs(address, "--submit")
