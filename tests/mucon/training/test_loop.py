"""Training: the same bits however often it is interrupted, and refused requests."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.config import TrainConfig
from mucon.errors import Diverged, InputError, Interrupted
from mucon.inference import predict
from mucon.model import NetworkSize
from mucon.training import EpochReport, train
from mucon.training.feed import Feed
from mucon.training.loop import Loop, epoch_order, step_seed
from mucon.training.mucon_learner import MuConLearner
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from tests.helpers.factories import VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import refused

ROOT = Path(__file__).parents[3]
N_VIDEOS, N_EPOCHS = 3, 2
CONFIG = small_config(training__epochs=N_EPOCHS)


def digest(folder: Path) -> str:
    found = checkpoints.load(folder / "checkpoint")
    assert found.progress.finished
    return weights_sha256(found.model)


def train_small(folder: Path, config: TrainConfig = CONFIG, videos: list[Video] | None = None, **options) -> None:
    chosen = small_videos(N_VIDEOS) if videos is None else videos
    train(config, chosen, VOCABULARY, folder=folder, device="cpu", **options)


class StopAfter:
    """Returns true from the (k+1)-th call on."""

    def __init__(self, k: int) -> None:
        self.left = k

    def __call__(self) -> bool:
        self.left -= 1
        return self.left < 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[EpochReport]]:
    """The digest and the reports of an uninterrupted small run."""
    folder, reports = tmp_path_factory.mktemp("uninterrupted"), []
    train_small(folder, report=reports.append)
    return digest(folder), reports


def test_the_same_run_gives_the_same_bits_whatever_the_generators_were(tmp_path: Path, uninterrupted):
    torch.manual_seed(99)
    np.random.seed(99)
    random.seed(99)
    train_small(tmp_path)
    assert digest(tmp_path) == uninterrupted[0]


def test_another_seed_gives_other_bits(tmp_path: Path, uninterrupted):
    train_small(tmp_path, CONFIG.override("seed", 2))
    assert digest(tmp_path) != uninterrupted[0]


@pytest.mark.parametrize("k", range(N_VIDEOS * N_EPOCHS))
def test_a_run_stopped_before_any_step_and_resumed_gives_the_same_bits(tmp_path: Path, uninterrupted, k: int):
    with pytest.raises(Interrupted, match=f"stopped in epoch {k // N_VIDEOS + 1} after {k % N_VIDEOS} videos"):
        train_small(tmp_path, should_stop=StopAfter(k))
    progress = checkpoints.load(tmp_path / "checkpoint").progress
    assert (progress.epoch, progress.step_in_epoch, progress.finished) == (k // N_VIDEOS, k % N_VIDEOS, False)
    reports: list[EpochReport] = []
    train_small(tmp_path, report=reports.append)
    expected, whole = uninterrupted
    assert digest(tmp_path) == expected
    rest = whole[k // N_VIDEOS :]
    assert [r.losses for r in reports] == [r.losses for r in rest]
    assert [r.gradient_norms for r in reports] == [r.gradient_norms for r in rest]


def test_a_run_stopped_before_every_single_step_gives_the_same_bits(tmp_path: Path, uninterrupted):
    for _ in range(N_VIDEOS * N_EPOCHS - 1):
        with pytest.raises(Interrupted):
            train_small(tmp_path, should_stop=StopAfter(1))
    train_small(tmp_path)
    assert digest(tmp_path) == uninterrupted[0]


TRAIN = """
import sys
from pathlib import Path
from mucon import checkpoint_files
from tests.mucon.training.test_loop import train_small
if "{moment}".startswith("checkpoint.between"):  # a file system that cannot exchange two folders
    checkpoint_files.exchange = lambda first, second: False
train_small(Path(sys.argv[1]), checkpoint_seconds=0)
"""


@pytest.mark.parametrize(
    ("moment", "epoch"),
    [("training.step:5", 1), ("training.epoch:1", 0), ("checkpoint.weights:2", 1), ("checkpoint.between:1", 1)],
    ids=["in mid-epoch", "before a checkpoint", "in the checkpoint's weights", "between two checkpoints"],
)
def test_a_killed_run_leaves_a_complete_checkpoint_or_none_and_resumes_to_the_same_bits(
    tmp_path: Path, uninterrupted, moment: str, epoch: int
):
    environment = {**os.environ, "MUCON_FAILPOINT": f"{moment}:kill", "PYTHONPATH": str(ROOT)}
    line = [sys.executable, "-c", TRAIN.format(moment=moment), str(tmp_path)]
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert checkpoints.exists(tmp_path / "checkpoint") == (epoch > 0)
    if epoch:
        assert checkpoints.load(tmp_path / "checkpoint").progress.epoch == epoch
    train_small(tmp_path)
    assert digest(tmp_path) == uninterrupted[0]


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (0, [None, None, None, (1, 0), (1, 0), (1, 0)]),
        (1e-9, [None, None, (0, 1), (1, 0), (1, 0), (1, 1)]),
        (600, [None] * 6),
    ],
    ids=["after every epoch", "after every step", "at the end"],
)
def test_a_checkpoint_is_written_when_it_is_due_and_changes_no_bit(tmp_path: Path, uninterrupted, seconds, expected):
    """Before each step, and before the checkpoint that is due there: whole epochs and steps of the newest one."""
    folder, found = tmp_path / "checkpoint", []

    def should_stop() -> bool:
        progress = checkpoints.load(folder).progress if checkpoints.exists(folder) else None
        found.append(progress and (progress.epoch, progress.step_in_epoch))
        return False

    train_small(tmp_path, checkpoint_seconds=seconds, should_stop=should_stop)
    assert found == expected
    assert checkpoints.load(folder).progress.finished
    assert digest(tmp_path) == uninterrupted[0]


def test_a_run_that_dies_behind_a_checkpoint_within_an_epoch_resumes_from_there(tmp_path: Path, uninterrupted):
    calls = iter(range(N_VIDEOS * N_EPOCHS))

    def dies_before_the_last_step() -> bool:
        if next(calls) == N_VIDEOS * N_EPOCHS - 1:
            raise KeyboardInterrupt
        return False

    with pytest.raises(KeyboardInterrupt):
        train_small(tmp_path, checkpoint_seconds=1e-9, should_stop=dies_before_the_last_step)
    progress = checkpoints.load(tmp_path / "checkpoint").progress
    assert (progress.epoch, progress.step_in_epoch) == (1, N_VIDEOS - 2)
    reports: list[EpochReport] = []
    train_small(tmp_path, report=reports.append)
    assert digest(tmp_path) == uninterrupted[0]
    assert [r.losses for r in reports] == [r.losses for r in uninterrupted[1][1:]]


def test_a_run_that_ends_early_goes_on_to_the_same_bits(tmp_path: Path, uninterrupted):
    reports: list[EpochReport] = []
    for stop_after in (1, None):
        train_small(tmp_path, CONFIG.override("training.stop_after", stop_after), report=reports.append)
    assert digest(tmp_path) == uninterrupted[0]
    assert [(report.epoch, report.epochs, report.losses) for report in reports] == [
        (1, 1, uninterrupted[1][0].losses),
        (2, 2, uninterrupted[1][1].losses),
    ]


def test_a_run_that_has_gone_further_is_not_shortened(tmp_path: Path):
    train_small(tmp_path)
    with refused("conflict", "checkpoint", ("training.stop_after",)):
        train_small(tmp_path, CONFIG.override("training.stop_after", 1))


def test_a_finished_run_is_not_trained_again(tmp_path: Path):
    train_small(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "checkpoint").iterdir()}
    reports: list[EpochReport] = []
    train_small(tmp_path, report=reports.append)
    assert reports == []
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "checkpoint").iterdir()} == before


def test_the_order_in_which_videos_are_given_does_not_matter(tmp_path: Path, uninterrupted):
    train_small(tmp_path, videos=small_videos(N_VIDEOS)[::-1])
    assert digest(tmp_path) == uninterrupted[0]


def test_the_generators_and_the_number_of_threads_are_given_back(tmp_path: Path):
    torch.manual_seed(7)
    expected = torch.rand(3)
    before = torch.get_num_threads()
    torch.manual_seed(7)
    torch.set_num_threads(2)
    try:
        seen: list[int] = []
        train_small(tmp_path, report=lambda _: seen.append(torch.get_num_threads()))
        assert seen == [1] * N_EPOCHS
        assert torch.get_num_threads() == 2
        with pytest.raises(Interrupted):
            train_small(tmp_path / "stopped", should_stop=lambda: True)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("mask.shape", "bell", ("mask.shape",)),
        ("training.learning_rate", 0.02, ("training.learning_rate",)),
        ("training.epochs", N_EPOCHS + 1, ("training.epochs",)),
        ("seed", 5, ("seed",)),
    ],
)
def test_the_folder_of_another_run_is_refused_and_the_difference_named(tmp_path: Path, path, value, named):
    train_small(tmp_path)
    before = digest(tmp_path)
    with refused("conflict", str(tmp_path / "checkpoint"), named, n=1):
        train_small(tmp_path, CONFIG.override(path, value))
    assert digest(tmp_path) == before


def test_the_folder_of_a_run_on_other_actions_or_features_is_refused(tmp_path: Path):
    train_small(tmp_path)
    renamed = Vocabulary(("rest", "pour", "stir", "eat"), ("rest",))
    with refused("conflict", str(tmp_path), n=1):
        train(CONFIG, small_videos(N_VIDEOS), renamed, folder=tmp_path, device="cpu")
    with refused("conflict", str(tmp_path), n=1):
        train_small(tmp_path, videos=small_videos(N_VIDEOS, dim=6))


def test_another_decoding_or_number_of_threads_is_the_same_run(tmp_path: Path):
    train_small(tmp_path)
    train_small(tmp_path, CONFIG.with_values({"decoding.max_length": 9, "training.threads": 2}))
    assert checkpoints.load(tmp_path / "checkpoint").config.decoding.max_length is None


@pytest.mark.parametrize("rate", [1e12, 1e38])
def test_a_run_that_diverges_is_reported_and_leaves_no_weights_that_are_nan(tmp_path: Path, rate: float):
    config = CONFIG.with_values({"training.learning_rate": rate, "training.clip_norm": 1e30})
    with pytest.raises(Diverged, match=r"epoch \d .*'v\d+': .*training\.learning_rate"):
        train_small(tmp_path, config.override("training.epochs", 20))
    if checkpoints.exists(tmp_path / "checkpoint"):
        found = checkpoints.load(tmp_path / "checkpoint")
        assert all(torch.isfinite(p).all() for p in found.model.parameters())
        assert not found.progress.finished


def test_the_checkpoint_before_a_divergence_is_kept(tmp_path: Path):
    config = CONFIG.with_values(
        {
            "training.epochs": 4,
            "training.lr_drop_epoch": 1,
            "training.lr_drop_factor": 1e36,
            "training.clip_norm": 1e30,
        }
    )
    with pytest.raises(Diverged, match=r"diverged in epoch [23]"):
        train_small(tmp_path, config, checkpoint_seconds=0)
    found = checkpoints.load(tmp_path / "checkpoint")
    assert found.progress.epoch >= 1
    assert all(torch.isfinite(p).all() for p in found.model.parameters())


ODD = {
    "one frame": (make_video("a", (1,), (1,)),),
    "fewer frames than the pooling": (make_video("a", (1, 2), (2, 1)), make_video("b", (3,), (2,))),
    "one segment": (make_video("a", (2,), (40,)),),
    "more segments than latent frames": (make_video("a", (0, 1, 2, 3, 2, 1), (2, 1, 1, 1, 1, 1)),),
    "as many segments as frames": (make_video("a", (0, 1, 2, 3), (1, 1, 1, 1)),),
    "the same action twice in a row": (make_video("a", (1, 1, 2), (9, 8, 7)),),
    "only background": (make_video("a", (0,), (20,)),),
    "a segment of no frame": (make_video("a", (1, 3, 2), (9, 0, 7)),),
    "no lengths": (Video.from_arrays("a", np.random.default_rng(0).normal(size=(30, 5)), (1, 2)),),
}


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("shape", ["box", "bell"])
def test_odd_recordings_train_and_are_predicted(tmp_path: Path, name: str, shape: str):
    config = small_config(mask__shape=shape, mask__overlap=0.1, backbone__pool_after=(0, 1, 2, 3), training__epochs=3)
    reports: list[EpochReport] = []
    train_small(tmp_path, config, list(ODD[name]), report=reports.append)
    assert all(np.isfinite(list(report.metrics().values())).all() for report in reports)
    found = checkpoints.load(tmp_path / "checkpoint")
    for video in ODD[name]:
        for prediction in predict(found, video.features()).segmentations.values():
            assert prediction.n_frames in (video.n_frames, 0)


def test_videos_that_cannot_be_trained_on_are_refused_before_anything_is_written(tmp_path: Path):
    crowded = Video.from_arrays("crowded", np.zeros((2, 5)), (0, 1, 2))
    silent = Video.from_arrays("silent", np.zeros((9, 5)))
    with pytest.raises(InputError) as caught:
        train_small(tmp_path / "run", videos=[crowded, silent])
    assert [
        name in str(problem) for name, problem in zip(("crowded", "silent"), caught.value.problems, strict=True)
    ] == [True, True]
    assert not (tmp_path / "run").exists()


def test_a_transcript_may_be_half_as_long_again_as_the_longest_and_five_more(tmp_path: Path):
    train_small(tmp_path, videos=[make_video("a", (0, 1, 2), (5, 5, 5)), make_video("b", (1,), (9,))])
    size = checkpoints.load(tmp_path / "checkpoint").model.size
    assert size == NetworkSize(dim=5, n_actions=4, max_segments=10)


def test_an_epoch_is_reported_with_means_over_its_videos(tmp_path: Path):
    reports: list[EpochReport] = []
    train_small(tmp_path, CONFIG.override("training.lr_drop_epoch", 1), report=reports.append)
    assert [(r.epoch, r.epochs, r.step) for r in reports] == [(1, 2, 3), (2, 2, 6)]
    assert [r.learning_rate for r in reports] == pytest.approx([0.01, 0.001])
    for report in reports:
        losses, config = report.losses, CONFIG.loss
        weighted = sum(getattr(config, name) * value for name, value in losses.items() if name != "total")
        assert losses["total"] == pytest.approx(weighted, rel=1e-5)
        assert set(report.gradient_norms) == {"encoder", "decoder"}
        assert set(report.metrics()) >= {"loss.total", "gradient_norm.encoder", "learning_rate", "seconds"}
    assert reports[0].seconds < reports[1].seconds


def test_training_lowers_the_loss(tmp_path: Path):
    reports: list[EpochReport] = []
    config = small_config(training__epochs=60, training__learning_rate=0.1, training__lr_drop_fraction=1.0)
    train_small(tmp_path, config, report=reports.append)
    assert reports[-1].losses["total"] < 0.5 * reports[0].losses["total"]


def test_every_epoch_has_its_own_order_of_all_videos():
    orders = [epoch_order(50, seed, epoch) for seed in (1, 2) for epoch in range(3)]
    assert all(sorted(order) == list(range(50)) for order in orders)
    assert len({tuple(order) for order in orders}) == len(orders)
    seeds = {step_seed(seed, epoch, step) for seed in range(3) for epoch in range(3) for step in range(9)}
    assert len(seeds) == 81
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("resident", [True, False])
@pytest.mark.parametrize(
    "settings", [{}, {"mask.shape": "trapezoid", "mask.overlap": 0.1, "loss.consistency": "frame"}]
)
def test_a_step_reads_nothing_back_from_the_device(tmp_path: Path, settings, resident: bool):
    """Tensors on torch's `meta` device have no values: reading one (`item`, `tolist`, `numpy`, `cpu`, `if`) fails."""
    device = torch.device("meta")
    learner = MuConLearner(CONFIG.with_values(settings), small_videos(2), VOCABULARY, tmp_path, device, 5)
    loop = Loop(learner, tmp_path)
    loop.feed = Feed(learner.videos, device, torch.float32, resident=resident)
    for step in range(2):
        assert loop._step(step, 0, step, 0.01).device == device


@pytest.mark.parametrize(
    "read", [torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.numpy, torch.Tensor.cpu, bool, int, torch.nonzero]
)
def test_a_value_that_a_step_would_read_is_noticed(read):
    with pytest.raises((RuntimeError, TypeError, NotImplementedError)):
        read(torch.zeros((), device="meta"))
