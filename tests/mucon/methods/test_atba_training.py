"""ATBA: banded attention, sampled frames, losses, stages, and what a run keeps to resume."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional

from mucon.checkpoint_files import LEARNER, read
from mucon.config import Config
from mucon.errors import Interrupted
from mucon.methods import method_named
from mucon.methods.atba.config import AtbaConfig, AtbaTrainingConfig
from mucon.methods.atba.losses import frame_loss, token_loss, video_loss
from mucon.methods.atba.network import AtbaNetworkConfig, EncoderLayer, sampled_frames, sinusoids
from mucon.methods.frames.networks import build_network
from mucon.training import EpochReport
from mucon.training.optimiser import Optimiser
from tests.helpers.factories import make_video, small_videos
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import digest, small, train
from tests.mucon.training.test_loop import StopAfter

CPU = torch.device("cpu")


def dense(layer: EncoderLayer, x: Tensor, n_tokens: int) -> Tensor:
    """The layer in evaluation mode with one matrix of all pairs."""
    query, keys, values = layer.projections(layer.attention_norm(x)).chunk(3, dim=1)
    position = torch.arange(len(x)) - n_tokens
    is_token = position < 0
    near = (position[:, None] - position).abs() <= layer.reach
    allowed = is_token | is_token[:, None] | near
    scores = (query @ keys.T / query.shape[1] ** 0.5).masked_fill(~allowed, -torch.inf)
    x = x + layer.mixed(torch.softmax(scores, dim=1) @ values)
    return x + layer.hidden(layer.hidden_norm(x))


@pytest.mark.parametrize("reach", [1, 8, 300])
@pytest.mark.parametrize("T", [1, 5, 64, 65, 200])
def test_attention_in_bands_equals_the_matrix_of_all_pairs(T: int, reach: int):
    torch.manual_seed(T)
    layer = EncoderLayer(6, reach, 0.2).double().eval()
    inputs = [torch.randn(T + 3, 6, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    inputs[1].data.copy_(inputs[0].data)
    ours, theirs = layer(inputs[0], 3), dense(layer, inputs[1], 3)
    torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-11)
    weights = torch.randn_like(ours)
    for output in (ours, theirs):
        (output * weights).sum().backward()
    torch.testing.assert_close(inputs[0].grad, inputs[1].grad, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("positions", ["sinusoidal", "none"])
def test_a_long_recording_needs_no_table_and_no_square_matrix(positions: str):
    config = AtbaNetworkConfig(maps=4, positions=positions)
    log_probs = build_network(config, 3, 5, seed=1).eval().frame_log_probs(torch.randn(50_000, 3))
    assert log_probs.shape == (50_000, 5)
    torch.testing.assert_close(log_probs.exp().sum(dim=1), torch.ones(50_000))


def test_positions_are_different_sinusoids_for_odd_widths_too():
    positions = sinusoids(500, 7, device=CPU, dtype=torch.float64)
    assert positions.shape == (500, 7)
    assert positions.unique(dim=0).shape == (500, 7)
    torch.testing.assert_close(positions[:, 0], torch.arange(500.0).sin().double())


def test_the_middle_or_a_random_frame_of_each_block_is_seen():
    assert sampled_frames(11, 4, CPU).tolist() == [2, 6, 9]
    assert sampled_frames(3, 1, CPU).tolist() == sampled_frames(3, 1, CPU, at_random=True).tolist() == [0, 1, 2]
    torch.manual_seed(0)
    drawn = torch.stack([sampled_frames(11, 4, CPU, at_random=True) for _ in range(200)])
    assert [column.unique().tolist() for column in drawn.T] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10]]


def test_logits_of_sampled_frames_are_interpolated():
    network = build_network(AtbaNetworkConfig(maps=8, sample_rate=4), 3, 5, seed=1).eval()
    features = torch.randn(22, 3)
    logits = network(features[sampled_frames(22, 4, CPU)]).frame_logits.detach()
    found = network.frame_log_probs(features)
    torch.testing.assert_close(found[0], torch.log_softmax(logits[0], dim=0))
    torch.testing.assert_close(found[-1], torch.log_softmax(logits[-1], dim=0))
    assert found.shape == (22, 5)


def test_a_token_has_the_logit_of_its_own_class():
    network = build_network(AtbaNetworkConfig(maps=8), 3, 5, seed=1).eval()
    outputs = network(torch.randn(9, 3))
    torch.testing.assert_close(outputs.video_logits, network.classifier(outputs.tokens).diagonal())
    torch.testing.assert_close(outputs.frame_logits, network.classifier(outputs.frames))


def test_the_losses_are_those_of_their_definitions():
    random = torch.Generator().manual_seed(3)
    logits, frames, tokens = (torch.randn(*shape, generator=random) for shape in ((6, 4), (6, 3), (4, 3)))
    labels, weights = torch.tensor([2, 2, 0, 0, 0, 2]), torch.tensor([0.8, 1, 1, 1])
    presence = torch.sigmoid(logits[0])
    expected = -(presence[0].log() + (1 - presence[1]).log() + presence[2].log() + (1 - presence[3]).log()) / 4
    torch.testing.assert_close(video_loss(logits[0], torch.tensor([1.0, 0, 1, 0])), expected)
    own = -torch.log_softmax(logits, dim=1)[torch.arange(6), labels]
    expected = (own * weights[labels]).sum() / weights[labels].sum()
    torch.testing.assert_close(frame_loss(logits, labels, weights), expected)
    terms = []
    for action in (0, 2):
        mean = frames[labels == action].mean(dim=0)
        cosines = torch.stack([functional.cosine_similarity(mean, token, dim=0) for token in tokens])
        terms.append(functional.cross_entropy(cosines / 0.2, torch.tensor(action)))
    torch.testing.assert_close(token_loss(frames, tokens, labels), torch.stack(terms).mean())


def test_no_gradient_of_the_features_flows_to_the_tokens():
    frames, tokens = (torch.randn(4, 3, requires_grad=True) for _ in range(2))
    token_loss(frames, tokens, torch.tensor([0, 1, 1, 3])).backward()
    assert frames.grad is not None
    assert frames.grad.abs().sum() > 0
    assert tokens.grad is None


@pytest.mark.parametrize("sample_rate", [1, 4])
def test_a_step_with_labels_reads_nothing_back_from_the_device(sample_rate: int):
    config = AtbaConfig(network=AtbaNetworkConfig(maps=8, sample_rate=sample_rate))
    network = build_network(config.network, 5, 4, seed=1).to("meta").train()
    optimiser = Optimiser(network, config.training)
    features = torch.empty(70, 5, device="meta")
    outputs = network(features[sampled_frames(70, sample_rate, features.device, at_random=True)])
    labels = torch.empty(len(outputs.frame_logits), device="meta", dtype=torch.int64)
    classes = torch.empty(4, device="meta")
    total = video_loss(outputs.video_logits, classes) + frame_loss(outputs.frame_logits, labels, classes)
    (total + token_loss(outputs.frames, outputs.tokens, labels)).backward()
    assert optimiser.step(0.01).device.type == network.frame_log_probs(features).device.type == "meta"


def test_the_published_schedule_warms_up_twice_and_falls_along_a_cosine():
    config = method_named("atba").for_videos(AtbaConfig().override("training.schedule", "published"), 1000)
    training = config.training
    assert (training.epochs, training.first_stage, training.accumulate) == (400, 40, 32)
    shares = np.array([training.rate(epoch) for epoch in range(400)]) / 0.0005
    np.testing.assert_allclose(shares[[0, 5, 10, 39, 40, 45, 50]], [0.01, 0.505, 1, 1, 0.1, 0.55, 1])
    assert shares[225] == pytest.approx(0.505)
    assert (np.diff(shares[50:]) < 0).all()
    assert 0.01 < shares[-1] < 0.0101


def test_a_share_of_the_epochs_is_the_first_stage():
    stages = {epochs: AtbaTrainingConfig(epochs=epochs).first_stage for epochs in (1, 2, 9, 20, 100)}
    assert stages == {1: 0, 2: 1, 9: 1, 20: 2, 100: 10}
    assert [AtbaTrainingConfig(epochs=1).rate(0), AtbaTrainingConfig(epochs=20).rate(2)] == [0.0005, 0.0005]
    with refused("range", "training.stage1_epochs", 7, n=1):
        AtbaTrainingConfig(epochs=7, stage1_epochs=7)


def staged(**settings: object) -> Config:
    """One epoch of the first stage and two of the second one, with two videos per step of the optimiser."""
    stages = {"training__epochs": 3, "training__stage1_epochs": 1, "training__accumulate": 2}
    return small("atba", **{**stages, "network__sample_rate": 2, "alignment__kind": "exact", **settings})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[EpochReport]]:
    folder, reports = tmp_path_factory.mktemp("atba"), []
    train("atba", folder, staged(), small_videos(5), report=reports.append)
    return folder, reports


def test_the_first_stage_learns_the_actions_of_the_videos_alone(run: tuple[Path, list[EpochReport]]):
    losses = [report.losses for report in run[1]]
    assert set(losses[0]) == {"total", "video"}
    assert losses[0]["total"] == losses[0]["video"]
    for later in losses[1:]:
        assert min(later.values()) > 0
        assert later["total"] == pytest.approx(later["video"] + later["frame"] + 0.1 * later["glc"])


@pytest.mark.parametrize("k", range(9))
def test_a_run_stopped_in_any_stage_resumes_to_the_same_bits(tmp_path: Path, run, k: int):
    for part in (k, 1):
        with pytest.raises(Interrupted):
            train("atba", tmp_path, staged(), small_videos(5), should_stop=StopAfter(part))
        assert read(tmp_path / "checkpoint").progress.step_in_epoch in (0, 2, 4)
        if k == 8:
            break
    train("atba", tmp_path, staged(), small_videos(5))
    assert digest("atba", tmp_path) == digest("atba", run[0])


def test_the_second_stage_begins_with_a_fresh_optimiser(tmp_path: Path):
    for k, n_steps in ((2, 2), (1, 3), (1, 1)):
        with pytest.raises(Interrupted):
            train("atba", tmp_path, staged(), small_videos(5), should_stop=StopAfter(k))
        assert int(read(tmp_path / "checkpoint").optimiser["n_steps"]) == n_steps


def test_class_means_are_those_of_the_labels_of_the_epoch_before(tmp_path: Path):
    videos = small_videos(5)
    states = []
    for k in (4, 2, 1):
        with pytest.raises(Interrupted):
            train("atba", tmp_path, staged(), videos, should_stop=StopAfter(k))
        states.append(read(tmp_path / "checkpoint").learner)
    inside, after, later = states
    assert inside["class_means"].tolist() == after["class_means"].tolist() == [1] * 4
    assert 0 < inside["segments"].sum() < sum(len(video.transcript) for video in videos)
    assert after["segments"].tolist() == np.bincount([n for v in videos for n in v.transcript], minlength=4).tolist()
    assert after["frames"].sum() == sum(-(-video.n_frames // 2) for video in videos)
    assert torch.equal(later["class_means"], after["frames"] / after["segments"])
    assert later["frames"].sum() < after["frames"].sum()


def test_the_state_of_another_vocabulary_is_refused(tmp_path: Path):
    with pytest.raises(Interrupted):
        train("atba", tmp_path, staged(), small_videos(5), should_stop=StopAfter(1))
    path = tmp_path / "checkpoint" / LEARNER
    for damaged in ({}, {name: tensor[:2] for name, tensor in load_file(path).items()}):
        save_file({name: tensor.clone() for name, tensor in damaged.items()}, path)
        with refused("mismatch", "learner", n=1):
            train("atba", tmp_path, staged(), small_videos(5))


def test_windows_do_not_matter_where_the_alignment_is_exact(tmp_path: Path, run: tuple[Path, list[EpochReport]]):
    other = staged(alignment__boundary_window=3, alignment__candidates=1)
    names = {"alignment.boundary_window", "alignment.candidates"}
    assert names <= set(other.without_effect(None))
    assert not names & set(other.override("alignment.kind", "atba").without_effect(None))
    train("atba", tmp_path, other, small_videos(5))
    assert digest("atba", tmp_path) == digest("atba", run[0])


@pytest.mark.parametrize("kind", ["atba", "exact"])
def test_more_segments_than_sampled_frames_are_trained_on(tmp_path: Path, kind: str):
    crowded = make_video("crowded", (0, 1, 2, 3) * 3, (1,) * 12)
    reports: list[EpochReport] = []
    config = staged(alignment__kind=kind, network__sample_rate=5)
    train("atba", tmp_path, config, [crowded, *small_videos(2)], report=reports.append)
    assert all(np.isfinite(list(report.metrics().values())).all() for report in reports)


def test_the_weight_of_the_background_changes_the_run(tmp_path: Path, run: tuple[Path, list[EpochReport]]):
    train("atba", tmp_path, staged(loss__background_weight=0.5), small_videos(5))
    assert digest("atba", tmp_path) != digest("atba", run[0])


def test_a_quick_configuration_measures_the_second_stage():
    method = method_named("atba")
    quick = method.quick(staged(), labelled=False)
    assert (quick.training.epochs, quick.training.first_stage, quick.training.accumulate) == (1, 0, 1)
    assert method.step_shape(quick) != method.step_shape(quick.override("alignment.kind", "atba"))
