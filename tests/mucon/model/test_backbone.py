"""The backbone against a network of torch's own layers, and the map from frames to latent frames."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from mucon.config import BackboneConfig, TrainConfig
from mucon.model.backbone import Backbone, latent_index
from mucon.model.layers import pool_pairs
from tests.helpers import oracles_core as oracles
from tests.helpers.refusals import refused

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


@pytest.mark.parametrize("kind", ["dilated", "dual_dilated", "single"])
@pytest.mark.parametrize("dilation", ["exponential", "linear", "fixed"])
@pytest.mark.parametrize("pool_after", [(), (1, 2, 3), (0, 2)])
def test_the_receptive_field_is_what_a_changed_frame_changes(kind, dilation, pool_after):
    """With positive weights and features, no maximum hides a larger value; the group norm is left out."""
    torch.manual_seed(0)
    config = BackboneConfig(kind=kind, dilation=dilation, pool_after=pool_after, channels=4, n_layers=4, n_groups=4)
    backbone = Backbone(3, config).double().eval()
    for parameter in backbone.parameters():
        parameter.data.abs_()
    latent = config.reach // config.pooling + 2
    features = torch.rand(2 * latent * config.pooling + 2 * config.reach, 3, dtype=torch.float64)
    first = latent * config.pooling - config.reach
    stop = first + config.receptive_field

    def before_the_norm(x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(backbone.first(x))
        for i, layer in enumerate(backbone.layers):
            x = layer(x)
            x = pool_pairs(x) if i in backbone.pool_after else x
        return x[latent]

    changed = []
    for frame in (first - 1, first, stop - 1, stop):
        larger = features.clone()
        larger[frame] = 1e6
        if not torch.equal(before_the_norm(larger), before_the_norm(features)):
            changed.append(frame)
    assert changed == [first, stop - 1]


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
    ("settings", "name", "value", "expected"),
    [
        ({"channels": 10, "n_groups": 4}, "n_groups", 4, "10"),
        ({"n_groups": 0}, "n_groups", 0, "128"),
        ({"channels": 0}, "channels", 0, "at least 1"),
        ({"n_layers": 0, "pool_after": ()}, "n_layers", 0, "at least 1"),
        ({"pool_after": (1, 11)}, "pool_after", [1, 11], "0 to 10"),
        ({"pool_after": (2, 1)}, "pool_after", [2, 1], "ascending"),
        ({"pool_after": (2, 2)}, "pool_after", [2, 2], "distinct"),
        ({"dropout": 1.0}, "dropout", 1.0, "below 1"),
        ({"dropout": -0.1}, "dropout", -0.1, "at least 0"),
    ],
)
def test_a_backbone_that_cannot_be_built_is_refused_with_the_value(settings, name, value, expected):
    with refused("range", f"backbone.{name}", value, n=1) as refusal:
        BackboneConfig(**settings)
    assert expected in refusal.problems[0].expected


def test_all_problems_of_a_backbone_are_reported_together():
    with refused("range", n=3) as refusal:
        BackboneConfig(channels=10, n_layers=3, pool_after=(7,), dropout=2.0)
    assert refusal.places == ["backbone.n_groups", "backbone.pool_after", "backbone.dropout"]


KINDS, DILATIONS = ("dilated", "dual_dilated", "single"), ("exponential", "linear", "fixed")


def small(**settings) -> BackboneConfig:
    return BackboneConfig(**{"channels": 8, "n_layers": 5, "pool_after": (1, 3), "n_groups": 4, **settings})


def seeded(config: BackboneConfig, dim: int = 6) -> Backbone:
    torch.manual_seed(0)
    return Backbone(dim, config).double().eval()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dilation", DILATIONS)
@pytest.mark.parametrize("T", [1, 2, 3, 7, 32])
def test_every_kind_of_backbone_halves_at_its_poolings(kind, dilation, T):
    for pool_after in ((), (4,), (0, 1, 2, 3, 4)):
        backbone = seeded(small(kind=kind, dilation=dilation, pool_after=pool_after))
        latent = backbone(torch.randn(T, 6, dtype=torch.float64))
        assert latent.shape == (max(1, T >> len(pool_after)), 8)
        assert torch.isfinite(latent).all()


@pytest.mark.parametrize(
    ("kind", "layer"), [("dilated", 4 * 64 + 2 * 8), ("dual_dilated", 8 * 64 + 3 * 8), ("single", 0)]
)
def test_a_backbone_has_as_many_parameters_as_its_convolutions(kind, layer):
    outer = (6 * 8 + 8) + (8 * 8 + 8) + 2 * 8
    for n_layers in (4, 5):
        found = sum(p.numel() for p in seeded(small(kind=kind, n_layers=n_layers)).parameters())
        assert found == outer + n_layers * layer


def test_dilations_rise_as_they_are_called():
    assert small(dilation="exponential").dilations == (1, 2, 4, 8, 16)
    assert small(dilation="linear").dilations == (1, 2, 3, 4, 5)
    assert small(dilation="fixed").dilations == (1, 1, 1, 1, 1)
    assert [layer.dilation for layer in seeded(small(dilation="linear")).layers] == [1, 2, 3, 4, 5]
    duals = [layer.dilations for layer in seeded(small(kind="dual_dilated")).layers]
    assert duals == [(1, 16), (2, 8), (4, 4), (8, 2), (16, 1)]


def reached(backbone: Backbone, T: int, middle: int) -> list[int]:
    """Rows that change with one frame, before the last convolution's group norm, which mixes all frames."""
    x = torch.randn(T, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    other = x.clone()
    other[middle] += 100
    before = []
    for features in (x, other):
        rows = functional.relu(functional.linear(features, backbone.first.weight, backbone.first.bias))
        for layer in backbone.layers:
            rows = layer(rows)
        before.append(rows)
    return torch.nonzero((before[0] != before[1]).any(dim=1)).flatten().tolist()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dilation", DILATIONS)
def test_a_frame_is_seen_as_far_as_the_dilations_add_up_and_no_further(kind, dilation):
    config = small(kind=kind, dilation=dilation, pool_after=(), channels=16)
    largest = [max(pair) for pair in zip(config.dilations, reversed(config.dilations), strict=True)]
    reach = {"dilated": sum(config.dilations), "dual_dilated": sum(largest), "single": 0}[kind]
    rows = reached(seeded(config), 2 * reach + 21, reach + 10)
    assert min(rows) >= 10
    assert max(rows) <= 2 * reach + 10
    assert reach + 10 in rows
    if kind == "single" or dilation != "exponential":
        assert (min(rows), max(rows)) == (10, 2 * reach + 10)


def test_a_single_convolution_with_pooling_is_the_convolution_the_maximum_and_the_norm():
    backbone, x = seeded(small(kind="single")), torch.randn(11, 6, dtype=torch.float64)
    rows = functional.max_pool1d(functional.relu(backbone.first(x)).t()[None], 2)
    rows = functional.max_pool1d(rows, 2)[0].t()
    expected = functional.relu(backbone.norm(backbone.last(rows).t()[None])[0].t())
    torch.testing.assert_close(backbone(x), expected)


def test_pooling_follows_the_configured_layers():
    x = torch.randn(24, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    found = [seeded(small(pool_after=place))(x) for place in ((0, 1), (0, 4), (3, 4))]
    assert {latent.shape for latent in found} == {(6, 8)}
    assert not any(torch.allclose(a, b) for a, b in zip(found, found[1:] + found[:1], strict=True))


@given(st.integers(1, 3000), st.integers(0, 5))
def test_by_true_stride_a_frame_has_the_latent_frame_that_it_was_pooled_into(n_frames, n_poolings):
    n_latent = max(n_frames >> n_poolings, 1)
    index = latent_index(n_frames, n_latent, stride=2**n_poolings)
    assert index.tolist() == [min(t // 2**n_poolings, n_latent - 1) for t in range(n_frames)]
    pooled = torch.arange(n_frames, dtype=torch.float64)[:, None]
    for _ in range(n_poolings):
        pooled = pool_pairs(pooled)
    covered = n_latent << n_poolings
    if covered <= n_frames:  # the frames of a latent frame end with its maximum
        assert torch.equal(index[pooled[:, 0].long()], torch.arange(n_latent))


def test_by_nearest_interpolation_the_labels_of_an_odd_tail_come_late():
    late = latent_index(239, 14) - latent_index(239, 14, stride=16)
    assert int(late.max()) == 0
    assert int(late.min()) == -1
    assert BackboneConfig(pool_after=(1, 2, 4)).pooling == 8


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_of_a_whole_backbone_is_that_of_finite_differences(kind):
    backbone = seeded(BackboneConfig(kind=kind, channels=4, n_layers=2, pool_after=(0,), n_groups=2), dim=3)
    x = torch.randn(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64, requires_grad=True)
    names, parameters = zip(*backbone.named_parameters(), strict=True)

    def run(x: torch.Tensor, *values: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(backbone, dict(zip(names, values, strict=True)), (x,)).cos().sum()

    assert torch.autograd.gradcheck(run, (x, *parameters))


@pytest.mark.parametrize(
    ("path", "value", "choices"),
    [
        ("backbone.kind", "tcn", KINDS),
        ("backbone.dilation", "cubic", DILATIONS),
        ("backbone.upsampling", "linear", ("nearest", "stride")),
    ],
)
def test_an_unknown_choice_is_refused_and_the_choices_are_listed(path, value, choices):
    with refused("type", path, value, n=1) as refusal:
        TrainConfig().override(path, value)
    assert ", ".join(choices) in refusal.problems[0].expected
