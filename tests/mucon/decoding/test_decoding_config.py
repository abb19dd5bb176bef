from __future__ import annotations

import pytest

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
