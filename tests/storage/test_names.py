"""Names that look alike have one form; names that differ in spelling stay apart."""

import numpy as np
import pytest

from mucon.vocabulary import Vocabulary
from storage import StoreError, StoreWriter, open_store
from storage.exporting.layout import Exported
from storage.exporting.ms_tcn import export_store
from storage.importing import import_data
from storage.names import normal
from storage.verify import verify_store
from tests.helpers.refusals import matching


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


WORD = "\u0645\u06cc\u200c\u062e\u0648\u0631\u062f"


def test_names_with_joiners_are_stored_and_read_back(tmp_path):
    names = (WORD, "\U0001f469\u200d\U0001f373")
    with StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=names) as writer:
        writer.add(WORD, np.ones((2, 1)), transcript=(0, 1), group=WORD)
    assert verify_store(tmp_path / "s").problems == ()
    export_store(open_store(tmp_path / "s"), tmp_path / "out")
    import_data(Exported(tmp_path / "out"), tmp_path / "again")
    store = open_store(tmp_path / "again")
    assert (store.ids, store.manifest.vocabulary, store.record(WORD).group) == ((WORD,), names, WORD)


@pytest.mark.parametrize("name", ["\u200c", "a \u200d", "a\u0085b", "\u200cb\u0000"])
def test_a_name_is_visible(tmp_path, name):
    with pytest.raises(StoreError) as caught:
        StoreWriter(tmp_path / "s", dim=1, dtype="float32", vocabulary=(name,))
    assert matching(caught.value.problems, "range", "vocabulary, id 0", name)


def test_an_action_is_found_in_another_normal_form() -> None:
    assert Vocabulary(("caf\u00e9", "b")).ids(("cafe\u0301", "b")) == (0, 1)
