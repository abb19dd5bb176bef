from __future__ import annotations

import pytest

from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError


def test_the_default_is_exact_decoding_of_one_transcript_as_in_the_paper():
    default = DecodingConfig()
    assert (default.method, default.length_prior, default.max_length) == ("exact", "segment", None)
    assert (default.beam, default.prefix_beam) == (1, None)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"step": 0}, ["decoding.step is at least 1 frame", "not 0", "use 1"]),
        ({"length_spread": 0.0}, ["decoding.length_spread is finite and above 0", "not 0.0", "use 0.5"]),
        ({"length_spread": float("nan")}, ["decoding.length_spread is finite and above 0", "not nan", "use 0.5"]),
        ({"max_length": 0}, ["decoding.max_length is at least 1 frame", "not 0", "use none"]),
        ({"beam": 0}, ["decoding.beam is at least 1 transcript", "not 0", "use 1"]),
        ({"prefix_beam": 0}, ["decoding.prefix_beam is at least 1 prefix", "not 0", "use none"]),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(values, words):
    with pytest.raises(InputError) as caught:
        DecodingConfig(**values)
    (problem,) = caught.value.problems
    assert [word for word in words if word not in problem] == []


def test_all_wrong_values_are_told_at_once():
    with pytest.raises(InputError) as caught:
        DecodingConfig(step=0, beam=-1)
    assert len(caught.value.problems) == 2
