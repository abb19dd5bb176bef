"""NNV and what it shares with CDFL: alignments, schedules, the published decoder, the state of a run."""

from __future__ import annotations

import itertools
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.checkpoint_files import LEARNER
from mucon.decoding.published import published_lengths
from mucon.errors import Interrupted
from mucon.methods import method_named
from mucon.methods.cdfl.learner import CdflConfig
from mucon.methods.nnv import NnvConfig, NnvLearner
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import digest, small, train
from tests.mucon.training.test_loop import StopAfter

LONG = [make_video(f"l{k}", transcript, lengths) for k, (transcript, lengths) in enumerate(
    (((0, 1, 2), (40, 31, 26)), ((2, 0), (50, 33)), ((1, 3, 0), (35, 41, 30)))
)]  # fmt: skip
"""Recordings of whole steps of ten frames for each segment, and a rest."""


def learner(folder: Path, videos: list[Video], **settings: object) -> NnvLearner:
    config = small("nnv", **settings)
    return NnvLearner("nnv", config, videos, VOCABULARY, folder, torch.device("cpu"), videos[0].dim)


def test_the_first_alignment_has_equal_parts_where_the_posteriors_are_equal(tmp_path: Path):
    videos = [make_video("a", (0, 1, 2), (4, 20, 6)), make_video("b", (3, 0), (3, 9))]
    new = learner(tmp_path, videos)
    for index, (video, expected) in enumerate(zip(videos, ([10, 10, 10], [6, 6]), strict=True)):
        posteriors = torch.full((video.n_frames, 4), -math.log(4))
        assert new.align(index, posteriors, 0).lengths.tolist() == expected


@pytest.mark.parametrize("class_prior", [True, False])
def test_an_alignment_has_the_best_score_of_all(tmp_path: Path, class_prior: bool):
    videos = small_videos(4)
    filled = learner(tmp_path, videos, alignment__class_prior=class_prior)
    for step, index in enumerate((2, 0, 3)):
        filled.buffer.put(0, step, index, np.repeat(videos[index].transcript, videos[index].lengths))
    tiny = make_video("tiny", (0, 2, 1), (5, 3, 4))
    filled.transcripts[1], filled.videos[1] = np.array(tiny.transcript), tiny
    posteriors = torch.log_softmax(3 * torch.randn(12, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    prior, means = filled.buffer.prior(), filled.buffer.mean_lengths()

    def score(lengths: tuple[int, ...]) -> float:
        labels = np.repeat(tiny.transcript, lengths)
        frames = posteriors.numpy()[np.arange(12), labels] - (np.log(prior[labels]) if class_prior else 0)
        poisson = [n * math.log(means[a]) - means[a] - math.lgamma(n + 1) for a, n in zip(tiny.transcript, lengths)]  # noqa: B905
        return float(frames.sum()) + sum(poisson)

    best = max((cut for cut in itertools.product(range(1, 12), repeat=3) if sum(cut) == 12), key=score)
    found = filled.align(1, posteriors, 0)
    assert tuple(found.lengths.tolist()) == best
    assert found.labels.tolist() == np.repeat(tiny.transcript, best).tolist()


def test_a_step_learns_from_the_frames_of_its_video_and_from_drawn_ones(tmp_path: Path):
    videos = small_videos(4)
    one = learner(tmp_path, videos, buffer__ratio=2.0, buffer__minibatch=50)
    random = np.random.default_rng(0)
    labels = np.repeat(videos[1].transcript, videos[1].lengths)
    chosen, places, targets = one._examples(1, labels, random)
    assert sorted(zip(chosen.tolist(), places.tolist(), strict=True)) == [(1, t) for t in range(videos[1].n_frames)]
    assert targets.tolist() == labels[places].tolist()
    one.buffer.put(0, 0, 0, np.repeat(videos[0].transcript, videos[0].lengths))
    chosen, places, targets = one._examples(1, labels, random)
    drawn = min(2 * videos[1].n_frames, videos[0].n_frames)
    assert len(chosen) == videos[1].n_frames + drawn
    assert np.count_nonzero(chosen == 0) == drawn
    values = one.step(1, videos[1].features(), epoch=0, step=1, rate=0.01)
    assert values.shape == (2,)
    assert one.optimiser.n_steps == -(-len(chosen) // 50)


@pytest.mark.parametrize(
    ("name", "iterations", "drop", "own"),
    [
        ("nnv", 10_000, 0.25, {"buffer.ratio": 25.0}),
        ("cdfl", 100_000, 0.6, {"loss.scale": "published", "loss.discriminative": "released"}),
    ],
)
def test_the_published_schedule_has_the_iterations_of_the_released_program(
    name: str, iterations: int, drop: float, own: dict[str, object]
):
    method = method_named(name)
    config = method.for_videos(method.recipes["published_program"](), 1460)
    epochs = math.ceil(iterations / 1460)
    assert config.training.epochs == epochs
    assert (config.training.optimiser, config.training.learning_rate) == ("sgd", 0.01)
    assert [config.training.rate(epoch) for epoch in (0, epochs - 1)] == [0.01, pytest.approx(0.001)]
    assert config.training.drop_after == round(drop * epochs)
    assert {path: value for path, value in config.differences().items() if path in own} == own
    assert method.for_videos(config, 1460) == config
    chosen = method.config().with_values({"training.schedule": "published", "training.epochs": 3})
    assert method.for_videos(chosen, 1460).training.epochs == 3


def test_the_published_decoder_gives_its_labels_and_refuses_short_segments(tmp_path: Path):
    one = learner(tmp_path, LONG, alignment__decoder="published", alignment__step=10)
    posteriors = torch.log_softmax(torch.randn(97, 4, generator=torch.Generator().manual_seed(2)), dim=1)
    evidence = posteriors.numpy() - np.log(one.buffer.prior())
    labels, lengths, _ = published_lengths(evidence, (0, 1, 2), one.buffer.mean_lengths(), step=10)
    found = one.align(0, posteriors, 0)
    assert (found.labels.tolist(), found.lengths.tolist()) == (labels.tolist(), lengths.tolist())
    for name in ("nnv", "cdfl"):
        config = small(name, alignment__decoder="published", alignment__step=10, training__epochs=1)
        train(name, tmp_path / name, config, LONG)
        assert digest(name, tmp_path / name)
    with refused("mismatch", "l0: transcript", 3, n=2):
        learner(tmp_path, LONG, alignment__decoder="published", alignment__step=40)


@pytest.mark.parametrize("name", ["nnv", "cdfl"])
def test_facts_are_those_of_the_last_decoded_labels(tmp_path: Path, name: str):
    for prior in (True, False):
        train(name, tmp_path / str(prior), small(name, alignment__class_prior=prior))
        facts = method_named(name).load(tmp_path / str(prior) / "checkpoint").facts
        assert sum(facts.frame_shares) == pytest.approx(1)
        assert (len(set(facts.frame_shares)) == 1) is not prior
        assert facts.transcripts == tuple(sorted({video.transcript for video in small_videos(3)}))


@pytest.mark.parametrize("name", ["nnv", "cdfl"])
def test_a_run_whose_labels_are_lost_is_not_resumed(tmp_path: Path, name: str):
    with pytest.raises(Interrupted):
        train(name, tmp_path, should_stop=StopAfter(4))
    (tmp_path / "checkpoint" / LEARNER).unlink()
    with refused("mismatch", LEARNER, "labels", n=1):
        train(name, tmp_path)


@pytest.mark.parametrize(
    ("name", "base", "change"),
    [("nnv", {}, {"alignment.step": 7}), ("cdfl", {"loss.window": 0, "loss.step": 5}, {"loss.step": 2})],
)
def test_settings_without_effect_leave_the_bits(tmp_path: Path, name: str, base: dict, change: dict):
    before = small(name).with_values(base)
    after = before.with_values(change)
    assert before.canonical(labelled=False) == after.canonical(labelled=False)
    for folder, config in (("a", before), ("b", after)):
        train(name, tmp_path / folder, config)
    assert digest(name, tmp_path / "a") == digest(name, tmp_path / "b")


def test_settings_outside_their_range_are_refused():
    for path, value in (("buffer.ratio", -1.0), ("buffer.minibatch", 0), ("alignment.step", 0)):
        with refused("range", path, value, n=1):
            NnvConfig().override(path, value)
    for path, value in (("loss.window", 12), ("loss.window", -10), ("loss.step", 0)):
        with refused("range", path, value, n=1):
            CdflConfig().override(path, value)


def test_the_frames_of_a_step_determine_how_long_it_takes():
    method, config = method_named("nnv"), NnvConfig()
    assert method.step_shape(config) != method.step_shape(config.override("buffer.ratio", 25.0))
