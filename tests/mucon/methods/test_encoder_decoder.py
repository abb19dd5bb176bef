"""TCFPN and ED-TCN: size, recordings of any length, sampling, and what they learn."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional

from mucon.errors import InputError
from mucon.evaluation import evaluate
from mucon.methods import method_named
from mucon.methods.encoder_decoder.ed_tcn import EdTcnNetwork, EdTcnNetworkConfig, NormalisedRelu
from mucon.methods.encoder_decoder.tcfpn import TcfpnNetwork, TcfpnNetworkConfig
from mucon.methods.frames.learner import FrameLearner
from mucon.methods.frames.networks import build_network
from mucon.training.loop import Loop
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.mucon.methods.test_table import small, train

METHODS = ("tcfpn", "ed_tcn")
LENGTHS = (1, 2, 3, 7, 8, 9, 40)


def random_features(T: int, dim: int = 5) -> Tensor:
    return torch.randn(T, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(T))


def network(name: str, **settings: object) -> TcfpnNetwork | EdTcnNetwork:
    """A small network in evaluation mode and in double precision."""
    config = dataclasses.replace(small(name).network, **settings)
    built = build_network(config, 5, 4, seed=3).double().eval()
    assert isinstance(built, TcfpnNetwork | EdTcnNetwork)
    return built


def test_the_networks_have_the_weights_of_their_layers():
    D, N = 64, 48
    encoder = 25 * (D * 48 + 48 * 64 + 64 * 96) + 2 * (48 + 64 + 96)
    lateral = 48 * (96 + 64 + 48 + D)
    tcfpn = encoder + lateral + 3 * 25 * 48 * 48 + 4 * (48 * N + N)
    ed_tcn = 25 * (D * 64 + 64 * 96 + 96 * 96 + 96 * 64) + 64 + 96 + 96 + 64 + 64 * N + N
    for config, expected in ((TcfpnNetworkConfig(), tcfpn), (EdTcnNetworkConfig(), ed_tcn)):
        assert sum(parameter.numel() for parameter in config.build(D, N).parameters()) == expected


class Padded:
    """The layers on a recording that is padded to a multiple of 8, with a mask after each; `[1, C, T']` tensors."""

    def __init__(self, features: Tensor) -> None:
        self.n = len(features)
        self.x = functional.pad(features.t()[None], (0, -self.n % 8))

    def real(self, x: Tensor) -> int:
        """Number of real frames at the resolution of a tensor."""
        return -(-self.n * x.shape[2] // self.x.shape[2])

    def masked(self, x: Tensor, value: float = 0.0) -> Tensor:
        return torch.where(torch.arange(x.shape[2]) < self.real(x), x, value)

    def convolved(self, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
        return functional.conv1d(self.masked(x), weight, bias, padding=weight.shape[2] // 2)

    def pooled(self, x: Tensor) -> Tensor:
        return self.masked(x, -torch.inf).unflatten(2, (-1, 2)).amax(3).clamp(min=-1e9)

    def normalised(self, x: Tensor, norm: torch.nn.GroupNorm) -> Tensor:
        groups = x.unflatten(1, (norm.num_groups, -1))
        real = groups[..., : self.real(x)]
        mean, variance = real.mean((2, 3), keepdim=True), real.var((2, 3), keepdim=True, correction=0)
        scaled = ((groups - mean) / (variance + norm.eps).sqrt()).flatten(1, 2)
        return scaled * norm.weight[:, None] + norm.bias[:, None]


def padded_tcfpn(built: TcfpnNetwork, features: Tensor) -> Tensor:
    """Probabilities `[T, N]`: the mean over the resolutions."""
    padded = Padded(features)
    levels = [padded.x]
    for convolution, norm, _, _ in built.encoder:
        rectified = torch.relu(padded.normalised(padded.convolved(levels[-1], convolution.weight), norm))
        levels.append(padded.pooled(rectified))
    decoded = [padded.convolved(levels[3], built.top.weight)]
    for i in range(3):
        added = decoded[-1].repeat_interleave(2, 2) + padded.convolved(levels[2 - i], built.laterals[i].weight)
        decoded.append(padded.convolved(added, built.decoder[i].weight))
    probabilities = [
        padded.convolved(y, head[1].weight, head[1].bias).softmax(1).repeat_interleave(2 ** (3 - i), 2)
        for i, (y, head) in enumerate(zip(decoded, built.classifiers, strict=True))
    ]
    return (sum(probabilities) / 4)[0, :, : padded.n].t()


def padded_ed_tcn(built: EdTcnNetwork, features: Tensor) -> Tensor:
    """Probabilities `[T, N]`."""
    padded = Padded(features)

    def level(x: Tensor, convolution: torch.nn.Conv1d) -> Tensor:
        rectified = padded.convolved(x, convolution.weight, convolution.bias).clamp(min=0)
        return rectified / (rectified.max(1, keepdim=True).values + 1e-5)

    x = padded.x
    for convolution, _, _ in built.encoder:
        x = padded.pooled(level(x, convolution))
    for convolution, _, _ in built.decoder:
        x = level(x.repeat_interleave(2, 2), convolution)
    return padded.convolved(x, built.classifier.weight, built.classifier.bias).softmax(1)[0, :, : padded.n].t()


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("T", LENGTHS)
def test_any_length_gives_what_padding_with_masks_gives(name: str, T: int):
    built, features = network(name), random_features(T)
    expected = padded_tcfpn(built, features) if isinstance(built, TcfpnNetwork) else padded_ed_tcn(built, features)
    found = built(features)
    assert found.shape == (1, T, 4)
    torch.testing.assert_close(found[0].exp(), expected, rtol=1e-9, atol=1e-12)
    assert torch.equal(built.frame_log_probs(features), found[0])


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("T", [1, 2, 3, 13])
def test_every_third_frame_is_classified_and_repeated(name: str, T: int):
    features = random_features(T)
    all_frames, sampled = network(name), network(name, sample_rate=3)
    expected = all_frames(features[::3]).repeat_interleave(3, 1)[:, :T]
    torch.testing.assert_close(sampled(features), expected, rtol=0, atol=0)
    config = small(name).override("network.sample_rate", 3)
    assert method_named(name).pooling(config) == 3 * method_named(name).pooling(small(name))


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("T", [1, 11])
def test_the_gradient_is_that_of_finite_differences(name: str, T: int):
    built = network(name)
    labels = torch.arange(T) % 4
    features = random_features(T).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: functional.nll_loss(built(x)[0], labels), (features,), atol=1e-5)


@pytest.mark.parametrize("T", [1, 2, 5])
def test_a_group_of_one_channel_is_normalised_at_any_length(T: int):
    network = build_network(TcfpnNetworkConfig(channels=(8, 8), groups=8, maps=4, kernel=3), 3, 2, seed=1)
    log_probs = network.train()(torch.ones(T, 3))
    assert log_probs.isfinite().all()
    log_probs.sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in network.parameters())


def test_a_normalised_relu_is_one_at_the_largest_channel_and_zero_without_a_positive_one():
    x = torch.tensor([[[3.0, -1.0], [1.5, -2.0]]])
    torch.testing.assert_close(NormalisedRelu()(x), torch.tensor([[[1.0, 0.0], [0.5, 0.0]]]), atol=1e-5, rtol=0)


@pytest.mark.parametrize("name", METHODS)
def test_dropout_drops_whole_channels(name: str):
    built = network(name, dropout=0.5).train()
    seen: list[Tensor] = []
    dropout = next(module for module in built.modules() if isinstance(module, torch.nn.Dropout1d))
    dropout.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    torch.manual_seed(0)
    for _ in range(4):
        built(random_features(9))
    zeros = (torch.cat(seen) == 0).double().mean(dim=2)
    assert set(zeros.flatten().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("name", METHODS)
def test_a_step_reads_nothing_back_from_the_device(tmp_path: Path, name: str):
    device = torch.device("meta")
    videos = [dataclasses.replace(video, labelled=True) for video in small_videos(2)]
    learner = FrameLearner(name, small(name), videos, VOCABULARY, tmp_path, device, 5)
    loop = Loop(learner, tmp_path)
    for step in range(2):
        assert loop._step(step, 0, step, 0.01).device == device


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
    assert evaluate(method_named(name).load(tmp_path / "checkpoint"), videos[20:]).scores["frames"]["mof"] > 0.9


@pytest.mark.parametrize(
    ("config", "settings"),
    [
        (TcfpnNetworkConfig, {"channels": (), "maps": 0, "kernel": 2, "dropout": 1.0, "sample_rate": 0}),
        (TcfpnNetworkConfig, {"groups": 5}),
        (TcfpnNetworkConfig, {"groups": 0, "channels": (8, 0)}),
        (EdTcnNetworkConfig, {"layers": 0, "maps": 0, "growth": -1, "kernel": 0, "dropout": -0.1, "sample_rate": 0}),
    ],
)
def test_settings_out_of_range_are_all_refused(config: type, settings: dict[str, object]):
    with pytest.raises(InputError) as caught:
        config(**settings)
    assert {problem.place for problem in caught.value.problems} == {f"network.{name}" for name in settings}
    assert {problem.rule for problem in caught.value.problems} == {"range"}
