"""The backbone against a network of torch's own layers, and the map from frames to latent frames."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from mucon.errors import InputError
from mucon.model.backbone import Backbone, BackboneConfig, latent_index
from tests import oracles_core as oracles

SMALL = BackboneConfig(channels=8, n_layers=5, pool_after=(1, 3), n_groups=4)


def by_torchs_layers(backbone: Backbone, features: torch.Tensor) -> torch.Tensor:
    """Section 4.1 in evaluation mode; two frames at least before each pooling."""
    x = functional.relu(functional.linear(features, backbone.first.weight, backbone.first.bias))
    for i, layer in enumerate(backbone.layers):
        x = oracles.residual(
            x, layer.dilated_weight, layer.dilated_bias, layer.output_weight, layer.output_bias, None, 2**i
        )
        if i in backbone.pool_after:
            x = functional.max_pool1d(x.t()[None], 2)[0].t()
    x = functional.linear(functional.relu(x), backbone.last.weight, backbone.last.bias)
    return functional.relu(backbone.norm(x.t()[None])[0].t())


@pytest.mark.parametrize("T", [4, 5, 7, 31, 32])
def test_the_backbone_is_the_papers_stack_of_layers(T):
    torch.manual_seed(0)
    backbone = Backbone(6, SMALL).double().eval()
    features = torch.randn(T, 6, dtype=torch.float64)
    torch.testing.assert_close(backbone(features), by_torchs_layers(backbone, features))


@pytest.mark.parametrize(
    ("T", "n_latent"), [(1, 1), (2, 1), (3, 1), (15, 1), (16, 1), (17, 1), (31, 1), (32, 2), (239, 14)]
)
def test_pooling_halves_four_times_and_leaves_at_least_one_frame(T, n_latent):
    backbone = Backbone(3, BackboneConfig(channels=8, n_groups=2))
    assert backbone(torch.randn(T, 3)).shape == (n_latent, 8)
    assert BackboneConfig().pooling == 16


def test_training_drops_values_that_evaluation_keeps():
    torch.manual_seed(0)
    backbone = Backbone(3, SMALL)
    x = torch.randn(20, 3)
    assert not torch.equal(backbone(x), backbone(x))
    backbone.eval()
    assert torch.equal(backbone(x), backbone(x))


@given(st.integers(1, 3000), st.integers(1, 200))
def test_a_frames_latent_frame_is_that_of_nearest_upsampling(n_frames, n_latent):
    n_latent = min(n_latent, n_frames)
    index = latent_index(n_frames, n_latent)
    assert index[0] == 0
    assert index[-1] == n_latent - 1
    assert ((index.diff() == 0) | (index.diff() == 1)).all()
    exact = [t * n_latent // n_frames for t in range(n_frames)]
    assert index.tolist() == exact


@pytest.mark.parametrize(("n_frames", "n_latent"), [(160, 10), (239, 14), (64, 4), (1, 1), (2100, 131)])
def test_the_latent_index_agrees_with_torchs_interpolation(n_frames, n_latent):
    numbers = torch.arange(n_latent, dtype=torch.float64)[None, None]
    assert latent_index(n_frames, n_latent).tolist() == functional.interpolate(numbers, n_frames)[0, 0].long().tolist()


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"channels": 10, "n_groups": 4}, "4 does not divide 10"),
        ({"channels": 0}, "does not divide 0"),
        ({"n_layers": 0, "pool_after": ()}, "n_layers is at least 1, not 0"),
        ({"pool_after": (1, 11)}, r"from 0 to 10 .*\[1, 11\]"),
        ({"pool_after": (2, 1)}, r"rising order, not \[2, 1\]"),
        ({"pool_after": (2, 2)}, r"distinct"),
        ({"dropout": 1.0}, "dropout .* not 1.0"),
        ({"dropout": -0.1}, "dropout .* not -0.1"),
    ],
)
def test_a_backbone_that_cannot_be_built_is_refused_with_the_value(settings, said):
    with pytest.raises(InputError, match=said):
        BackboneConfig(**settings)


def test_all_problems_of_a_backbone_are_told_together():
    with pytest.raises(InputError) as caught:
        BackboneConfig(channels=10, n_layers=3, pool_after=(7,), dropout=2.0)
    assert len(caught.value.problems) == 3
