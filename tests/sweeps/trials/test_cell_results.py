"""The values of a finished cell that tables show."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeps.service.trials.cell_results import read_result
from sweeps.service.trials.reading import TrialReading
from tests.helpers.trial_folders import EVALUATION, append_epoch, finish, write_trial


@pytest.mark.parametrize("of_method", [{}, {"loss.mutual_consistency": 2.0}])
def test_a_cell_has_the_loss_of_its_last_epoch_if_its_method_has_it(
    tmp_path: Path, of_method: dict[str, float]
) -> None:
    folder = write_trial(tmp_path, epochs=1, status="running", extra=of_method)
    append_epoch(folder, 2, extra={name: value / 2 for name, value in of_method.items()})
    finish(folder, epochs=2)
    found = read_result(TrialReading(folder), EVALUATION)
    assert found.is_finished
    for prediction in ("frames", "full"):
        assert found.value(prediction, "mutual_consistency") == (1.0 if of_method else None)
        assert found.value(prediction, "training_seconds") == 12.5
