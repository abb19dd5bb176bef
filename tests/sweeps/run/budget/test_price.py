"""The cost of missing trials at a price that the user states."""

from pathlib import Path

import pytest

from sweeps.ablation_masks import EXPERIMENT
from sweeps.service.cli import main
from sweeps.service.run.budget.price import Price, read_price
from sweeps.service.run.resources import Resources
from tests.helpers.refusals import refused

SHARED_GPU = Resources(cpus=2, gpus=0.25)


def test_hours_of_gpus_cost_the_price_and_hours_of_cores_where_the_trials_use_no_gpu() -> None:
    hours, bounds = 40 * 3600.0, (36 * 3600.0, 60 * 3600.0)
    line = Price(2.5, "EUR").line(hours, bounds, SHARED_GPU)
    assert line.startswith("cost: 25 EUR, 22.5 to 37.5 ")
    assert line.endswith(" at 2.5 EUR per GPU-hour")
    line = Price(0.05).line(hours, (hours, hours), Resources(cpus=2, gpus=0))
    assert line == "cost: 4, at 0.05 per CPU-hour"


@pytest.mark.parametrize(("text", "price"), [("2", Price(2)), (" .5EUR ", Price(0.5, "EUR")), ("3 $", Price(3, "$"))])
def test_a_price_is_a_number_with_or_without_a_currency(text: str, price: Price) -> None:
    assert read_price(text, is_dry_run=True) == price


@pytest.mark.parametrize("text", ["", "0", "-1", "free", "1e3", "nan", "1" * 400, "2 EUR per hour"])
def test_anything_else_is_refused(text: str) -> None:
    with refused("range", place="--price", value=text, n=1):
        read_price(text, is_dry_run=True)


def test_a_price_without_a_dry_run_is_refused() -> None:
    with refused("conflict", place="--price", value="2", n=1):
        read_price("2", is_dry_run=False)


def test_the_cost_follows_the_estimate_of_the_missing_trials(
    tiny_store: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [
        "--store",
        str(tiny_store),
        "--results",
        str(tmp_path),
        "--rows",
        "box, no",
        "--seeds",
        "1",
        "--epochs",
        "3",
    ]
    words += ["--set", "backbone.pool_after=1,2", "--device", "cpu", "--dry-run", "--price", "1000000 EUR"]
    assert main(EXPERIMENT, words) == 0
    lines = capsys.readouterr().out.splitlines()
    cost = lines[[line.partition(":")[0] for line in lines].index("cost")]
    hours = float(next(line for line in lines if line.startswith("estimate: ")).partition("; ")[2].split()[0])
    assert cost.endswith(" EUR per CPU-hour")
    assert float(cost.split()[1]) == pytest.approx(1e6 * hours, rel=0.06), "the estimate has two digits"
