"""Changes of the features: what they change, by how much, and on what it depends."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from mucon.extensions.augmentation import augmented
from mucon.extensions.config import AugmentationConfig

FEATURES = torch.randn(400, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 5.0, 0.0]) + 2.0


def drawn(config: AugmentationConfig, seed: int, features: Tensor = FEATURES) -> Tensor:
    torch.manual_seed(seed)
    return augmented(features, config)


def test_without_changes_the_features_are_the_same_object():
    assert augmented(FEATURES, AugmentationConfig()) is FEATURES


@pytest.mark.parametrize("config", [AugmentationConfig(stretch=1.25), AugmentationConfig(noise=0.1)])
def test_the_changes_depend_on_the_seed_alone(config: AugmentationConfig):
    first, other = drawn(config, 1), drawn(config, 2)
    assert torch.equal(first, drawn(config, 1))
    assert first.shape != other.shape or not torch.equal(first, other)


def test_recordings_are_as_often_shorter_as_longer_by_up_to_the_factor():
    lengths = [len(drawn(AugmentationConfig(stretch=1.25), seed)) for seed in range(200)]
    assert 320 <= min(lengths) < 340
    assert 480 < max(lengths) <= 500
    assert 80 < sum(length < 400 for length in lengths) < 120


def test_a_stretched_ramp_is_a_ramp_over_the_same_values():
    ramp = torch.arange(100.0)[:, None]
    found = drawn(AugmentationConfig(stretch=2.0), 3, ramp)
    assert len(found) != 100
    inner = found[2:-2, 0].diff()
    torch.testing.assert_close(inner, torch.full_like(inner, 100 / len(found)), rtol=1e-3, atol=1e-3)
    assert 0 <= found.min() < 2
    assert 97 < found.max() <= 99


def test_the_noise_is_in_standard_deviations_of_each_feature():
    difference = drawn(AugmentationConfig(noise=0.1), 1) - FEATURES
    torch.testing.assert_close(difference.std(dim=0), torch.tensor([0.1, 0.5, 0.0]), rtol=0.1, atol=0.02)


def test_a_recording_of_one_frame_stays_as_it_is():
    one = FEATURES[:1]
    assert torch.equal(drawn(AugmentationConfig(stretch=1.4, noise=0.5), 1, one), one)
