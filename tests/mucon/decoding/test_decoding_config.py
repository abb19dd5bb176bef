from __future__ import annotations

import json

import pytest

from mucon.config import TrainConfig
from mucon.decoding.config import DecodingConfig
from tests.helpers.refusals import refused


def test_the_default_is_exact_decoding_of_one_transcript_as_in_the_paper():
    default = DecodingConfig()
    assert (default.method, default.length_prior, default.max_length) == ("exact", "segment", None)
    assert (default.beam, default.prefix_beam) == (1, None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("step", 0),
        ("length_spread", 0.0),
        ("length_spread", float("nan")),
        ("length_spread", float("inf")),
        ("max_length", 0),
        ("beam", 0),
        ("prefix_beam", 0),
        ("background_offset", float("nan")),
        ("background_share", 1.0),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(name, value):
    with refused("range", f"decoding.{name}", n=1) as refusal:
        DecodingConfig(**{name: value})
    assert refusal.values[0] is value


def test_all_wrong_values_are_reported_at_once():
    with refused("range", n=2) as refusal:
        DecodingConfig(step=0, beam=-1)
    assert refusal.places == ["decoding.step", "decoding.beam"]


CONFLICTS = {
    "step": {"step": 5},
    "transcripts": {"method": "published", "transcripts": "training"},
    "beam": {"method": "published", "beam": 2},
    "beam of training transcripts": {"transcripts": "training", "beam": 2},
    "length_prior": {"method": "published", "length_prior": "none"},
    "length_prior of training transcripts": {"transcripts": "training", "length_prior": "class"},
    "beam of a bigram": {"transcripts": "bigram", "beam": 2},
    "prefix_beam of a bigram": {"transcripts": "bigram", "prefix_beam": 2},
    "length_prior of a bigram": {"transcripts": "bigram", "length_prior": "class"},
    "length_spread": {"length_spread": 0.2},
    "length_prior fitted, of training transcripts": {"transcripts": "training", "length_prior": "fitted"},
    "length_spread of training transcripts": {"transcripts": "training", "length_spread": 0.2},
    "length_spread of equal lengths": {"length_prior": "equal", "length_spread": 0.2},
    "prefix_beam": {"prefix_beam": 3},
    "background_offset": {"background_rule": "score", "background_offset": 1.0},
    "background_share": {"background_share": 0.2},
}
"""Choices of which one has no effect, by its name."""
ALLOWED = (
    {"transcripts": "bigram", "length_prior": "fitted", "max_length": 9},
    {"transcripts": "bigram", "length_prior": "none"},
    {"method": "published", "length_prior": "class", "step": 5, "max_length": 9, "class_prior": "training"},
    {"transcripts": "training", "prefix_beam": 3, "max_length": 9, "class_prior": "training"},
    {"background_rule": "share", "background_share": 0.2, "method": "published", "max_length": 9},
    {"length_prior": "log_normal", "length_spread": 0.2, "beam": 2},
    {"length_prior": "equal_negative_binomial", "length_spread": 0.2, "beam": 2},
)


@pytest.mark.parametrize("name", CONFLICTS)
def test_a_choice_that_another_one_ignores_is_refused(name):
    setting, choices = name.split()[0], CONFLICTS[name]
    with refused("conflict", f"decoding.{setting}", choices[setting], n=1):
        DecodingConfig(**choices)
    with refused("conflict", f"decoding.{setting}", choices[setting], n=1):
        TrainConfig().with_values({f"decoding.{key}": value for key, value in choices.items()})


def test_all_ignored_choices_are_reported_at_once():
    with refused("conflict", n=3) as refusal:
        DecodingConfig(method="published", transcripts="training", beam=2, length_prior="gaussian")
    assert refusal.places == ["decoding.transcripts", "decoding.beam", "decoding.length_prior"]


def test_the_rule_of_a_stated_share_needs_the_share():
    with refused("missing", "decoding.background_share", n=1):
        DecodingConfig(background_rule="share")


@pytest.mark.parametrize("choices", ALLOWED)
def test_choices_that_have_an_effect_together_are_accepted(choices):
    assert DecodingConfig(**choices).max_length == choices.get("max_length")


@pytest.mark.parametrize("name", CONFLICTS)
def test_stored_choices_of_which_one_was_ignored_are_read_as_they_were(name):
    stored = TrainConfig().to_dict()
    stored["decoding"] |= CONFLICTS[name]
    stored["seed"] = 7
    read = TrainConfig.from_dict(json.loads(json.dumps(stored)))
    assert read.to_dict() == stored
    assert read.override("seed", 8).to_dict() == {**stored, "seed": 8}
    assert TrainConfig().decoding == DecodingConfig()
    wrong = {**stored, "decoding": {**stored["decoding"], "max_length": 0}}
    with refused("range", "decoding.max_length", 0, n=1):
        TrainConfig.from_dict(wrong)
