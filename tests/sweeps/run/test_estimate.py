"""Estimates of time and memory: arithmetic on given steps, and real measurements."""

import dataclasses
import re
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from mucon.methods import method_named
from mucon.methods.mucon import MUCON
from mucon.training.measured_step import (
    MAX_FEATURE_VALUES,
    MeasuredStep,
    measure_step,
    shortened,
    typical,
)
from mucon.videos import videos_of, vocabulary_of
from storage import open_store
from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main
from sweeps.service.run.budget.price import Price
from sweeps.service.run.estimate import Estimate, estimate
from sweeps.service.run.resources import Placement, Resources, place_trials, resources
from sweeps.service.trials.continuing import linked
from sweeps.service.trials.identity import evaluation_identity
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial
from tests.helpers.refusals import refused
from tests.sweeps import small

ON_TWO = Placement(device="cpu", each=Resources(cpus=1, gpus=0), slots=2)
STEP = MeasuredStep(
    seconds=0.5,
    quartiles=(0.4, 0.6),
    processor_seconds=0.5,
    n_steps=4,
    n_frames=100,
    working_bytes=2**30,
    program_bytes=2**30,
)


def made(trainings: tuple[float, ...], placement: Placement = ON_TWO, step: MeasuredStep = STEP) -> Estimate:
    bounds = 0.8 * sum(trainings), 1.2 * sum(trainings)
    return Estimate(
        trainings=trainings,
        wholes=tuple(map(str, range(len(trainings)))),
        bounds=bounds,
        placement=placement,
        memory=3 * 2**29,
        steps=(step,),
        n_shapes=1,
        epochs=6,
    )


def numbers(line: str) -> list[str]:
    """The numbers of a line, with units of a time."""
    return re.findall(r"\d[\d.]*(?: (?:h|min|s|ms|d)\b)?", line)


def test_lines_have_slots_time_hours_memory_and_the_measurement() -> None:
    to_run, result, measured = made((3600.0, 1800.0, 1800.0)).lines()
    assert to_run.startswith("to run: 3 trainings, ")
    assert ", on cpu, " in to_run
    assert to_run.endswith(str(ON_TWO.each))
    assert numbers(to_run)[:2] == ["3", "2"]
    total, hours, memory = result.split("; ")
    assert total.startswith("estimate: ")
    assert numbers(total) == ["1 h", "30 min", "1 h"]
    assert hours == "2 CPU-hours, 0 GPU-hours"
    assert "1.5 GiB of memory" in memory
    assert measured.startswith("measured: ")
    assert numbers(measured) == ["4", "100", "500 ms", "6", "12 s", "0.25 s"]


def test_the_start_and_the_overhead_of_each_training_are_in_the_total() -> None:
    assert made((0.0,) * 200).seconds == 12 + 200 * 0.25 / 2
    assert made((4.0, 3.0, 2.0)).seconds == 12 + (3.25 + 2.25)
    continuing = dataclasses.replace(made((4.0, 3.0, 2.0)), wholes=("a", "b", "a"))
    assert continuing.seconds == 12 + (4.25 + 2.25), "two slots cannot share a training"


def test_a_shared_gpu_counts_by_its_share_and_the_size_of_a_cluster_is_not_guessed() -> None:
    place = Placement(device="cuda", each=Resources(cpus=2, gpus=0.25), slots=None)
    to_run, result, _, elsewhere = made((3600.0, 3600.0), place).lines()
    assert {"cpu;", "cluster"} <= set(elsewhere.split())
    assert {"RAY_ADDRESS,", "cuda,"} <= set(to_run.split())
    total, hours, memory = result.split("; ")
    assert numbers(total) == ["2 h", "1 h"]
    assert hours == "4 CPU-hours, 0.5 GPU-hours"
    assert "1.5 GiB of memory" in memory
    _, on_gpu, _ = dataclasses.replace(made((3600.0,), place), device="cuda").lines()
    assert "1.5 GiB of GPU memory" in on_gpu


def test_a_busy_machine_is_reported_with_the_estimate_for_an_idle_one() -> None:
    assert len(list(made((3600.0,)).lines())) == 3
    *_, last = made((3600.0,), step=dataclasses.replace(STEP, processor_seconds=0.125)).lines()
    assert numbers(last) == ["15 min", "3 s"]


def test_the_cost_has_the_range_of_the_steps_and_on_a_busy_machine_begins_at_that_of_an_idle_one() -> None:
    price = Price(10.0, "EUR")
    assert numbers(made((3600.0,)).cost(price)) == ["10", "8", "12", "10"]
    busy = made((3600.0,), step=dataclasses.replace(STEP, processor_seconds=0.125))
    assert numbers(busy.cost(price)) == ["10", "2", "12", "10"]


def test_seconds_follow_frames_epochs_predictions_and_finished_work(tiny_store: Path, tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    store = open_store(tiny_store)
    train, test = (sum(video.n_frames for video in videos_of(store, "1", part)) for part in ("train", "test"))
    trial = small.make_trial(tiny_store, training__epochs=10)
    other = small.make_trial(tiny_store, training__epochs=10, decoding__length_prior="none")
    assert trial.identity == other.identity
    both = estimate([trial, other], results, ON_TWO, budget=0.5)
    (step,) = both.steps
    per_frame = step.seconds / step.n_frames
    assert both.trainings == pytest.approx([per_frame * (10 * train + (2 * train + 2 * test) / 3)])
    assert (both.epochs, both.n_shapes) == (10, 1)
    assert both.bounds == pytest.approx([time / step.seconds * both.trainings[0] for time in step.quartiles])
    assert both.bounds[0] <= both.trainings[0] <= both.bounds[1]
    assert step.processor_seconds > 0
    assert step.n_steps >= 2
    assert 50e6 < both.memory < 4e9, "torch alone uses a few hundred MB, and these recordings almost nothing"

    own = small.make_trial(tiny_store, training__epochs=10, self_training__start=0.4)  # six epochs with new labels
    with_labels = estimate([own], results, ON_TWO, measured=both)
    assert with_labels.trainings == pytest.approx([per_frame * (10 * train + (2 * train + 6 * train + test) / 3)])

    folder = results.trial(trial.identity)
    folder.path.mkdir(parents=True)
    folder.journal_path.write_text("".join(f'{{"kind": "epoch", "step": {step}}}\n' for step in range(1, 8)))
    assert estimate([trial], results, ON_TWO, budget=0.5).epochs == 3
    folder.write_training(weights_sha256="0" * 64, train_seconds=1.0)
    trained = estimate([other], results, ON_TWO, budget=0.5)
    assert trained.epochs == 0
    (again,) = trained.steps
    assert trained.trainings == pytest.approx([again.seconds / again.n_frames * test / 3])


def test_trainings_that_continue_each_other_count_their_common_epochs_once(tiny_store: Path, tmp_path: Path) -> None:
    results = ResultsFolder(tmp_path)
    trials = [small.make_trial(tiny_store, training__epochs=10, training__stop_after=stop) for stop in (8, 3, 10)]
    chain = list(linked({trial.key: trial for trial in trials}).values())
    assert estimate(trials, results, ON_TWO, budget=0.5).epochs == 8 + 3 + 10
    given = estimate(chain, results, ON_TWO, budget=0.5)
    assert given.epochs == 10
    assert len({*given.wholes}) == 1
    assert given.seconds == pytest.approx(12 + sum(given.trainings) + 3 * 0.25)
    folder = results.trial(chain[0].identity)
    folder.path.mkdir(parents=True)
    folder.journal_path.write_text("".join(f'{{"kind": "epoch", "step": {step}}}\n' for step in range(1, 6)))
    assert estimate(chain, results, ON_TWO, measured=given).epochs == 3 + 3 + 2, "the training to 8 has begun alone"


def test_each_network_is_measured_once_and_the_lines_count_those_that_were_not(
    tiny_store: Path, tmp_path: Path
) -> None:
    def trial(**settings: object) -> Trial:
        return small.make_trial(tiny_store, **settings)

    same = [trial(), trial(seed=2), trial(mask__shape="bell"), trial(training__epochs=7, loss__smoothing=0.3)]
    assert len({MUCON.step_shape(one.config) for one in same}) == 1
    others = [trial(backbone__channels=32), trial(training__labelled=1.0), trial(loss__mutual_consistency=0.0)]
    assert len({MUCON.step_shape(one.config) for one in same + others}) == 4
    result = estimate([*same, *others], ResultsFolder(tmp_path), ON_TWO, budget=1e-9)
    assert (len(result.steps), result.n_shapes, len(result.trainings)) == (1, 4, 7)
    assert "1 of 4" in list(result.lines())[2]


def test_a_measurement_leaves_no_files_and_long_recordings_are_cut(tiny_store: Path, tmp_path: Path) -> None:
    store = open_store(tiny_store)
    videos = videos_of(store, "1", "train")
    lengths = sorted(video.n_frames for video in videos)
    assert typical(videos, 6).n_frames == lengths[2]
    assert typical(videos, MAX_FEATURE_VALUES // 30).n_frames == 30
    cut = shortened(dataclasses.replace(videos[0], lengths=None), 20)
    assert (cut.n_frames, cut.lengths, len(cut.transcript), cut.features().shape) == (20, None, 1, (20, 6))
    config = TrainConfig().with_values({"backbone.pool_after": (1, 2), "training.labelled": 0.4})
    step = measure_step(MUCON, config, shortened(videos[0], 40), vocabulary_of(store), device="cpu", seconds=0.2)
    assert step.n_frames == 40
    assert not list(tmp_path.iterdir())
    student, unlabelled = method_named("frame_mlp"), dataclasses.replace(shortened(videos[0], 40), lengths=None)
    taught = {"training.labelled": 0.0, "training.labels_from": "nowhere", "network.maps": 4}
    config = student.config().with_values(taught)
    step = measure_step(student, config, unlabelled, vocabulary_of(store), device="cpu", seconds=0.2)
    assert step.n_frames == 40


def test_steps_before_the_buffer_is_full_are_not_timed(tiny_store: Path) -> None:
    store, method = open_store(tiny_store), method_named("nnv")
    config = method.config().with_values({"network.hidden": 4, "network.window": 3, "buffer.ratio": 45.0})
    video = shortened(videos_of(store, "1", "train")[0], 5)
    assert method.short_steps(config) == 45
    assert measure_step(method, config, video, vocabulary_of(store), device="cpu", seconds=9).n_steps > 45
    assert measure_step(method, config, video, vocabulary_of(store), device="cpu", seconds=1e-9).n_steps == 2


def test_a_dry_run_ends_with_the_estimate_and_measures_nothing_if_nothing_is_missing(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--store", str(tiny_store), "--results", str(tmp_path / "results"), "--seeds", "1", "--device", "cpu"]
    words += ["--set", "backbone.pool_after=1,2", "--epochs", "3", "--dry-run"]
    assert main(EXPERIMENT, words) == 0
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split()[0] for line in lines if "  missing   " in line]
    assert len(cells) == 6
    first = next(i for i, line in enumerate(lines) if line.startswith("to run: 6 trainings"))
    assert [line.partition(":")[0] for line in lines[first : first + 3]] == ["to run", "estimate", "measured"]

    evaluation = evaluation_identity({})
    for identity in cells:
        folder = ResultsFolder(tmp_path / "results").trial(identity)
        folder.path.mkdir(parents=True)
        folder.write_result(evaluation, RESULT)
    assert main(EXPERIMENT, words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "to run: nothing"
    assert sum("  finished  " in line for line in lines) == 6


RESULT = {
    "scores": {prediction: {"mof": 0.5} for prediction in ("frames", "segments", "full")},
    "per_video": [],
    "train_seconds": 1.0,
}
"""The least that a table needs."""


def test_a_trial_that_fits_on_no_machine_is_refused_before_anything_is_measured() -> None:
    with refused("unsupported", place="--cpus-per-trial", value=(4096.0, 0.0), n=1):
        place_trials("cpu", "4096", "auto")


@pytest.mark.parametrize(
    ("cpus", "gpus", "place", "value"),
    [
        ("0", "auto", "--cpus-per-trial", "0"),
        ("many", "auto", "--cpus-per-trial", "many"),
        ("inf", "auto", "--cpus-per-trial", "inf"),
        ("1", "-1", "--gpus-per-trial", "-1"),
        ("1", "nan", "--gpus-per-trial", "nan"),
        ("1", "1.5", "--gpus-per-trial", "1.5"),
    ],
)
def test_invalid_resources_are_refused(cpus: str, gpus: str, place: str, value: str) -> None:
    with refused("range", place=place, value=value, n=1):
        resources(cpus, gpus, n_gpus=2)


@pytest.mark.parametrize(
    ("name", "settings", "epochs", "passes"),
    [
        ("mucon", {}, range(20), 0),
        ("mucon", {"training.epochs": 20, "self_training.start": 0.5, "self_training.refresh": 2}, range(20), 6),
        ("mucon", {"training.epochs": 20, "self_training.start": 0.5}, range(15, 20), 5),
        ("hmm_rnn", {"training.epochs": 20, "training.realign_every": 5}, range(20), 3),
        ("hmm_rnn", {"training.epochs": 20, "training.realign_every": 5}, range(12, 20), 1),
        ("isba", {"training.epochs": 20, "boundaries.loops": 4}, range(20), 3),
        ("nnv", {}, range(7), 0),
        ("ms_tcn", {}, range(7), 0),
    ],
)
def test_methods_state_the_predictions_between_their_epochs(
    name: str, settings: dict[str, object], epochs: range, passes: int
) -> None:
    method = method_named(name)
    assert method.passes_between(method.config().with_values(settings), epochs) == passes
