"""ISBA: targets, weights, refinement of tokens, the stop rule, and what a training keeps."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mucon.checkpoint_files import LEARNER, Progress, read
from mucon.errors import InputError, Interrupted
from mucon.evaluation import evaluate
from mucon.methods import method_named
from mucon.methods.isba.config import BoundaryConfig, IsbaConfig
from mucon.methods.isba.learner import IsbaLearner
from mucon.methods.isba.stop_rule import best_loop, has_stopped, set_loss
from mucon.methods.isba.tokens import class_weights, lengths_of, refined, soft_loss, soft_targets
from mucon.training import EpochReport
from mucon.training.loop import Loop
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import digest, small, train
from tests.mucon.training.test_loop import StopAfter

LOOPS = {"training__epochs": 14, "boundaries__loops": 7, "boundaries__patience": 0, "training__learning_rate": 0.05}
"""Loops of two epochs at a high rate, so that the rule ends the training early."""


def arrays(*values: list[int]) -> tuple[np.ndarray, ...]:
    return tuple(np.asarray(value) for value in values)


def refine(counts: list[int], transcript: list[int], probs: np.ndarray, *, flip: float = 0.0, seed: int = 0):
    own, actions = arrays(counts, transcript)
    return refined(own, actions, probs, np.random.default_rng(seed), margin=0.02, flip=flip).tolist()


def test_the_target_of_two_tokens_is_the_one_computed_by_hand():
    targets = soft_targets(torch.eye(2), 8)
    assert targets[:, 1].tolist() == [0, 0, 1 / 8, 3 / 8, 5 / 8, 7 / 8, 1, 1]
    assert targets[:, 0].tolist() == [1, 1, 7 / 8, 5 / 8, 3 / 8, 1 / 8, 0, 0]


def test_the_loss_is_the_weighted_cross_entropy_of_the_interpolated_tokens():
    """Also with more tokens than frames, of which some have none."""
    random = np.random.default_rng(1)
    weights = random.uniform(0.5, 2, size=4)
    for K, T in ((1, 1), (1, 5), (2, 8), (5, 13), (7, 3)):
        tokens = random.integers(4, size=K)
        logits = torch.from_numpy(random.normal(size=(T, 4))).requires_grad_()
        log_probs = torch.log_softmax(logits, dim=1)
        expected = 0.0
        for t in range(T):
            u = min(max((t + 0.5) * K / T - 0.5, 0), K - 1)
            before, after = int(u), min(int(u) + 1, K - 1)
            soft = (1 - (u - before)) * log_probs[t, tokens[before]] + (u - before) * log_probs[t, tokens[after]]
            expected = expected - weights[tokens[t * K // T]] * soft / T
        found = soft_loss(log_probs, torch.from_numpy(tokens), torch.from_numpy(weights))
        torch.testing.assert_close(found, expected)
        assert torch.autograd.gradcheck(
            lambda z, tokens=tokens: soft_loss(
                torch.log_softmax(z, dim=1), torch.from_numpy(tokens), torch.from_numpy(weights)
            ),
            (logits,),
        )


def test_weights_of_classes_fall_with_the_root_of_their_tokens_and_have_mean_one():
    weights = class_weights(arrays([0, 0, 1], [0, 0, 3]), 4)
    np.testing.assert_allclose(weights[[0, 1, 3]], np.array([0.5, 1, 1]) * 3 / 2.5)
    assert weights[2] == 1, "no token: neither infinite nor part of the mean"


def test_a_token_is_added_on_the_side_that_is_more_likely_at_the_border():
    """T = 12, K = 3: borders at frames 4 and 8."""
    probs = np.full((12, 3), 0.3)
    probs[4] = [0.6, 0.2, 0.2]
    probs[8] = [0.1, 0.1, 0.8]
    assert refine([1, 1, 1], [0, 1, 2], probs) == [2, 1, 2]
    assert refine([1, 1, 1], [0, 1, 2], probs, flip=1.0) == [1, 3, 1]
    probs[8] = [0.1, 0.441, 0.459]
    assert refine([1, 1, 1], [0, 1, 2], probs) == [2, 1, 1], "a difference within the margin adds none"
    assert refine([1, 1, 1], [0, 1, 1], probs) == [2, 1, 1], "nor do equal neighbours"
    assert refine([4], [2], probs) == [4]


def test_tokens_never_exceed_the_frames():
    probs = np.eye(4)[[0, 0, 3, 3, 3]]
    counts = [1, 1, 1, 1]
    for seed in range(20):
        counts = refine(counts, [0, 1, 2, 3], probs, flip=0.1, seed=seed)
        assert sum(counts) <= 5
        assert min(lengths_of(np.asarray(counts), 5)) >= 1


@given(st.lists(st.integers(1, 6), min_size=1, max_size=6), st.integers(1, 60))
def test_lengths_are_those_of_the_nearest_token(counts: list[int], T: int):
    tokens = np.repeat(np.arange(len(counts)), counts)
    frames = [tokens[t * len(tokens) // T] for t in range(T)]
    assert lengths_of(np.asarray(counts), T).tolist() == np.bincount(frames, minlength=len(counts)).tolist()


def test_the_stop_rule_reads_the_set_of_actions_and_waits_for_two_worse_loops():
    probs = np.array([[0.9, 0.1, 0.0], [0.2, 0.8, 0.0]])
    expected = -np.log(0.9) - np.log(1 - 0.8) - np.log(1 - 1e-7)
    assert set_loss(probs, [0, 0]) == pytest.approx(expected)
    assert set_loss(probs, [0, 2]) == pytest.approx(-np.log(0.9) - np.log(0.2) - np.log(1e-7))
    losses = [1.0, 1.0, 5.0, 4.0, 4.0, 6.0, 6.0]
    assert [best_loop(losses[:n]) for n in range(8)] == [None, None, None, 2, 3, 3, 3, 3]
    assert [has_stopped(losses[:n], 2) for n in range(8)] == [False] * 7 + [True]


@pytest.fixture(scope="module", params=[True, False], ids=["warm", "new"])
def loops(request: pytest.FixtureRequest) -> dict[str, object]:
    return {**LOOPS, "boundaries__warm_start": request.param}


@pytest.fixture(scope="module")
def whole(loops: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[EpochReport]]:
    """An uninterrupted run and its reports."""
    folder, reports = tmp_path_factory.mktemp("isba"), []
    train("isba", folder, small("isba", **loops), report=reports.append)
    return folder, reports


def losses_of(reports: list[EpochReport]) -> list[tuple[dict[str, float], dict[str, float]]]:
    return [(report.losses, report.gradient_norms) for report in reports]


def test_a_run_interrupted_at_any_loop_ends_with_the_same_bits(tmp_path: Path, loops, whole):
    """Stops before a step, between steps, and at the borders of loops; once again after each resuming."""
    folder, expected = whole
    reports: list[EpochReport] = []
    for _ in range(5):
        with pytest.raises(Interrupted):
            train("isba", tmp_path, small("isba", **loops), should_stop=StopAfter(8), report=reports.append)
    train("isba", tmp_path, small("isba", **loops), report=reports.append)
    assert digest("isba", tmp_path) == digest("isba", folder)
    assert losses_of(reports) == losses_of(expected)
    ours, theirs = (read(one / "checkpoint") for one in (tmp_path, folder))
    assert ours.facts == theirs.facts
    assert ours.learner.keys() == theirs.learner.keys()
    assert all(torch.equal(ours.learner[name], theirs.learner[name]) for name in ours.learner)


def test_the_best_loop_predicts_and_the_rest_is_skipped(tmp_path: Path, loops, whole):
    folder, reports = whole
    kept = read(folder / "checkpoint").learner["loops"].tolist()
    best, ended = best_loop(kept), len(kept)
    assert best is not None
    assert ended < 7, "the rule ends this training"
    assert [report.losses["trained"] for report in reports] == [1.0] * 2 * ended + [0.0] * (14 - 2 * ended)
    assert {report.losses["total"] for report in reports[2 * ended :]} == {reports[2 * ended - 1].losses["total"]}
    assert not any(any(report.gradient_norms.values()) for report in reports[2 * ended :])
    train("isba", tmp_path, small("isba", **loops, training__stop_after=2 * (best + 1)))
    assert digest("isba", tmp_path) == digest("isba", folder), "a run that ends with that loop"
    shown = evaluate(method_named("isba").load(folder / "checkpoint"), small_videos(3)).scores["frames"]["mof"]
    assert reports[-1].progress["frames.mof"] == shown


def test_runs_that_end_early_go_on_to_the_same_bits(tmp_path: Path, loops, whole):
    """Also in the middle of a loop, and after the rule has ended the training."""
    for stop_after in (3, 7, 9, 13):
        train("isba", tmp_path, small("isba", **loops, training__stop_after=stop_after))
    train("isba", tmp_path, small("isba", **loops))
    assert digest("isba", tmp_path) == digest("isba", whole[0])


def test_a_damaged_state_is_refused(tmp_path: Path):
    with pytest.raises(Interrupted):
        train("isba", tmp_path, should_stop=StopAfter(2))
    (tmp_path / "checkpoint" / LEARNER).unlink()
    with refused("damaged", LEARNER, n=1):
        train("isba", tmp_path)


def test_settings_of_loops_that_do_not_come_change_no_bit(tmp_path: Path):
    one = {"training__epochs": 2, "boundaries__loops": 1}
    for base, changed in (
        (one, {"boundaries__warm_start": False}),
        ({"training__epochs": 5, "boundaries__loops": 5, "training__learning_rate": 0.05}, {"boundaries__patience": 1}),
    ):
        configs = [small("isba", **{**base, **more}) for more in ({}, changed)]
        assert configs[0].canonical() == configs[1].canonical()
        for n, config in enumerate(configs):
            train("isba", tmp_path / f"{len(changed)}{next(iter(changed))}{n}", config)
        digests = {digest("isba", tmp_path / f"{len(changed)}{next(iter(changed))}{n}") for n in range(2)}
        assert len(digests) == 1


def test_epochs_are_divided_into_loops():
    config = IsbaConfig()
    assert (config.training.epochs, config.n_loops) == (30, 30)
    many = config.override("training.epochs", 60)
    assert [epoch for epoch in range(60) if many.looks_again(epoch)] == list(range(2, 60, 2))
    few = config.override("training.epochs", 4)
    assert [few.loop_of(epoch) for epoch in range(4)] == [0, 1, 2, 3]
    published = config.override("training.schedule", "published").for_videos(160)
    assert (published.training.epochs, published.n_loops, published.boundaries.warm_start) == (2000, 20, False)
    assert published.for_videos(160) == published


def test_tokens_grow_and_depend_on_seed_loop_and_video_alone(tmp_path: Path):
    seen = []
    for folder in ("a", "b"):
        torch.manual_seed(len(seen))
        train("isba", tmp_path / folder, small("isba", training__epochs=4))
        seen.append(read(tmp_path / folder / "checkpoint").learner["counts"])
    assert torch.equal(*seen)
    assert (seen[0] >= 1).all()
    assert seen[0].sum() > len(seen[0])


class Given(torch.nn.Module):
    """The same log posteriors `[T, N]` for all features."""

    def __init__(self, log_probs: np.ndarray) -> None:
        super().__init__()
        self.log_probs = torch.nn.Parameter(torch.from_numpy(log_probs))

    def frame_log_probs(self, features: torch.Tensor) -> torch.Tensor:
        return self.log_probs.detach()


def test_an_alignment_keeps_the_transcript_and_moves_equal_parts_towards_the_borders():
    """One token per border and round is slow: the borders at 4 and 10 of 24 frames are not reached from 8 and 16."""
    video = make_video("v", (0, 1, 2), (4, 6, 14))
    probs = np.full((24, VOCABULARY.n_actions), 0.05, dtype=np.float32)
    probs[np.arange(24), np.repeat(video.transcript, video.lengths)] = 0.85
    config = IsbaConfig().override("boundaries.flip", 0.0)
    given = Given(np.log(probs))
    predictor = method_named("isba").predictor_class("isba", given, config, VOCABULARY, 5, Progress(), main="frames")
    aligned = predictor.align(video.features(), video.transcript, predictions=("frames",)).segmentations["frames"]
    assert tuple(aligned.transcript) == video.transcript
    assert aligned.lengths.tolist() == [5, 8, 11]
    assert predictor.aligned("frames", np.log(probs), [0, 1] * 12).lengths.tolist() == [1] * 24
    assert predictor.aligned("frames", np.log(probs), [1, 1]).lengths.tolist() == [12, 12]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_step_on_a_gpu_never_waits_for_it(tmp_path: Path):
    learner = IsbaLearner("isba", small("isba"), small_videos(2), VOCABULARY, tmp_path, torch.device("cuda"), 5)
    loop = Loop(learner, tmp_path)
    loop._step(0, 0, 0, 0.01)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop._step(1, 0, 1, 0.01)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("stopped", [False, True])
def test_a_step_reads_nothing_back_from_the_device(tmp_path: Path, stopped: bool):
    device = torch.device("meta")
    learner = IsbaLearner("isba", small("isba"), small_videos(2), VOCABULARY, tmp_path, device, 5)
    learner.loops = [1.0, 1.0, 1.0, 2.0, 2.0, 2.0] if stopped else []
    assert learner.stopped == stopped
    loop = Loop(learner, tmp_path)
    for step in range(2):
        assert loop._step(step, 0, step, 0.01).device == device


def test_settings_out_of_range_are_all_refused():
    settings = {"loops": 0, "patience": -1, "margin": -0.1, "flip": 1.1}
    with pytest.raises(InputError) as caught:
        BoundaryConfig(**settings)
    assert [(problem.rule, problem.place) for problem in caught.value.problems] == list(
        zip(itertools.repeat("range"), (f"boundaries.{name}" for name in settings), strict=False)
    )
