"""What a dry run says of time and memory: its arithmetic on planted steps, and one measurement for real."""

import dataclasses
import json
from pathlib import Path

import pytest

from mucon.config import TrainConfig
from mucon.videos import videos_of, vocabulary_of
from storage import open_store
from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main
from sweeps.service.run.estimate import Estimate, estimate
from sweeps.service.run.measured_step import MOST_NUMBERS, MeasuredStep, measure_step, shortened, step_shape, typical
from sweeps.service.run.resources import Placement, Resources, place_trials
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.identity import evaluation_identity
from sweeps.service.trials.trial import Trial
from tests.sweeps import small

ON_TWO = Placement(device="cpu", each=Resources(cpus=1, gpus=0), slots=2)
STEP = MeasuredStep(
    seconds=0.5, processor_seconds=0.5, n_steps=4, n_frames=100, working_bytes=2**30, program_bytes=2**30
)


def made(trainings: tuple[float, ...], placement: Placement = ON_TWO, step: MeasuredStep = STEP) -> Estimate:
    return Estimate(trainings=trainings, placement=placement, memory=3 * 2**29, steps=(step,), n_shapes=1, epochs=6)


def test_lines_tell_slots_time_hours_memory_and_how_they_were_found() -> None:
    to_run, found, how = made((3600.0, 1800.0, 1800.0)).lines()
    assert to_run == "to run: 3 trainings, 2 at a time, on cpu, 1 CPU and 0 GPU for each trial"
    assert found == (
        "estimate: 1 h in all, 30 min to 1 h for each; 2 CPU-hours, 0 GPU-hours; up to 1.5 GiB of memory for each"
    )
    assert how.startswith("measured: 4 training steps here on a recording of 100 frames (500 ms each), stretched to")
    assert "6 epochs" in how
    assert "It is an estimate" in how


def test_a_shared_gpu_counts_by_its_share_and_a_cluster_is_not_guessed() -> None:
    place = Placement(device="cuda", each=Resources(cpus=2, gpus=0.25), slots=None)
    to_run, found, _ = made((3600.0, 3600.0), place).lines()
    assert "as many at a time as the cluster of RAY_ADDRESS has room for, on cuda" in to_run
    assert found.startswith("estimate: 2 h in all, one after another, 1 h for each; 4 CPU-hours, 0.5 GPU-hours; up to")
    assert found.endswith("1.5 GiB of GPU memory for each")


def test_a_busy_machine_is_told() -> None:
    *_, last = made((3600.0,), step=dataclasses.replace(STEP, processor_seconds=0.125)).lines()
    assert last == "other programs use this machine's cores: by itself it may take 15 min"


def test_seconds_follow_frames_epochs_predictions_and_what_is_done_already(tiny_store: Path, tmp_path: Path) -> None:
    store = open_store(tiny_store)
    train, test = (sum(video.n_frames for video in videos_of(store, "1", part)) for part in ("train", "test"))
    trial = small.make_trial(tiny_store, training__epochs=10)
    other = small.make_trial(tiny_store, training__epochs=10, decoding__length_prior="none")
    assert trial.identity == other.identity
    found = estimate([trial, other], tmp_path, ON_TWO, budget=0.5)
    (step,) = found.steps
    per_frame = step.seconds / step.n_frames
    assert found.trainings == pytest.approx([per_frame * (10 * train + (2 * train + 2 * test) / 3)])
    assert (found.epochs, found.n_shapes) == (10, 1)
    assert step.processor_seconds > 0
    assert step.n_steps >= 2
    assert 50e6 < found.memory < 4e9, "torch alone takes a few hundred MB, and these recordings next to nothing"

    folder = TrialFolder(tmp_path / "trials" / trial.identity)
    folder.path.mkdir(parents=True)
    folder.journal_path.write_text("".join(f'{{"kind": "epoch", "step": {step}}}\n' for step in range(1, 8)))
    assert estimate([trial], tmp_path, ON_TWO, budget=0.5).epochs == 3
    (folder.path / "result.json").write_text("{}")
    trained = estimate([other], tmp_path, ON_TWO, budget=0.5)
    assert trained.epochs == 0
    (again,) = trained.steps
    assert trained.trainings == pytest.approx([again.seconds / again.n_frames * test / 3])


def test_networks_are_measured_once_each_and_what_the_budget_leaves_out_is_told(
    tiny_store: Path, tmp_path: Path
) -> None:
    def trial(**settings: object) -> Trial:
        return small.make_trial(tiny_store, **settings)

    same = [trial(), trial(seed=2), trial(mask__shape="bell"), trial(training__epochs=7, loss__smoothing=0.3)]
    assert len({step_shape(one.config) for one in same}) == 1
    others = [trial(backbone__channels=32), trial(training__labelled=1.0), trial(loss__mutual_consistency=0.0)]
    assert len({step_shape(one.config) for one in same + others}) == 4
    found = estimate([*same, *others], tmp_path, ON_TWO, budget=1e-9)
    assert (len(found.steps), found.n_shapes, len(found.trainings)) == (1, 4, 7)
    assert "for 1 of 4 kinds of network" in list(found.lines())[2]


def test_a_measurement_leaves_nothing_and_long_recordings_are_cut(tiny_store: Path, tmp_path: Path) -> None:
    store = open_store(tiny_store)
    videos = videos_of(store, "1", "train")
    lengths = sorted(video.n_frames for video in videos)
    assert typical(videos, 6).n_frames == lengths[2]
    assert typical(videos, MOST_NUMBERS // 30).n_frames == 30
    cut = shortened(dataclasses.replace(videos[0], lengths=None), 20)
    assert (cut.n_frames, cut.lengths, len(cut.transcript), cut.features().shape) == (20, None, 1, (20, 6))
    config = TrainConfig().with_values({"backbone.pool_after": (1, 2), "training.labelled": 0.4})
    found = measure_step(config, shortened(videos[0], 40), vocabulary_of(store), device="cpu", seconds=0.2)
    assert found.n_frames == 40
    assert not list(tmp_path.iterdir())


def test_a_dry_run_ends_with_the_estimate_and_one_with_nothing_to_run_measures_nothing(
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

    for identity in cells:
        folder = tmp_path / "results" / "trials" / identity
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps(finished(identity)))
    assert main(EXPERIMENT, words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "to run: nothing"
    assert sum("  finished  " in line for line in lines) == 6


def finished(identity: str) -> dict[str, object]:
    """A result as short as a table can read."""
    evaluation = evaluation_identity({})
    scores = {prediction: {"mof": 0.5} for prediction in ("frames", "segments", "full")}
    facts = {"format_version": 1, "identity": identity, "evaluation": evaluation, "scores": scores}
    return {**facts, "per_video": [], "train_seconds": 1.0}


def test_a_trial_that_fits_nowhere_is_refused_before_anything_is_measured() -> None:
    with pytest.raises(ValueError, match="a trial must fit on a machine"):
        place_trials("cpu", "4096", "auto")
