"""The phases of self-training, and which of its settings are the same training."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.config import TrainConfig
from mucon.extensions.config import SelfTrainingConfig
from mucon.recipes import RECIPES
from tests.helpers.factories import small_config
from tests.helpers.refusals import refused

CONFIGS = st.builds(
    SelfTrainingConfig,
    start=st.floats(0, 1),
    settle=st.floats(0, 1),
    divided=st.integers(0, 5),
    refresh=st.integers(1, 4),
)
ORDER = (None, "settle", "divided", "consolidate")


@given(CONFIGS, st.integers(1, 40))
def test_the_phases_follow_each_other_and_each_begins_with_new_labels(config: SelfTrainingConfig, epochs: int):
    phases = [config.phase(epoch, epochs) for epoch in range(epochs)]
    assert [ORDER.index(phase) for phase in phases] == sorted(ORDER.index(phase) for phase in phases)
    assert phases.count(None) == round(config.start * epochs)
    assert phases.count("divided") <= config.divided
    assert config.begins(epochs) == any(phases)
    refreshed = [config.refreshes(epoch, epochs) for epoch in range(epochs)]
    for epoch, phase in enumerate(phases):
        if phase is None:
            assert not refreshed[epoch]
        elif epoch == 0 or phases[epoch - 1] != phase:
            assert refreshed[epoch]
        else:
            assert refreshed[epoch] == (not any(refreshed[max(0, epoch - config.refresh + 1) : epoch]))


def test_the_rate_drops_when_the_labels_are_consolidated_and_not_where_plain_training_drops_it():
    config = small_config(training__epochs=17, training__lr_drop_epoch=3, self_training__start=0.45)
    rates = [config.schedule.rate(epoch) for epoch in range(17)]
    assert rates == [0.01] * 14 + [0.001] * 3
    assert [small_config(training__epochs=4, training__lr_drop_epoch=3).schedule.rate(e) for e in range(4)] == [
        *[0.01] * 3,
        0.001,
    ]


@pytest.mark.parametrize("recipe", [name for name in RECIPES if name != "best"])
def test_self_training_is_off_in_the_recipes_of_the_paper_and_leaves_their_identities(recipe: str):
    config = RECIPES[recipe]()
    assert not config.self_training.begins(config.training.epochs)
    assert not any(path.startswith("self_training.") for path in config.canonical().trained_differences())


ON = {"training.epochs": 10, "self_training.start": 0.5, "self_training.settle": 0.2}


@pytest.mark.parametrize(
    ("base", "change"),
    [
        ({}, {"self_training.settle": 0.5, "self_training.weight": 2.0, "self_training.divided_prior": "none"}),
        ({"training.epochs": 4}, {"self_training.start": 0.9}),
        (ON, {"self_training.start": 0.52}),
        (ON, {"training.lr_drop_epoch": 2}),
        (ON | {"self_training.settle": 0.5}, {"self_training.divided": 7, "self_training.divided_prior": "none"}),
        (ON | {"self_training.settle": 0.5}, {"self_training.consolidate_prior": "none"}),
        (ON | {"self_training.settle": 0.5}, {"training.lr_drop_factor": 0.5}),
        (ON, {"loss.supervised_length_rule": "share"}),
    ],
)
def test_settings_without_effect_have_one_canonical_form(base: dict[str, object], change: dict[str, object]):
    config = TrainConfig().with_values(base)
    changed = config.with_values(change)
    assert config != changed
    assert config.canonical() == changed.canonical()
    assert config.canonical().canonical() == config.canonical()


@pytest.mark.parametrize(
    "change",
    [
        {"self_training.start": 0.6},
        {"self_training.settle": 0.3},
        {"self_training.divided": 1},
        {"self_training.weight": 2.0},
        {"self_training.refresh": 2},
        {"self_training.divided_prior": "none"},
        {"self_training.consolidate_prior": "none"},
        {"self_training.supervised_length": 1.0},
        {"training.lr_drop_factor": 0.5},
    ],
)
def test_settings_with_an_effect_are_another_training(change: dict[str, object]):
    config = TrainConfig().with_values(ON)
    assert config.canonical().trained_differences() != config.with_values(change).canonical().trained_differences()


def test_the_rule_of_the_length_loss_counts_once_the_networks_own_lengths_do():
    config = TrainConfig().with_values({**ON, "self_training.supervised_length": 1.0})
    other = config.override("loss.supervised_length_rule", "share")
    assert config.canonical() != other.canonical()


@pytest.mark.parametrize("name", ["start", "settle", "divided", "weight", "supervised_length", "refresh"])
def test_values_outside_their_range_are_refused(name: str):
    with refused("range", f"self_training.{name}", -1, n=1):
        TrainConfig().override(f"self_training.{name}", -1)
