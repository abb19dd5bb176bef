"""Self-training: labels get better, weak videos keep theirs to themselves, and interruptions change no bit."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from mucon.checkpoint_files import LEARNER
from mucon.errors import Diverged, Interrupted
from mucon.training import EpochReport
from mucon.training.loop import Loop
from mucon.training.mucon_learner import MuConLearner
from mucon.training.self_training import LENGTHS
from mucon.training.step import SUPERVISED_TERMS, TERMS
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.training.test_loop import StopAfter, digest, train_small

EPOCHS, N_VIDEOS = 5, 3
CONFIG = small_config(
    training__epochs=EPOCHS, self_training__start=0.2, self_training__settle=0.2, self_training__divided=1
)
"""One epoch each of plain training, `settle` and `divided`, and two of `consolidate`."""
MIXED = CONFIG.override("training.labelled", 0.3)
SOFT = CONFIG.with_values({"soft_alignment.weight": 2.0, "self_training.weight": 0.0})


class Sealed(Video):
    """A video whose annotation cannot be read."""

    def frame_labels(self) -> NoReturn:
        raise AssertionError("the labels of a weak video are read")

    @property
    def segmentation(self) -> NoReturn:
        raise AssertionError("the lengths of a weak video are read")


def sealed(video: Video, lengths: tuple[int, ...] | None = None) -> Video:
    values = {field.name: getattr(video, field.name) for field in dataclasses.fields(video)}
    return Sealed(**{**values, "lengths": lengths})


def heterogeneous(name: str) -> Video:
    """A recording with short rests between other actions, whose frames lie anywhere between those of all of these."""
    random = np.random.default_rng([7, *name.encode()])
    means = 1.2 * np.random.default_rng(3).normal(size=(4, 8))
    transcript = [0, *(action for one in random.permutation([1, 2, 3]).tolist() for action in (one, 0))]
    ranges = {0: (4, 12), 1: (40, 80), 2: (3, 6), 3: (20, 60)}
    lengths = [int(random.integers(*ranges[action])) for action in transcript]
    labels = np.repeat(transcript, lengths)
    between = 0.9 * random.dirichlet([0.6] * 3, size=len(labels)) @ means[1:]
    features = np.where(labels[:, None] == 0, between, means[labels]) + 0.4 * random.normal(size=(len(labels), 8))
    return Video.from_arrays(name, features.astype(np.float32), transcript, lengths)


def learner_of(config, videos: list[Video], folder: Path) -> MuConLearner:
    return MuConLearner(config, videos, VOCABULARY, folder, torch.device("cpu"), videos[0].dim)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_action_that_claims_too_much_after_plain_training_claims_less_and_labels_are_better(
    tmp_path: Path, seed: int
):
    videos = [heterogeneous(f"v{i:02}") for i in range(12)]
    config = small_config(
        training__epochs=16, training__learning_rate=0.03, training__progress_videos=0, seed=seed,
        self_training__start=0.4,
    )  # fmt: skip
    learner, accuracy, rest = learner_of(config, videos, tmp_path), [], []

    def report(_: EpochReport) -> None:
        lengths = learner.self_training.lengths
        if lengths:
            own = np.concatenate([np.repeat(v.transcript, own) for v, own in zip(videos, lengths, strict=True)])
            accuracy.append(np.mean(own == np.concatenate([v.frame_labels() for v in videos])))
            rest.append(np.mean(own == 0))

    Loop(learner, tmp_path).run(report)
    assert len(accuracy) == 10
    assert rest[0] > 0.9 > 0.75 > rest[-1]
    assert accuracy[-1] > accuracy[0] + 0.15


@pytest.fixture(scope="module", params=[CONFIG, MIXED, SOFT], ids=["weak", "mixed", "soft"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    """Configuration, digest and reports of an uninterrupted run."""
    folder, reports = tmp_path_factory.mktemp("whole"), []
    train_small(folder, request.param, report=reports.append)
    return request.param, digest(folder), reports


@pytest.mark.parametrize("k", range(EPOCHS * N_VIDEOS))
def test_a_run_stopped_before_any_step_gives_the_same_bits_and_reports(tmp_path: Path, whole, k: int):
    config, expected, reports = whole
    with pytest.raises(Interrupted):
        train_small(tmp_path, config, should_stop=StopAfter(k))
    rest: list[EpochReport] = []
    train_small(tmp_path, config, report=rest.append)
    assert digest(tmp_path) == expected
    assert [(r.losses, r.gradient_norms, r.learning_rate) for r in rest] == [
        (r.losses, r.gradient_norms, r.learning_rate) for r in reports[k // N_VIDEOS :]
    ]


def test_a_run_stopped_before_every_step_gives_the_same_bits(tmp_path: Path, whole):
    config, expected, _ = whole
    for _ in range(EPOCHS * N_VIDEOS - 1):
        with pytest.raises(Interrupted):
            train_small(tmp_path, config, should_stop=StopAfter(1))
    train_small(tmp_path, config)
    assert digest(tmp_path) == expected


def test_a_run_that_ends_early_goes_on_to_the_same_bits(tmp_path: Path, whole):
    config, expected, _ = whole
    for stop_after in (2, 3, None):
        train_small(tmp_path, config.override("training.stop_after", stop_after))
    assert digest(tmp_path) == expected


def test_labels_that_are_kept_for_some_epochs_survive_an_interruption(tmp_path: Path):
    config = CONFIG.override("self_training.refresh", 2)
    train_small(tmp_path / "whole", config)
    with pytest.raises(Interrupted):
        train_small(tmp_path / "run", config, should_stop=StopAfter(4 * N_VIDEOS))
    train_small(tmp_path / "run", config)
    assert digest(tmp_path / "run") == digest(tmp_path / "whole")


def test_the_terms_of_the_labels_begin_with_them_and_the_rate_drops_at_the_end(whole):
    config, _, reports = whole
    supervised = [*TERMS, *SUPERVISED_TERMS]
    plain = supervised if config.training.labelled else [*TERMS]
    soft = ["soft_alignment"] if config.soft_alignment.weight else []
    assert [list(report.losses) for report in reports] == [plain, *[[*supervised, *soft]] * 4]
    assert [report.learning_rate for report in reports] == [0.01] * 3 + [0.001] * 2


def test_the_frame_term_is_the_mean_over_all_videos_with_its_own_weight(tmp_path: Path):
    config = small_config(
        training__epochs=1, training__learning_rate=1e-12, self_training__start=0.0, self_training__weight=3.0,
        self_training__supervised_length=0.5, loss__frame=7.0, loss__supervised_length=7.0, loss__length_width=0.01,
        loss__length=0.2,
    )  # fmt: skip
    reports: list[EpochReport] = []
    train_small(tmp_path, config, report=reports.append)
    losses, weights = reports[0].losses, {"mutual_consistency": 1, "transcript": 1, "length": 0.2, "smoothing": 0.1}
    weights |= {"frame": 3.0, "supervised_length": 0.5}
    assert losses["length"] > 0
    assert losses["total"] == pytest.approx(sum(weight * losses[name] for name, weight in weights.items()), rel=1e-5)


def test_the_loss_of_soft_alignments_counts_for_videos_with_the_networks_own_labels(tmp_path: Path):
    config = small_config(
        training__epochs=1, training__learning_rate=1e-12, self_training__start=0.0, self_training__weight=0.0,
        soft_alignment__weight=5.0, loss__frame=0.0, loss__supervised_length=0.0, loss__length=0.0,
    )  # fmt: skip
    videos = small_videos(N_VIDEOS)
    learner = learner_of(config, [dataclasses.replace(videos[0], labelled=True), *videos[1:]], tmp_path)
    reports: list[EpochReport] = []
    Loop(learner, tmp_path).run(reports.append)
    losses = reports[0].losses
    weights = {"mutual_consistency": 1, "transcript": 1, "smoothing": 0.1, "soft_alignment": 5.0 * 2 / 3}
    assert losses["total"] == pytest.approx(sum(weight * losses[name] for name, weight in weights.items()), rel=1e-5)


@pytest.mark.parametrize("setting", ["soft_alignment.weight", "soft_alignment.window", "soft_alignment.temperature"])
def test_soft_alignments_have_an_effect_beside_self_training_alone(setting: str):
    assert SOFT.canonical() != SOFT.override(setting, 7).canonical()
    off = SOFT.override("self_training.start", 1.0)
    assert off.canonical() == off.override(setting, 7).canonical() == small_config(training__epochs=EPOCHS).canonical()


def test_weak_videos_are_never_asked_for_their_labels(tmp_path: Path):
    config = CONFIG.override("training.progress_videos", 0)
    videos = small_videos(N_VIDEOS)
    for name, lengths in (("unknown", lambda _: None), ("known", lambda video: video.lengths)):
        train_small(tmp_path / name, config, [sealed(video, lengths(video)) for video in videos])
    assert digest(tmp_path / "unknown") == digest(tmp_path / "known")


def test_labelled_videos_keep_their_labels_and_the_others_are_aligned_by_their_lengths(tmp_path: Path):
    config = CONFIG.override("training.progress_videos", 0)
    labelled = dataclasses.replace(small_videos(1)[0], labelled=True)
    learner = learner_of(config, [labelled, *map(sealed, small_videos(N_VIDEOS)[1:])], tmp_path)
    Loop(learner, tmp_path).run()
    assert learner.self_training.labels(0) is None
    assert learner.self_training.lengths[0].tolist() == list(labelled.lengths)
    for index in (1, 2):
        own = learner.self_training.labels(index)
        assert own.labels.tolist() == np.repeat(learner.videos[index].transcript, own.lengths).tolist()


def test_videos_of_one_segment_and_of_as_many_segments_as_frames_train_through_all_phases(tmp_path: Path):
    videos = [make_video("one", (1,), (12,)), make_video("each", (0, 2, 0), (1, 1, 1)), make_video("frame", (2,), (1,))]
    learner = learner_of(CONFIG, videos, tmp_path)
    Loop(learner, tmp_path).run()
    assert [own.tolist() for own in learner.self_training.lengths] == [[12], [1, 1, 1], [1]]


@pytest.mark.parametrize("first", ["settle", "divided", "consolidate"])
def test_self_training_may_begin_at_once_and_with_any_phase(tmp_path: Path, first: str):
    values = {"settle": (1.0, 0), "divided": (0.0, 9), "consolidate": (0.0, 0)}[first]
    config = CONFIG.with_values(
        {"self_training.start": 0.0, "self_training.settle": values[0], "self_training.divided": values[1]}
    )
    train_small(tmp_path / "whole", config)
    for k in (0, 1):
        with pytest.raises(Interrupted):
            train_small(tmp_path / str(k), config, should_stop=StopAfter(k))
        train_small(tmp_path / str(k), config)
        assert digest(tmp_path / str(k)) == digest(tmp_path / "whole")


def without(state: dict) -> dict:
    return {}


def longer(state: dict) -> dict:
    return {LENGTHS: torch.cat((state[LENGTHS], torch.ones(1, dtype=torch.int64)))}


def negative(state: dict) -> dict:
    return {LENGTHS: state[LENGTHS] + torch.tensor([-99, 99, *[0] * (len(state[LENGTHS]) - 2)])}


def of_other_videos(state: dict) -> dict:
    return {LENGTHS: state[LENGTHS].flip(0)}


def of_another_type(state: dict) -> dict:
    return {LENGTHS: state[LENGTHS].float()}


@pytest.mark.parametrize("change", [without, longer, negative, of_other_videos, of_another_type])
def test_labels_that_do_not_fit_the_videos_are_refused(tmp_path: Path, change):
    with pytest.raises(Interrupted):
        train_small(tmp_path, CONFIG, should_stop=StopAfter(2 * N_VIDEOS))
    path = tmp_path / "checkpoint" / LEARNER
    save_file(change(load_file(path)), path)
    with refused("damaged", LENGTHS, n=1):
        train_small(tmp_path, CONFIG)


def test_frames_without_probabilities_end_the_training_with_the_name_of_the_video(tmp_path: Path):
    learner = learner_of(CONFIG, small_videos(N_VIDEOS), tmp_path)
    with torch.no_grad():
        learner.model.frame_branch.bias.fill_(torch.nan)
    with pytest.raises(Diverged, match="before epoch 2 at video 'v00'"):
        learner.begin_epoch(1)
