"""What a version of a registered model contains."""

from pathlib import Path

from mucon.identity.checksums import CARD
from sweeps.service.track.content.versions import MAX_DESCRIPTION_CHARACTERS, version_description


def test_a_card_beyond_the_limit_of_the_server_says_where_the_rest_is(tmp_path: Path) -> None:
    (tmp_path / CARD).write_text("é" * MAX_DESCRIPTION_CHARACTERS, encoding="utf-8")
    assert version_description(tmp_path) == "é" * MAX_DESCRIPTION_CHARACTERS
    (tmp_path / CARD).write_text("é" * (MAX_DESCRIPTION_CHARACTERS + 1), encoding="utf-8")
    shown = version_description(tmp_path)
    assert len(shown) == MAX_DESCRIPTION_CHARACTERS
    assert CARD in shown[-100:]
