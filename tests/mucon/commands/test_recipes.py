"""`mucon recipes`."""

import pytest

from mucon.cli import main
from mucon.recipes import RECIPES


def test_all_settings_and_recipes_are_listed(capsys: pytest.CaptureFixture[str]):
    assert main(["recipes"]) == 0
    text = capsys.readouterr().out
    for word in (*RECIPES, "mask.shape = box", "backbone.pool_after = 1,2,4,8", "training.lr_drop_epoch = none"):
        assert word in text
