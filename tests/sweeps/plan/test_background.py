"""Rules for the background that cannot be followed are refused when a sweep is planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from mucon.config import TrainConfig
from mucon.methods import method_named
from mucon.videos import ScoredPart
from sweeps.service.cli import main
from sweeps.service.plan.background import check_rules
from sweeps.service.plan.cells import RowConfigs
from sweeps.service.spec.columns import Variant
from sweeps.service.spec.experiment import Experiment
from tests.helpers.refusals import refused

RULE = "decoding.background_rule"
SHARE = {RULE: "share", "decoding.background_share": 0.2}
LABELS = {RULE: "labelled", "training.labelled": 0.1}


def rows(*settings: dict[str, object]) -> RowConfigs:
    return [
        (Variant(labels=(f"row {i}",), settings=one), TrainConfig().with_values(one)) for i, one in enumerate(settings)
    ]


def test_every_rule_needs_a_background_and_rows_of_other_methods_have_none() -> None:
    frames = (Variant(labels=("MS-TCN",), method="ms_tcn"), method_named("ms_tcn").config())
    tables = [rows({}, SHARE, {}), [*rows({RULE: "score"}, SHARE), frames]]
    with refused("missing", RULE, n=2) as refusal:
        check_rules(tables, (), "test")
    assert refusal.values == ["share", "score"]
    assert [name in str(refusal.problems[0]) for name in ("row 0", "row 1")] == [False, True]
    check_rules(tables, ("rest",), "test")


@pytest.mark.parametrize(
    ("settings", "part", "is_refused"),
    [
        ({RULE: "labelled"}, "test", True),
        (LABELS, "test", False),
        ({RULE: "held_out"}, "test", True),
        ({RULE: "held_out"}, "validation", False),
    ],
)
def test_a_rule_that_needs_labels_is_refused_where_a_sweep_has_none(
    settings: dict[str, object], part: ScoredPart, is_refused: bool
) -> None:
    if is_refused:
        with refused("missing", RULE, settings[RULE], n=1):
            check_rules([rows(settings)], ("rest",), part)
    else:
        check_rules([rows(settings)], ("rest",), part)


def test_a_sweep_with_such_a_row_ends_before_it_trains(
    tmp_path: Path, tiny_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    experiment = Experiment(
        name="own", title="Own", label_titles=("Row",), variants=(Variant(labels=("a",), settings=SHARE),)
    )
    results = tmp_path / "results"
    line = ["--store", str(tiny_store), "--results", str(results), "--tracking", "off", "--device", "cpu"]
    assert main(experiment, line) == 2
    assert capsys.readouterr().err.count("error: ") == 1
    assert not list(results.glob("trials/*"))
