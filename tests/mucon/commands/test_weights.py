"""`mucon import-weights`; `test_published_weights.py` tests what is imported."""

from pathlib import Path

from tests.helpers.commands import call, error_line
from tests.helpers.refusals import refused


def test_a_run_is_not_overwritten(run: Path, tmp_path: Path, capsys):
    line = ["import-weights", str(tmp_path / "x.trc"), str(run)]
    with refused("exists", str(run), n=1):
        call(line)
    assert error_line(capsys, line).startswith(f"{run}: ")


def test_a_wrong_setting_is_one_line(tmp_path: Path, capsys):
    line = ["import-weights", str(tmp_path / "x.trc"), str(tmp_path / "out"), "--set", "backbone.pool_aftr=1"]
    with refused("unknown", "backbone.pool_aftr", n=1):
        call(line)
    assert "'backbone.pool_after'" in error_line(capsys, line)
