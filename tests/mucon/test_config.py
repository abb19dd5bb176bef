"""The configuration: typed replacement by path, round trips, what differs, and the recipes."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon.config import Config, TrainConfig, convert, field_types, flatten, parse_settings, setting_text
from mucon.configuration import ALIASES
from mucon.errors import InputError, Problem
from mucon.methods import METHODS, method_named
from mucon.recipes import RECIPES
from mucon.training_config import TrainingConfig
from tests.helpers.refusals import refused

FINITE = st.floats(allow_nan=False, allow_infinity=False)
VALID = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 2**31),
        "mask.shape": st.sampled_from(["box", "bell", "trapezoid"]),
        "mask.overlap": st.floats(0, 0.99),
        "mask.corner_aligned": st.booleans(),
        "loss.smoothing": st.floats(0, 100),
        "loss.normalise": st.sampled_from(["length", "stretched_length", "mask_sum"]),
        "loss.detach_length": st.booleans(),
        "loss.supervised_length_rule": st.sampled_from(["log", "share"]),
        "mask.min_ramp_frames": st.floats(0, 100),
        "backbone.kind": st.sampled_from(["dilated", "dual_dilated", "single"]),
        "training.labelled": st.floats(0, 1),
        "training.teacher_forcing": st.floats(0, 1),
        "training.optimiser": st.sampled_from(["sgd", "adam"]),
        "training.accumulate": st.integers(1, 100),
        "training.warm_start": st.none() | st.sampled_from(["run", "runs/a b"]),
        "backbone.pool_after": st.sets(st.integers(0, 10)).map(lambda s: tuple(sorted(s))),
        "backbone.dropout": st.floats(0, 0.99),
        "training.epochs": st.integers(1, 10_000),
        "training.lr_drop_epoch": st.none() | st.integers(0, 10_000),
        "training.learning_rate": st.floats(1e-9, 10),
        "decoding.max_length": st.none() | st.integers(1, 10_000),
        "decoding.length_prior": st.sampled_from(["segment", "class", "none"]),
    },
)


@given(VALID)
def test_a_configuration_survives_json(values):
    config = TrainConfig().with_values(values)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert flatten(config.to_dict()) == {**flatten(TrainConfig().to_dict()), **_plain(values)}


@given(VALID)
def test_the_text_of_a_value_sets_it(values):
    config = TrainConfig().with_values(values)
    as_text = {path: setting_text(value) for path, value in flatten(config.to_dict()).items()}
    assert TrainConfig().with_values(as_text) == config


@given(VALID)
def test_the_differences_alone_make_the_configuration(values):
    config = TrainConfig().with_values(values)
    differences = config.differences()
    assert TrainConfig().with_values(differences) == config
    default = flatten(TrainConfig().to_dict())
    assert all(value != default[path] for path, value in differences.items())


def _plain(values):
    return {path: list(value) if isinstance(value, tuple) else value for path, value in values.items()}


@given(st.one_of(st.tuples(st.just(int), st.integers()), st.tuples(st.just(float), FINITE)))
def test_a_number_and_its_text_are_the_same_value(pair):
    kind, value = pair
    for given_value in (value, str(value), f" {value} "):
        converted = convert("x", given_value, kind)
        assert converted == value
        assert type(converted) is kind


def test_whole_numbers_are_numbers_and_the_other_way_round_they_are_not():
    assert TrainConfig().override("mask.overlap", 0) == TrainConfig().override("mask.overlap", "0.0")
    with refused("type", "training.epochs", 3.0, n=1):
        TrainConfig().override("training.epochs", 3.0)


@pytest.mark.parametrize(
    ("path", "value", "expected"),
    [
        ("training.epochs", "many", "whole"),
        ("training.epochs", True, "whole"),
        ("training.epochs", None, "whole"),
        ("training.lr_drop_epoch", "1.5", "none"),
        ("loss.smoothing", "much", "finite"),
        ("loss.smoothing", "inf", "finite"),
        ("loss.smoothing", float("nan"), "finite"),
        ("loss.smoothing", 10**400, "finite"),
        ("loss.smoothing", [1.0], "finite"),
        ("loss.detach_length", 1, "true"),
        ("loss.detach_length", "yes", "true"),
        ("mask.shape", "boxx", "trapezoid"),
        ("mask.shape", ["box"], "trapezoid"),
        ("backbone.pool_after", "1,x", "list"),
        ("backbone.pool_after", 3, "list"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_path_value_and_what_is_expected(path, value, expected):
    with refused("type", path, n=1) as refusal:
        TrainConfig().override(path, value)
    problem = refusal.problems[0]
    assert problem.value is value
    assert expected in problem.expected


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("loss.smooting", "loss.smoothing"),
        ("mask.shap", "mask.shape"),
        ("training.lr_drop_epochs", "training.lr_drop_epoch"),
    ],
)
def test_an_unknown_setting_is_refused_and_the_nearest_are_named(path, near):
    with refused("unknown", path, path, n=1) as refusal:
        TrainConfig().override(path, 1)
    assert repr(near) in str(refusal.problems[0])


def test_a_group_of_settings_is_not_a_setting():
    with refused("unknown", "mask", "mask", n=1):
        TrainConfig.from_dict({"mask": 3})


def test_all_problems_are_reported_together():
    values = {"nonsense": 1, "mask.overlap": 2.0, "training.epochs": "x", "loss.length": -1, "backbone.dropout": 1}
    with refused("range", n=6) as refusal:
        TrainConfig().with_values({**values, "seed": -1})
    assert sorted(refusal.places) == sorted([*values, "seed"])


def test_a_configuration_is_not_changed_by_an_override():
    config = TrainConfig()
    assert config.override("mask.shape", "bell") != config
    assert config == TrainConfig()


def test_every_leaf_has_a_type_and_a_default():
    known = field_types(TrainConfig)
    assert set(known) == set(flatten(TrainConfig().to_dict()))
    assert known["mask.shape"] == Literal["box", "bell", "trapezoid"]


def test_choices_of_evaluation_and_of_the_machine_are_not_what_was_trained():
    config = TrainConfig().with_values(
        {"decoding.max_length": 7, "training.threads": 2, "seed": 4, "mask.shape": "bell"}
    )
    assert set(config.differences()) == {"decoding.max_length", "training.threads", "seed", "mask.shape"}
    assert config.trained_differences() == {"mask.shape": "bell"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    width: int = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    inner: Inner = field(default_factory=Inner)
    rate: float = 0.5

    def __post_init__(self) -> None:
        if self.rate < 0:
            raise InputError(Problem(rule="range", place="outer.rate", value=self.rate, expected="at least 0"))


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherConfig(Config):
    NOT_TRAINED: ClassVar[tuple[str, ...]] = ("outer.inner",)

    outer: Outer = field(default_factory=Outer)
    seed: int = 1


def test_another_method_has_a_configuration_of_its_own_with_the_same_overrides():
    config = OtherConfig().with_values({"outer.inner.width": "3", "outer.rate": 1, "seed": "7"})
    assert (config.outer.inner.width, config.outer.rate, config.seed) == (3, 1.0, 7)
    assert OtherConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert config.differences() == {"outer.inner.width": 3, "outer.rate": 1.0, "seed": 7}
    assert config.trained_differences() == {"outer.rate": 1.0}
    with refused("unknown", "mask.shape", n=1):
        config.override("mask.shape", "bell")
    with refused("range", "outer.rate", -1.0, n=1):
        config.override("outer.rate", "-1")


@dataclass(frozen=True, slots=True, kw_only=True)
class DerivedConfig(OtherConfig):
    ORDER: ClassVar[tuple[str, ...]] = ("kind", "outer")

    kind: str = "plain"


def test_a_configuration_with_inherited_fields_is_recorded_and_listed_in_its_own_order():
    assert list(DerivedConfig().to_dict()) == ["kind", "outer", "seed"]
    assert list(field_types(DerivedConfig)) == ["kind", "outer.inner.width", "outer.rate", "seed"]


def test_settings_without_an_equals_sign_are_refused_each():
    assert parse_settings([" a.b = 1 ", "c=d=e", "a.b=2"]) == {"a.b": "2", "c": "d=e"}
    with refused("type", "--set", "a.b", n=2) as refusal:
        parse_settings(["a.b", "c=1", "d"])
    assert refusal.values == ["a.b", "d"]


def test_the_seed_is_at_least_zero():
    with refused("range", "seed", -1, n=1):
        TrainConfig(seed=-1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("lr_drop_fraction", 1.5),
        ("lr_drop_epoch", -1),
        ("lr_drop_factor", 0.0),
        ("weight_decay", -1.0),
        ("clip_norm", 0.0),
        ("threads", 0),
        ("labelled", 1.1),
        ("labelled", float("nan")),
        ("teacher_forcing", -0.1),
        ("accumulate", 0),
        ("progress_videos", -1),
        ("progress_every", 0),
    ],
)
def test_a_schedule_out_of_range_is_refused_with_the_value(name, value):
    with refused("range", f"training.{name}", n=1) as refusal:
        TrainingConfig(**{name: value})
    assert refusal.problems[0].value is value


def test_the_rate_drops_after_a_share_of_the_run_or_an_epoch_that_is_named():
    assert TrainingConfig().drop_after == 70
    assert TrainingConfig(epochs=30).drop_after == 14
    assert TrainingConfig(epochs=30, lr_drop_epoch=20).drop_after == 20
    rates = [TrainingConfig(epochs=3, lr_drop_epoch=2).rate(epoch) for epoch in range(3)]
    assert rates == pytest.approx([0.01, 0.01, 0.001])
    assert [TrainingConfig(epochs=2, lr_drop_fraction=1.0).rate(epoch) for epoch in range(2)] == [0.01, 0.01]


def test_former_names_of_recipes_are_aliases():
    former = {"breakfast": "weak", "breakfast_full": "full", "hollywood": "short_videos"}
    assert list(RECIPES)[7:] == list(former)
    assert all(RECIPES[old] is RECIPES[new] for old, new in former.items())


def test_the_recipes_are_the_papers_settings():
    recipes = {name: recipe() for name, recipe in RECIPES.items()}
    assert list(recipes)[:7] == ["weak", "full", "short_videos", "demo", "published_program", "small", "best"]
    assert recipes["weak"].differences() == {}
    defaults = flatten(recipes["weak"].to_dict())
    for path, value in {
        "loss.mutual_consistency": 1.0,
        "loss.transcript": 1.0,
        "loss.length": 0.1,
        "loss.smoothing": 0.1,
        "loss.length_width": 2.0,
        "loss.smoothing_threshold": 4.0,
        "training.epochs": 150,
        "training.learning_rate": 0.01,
        "training.weight_decay": 0.005,
        "training.clip_norm": 100.0,
        "backbone.channels": 128,
        "backbone.n_layers": 11,
        "backbone.pool_after": [1, 2, 4, 8],
        "backbone.dropout": 0.25,
        "backbone.n_groups": 32,
        "segment_branch.hidden": 128,
        "mask.n_samples": 100,
    }.items():
        assert defaults[path] == value, path
    short = recipes["short_videos"]
    assert (short.backbone.pool_after, short.loss.length, short.training.drop_after) == ((1, 2, 4), 1.0, 60)
    assert recipes["published_program"].differences() == {
        "mask.overlap_rule": "published",
        "mask.corner_aligned": True,
        "loss.normalise": "stretched_length",
        "loss.smoothing_rule": "after_mean",
        "loss.supervised_length_rule": "share",
        "loss.length_on_labelled": True,
        "decoding.method": "published",
        "decoding.length_prior": "class",
    }
    assert recipes["small"].trained_differences().keys() == {
        "backbone.n_layers",
        "backbone.pool_after",
        "training.epochs",
        "training.lr_drop_fraction",
    }
    assert (recipes["small"].backbone.receptive_field, recipes["small"].training.drop_after) == (94, 40)
    best = recipes["best"]
    assert (best.backbone, best.decoding.length_prior) == (recipes["small"].backbone, "equal")
    assert best.self_training.first_epochs(30) == {"settle": 14, "divided": 22, "consolidate": 26}
    full = recipes["full"]
    assert (full.training.epochs, full.training.labelled, full.training.drop_after) == (110, 1.0, 70)
    assert full.trained_differences().keys() == {
        "training.epochs",
        "training.labelled",
        "training.lr_drop_fraction",
    }


@pytest.mark.parametrize(
    ("path", "suggested"),
    [
        ("lr", ["training.learning_rate"]),
        ("training.lr", ["training.learning_rate"]),
        ("batch_size", ["training.accumulate"]),
        ("training.workers", ["training.threads"]),
        ("epochs", ["training.epochs"]),
        ("training.optimizer", ["training.optimiser"]),
        ("dropout", ["backbone.dropout", "segment_branch.dropout"]),
        ("loss.smooting", ["loss.smoothing"]),
    ],
)
def test_names_of_settings_elsewhere_lead_to_the_right_ones(path: str, suggested: list[str]):
    with refused("unknown", path, path, n=1) as refusal:
        TrainConfig().override(path, 1)
    assert all(repr(name) in refusal.problems[0].message for name in suggested)


def test_each_alias_stands_for_a_setting_and_is_none_itself():
    names = {path.rpartition(".")[2] for method in METHODS for path in field_types(method_named(method).config)}
    assert set(ALIASES.values()) <= names
    assert not set(ALIASES) & names


def test_wrong_names_types_and_values_are_reported_together():
    values = {"lr": 1, "mask.shape": "boxx", "mask.overlap": 3, "training.epochs": -3, "seed": -1}
    with refused("unknown", "lr", n=5) as refusal:
        TrainConfig().with_values(values)
    assert set(refusal.places) == set(values)
