"""Names that look alike have one form; names that differ in spelling stay apart."""

import pytest

from mucon.vocabulary import Vocabulary
from storage.names import normal


@pytest.mark.parametrize(
    ("written", "form"),
    [
        ("cafe\u0301", "caf\u00e9"),
        ("pour\u00a0milk", "pour milk"),
        ("\ufeffstir\u200b", "stir"),
        ("\u0645\u06cc\u200c\u062e\u0648\u0631\u062f", "\u0645\u06cc\u200c\u062e\u0648\u0631\u062f"),
    ],
)
def test_names_have_one_form(written: str, form: str) -> None:
    assert normal(written) == form


def test_a_joiner_distinguishes_words() -> None:
    assert normal("\u0645\u06cc\u200c\u062e") != normal("\u0645\u06cc\u062e")


def test_an_action_is_found_in_another_normal_form() -> None:
    assert Vocabulary(("caf\u00e9", "b")).ids(("cafe\u0301", "b")) == (0, 1)
