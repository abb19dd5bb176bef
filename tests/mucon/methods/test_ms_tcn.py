"""MS-TCN and MS-TCN++: size, losses, dead taps, and what they learn."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import InputError
from mucon.evaluation import evaluate
from mucon.identity.weights import weights_sha256
from mucon.methods import method_named
from mucon.methods.frames.config import FrameLossConfig, FrameTrainingConfig
from mucon.methods.frames.learner import FrameLearner, frame_loss, smoothing_loss
from mucon.methods.frames.networks import build_network
from mucon.methods.ms_tcn.config import MsTcnConfig, MsTcnPlusPlusConfig
from mucon.methods.ms_tcn.network import MsTcnNetwork, MsTcnNetworkConfig, MsTcnPlusPlusNetworkConfig
from mucon.synthetic.grammar import synthesize
from mucon.synthetic.grammar_config import SyntheticConfig
from mucon.training.feed import Feed
from mucon.training.loop import Loop, epoch_order, step_seed
from mucon.training.supervision import labelled_of
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.refusals import refused
from tests.mucon.methods.test_table import digest, small, train

METHODS = ("ms_tcn", "ms_tcn_pp")


def n_weights(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def log_probs(*shape: int, seed: int = 0) -> Tensor:
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.log_softmax(4 * values, dim=-1)


@pytest.mark.parametrize(("name", "expected"), [("ms_tcn", 813_504), ("ms_tcn_pp", 1_010_944)])
def test_the_published_networks_have_their_number_of_weights(name: str, expected: int):
    config = method_named(name).config()
    assert n_weights(build_network(config.network, 2048, 48, seed=1)) == expected


def test_refinements_that_share_their_weights_are_counted_once_and_used_each_time():
    separate, shared = (MsTcnPlusPlusNetworkConfig(maps=8, layers=2, shared=value) for value in (False, True))
    one = n_weights(build_network(dataclasses.replace(separate, stages=2), 5, 4, seed=1))
    none = n_weights(build_network(dataclasses.replace(separate, stages=1), 5, 4, seed=1))
    network = build_network(shared, 5, 4, seed=1)
    assert n_weights(network) == one
    assert n_weights(build_network(separate, 5, 4, seed=1)) == none + 3 * (one - none)
    outputs = network.eval()(torch.randn(9, 5))
    assert outputs.shape == (4, 9, 4)
    assert not torch.equal(outputs[2], outputs[3])


@pytest.mark.parametrize("name", METHODS)
def test_fresh_weights_depend_on_the_seed_alone(name: str):
    config = method_named(name).config().network
    digests = []
    for seed in (1, 1, 2):
        torch.manual_seed(len(digests))
        digests.append(weights_sha256(build_network(config, 5, 4, seed=seed)))
    assert digests[0] == digests[1] != digests[2]


def published(network: MsTcnNetwork, features: Tensor, *, dual: bool) -> list[Tensor]:
    """Log-probabilities `[T, N]` of each stage with torch's convolutions on `[1, C, T]`, in evaluation mode."""

    def pointwise(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.conv1d(x, weight[:, :, None], bias)

    def dilated(x: Tensor, weight: Tensor, bias: Tensor, dilation: int) -> Tensor:
        return functional.conv1d(x, weight.permute(2, 1, 0), bias, padding=dilation, dilation=dilation)

    def stage(x: Tensor, module: nn.Module, dual: bool) -> Tensor:
        x = pointwise(x, module.first.weight, module.first.bias)
        n_layers = len(module.layers)
        for i, layer in enumerate(module.layers):
            if dual:
                both = [
                    dilated(x, weight, bias, 2**exponent)
                    for weight, bias, exponent in zip(
                        layer.dilated_weights, layer.dilated_biases, (n_layers - 1 - i, i), strict=True
                    )
                ]
                fused = pointwise(torch.cat(both, dim=1), layer.fusion_weight.t(), layer.fusion_bias)
                x = x + functional.relu(fused)
            else:
                hidden = functional.relu(dilated(x, layer.dilated_weight, layer.dilated_bias, 2**i))
                x = x + pointwise(hidden, layer.output_weight.t(), layer.output_bias)
        return pointwise(x, module.last.weight, module.last.bias)

    logits = [stage(features.t()[None], network.prediction, dual)]
    for refinement in network.refinements:
        logits.append(stage(torch.softmax(logits[-1], dim=1), refinement, False))
    return [torch.log_softmax(one[0].t(), dim=1) for one in logits]


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("T", [1, 2, 5, 40])
def test_the_network_computes_what_its_convolutions_do(name: str, T: int):
    """Dilations reach 16 frames, so that the outer taps of some layers see only padding."""
    settings = {"ms_tcn": {"network.layers": 5}, "ms_tcn_pp": {"network.layers": 3, "network.prediction_layers": 5}}
    config = method_named(name).config().with_values({**settings[name], "network.maps": 6})
    network = build_network(config.network, 7, 4, seed=3).double().eval()
    features = torch.randn(T, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(T))
    expected = published(network, features, dual=name == "ms_tcn_pp")
    torch.testing.assert_close(network(features), torch.stack(expected), rtol=1e-10, atol=1e-12)
    assert torch.equal(network.frame_log_probs(features), network(features)[-1])


def test_the_smoothing_loss_of_constant_log_probabilities_is_zero():
    constant = log_probs(2, 1, 5).expand(2, 9, 5)
    assert smoothing_loss(constant).item() == 0.0
    assert smoothing_loss(log_probs(3, 1, 5)).item() == 0.0


@given(st.integers(2, 12), st.integers(2, 6), st.integers(1, 3), st.floats(0, 300), st.integers(0, 99))
def test_an_element_of_the_smoothing_loss_is_never_above_the_squared_threshold(
    T: int, N: int, stages: int, scale: float, seed: int
):
    generator = torch.Generator().manual_seed(seed)
    values = torch.log_softmax(scale * torch.randn(stages, T, N, generator=generator, dtype=torch.float64), dim=2)
    loss = smoothing_loss(values).item()
    assert 0 <= loss <= 16 * stages
    by_hand = sum(
        min((values[s, t, n] - values[s, t - 1, n]).item() ** 2, 16.0)
        for s in range(stages)
        for t in range(1, T)
        for n in range(N)
    ) / ((T - 1) * N)
    assert loss == pytest.approx(by_hand, rel=1e-9, abs=1e-12)


def test_the_gradient_of_the_smoothing_loss_is_that_of_finite_differences_with_the_earlier_frame_fixed():
    values = log_probs(2, 7, 4).requires_grad_()

    def with_fixed(later: Tensor, earlier: Tensor) -> Tensor:
        """The same loss with both sides as separate arguments, of which the later one has gradients."""
        return (later - earlier).square().clamp(max=9.0).sum() / (6 * 4)

    earlier, later = values[:, :-1].detach().clone(), values[:, 1:].detach().clone().requires_grad_()
    assert torch.autograd.gradcheck(lambda moved: with_fixed(moved, earlier), (later,))
    assert smoothing_loss(values, 3.0).item() == with_fixed(values[:, 1:], earlier).item()
    (ours,) = torch.autograd.grad(smoothing_loss(values, 3.0), values)
    (theirs,) = torch.autograd.grad(with_fixed(values[:, 1:], earlier), values)
    torch.testing.assert_close(ours, theirs)
    assert not ours[:, 0].any()
    truncated = (values[:, 1:] - earlier).abs() > 3
    assert truncated.any()
    assert not ours[:, 1:][truncated].any()


def test_the_frame_loss_is_the_cross_entropy_of_each_stage_and_has_its_gradient():
    logits = torch.randn(3, 6, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64).requires_grad_()
    labels = torch.tensor([0, 0, 3, 1, 1, 2])
    loss = frame_loss(torch.log_softmax(logits, dim=2), labels)
    expected = sum(functional.cross_entropy(stage, labels) for stage in logits)
    torch.testing.assert_close(loss, expected)
    assert torch.autograd.gradcheck(lambda z: frame_loss(torch.log_softmax(z, dim=2), labels), (logits,))


@pytest.mark.parametrize("name", METHODS)
def test_the_gradient_of_the_network_is_that_of_finite_differences(name: str):
    network = build_network(small(name).network, 5, 4, seed=2).double().eval()
    features = torch.randn(6, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).requires_grad_()
    labels = torch.tensor([0, 1, 1, 2, 3, 3])
    assert torch.autograd.gradcheck(lambda x: frame_loss(network(x), labels), (features,), atol=1e-6)


def steps_by_hand(config: MsTcnConfig, videos: list[Video], method: str) -> nn.Module:
    """Training with torch's Adam, the same order and the same dropout."""
    network = build_network(config.network, 5, VOCABULARY.n_actions, seed=config.seed).train()
    optimiser = torch.optim.Adam(network.parameters(), lr=config.training.learning_rate)
    for epoch in range(config.training.epochs):
        for step, index in enumerate(epoch_order(len(videos), config.seed, epoch)):
            torch.manual_seed(step_seed(config.seed, epoch, step))
            values = network(videos[index].features())
            labels = torch.from_numpy(videos[index].frame_labels())
            loss = frame_loss(values, labels) + config.loss.smoothing * smoothing_loss(values)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return network


@pytest.mark.parametrize("name", METHODS)
def test_training_is_adam_on_the_sum_of_both_losses(tmp_path: Path, name: str):
    config = small(name)
    train(name, tmp_path, config, small_videos(3))
    by_hand = steps_by_hand(config, small_videos(3), name)
    ours = method_named(name).load(tmp_path / "checkpoint").classifier
    for (key, a), b in zip(ours.named_parameters(), by_hand.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=2e-5, msg=lambda said, key=key: f"{key}: {said}")


def test_unlabelled_videos_are_not_visited(tmp_path: Path):
    """Their features are never read, and the result is that of a run on the labelled ones alone."""

    def unread() -> np.ndarray:
        raise AssertionError

    videos = small_videos(6)
    config = small("ms_tcn", training__labelled=0.4, training__progress_videos=0)
    chosen = labelled_of([video.id for video in videos], 6, 0.4, config.seed)
    hidden = [video if video.id in chosen else dataclasses.replace(video, read=unread) for video in videos]
    train("ms_tcn", tmp_path / "share", config, hidden)
    assert json.loads((tmp_path / "share" / "labelled.json").read_text())["videos"] == sorted(chosen)
    alone = config.override("training.labelled", 1.0)
    train("ms_tcn", tmp_path / "alone", alone, [video for video in videos if video.id in chosen])
    assert digest("ms_tcn", tmp_path / "share") == digest("ms_tcn", tmp_path / "alone")


def test_a_share_of_zero_is_refused():
    with refused("range", "training.labelled", 0.0, n=1):
        MsTcnConfig().override("training.labelled", 0)


def test_a_share_that_more_videos_would_have_to_be_annotated_for_is_refused(tmp_path: Path):
    silent = [dataclasses.replace(video, lengths=None) for video in small_videos(2)]
    with refused("range", "training.labelled", 1.0, n=1):
        train("ms_tcn", tmp_path / "run", videos=silent)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("config", "place", "settings"),
    [
        (FrameTrainingConfig, "training.", {"epochs": 0, "learning_rate": 0.0, "labelled": 1.2, "threads": 0}),
        (FrameTrainingConfig, "training.", {"weight_decay": -1.0, "clip_norm": 0.0, "progress_videos": -1}),
        (FrameTrainingConfig, "training.", {"progress_every": 0, "labelled": math.nan}),
        (FrameLossConfig, "loss.", {"smoothing": -0.1, "threshold": 0.0}),
        (MsTcnNetworkConfig, "network.", {"stages": 0, "layers": 0, "maps": 0, "dropout": 1.0}),
        (MsTcnPlusPlusNetworkConfig, "network.", {"prediction_layers": 0, "stages": 0, "layers": 0, "maps": -1}),
        (MsTcnConfig, "", {"seed": -1}),
        (MsTcnPlusPlusConfig, "", {"seed": -1}),
    ],
)
def test_settings_out_of_range_are_all_refused(config: type, place: str, settings: dict[str, object]):
    with pytest.raises(InputError) as caught:
        config(**settings)
    assert {problem.place for problem in caught.value.problems} == {place + name for name in settings}
    assert {problem.rule for problem in caught.value.problems} == {"range"}


def test_defaults_are_the_published_ones():
    plain, plus = MsTcnConfig(), MsTcnPlusPlusConfig()
    assert (plain.training.epochs, plus.training.epochs) == (50, 100)
    assert plain.training.learning_rate == plus.training.learning_rate == 5e-4
    assert (plain.loss.smoothing, plain.loss.threshold**2) == (0.15, 16.0)
    assert plus.differences() == plain.differences() == {}


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("resident", [True, False])
def test_a_step_reads_nothing_back_from_the_device(tmp_path: Path, name: str, resident: bool):
    """Tensors on torch's `meta` device have no values: reading one fails."""
    device = torch.device("meta")
    videos = [dataclasses.replace(video, labelled=True) for video in small_videos(2)]
    learner = FrameLearner(name, small(name), videos, VOCABULARY, tmp_path, device, 5)
    loop = Loop(learner, tmp_path)
    loop.feed = Feed(learner.videos, device, torch.float32, resident=resident)
    for step in range(2):
        assert loop._step(step, 0, step, 0.01).device == device


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("name", METHODS)
def test_a_step_on_a_gpu_never_waits_for_it(tmp_path: Path, name: str):
    videos = [dataclasses.replace(video, labelled=True) for video in small_videos(2)]
    learner = FrameLearner(name, small(name), videos, VOCABULARY, tmp_path, torch.device("cuda"), 5)
    loop = Loop(learner, tmp_path)
    loop._step(0, 0, 0, 0.01)
    torch.cuda.set_sync_debug_mode("error")
    try:
        loop._step(1, 0, 1, 0.01)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", METHODS)
def test_separable_features_are_learned(tmp_path: Path, name: str):
    transcripts = [(0, 1, 2, 3), (0, 2, 1, 3), (3, 1, 0, 2), (2, 0, 3, 1)]
    random = np.random.default_rng(0)
    videos = [
        make_video(f"v{i:02}", transcripts[i % 4], random.integers(6, 20, size=4).tolist(), dim=6, noise=0.2)
        for i in range(30)
    ]
    config = method_named(name).recipes["demo"]().with_values({"training.epochs": 6, "training.progress_videos": 0})
    train(name, tmp_path, config, videos[:20])
    assert evaluate(method_named(name).load(tmp_path / "checkpoint"), videos[20:]).scores["frames"]["mof"] > 0.95


def test_the_demo_recipe_beats_a_classifier_of_single_frames_on_the_demo_data(tmp_path: Path):
    """A nearest-centroid classifier with all labels is right in at most 85 % of the frames, see test_demo."""
    data = synthesize(SyntheticConfig())
    method = method_named("ms_tcn")
    method.train(method.recipes["demo"](), data.part("train"), data.vocabulary, folder=tmp_path, device="cpu")
    assert evaluate(method.load(tmp_path / "checkpoint"), data.part("test")).scores["frames"]["mof"] > 0.88
