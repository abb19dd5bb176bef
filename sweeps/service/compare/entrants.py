"""What is compared: trials, runs, exported models, and rows of sweeps with all their seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mucon.checkpoint_files import exists, of_run, trained_on
from mucon.configuration import DEFAULT_METHOD
from mucon.errors import InputError, Problem, nearest
from mucon.identity.trained_on import TrainedOn
from mucon.videos import ScoredPart
from storage import Store, StoreError
from storage.held_out import held_out
from storage.remote.addresses import StorePlace
from sweeps.service.triage.naming import Place, places_of
from sweeps.service.trials.folder import check_details
from sweeps.service.trials.reading import TrialReading
from sweeps.service.trials.results_folder import ResultsFolder

Segments = Mapping[str, Mapping[str, Any]]
"""Video -> action names (`transcript`) and `lengths` in frames, see `TrialReading.segments`."""

COMPARED = "compared"
"""Key of the compared prediction in `Entrant.per_video`."""
REGISTERED = "models:/"
"""Beginning of the address of a registered model."""
MAIN = "full"
"""The prediction that is compared by default, where there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """A trained model with one evaluation.

    Attributes:
        name: identity of the trial, or folder.
        trial: what was trained, as in trial.json; entries may be missing.
        environment: where it was trained; empty if unknown.
        result: the evaluation, as in result.json.
        segments: returns the segments of a prediction; None if they are not recorded.
        trained_on: the data of the training; None if they are not recorded.
        patch: `git diff` of the working copy that trained it; empty without one.
    """

    name: str
    trial: Mapping[str, Any]
    environment: Mapping[str, Any]
    result: Mapping[str, Any]
    segments: Callable[[str], Segments | None]
    trained_on: TrainedOn | None = None
    patch: str = ""

    @property
    def method(self) -> str:
        """Name of the method."""
        return str(self.trial.get("method", DEFAULT_METHOD))


@dataclass(frozen=True, slots=True, kw_only=True)
class Entrant:
    """One side of a comparison.

    Attributes:
        name: as it is printed.
        trainings: one, or the finished seeds of a row.
        prediction: the compared prediction.
        row: `SWEEP: ROW, split SPLIT`; empty if no sweep contains it.
        seeds: seed -> `per_video` of each finished training of the row on the split; empty without a row.
        without: seed -> why its training has no result.
    """

    name: str
    trainings: tuple[Training, ...]
    prediction: str
    row: str = ""
    seeds: Mapping[int, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    without: Mapping[int, str] = field(default_factory=dict)

    @property
    def first(self) -> Training:
        """The training whose segmentations are drawn."""
        return self.trainings[0]

    def per_video(self) -> list[dict[str, Any]]:
        """Each video with its scores under `COMPARED`: means over the trainings, where all define them."""
        tables = [{row["id"]: row for row in training.result["per_video"]} for training in self.trainings]
        common = [id for id in tables[0] if all(id in table for table in tables)]
        rows = []
        for id in common:
            scores = [table[id].get(self.prediction, {}) for table in tables]
            values = {name: [one.get(name) for one in scores] for name in scores[0]}
            means = {name: sum(of) / len(of) if None not in of else None for name, of in values.items()}
            rows.append({"id": id, "n_frames": tables[0][id].get("n_frames"), COMPARED: means})
        return rows

    def detail(self, training: Training, name: str) -> Any:
        """`recall` or `confusion` of the compared prediction in a training's result; empty if it is not recorded."""
        return training.result.get(name, {}).get(self.prediction, {})

    @property
    def actions(self) -> list[str]:
        """The actions in the order of the vocabulary; empty if they are not recorded."""
        return list(self.detail(self.first, "recall"))

    @property
    def segments(self) -> Segments | None:
        """The segments of the first training; None if they are not recorded."""
        return self.first.segments(self.prediction)


def entrant(
    results: ResultsFolder,
    text: str,
    prediction: str | None = None,
    *,
    split: str = "1",
    store: StorePlace | None = None,
    part: ScoredPart | None = None,
) -> Entrant:
    """The trial, run, exported or registered model or row that a text names.

    Args:
        results: the results folder.
        text: identity or directory of a trial, folder of a run or of an exported model, address of a registered model,
            or `SWEEP:ROW`.
        prediction: the compared prediction; by default that of the row, else `full`, or the first one without it.
        split: split of a row.
        store: where a run is scored; by default the store it was trained on.
        part: part of its split on which a run is scored; by default the validation part if that alone is missing among
            its training recordings, else the test part.

    Raises:
        InputError: nothing has that name, nothing is evaluated yet, or there is no such prediction.
    """
    sweep, colon, row = text.partition(":")
    if colon and (results.sweep(sweep) / "plan.json").exists():
        found = _row(results, text, sweep, row.strip(), split)
    else:
        found = _alone(results, text, store, part)
    chosen = replace(found, prediction=prediction or found.prediction)
    for training in found.trainings:
        _check_prediction(training, chosen.prediction)
    return chosen


def _alone(results: ResultsFolder, text: str, store: StorePlace | None, part: ScoredPart | None) -> Entrant:
    """A trial with the other seeds of its row, or a model outside of results folders."""
    folder = Path(text)
    if text.startswith(REGISTERED):
        from sweeps.service.track.registry import fetch_once

        folder = fetch_once(text, results.path)
    try:
        reading = TrialReading(results.find_trial(str(folder)))
    except InputError:
        if not exists(of_run(folder)):
            raise
        scored = replace(_scored(folder, store, part), name=text)
        return Entrant(name=text, trainings=(scored,), prediction=_main(scored))
    result = reading.first_result
    if result is None:
        place = str(reading.folder.path)
        raise InputError(Problem(rule="missing", place=place, message="the trial has no result yet"))
    training = _training(reading, result)
    own = ResultsFolder(reading.folder.path.parent.parent)
    key = (training.name, result.get("evaluation"))
    places = list(places_of(own))
    shown = [one for one in places if (one.cell.identity, one.cell.evaluation) == key]
    if not shown:
        return Entrant(name=training.name, trainings=(training,), prediction=_main(training))
    found, without = _results(own, _of_row(places, shown[0]))
    seeds = {one.cell.seed: of["per_video"] for one, of in found}
    return Entrant(
        name=training.name,
        trainings=(training,),
        prediction=_main(training),
        row=_title(shown[0]),
        seeds=seeds,
        without=without,
    )


def _row(results: ResultsFolder, text: str, sweep: str, row: str, split: str) -> Entrant:
    places = list(places_of(results, sweep))
    of_row = [one for one in places if row in (one.cell.variant.name, f"{one.table}: {one.cell.variant.name}")]
    chosen = [one for one in of_row if one.cell.split == split]
    if not chosen:
        names = sorted({one.cell.split if of_row else one.cell.variant.name for one in of_row or places})
        value = split if of_row else row
        message = f"unknown {'split' if of_row else 'row'} {value!r}{nearest(value, names)}"
        raise InputError(Problem(rule="unknown", place=sweep, value=value, message=message))
    tables = sorted({one.table for one in chosen})
    if len(tables) > 1:
        message, hint = f"several tables have the row {row!r}", f"write {sweep}:{tables[0]}: {row}"
        raise InputError(Problem(rule="duplicate", place=sweep, value=row, message=message, hint=hint))
    found, without = _results(results, _of_row(places, chosen[0]))
    if not found:
        message = "no seed of this row has a result yet"
        raise InputError(Problem(rule="missing", place=sweep, value=row, message=message))
    trainings = tuple(_training(results.reading(place.cell.identity), of) for place, of in found)
    seeds = {place.cell.seed: of["per_video"] for place, of in found}
    return Entrant(
        name=text,
        trainings=trainings,
        prediction=chosen[0].cell.variant.prediction or _main(trainings[0]),
        row=_title(chosen[0]),
        seeds=seeds,
        without=without,
    )


def _of_row(places: Sequence[Place], place: Place) -> list[Place]:
    """The seeds of a cell's row on its split."""
    key = (place.sweep, place.table, place.cell.variant.labels, place.cell.split)
    return [one for one in places if (one.sweep, one.table, one.cell.variant.labels, one.cell.split) == key]


def _title(place: Place) -> str:
    return f"{place.sweep}: {place.cell.variant.name}, split {place.cell.split}"


def _results(
    results: ResultsFolder, cells: Sequence[Place]
) -> tuple[list[tuple[Place, dict[str, Any]]], dict[int, str]]:
    """The cells with their results, and seed -> why there is none."""
    found, without = [], {}
    for place in cells:
        reading = results.reading(place.cell.identity)
        try:
            result = reading.result(place.cell.evaluation)
            if result is not None:
                check_details(reading.folder.result_path(place.cell.evaluation), result)
                found.append((place, result))
            else:
                without[place.cell.seed] = str(reading.state(place.cell.evaluation)[0])
        except InputError as error:
            without[place.cell.seed] = error.line
    return found, without


def _training(reading: TrialReading, result: Mapping[str, Any]) -> Training:
    folder = reading.folder
    evaluation = str(result["evaluation"])
    check_details(folder.result_path(evaluation), result)
    checkpoint = of_run(folder.run_path)
    patch = folder.patch_path.read_text(encoding="utf-8", errors="replace") if folder.patch_path.exists() else ""
    return Training(
        name=folder.identity,
        trial=reading.trial,
        environment=reading.training_environment or reading.environment,
        result=result,
        segments=lambda prediction: reading.segments(evaluation, prediction),
        trained_on=trained_on(checkpoint) if exists(checkpoint) else None,
        patch=patch,
    )


def _scored(folder: Path, store: StorePlace | None, part: ScoredPart | None) -> Training:
    """A run or an exported model, scored now on a part of its split, see `entrant`.

    Raises:
        InputError: a damaged folder, or recordings that are not there or do not fit the model.
    """
    import mucon
    from mucon.commands.history import last_environment
    from mucon.device import usable_cpus
    from mucon.evaluation import evaluate
    from mucon.export.folder import members_of
    from mucon.library import load_predictor
    from mucon.videos import check_same_data, training_videos_of, videos_of, vocabulary_of
    from storage import open_store

    predictor = load_predictor(folder, "cpu")
    data = predictor.trained_on
    place = store or (data and data.source.store)
    if not place or data is None or data.source.split is None:
        message, hint = "its store or split is not recorded", "pass a run of this version, and its store with --store"
        raise InputError(Problem(rule="missing", place=str(folder), message=message, hint=hint))
    opened, split = open_store(place), data.source.split
    check_same_data(predictor.vocabulary, predictor.dim, vocabulary_of(opened), opened.manifest.dim)
    part = part or _part_for(data, opened, split)
    evaluation = evaluate(
        predictor,
        videos_of(opened, split, part),
        fps=opened.manifest.fps,
        training_videos=training_videos_of(opened, split, part),
        threads=usable_cpus(),
    )
    actions = predictor.vocabulary.actions
    segments = {
        prediction: {
            id: {"transcript": [actions[action] for action in one.transcript], "lengths": one.lengths.tolist()}
            for id, one in of.items()
        }
        for prediction, of in evaluation.segmentations.items()
    }
    config, environment = predictor.config.to_dict(), last_environment(folder)
    numerics = {name: environment[name] for name in ("numerics",) if name in environment}
    trial = {**numerics, "method": predictor.method, "config": config, "split": split, "seed": config.get("seed")}
    if len(members := members_of(of_run(folder))) > 1:
        trial |= {"members": len(members), "seed": ", ".join(str(one.seed) for one in members)}
    return Training(
        name=str(folder),
        trial={**trial, "part": part, "store": opened.address},
        environment=environment,
        result={**evaluation.to_dict(), "evaluation_version": mucon.EVALUATION},
        segments=segments.get,
        trained_on=data,
    )


def _part_for(data: TrainedOn, store: Store, split: str) -> ScoredPart:
    """The part for which a model was trained: it has learnt from all training recordings but those of that part."""
    training = set(store.split(split, "train"))
    left_out = training - set(data.recordings)
    try:
        is_held_out = set(data.recordings) < training and left_out == set(held_out(store, split).validation)
    except StoreError:
        is_held_out = False
    return "validation" if is_held_out else "test"


def _predictions(training: Training) -> list[str]:
    """The predictions that are scored."""
    values = {name: value for row in training.result["per_video"] for name, value in row.items()}
    return [name for name, value in values.items() if isinstance(value, dict)]


def _main(training: Training) -> str:
    known = _predictions(training)
    return MAIN if MAIN in known or not known else known[0]


def _check_prediction(training: Training, prediction: str) -> None:
    known = _predictions(training)
    if prediction not in known:
        expected = f"a prediction of it: {', '.join(sorted(known))}"
        raise InputError(Problem(rule="unknown", place=training.name, value=prediction, expected=expected))
