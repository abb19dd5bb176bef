"""The HMM/RNN: division into states by hand, alignment and search against all paths, what training starts from."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon.decoding.length_priors import GeometricPerClass
from mucon.methods import method_named
from mucon.methods.frames.networks import FrameEnsemble
from mucon.methods.hmm_rnn.config import HmmConfig
from mucon.methods.hmm_rnn.learner import HmmLearner
from mucon.methods.hmm_rnn.network import HmmNetworkConfig, StateClassifier
from mucon.methods.hmm_rnn.states import States, labels, path_of
from mucon.training.optimiser import Optimiser
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.oracles_decoding import best_score_of_all
from tests.mucon.methods.test_table import digest, small, train

COUNTS = np.array([2, 1, 3])
WIDTH = 4


def learner(tmp_path: Path, **settings: object) -> HmmLearner:
    """A learner of three small videos before its first step."""
    config = small("hmm_rnn", **settings)
    return HmmLearner("hmm_rnn", config, small_videos(3), VOCABULARY, tmp_path, torch.device("cpu"), 5)


def test_a_transcript_passes_through_the_states_of_its_actions_from_left_to_right():
    path, segments = path_of(np.array([2, 0, 1]), COUNTS, WIDTH, n_frames=6)
    assert path.tolist() == [8, 9, 10, 0, 1, 4]
    assert segments.tolist() == [0, 0, 0, 1, 1, 2]


@pytest.mark.parametrize(
    ("n_frames", "expected"), [(5, [8, 9, 0, 1, 4]), (4, [8, 0, 4]), (3, [8, 0, 4]), (2, [8, 0, 4])]
)
def test_a_short_recording_passes_through_fewer_states_of_each_action(n_frames: int, expected: list[int]):
    """Three segments have at least three states, also where there are fewer frames and no alignment exists."""
    assert path_of(np.array([2, 0, 1]), COUNTS, WIDTH, n_frames)[0].tolist() == expected


def test_the_frames_of_a_segment_are_shared_out_among_its_states():
    found = labels(np.array([0, 2, 2, 1]), np.array([5, 7, 2, 1]), COUNTS, WIDTH)
    assert found.tolist() == [0, 0, 0, 1, 1, 8, 8, 8, 9, 9, 10, 10, 8, 9, 4]


def test_shares_and_mean_visits_of_states_are_counted_and_states_without_frames_have_the_means():
    states = States.estimated([np.array([0, 1, 1]), np.array([0])], [np.array([4, 3, 1]), np.array([2])], COUNTS, 4)
    shares = {0: 3 / 10, 1: 3 / 10, 4: 4 / 10}
    means = {0: 3 / 2, 1: 3 / 2, 4: 4 / 2}
    np.testing.assert_allclose(np.exp(states.log_prior), [shares.get(one, 1 / 3) for one in range(12)])
    np.testing.assert_allclose(states.means, [means.get(one, 10 / 6) for one in range(12)])


def planted(seed: int) -> tuple[States, np.ndarray]:
    """Random statistics, and log posteriors `[T, 12]`."""
    random = np.random.default_rng(seed)
    T = int(random.integers(3, 9))
    states = States(COUNTS, WIDTH, np.log(random.dirichlet(np.ones(12))), random.choice([1.0, 1.5, 4.0], 12))
    return states, np.log(random.dirichlet(np.ones(12), T)).astype(np.float32)


def best_of_all(states: States, log_probs: np.ndarray, transcript: tuple[int, ...]) -> float:
    """The score of the best of all ways through the states of a transcript."""
    path, _ = path_of(np.array(transcript), states.counts, states.width, len(log_probs))
    table = GeometricPerClass(states.means).terms(path, len(log_probs)).table()
    return best_score_of_all(log_probs - states.log_prior, path, table)


@pytest.mark.parametrize("seed", range(10))
def test_the_search_is_the_best_of_all_paths_of_all_transcripts(seed: int):
    states, log_probs = planted(seed)
    transcripts = (*itertools.product(range(3), repeat=2), (1,), (2, 0, 1), (0, 1, 0, 1, 0, 1, 0, 1, 0))
    found = states.best(log_probs, transcripts)
    scores = {one: best_of_all(states, log_probs, one) for one in transcripts if len(one) <= len(log_probs)}
    assert scores[tuple(found.transcript.tolist())] == pytest.approx(max(scores.values()), rel=1e-9)
    assert found.lengths.tolist() == states.align(log_probs, found.transcript).tolist()
    assert found.n_frames == len(log_probs)


def test_a_planted_path_is_found():
    states = States.estimated([np.array([0, 2, 1])], [np.array([8, 15, 4])], COUNTS, WIDTH)
    truth = labels(np.array([0, 2, 1]), np.array([6, 18, 3]), COUNTS, WIDTH)
    log_probs = np.where(np.arange(12) == truth[:, None], 0.0, -5.0)
    assert states.align(log_probs, (0, 2, 1)).tolist() == [6, 18, 3]
    assert states.best(log_probs, ((2, 0, 1), (0, 2, 1), (0, 1))).transcript.tolist() == [0, 2, 1]


def test_training_starts_from_equal_segments_and_equal_numbers_of_states(tmp_path: Path):
    one = learner(tmp_path, network__max_states=9, training__frames_per_state=4)
    frames, segments = sum(v.n_frames for v in one.videos), sum(len(v.transcript) for v in one.videos)
    assert one.network.output.counts.tolist() == [-(-frames // (4 * segments))] * 4
    for video, lengths, targets in zip(one.videos, one.lengths, one.targets, strict=True):
        assert np.ptp(lengths) <= 1
        assert (targets.numpy() // 9).tolist() == np.repeat(video.transcript, lengths).tolist()


def test_new_alignments_give_new_numbers_of_states(tmp_path: Path):
    one = learner(tmp_path, network__max_states=9, training__realign_every=2)
    before = one.network.output.counts.tolist()
    one.begin_epoch(0)
    one.begin_epoch(1)
    assert one.network.output.counts.tolist() == before
    one.begin_epoch(2)
    lengths = [one.aligned(index).tolist() for index in range(3)]
    assert [own.sum() for own in one.lengths] == [sum(own) for own in lengths]
    of_action = [[] for _ in range(4)]
    for transcript, own in zip(one.transcripts, one.lengths, strict=True):
        for action, length in zip(transcript, own, strict=True):
            of_action[action].append(length)
    assert one.network.output.counts.tolist() == [max(int(np.mean(found)) // 4, 1) for found in of_action]


def test_outputs_that_are_not_in_use_have_no_probability_and_no_gradient():
    network = HmmNetworkConfig(hidden=4, window=3, max_states=4).build(5, 3)
    assert isinstance(network, StateClassifier)
    network.output.counts.copy_(torch.from_numpy(COUNTS))
    features = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    log_probs = network(features)
    in_use = [0, 1, 4, 8, 9, 10]
    assert torch.isneginf(log_probs[:, [i for i in range(12) if i not in in_use]]).all()
    torch.testing.assert_close(log_probs.exp().sum(1), torch.ones(6))
    torch.testing.assert_close(network.frame_log_probs(features).exp().sum(1), torch.ones(6))
    torch.testing.assert_close(network(features, torch.tensor([4, 0])), log_probs[[4, 0]])
    log_probs[:, 9].sum().backward()
    assert torch.isfinite(network.windows.output.bias.grad).all()
    assert network.windows.output.bias.grad[[2, 3, 5, 6, 7, 11]].abs().max() == 0


def test_an_alignment_after_the_last_epoch_has_no_effect(tmp_path: Path):
    configs = [small("hmm_rnn", training__realign_every=n) for n in (2, 7)]
    assert configs[0].canonical() == configs[1].canonical()
    for name, config in zip("ab", configs, strict=True):
        train("hmm_rnn", tmp_path / name, config)
    assert digest("hmm_rnn", tmp_path / "a") == digest("hmm_rnn", tmp_path / "b")


def test_the_published_schedule_has_eight_alignments():
    config = HmmConfig().override("training.schedule", "published").for_videos(1460)
    training = config.training
    assert (training.optimiser, training.learning_rate, training.epochs) == ("sgd", 1.0, 40)
    assert training.epochs / training.realign_every == 8
    kept = HmmConfig().with_values({"training.schedule": "published", "training.epochs": 3}).for_videos(1460)
    assert kept.training.epochs == 3


def test_recordings_shorter_than_their_states_are_trained_on_and_predicted(tmp_path: Path):
    config = small("hmm_rnn", network__max_states=20, training__frames_per_state=1)
    videos = [*small_videos(3), make_video("short", (1, 2), (1, 2))]
    train("hmm_rnn", tmp_path, config, videos)
    predictor = method_named("hmm_rnn").load(tmp_path / "checkpoint")
    assert int(predictor.classifier.output.counts.max()) > 3
    found = predictor.begin(videos[-1].features())().segmentations["full"]
    assert found.n_frames == 3
    aligned = predictor.align(videos[-1].features(), (1, 2)).segmentations["full"]
    assert aligned.transcript.tolist() == [1, 2]


def test_a_step_runs_on_tensors_that_have_no_values(tmp_path: Path):
    one = learner(tmp_path, training__minibatch=4)
    one.network = one.network.to("meta")
    one.optimiser = Optimiser(one.network, one.config.training)
    one.targets = [targets.to("meta") for targets in one.targets]
    values = one.step(0, torch.empty(len(one.targets[0]), 5, device="meta"), epoch=0, step=0, rate=0.1)
    assert (values.device.type, len(values)) == ("meta", 1 + len(one.norms))


def test_an_ensemble_decodes_posteriors_of_actions(tmp_path: Path):
    train("hmm_rnn", tmp_path)
    predictor = method_named("hmm_rnn").load(tmp_path / "checkpoint")
    together = dataclasses.replace(predictor, classifier=FrameEnsemble([predictor.classifier] * 2))
    features = small_videos(1)[0].features()
    ours, alone = together.begin(features)().segmentations, predictor.begin(features)().segmentations
    assert ours["frames"].transcript.tolist() == alone["frames"].transcript.tolist()
    assert ours["full"].n_frames == len(features)
