"""Limits of a sweep: what their texts mean, and caps that the command line cannot raise."""

import pytest

from sweeps.service.run.budget.limits import HOUR, Budget, Limit, amount_of, read_budget
from sweeps.service.run.resources import Resources
from tests.helpers.refusals import refused


@pytest.mark.parametrize(
    ("option", "text", "amount"),
    [
        ("--time-budget", "90s", 90.0),
        ("--time-budget", "30m", 1800.0),
        ("--time-budget", "6h", 6 * HOUR),
        ("--time-budget", "1.5h", 1.5 * HOUR),
        ("--time-budget", "2d", 48 * HOUR),
        ("--gpu-hours", "20", 20 * HOUR),
        ("--cpu-hours", "0.5", HOUR / 2),
        ("--max-trials", "7", 7.0),
    ],
)
def test_amounts(option: str, text: str, amount: float) -> None:
    assert amount_of(option, text, option) == amount


@pytest.mark.parametrize(
    ("option", "text"),
    [
        *(("--time-budget", text) for text in ("90", "0s", "h", "-1h", "1h30m", "1,5h", "1e3s", "inf", "")),
        *(("--gpu-hours", text) for text in ("0", "-1", "nan", "inf", "6h", "")),
        *(("--max-trials", text) for text in ("0", "1.5", "-2", "all")),
    ],
)
def test_other_texts_are_refused(option: str, text: str) -> None:
    with refused("range", place=option, value=text, n=1):
        amount_of(option, text, option)


def test_the_smaller_of_an_option_and_its_cap_holds_and_is_named() -> None:
    caps = {"MUCON_MAX_TIME": "1h", "MUCON_MAX_GPU_HOURS": "5", "MUCON_MAX_TRIALS": "12"}
    budget = read_budget({"--time-budget": "6h", "--gpu-hours": "2", "--max-trials": None}, caps)
    assert budget == Budget(
        time=Limit(HOUR, "--time-budget", "MUCON_MAX_TIME"),
        gpu_hours=Limit(2 * HOUR, "--gpu-hours", "--gpu-hours"),
        trials=Limit(12, "--max-trials", "MUCON_MAX_TRIALS"),
    )
    (line,) = budget.lines()
    assert [part.partition(" (")[2] for part in line.split(", ")] == [
        "MUCON_MAX_TIME)",
        "--gpu-hours)",
        "MUCON_MAX_TRIALS)",
    ]
    assert list(read_budget({}, {}).lines()) == []


def test_a_wrong_cap_is_refused_together_with_a_wrong_option() -> None:
    with refused("range", place="MUCON_MAX_TIME", value="90", n=2) as refusal:
        read_budget({"--time-budget": "1h", "--cpu-hours": "x"}, {"MUCON_MAX_TIME": "90"})
    assert refusal.places == ["MUCON_MAX_TIME", "--cpu-hours"]


def test_gpu_hours_of_trials_without_a_gpu_are_refused_but_not_their_cap() -> None:
    without, with_gpu = Resources(cpus=1, gpus=0), Resources(cpus=2, gpus=0.25)
    budget = read_budget({"--gpu-hours": "20"}, {})
    budget.check(with_gpu)
    with refused("conflict", place="--gpu-hours", value=20.0, n=1):
        budget.check(without)
    read_budget({}, {"MUCON_MAX_GPU_HOURS": "20"}).check(without)


@pytest.mark.parametrize("seconds", [1.0, 59.0, 61.5, 3599.0, 7300.0, 100_000.0, 0.3])
def test_an_option_for_an_amount_covers_it(seconds: float) -> None:
    for option in ("--time-budget", "--gpu-hours", "--cpu-hours"):
        name, text = Limit(1.0, option, option).as_option(seconds).split()
        assert seconds <= amount_of(name, text, name) <= 1.2 * seconds + 1
