"""Results folders with many finished trials: one trial is trained, the others are copies of it with other scores."""

from __future__ import annotations

import json
import os
import random
import textwrap
from pathlib import Path

from mucon.config import TrainConfig
from storage import StoreWriter
from sweeps.service.plan.plan import Plan, make_plan
from sweeps.service.plan.sweep_folder import Shipped, SweepInfo, mark_shipped, write_sweep
from sweeps.service.run.worker import run_trial
from sweeps.service.spec.files.reading import read_experiment
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.seen import journal_bytes
from sweeps.service.trials.trial import Trial

SEEDS = 10
EPOCHS = 150
SETTINGS = {
    "backbone.channels": "32",
    "backbone.n_layers": "1",
    "backbone.pool_after": "",
    "segment_branch.hidden": "8",
    "training.progress_videos": "0",
}
"""The smallest network, so that a trial is little besides its overhead."""
SWEEP = """
    from sweeps.api import Experiment, Variant

    EXPERIMENT = Experiment(
        name="{name}",
        title="A planted sweep",
        label_titles=("Smoothing",),
        variants=tuple(
            Variant(labels=(f"{{0.1 + i / 10**5:.5f}}",), settings={{"loss.smoothing": 0.1 + i / 10**5}})
            for i in range({rows})
        ),
    )
"""


def make_store(path: Path, *, n_train: int, n_test: int) -> Path:
    """Recordings of 20 frames of 4 features, two actions each."""
    generator = random.Random(0)
    with StoreWriter(path, dim=4, dtype="float32", vocabulary=("rest", "pour", "stir")) as writer:
        for i in range(n_train + n_test):
            transcript = [[0, 1], [0, 2]][i % 2]
            features = [[action + generator.random() for _ in range(4)] for action in transcript for _ in range(10)]
            part = "1:train" if i < n_train else "1:test"
            writer.add(f"video_{i:03}", features, transcript=transcript, lengths=[10, 10], splits=(part,))
    return path


def write_script(folder: Path, name: str, n_trials: int) -> Path:
    """The file of a sweep with a row for each `SEEDS` trials."""
    path = folder / f"{name}.py"
    path.write_text(textwrap.dedent(SWEEP).format(name=name, rows=max(1, n_trials // SEEDS)))
    return path


def options(store: Path, results: Path, n_trials: int, epochs: int = EPOCHS) -> list[str]:
    """The options of its command line; the tracking server is a file in the results folder."""
    settings = [f"{path}={value}" for path, value in {**SETTINGS, "training.epochs": epochs}.items()]
    places = ["--store", str(store), "--results", str(results), "--tracking-uri", f"sqlite:///{results}/mlflow.db"]
    return [
        *places,
        "--seeds",
        str(min(SEEDS, n_trials)),
        "--device",
        "cpu",
        *(word for s in settings for word in ("--set", s)),
    ]


def planned(
    script: Path, store: Path, results: ResultsFolder, n_trials: int, epochs: int = EPOCHS
) -> tuple[Plan, dict[str, Trial]]:
    """The plan of a sweep's file, as its command line makes it."""
    return make_plan(
        read_experiment(script, []),
        store=store,
        base=lambda _experiment, _method: TrainConfig(),
        settings={**SETTINGS, "training.epochs": epochs},
        seeds=range(1, min(SEEDS, n_trials) + 1),
        splits=("1",),
        results=results,
    )


def plant(folder: Path, store: Path, n_trials: int) -> Path:
    """Writes a results folder in which every trial of a sweep is finished and shipped; returns the sweep's file."""
    script, results = (
        write_script(folder, f"planted_{n_trials}", n_trials),
        ResultsFolder.at(folder / f"results_{n_trials}"),
    )
    plan, trials = planned(script, store, results, n_trials)
    model = _trained(folder / f"model_{n_trials}", next(iter(trials.values())))
    for number, trial in enumerate(trials.values()):
        _copy(model, results.trial(trial.identity), trial, 1 + 0.001 * (number % 97))
    plan.write()
    info = SweepInfo(name=plan.name, title=plan.title, command="planted", config={})
    write_sweep(results, info, "mucon", plan.rows)
    (results.path / "mlflow.db").touch()
    trials_shipped = {folder.identity: journal_bytes(folder) for folder in plan.tracked.folders}
    mark_shipped(
        plan.folder, f"sqlite:///{results.path}/mlflow.db", Shipped(sweep=plan.tracked.digest, trials=trials_shipped)
    )
    return script


def _trained(folder: Path, trial: Trial) -> TrialFolder:
    """One trial of one epoch, as a worker writes it."""
    results = ResultsFolder.at(folder)
    short = Trial.from_dict({**trial.to_dict(), "config": trial.config.override("training.epochs", 1).to_dict()})
    outcome = run_trial(short, results, device="cpu")
    assert outcome.state == "finished", outcome
    return results.trial(trial.identity)


def _copy(model: TrialFolder, folder: TrialFolder, trial: Trial, factor: float) -> None:
    """A finished trial with the records, scores and files of another one."""
    evaluation = trial.evaluation
    for source in sorted(model.path.rglob("*")):
        target = folder.path / source.relative_to(model.path)
        if source.is_dir():
            target.mkdir(parents=True)
        elif source.suffix in (".safetensors", ".npz"):
            os.link(source, target)
    records = [json.loads(line) for line in model.journal_path.read_text().splitlines()]
    epoch = next(record for record in records if record["kind"] == "epoch")
    epochs = [
        {**epoch, "step": step, "metrics": _scaled(epoch["metrics"], factor / step)} for step in range(1, EPOCHS + 1)
    ]
    lines = [*(record for record in records[:2]), *epochs, records[-1]]
    folder.journal_path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    own = {"identity": trial.identity, "evaluation": evaluation, "seed": trial.config.seed}
    result = json.loads(model.result_path(evaluation).read_text())
    result["scores"] = {name: _scaled(scores, factor) for name, scores in result["scores"].items()}
    for path in (path for path in sorted(model.path.rglob("*.json")) if "lease" not in path.name):
        value = {folder.trial_path.name: trial.to_dict(), "result.json": result}.get(
            path.name, json.loads(path.read_text())
        )
        value = {**value, **{name: one for name, one in own.items() if name in value}}
        if path.name == "trial.json":
            value = {**json.loads(path.read_text()), **value}
        (folder.path / path.relative_to(model.path)).write_text(json.dumps(value, indent=1))
    lease = next(model.path.glob("lease-*.json"))
    (folder.path / lease.name).write_text(lease.read_text())


def _scaled(values: dict[str, float | None], factor: float) -> dict[str, float | None]:
    return {name: None if value is None else value * factor for name, value in values.items()}
