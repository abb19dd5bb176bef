"""The study of a search: readable by optuna, refused if it is damaged or of another search."""

from __future__ import annotations

import contextlib
import json
import pickle
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import optuna
import pytest

from storage.fencing import SupersededError, Writer
from sweeps.service.search.points import Measured
from sweeps.service.search.queue import SearchQueue
from sweeps.service.search.study import Study
from sweeps.service.spec.columns import INFERENCE_SECONDS, MATCHING_SCORE
from sweeps.service.spec.search import Bound, Uniform
from tests.helpers.refusals import refused
from tests.helpers.simulated_searches import BASE, FLAT, NESTED, TWO, hill, key, queue_on, run, search_of

ROOT = Path(__file__).parents[3]


def loaded(path: Path) -> optuna.Study:
    storage = optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(path)))
    return optuna.load_study(study_name="simulated", storage=storage)


def test_optuna_reads_points_by_their_paths_with_seeds_deviations_and_curves(folder: Path):
    search = search_of(NESTED, trials=12, seeds=2, rungs=(0.5,))
    queue = queue_on(folder / "study", search)
    run(queue)
    study, history = loaded(folder / "study"), queue.history()
    assert (study.metric_names, study.direction.name) == (["MoF"], "MAXIMIZE")
    for trial, record in zip(study.trials, history.records, strict=True):
        assert set(trial.params) == set(record.point.settings)
        assert trial.state.name == {"complete": "COMPLETE", "stopped": "PRUNED"}[record.state]
        assert trial.intermediate_values[50] == record.rungs[0.5].objectives[0]
        if record.n:
            assert trial.value == pytest.approx(record.mean[0])
            assert trial.user_attrs["seeds"] == record.n
            assert trial.intermediate_values[100] == record.scores[1].objectives[0]
        if record.n > 1:
            assert trial.user_attrs["std"] == pytest.approx(list(record.std))
    assert study.trials[0].params["pair"] == "[1, 2]"
    assert study.trials[0].user_attrs["origin"] == "default"


def test_optuna_agrees_on_the_best_point_that_keeps_the_constraints(folder: Path):
    constraints = (Bound(column=INFERENCE_SECONDS, at_most=0.5),)
    queue = queue_on(folder / "study", search_of(seeds=1, constraints=constraints))
    run(queue, lambda job: Measured(hill(job).objectives, (float(str(job.point.settings["a"])),)))
    assert loaded(folder / "study").best_trial.number == queue.history().best[0]


def test_optuna_agrees_on_the_front(folder: Path):
    queue = queue_on(folder / "study", search_of(seeds=1, objectives=TWO))
    run(queue, lambda job: Measured((*hill(job).objectives, float(str(job.point.settings["a"])))))
    assert tuple(trial.number for trial in loaded(folder / "study").best_trials) == queue.history().front


def test_a_search_says_nothing_of_optuna(folder: Path, capfd: pytest.CaptureFixture[str]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for sampler in ("tpe", "cmaes", "nsga2"):
            search = search_of(NESTED, trials=14, seeds=1, sampler=sampler)
            queue = queue_on(folder / sampler, search)
            run(queue)
            queue.history(with_importance=True)
    assert capfd.readouterr() == ("", "")


def test_reports_and_plans_do_not_import_optuna():
    modules = ", ".join(f"sweeps.service.search.{name}" for name in ("points", "rules", "space", "standings"))
    code = f"import sys, {modules}\nprint('optuna' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize(
    ("other", "differing"),
    [
        ({"space": {**FLAT, "a": Uniform(0, 0.9)}}, ["space"]),
        ({"sampler_seed": 2, "seeds": 2}, ["sampler_seed", "seeds"]),
        ({"objectives": (MATCHING_SCORE,), "splits": ("2",)}, ["objectives", "splits"]),
    ],
)
def test_a_study_of_another_search_is_refused_with_what_differs(folder: Path, other: Any, differing: list[str]):
    queue_on(folder / "study", search_of(seeds=1))
    before = (folder / "study").read_bytes()
    with refused("conflict", str(folder / "study"), differing, n=1):
        Study(folder / "study", search_of(**{"seeds": 1, **other}))
    assert (folder / "study").read_bytes() == before


def test_a_study_of_other_data_is_refused_and_another_title_is_not(folder: Path):
    Study(folder / "study", search_of(), {"data": "one", "part": ("validation",)})
    Study(folder / "study", search_of(title="Other", trials=99, best=1), {"data": "one", "part": ("validation",)})
    with refused("conflict", str(folder / "study"), ["context"], n=1):
        Study(folder / "study", search_of(), {"data": "two", "part": ("validation",)})


def test_a_damaged_study_is_refused_by_its_line_and_kept(folder: Path):
    search, path = search_of(seeds=1, trials=3), folder / "study"
    run(queue_on(path, search))
    lines = path.read_bytes().splitlines(keepends=True)
    for wrong in (b"\x00\n", b"[]\n", b'{"op_code": 5}\n', b'{"op_code": 99}\n'):
        content = b"".join([*lines[:3], wrong, *lines[4:]])
        path.write_bytes(content)
        with refused("damaged", str(path), n=1):
            Study(path, search)
        assert path.read_bytes() == content
    path.unlink()
    path.mkdir()
    with refused("unreadable", str(path), n=1):
        Study(path, search)


def test_trials_that_no_search_has_written_are_refused(folder: Path):
    run(queue_on(folder / "study", search_of(seeds=1, trials=2)))
    loaded(folder / "study").ask()
    with refused("damaged", str(folder / "study"), 2, n=1):
        Study(folder / "study", search_of(seeds=1))
    queue = queue_on(folder / "other", search_of(seeds=1))
    loaded(folder / "other").ask()
    with refused("conflict", str(folder / "other"), 1, n=1):
        run(queue)


@pytest.mark.parametrize(
    "changed",
    [{"objectives": [0.5, 0.5]}, {"objectives": ["0.5"]}, {"seed": 9}, {"bounded": [1.0]}, {"order": None}],
)
def test_results_of_another_kind_are_refused(folder: Path, changed: dict[str, object]):
    search, path = search_of(seeds=1, trials=2), folder / "study"
    run(queue_on(path, search))
    operations = [json.loads(line) for line in path.read_text().splitlines()]
    result = next(one["user_attr"]["seed 1"] for one in operations if "seed 1" in one.get("user_attr", ()))
    result.update(changed)
    path.write_text("".join(json.dumps(one) + "\n" for one in operations))
    with refused("damaged", str(path), 0, n=1):
        queue_on(path, search)


def test_a_search_that_was_superseded_writes_nothing_more(folder: Path):
    def confirm() -> None:
        if superseded:
            raise SupersededError

    superseded = False
    search = search_of(seeds=1)
    queue = SearchQueue(search, Study(folder / "study", search, writer=Writer(confirm=confirm)), key, base=BASE)
    job = queue.next()
    assert job is not None
    before, superseded = (folder / "study").read_bytes(), True
    for call in (lambda: queue.ended(job, hill(job)), queue.next):
        with pytest.raises(SupersededError):
            call()
    assert (folder / "study").read_bytes() == before


def test_a_study_in_a_database_is_that_in_a_file_and_continues(folder: Path):
    search = search_of(NESTED, seeds=2, trials=14)
    url = f"sqlite:///{folder}/studies.db"
    run(queue_on(url, search), most=9)
    database, file = queue_on(url, search), queue_on(folder / "study", search)
    for queue in (database, file):
        run(queue)
    assert database.history() == file.history()
    with refused("conflict", "sqlite", ["sampler_seed"], n=1):
        Study(url, search_of(NESTED, seeds=2, sampler_seed=5))


@pytest.mark.parametrize(
    "url", ["sqlite:////nowhere/at/all.db", "postgresql+psycopg2://me:secret@127.0.0.1:9/x", "x:y"]
)
def test_a_database_that_cannot_be_used_is_one_problem_without_its_password(url: str):
    with refused("unreachable", url[:8], n=1) as refusal:
        Study(url, search_of())
    assert "secret" not in str(refusal.problems[0])


def test_a_database_with_tables_of_another_program_is_refused(folder: Path):
    with contextlib.closing(sqlite3.connect(folder / "other.db")) as other:
        other.execute("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        other.execute("INSERT INTO alembic_version VALUES ('0584bdc529eb')")
        other.commit()
    with refused("unreachable", "sqlite", n=1):
        Study(f"sqlite:///{folder}/other.db", search_of())


def test_the_lock_of_a_killed_process_is_removed(folder: Path):
    (folder / "study.lock").symlink_to(folder / "study")
    queue = queue_on(folder / "study", search_of(seeds=1, trials=1))
    assert len(run(queue)) == 1


def test_numbers_of_the_study_survive_as_they_are(folder: Path):
    search = search_of(seeds=1, trials=6)
    base = {"a": 0.1 + 0.2, "b": 1 / 300, "c": 7}
    queue = queue_on(folder / "study", search, base=base)
    run(queue)
    again = queue_on(folder / "study", search, base=base).history()
    assert again == queue.history()
    assert dict(again.records[0].point.settings) == base
    assert json.loads(json.dumps(again.to_dict())) == again.to_dict()


def test_a_study_has_no_pickle(folder: Path):
    run(queue_on(folder / "study", search_of(seeds=1, trials=30, sampler="cmaes")))
    pickled = pickle.dumps(search_of()).hex()[:8]
    assert pickled not in (folder / "study").read_text()
    assert {"cmaes:generation"} == {name for trial in loaded(folder / "study").trials for name in trial.system_attrs}
