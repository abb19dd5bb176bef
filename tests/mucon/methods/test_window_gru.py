"""The window GRU: the same bits as `nn.GRU` on unfolded windows."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from mucon.errors import InputError
from mucon.methods.window_gru import WindowGru, WindowGruConfig
from tests.helpers.refusals import refused


def network(dim: int, n_outputs: int = 4, **size: int) -> WindowGru:
    torch.manual_seed(3)
    return WindowGru(dim, n_outputs, **size)


def unfolded(features: Tensor, window: int) -> Tensor:
    """The window of each frame, `[W, T, D]`."""
    around = window // 2
    padded = functional.pad(features, (0, 0, around, around))
    return torch.stack([padded[k : k + len(features)] for k in range(window)])


def expected(model: WindowGru, windows: Tensor) -> Tensor:
    """Log-probabilities `[n, N]` with `nn.GRU` on windows `[W, n, D]`."""
    layer = nn.GRU(model.cell.input_size, model.cell.hidden_size)
    for name, parameter in model.cell.named_parameters():
        setattr(layer, f"{name}_l0", parameter)
    _, last = layer(windows)
    return torch.log_softmax(model.output(last[0]), dim=1)


@pytest.mark.parametrize(("n_frames", "dim"), [(1, 5), (9, 5), (224, 60), (50, 2048)])
def test_all_windows_of_a_recording_have_the_bits_of_a_gru_on_unfolded_windows(n_frames: int, dim: int):
    model, features = network(dim), torch.randn(n_frames, dim)
    found = model.frame_log_probs(features)
    with torch.no_grad():
        assert torch.equal(found, expected(model, unfolded(features, 21)))
    assert torch.equal(found, model(features))


def gradients(model: WindowGru, log_probs: Tensor) -> list[Tensor]:
    model.zero_grad()
    log_probs[:, 1].sum().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("window", [1, 3, 21])
def test_chosen_windows_have_the_bits_of_a_gru(window: int):
    model, features = network(7, window=window), torch.randn(40, 7)
    chosen = unfolded(features, window)[:, [0, 39, 5, 5, 20]]
    assert torch.equal(model.of_windows(chosen), expected(model, chosen))


def test_gradients_are_those_of_a_gru_up_to_the_order_of_their_sums():
    model, features = network(7, hidden=8).double(), torch.randn(40, 7, dtype=torch.float64)
    windows = unfolded(features, 21)
    theirs = gradients(model, expected(model, windows))
    for log_probs in (model(features), model.of_windows(windows)):
        for ours, one in zip(gradients(model, log_probs), theirs, strict=True):
            torch.testing.assert_close(ours, one, rtol=1e-12, atol=1e-12)


def test_a_frame_sees_its_window_and_nothing_else():
    model, features = network(5, window=7), torch.randn(30, 5)
    changed = features.clone()
    changed[15] += 1
    differs = (model.frame_log_probs(features) != model.frame_log_probs(changed)).any(dim=1)
    assert differs.nonzero().flatten().tolist() == list(range(12, 19))


@pytest.mark.parametrize(("dim", "n_outputs", "thousands"), [(64, 48, 28), (2048, 48, 409)])
def test_the_published_networks_have_their_number_of_weights(dim: int, n_outputs: int, thousands: int):
    model = WindowGruConfig().build(dim, n_outputs)
    assert sum(parameter.numel() for parameter in model.parameters()) // 1000 == thousands


@pytest.mark.parametrize("value", [0, 20, -1])
def test_a_window_without_a_centre_is_refused(value: int):
    with refused("range", "network.window", value, n=1):
        WindowGruConfig(window=value)
    with pytest.raises(InputError):
        WindowGruConfig(hidden=0)
