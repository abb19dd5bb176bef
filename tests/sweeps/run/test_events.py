"""What is worth a notice while trials run."""

from typing import Any

from sweeps.service.plan.cells import Cell
from sweeps.service.run.budget.limits import Limit
from sweeps.service.run.events import QUIET_EPOCHS, QUIET_SECONDS, Events
from sweeps.service.run.notice import Notices
from sweeps.service.run.worker import Outcome
from sweeps.service.spec.columns import Variant
from sweeps.service.triage.failures import Failure
from sweeps.service.trials.folder import State

CELLS = {
    cell.key: cell
    for cell in (
        Cell(
            variant=Variant(labels=("box",), settings={}), split="1", seed=seed, identity=f"{seed}" * 16, evaluation="e"
        )
        for seed in range(1, 10)
    )
}
KEYS = list(CELLS)


class Collected(Notices):
    """Keeps the notices instead of posting them."""

    def __init__(self) -> None:
        super().__init__(None, "masks", print)
        self.sent: dict[str, dict[str, Any]] = {}

    def send(self, kind: str, text: str, facts: Any) -> None:
        self.sent.setdefault(kind, dict(facts))


def unknown(identity: str) -> None:
    """No journal has the error."""


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def failed(reason: str, state: State = State.FAILED) -> Outcome:
    return Outcome(state, reason)


def test_the_first_failure_and_the_third_identical_one() -> None:
    notices = Collected()
    events = Events(notices, CELLS, unknown)
    events.ended(KEYS[0], Outcome(State.FINISHED))
    events.ended(KEYS[1], Outcome(State.STOPPED, "interrupted"))
    assert notices.sent == {}
    events.ended(KEYS[2], failed("KeyError: 3"))
    trial = {"identity": "3" * 16, "row": "box", "split": "1", "seed": 3}
    assert notices.sent == {"first_failure": {"trial": trial, "reason": "KeyError: 3"}}
    events.ended(KEYS[3], failed("KeyError: 12"))
    events.ended(KEYS[4], failed("diverged in epoch 3", State.DIVERGED))
    assert list(notices.sent) == ["first_failure"]
    events.ended(KEYS[5], failed("KeyError: 5"))
    same = notices.sent["same_failures"]
    assert (same["count"], [one["seed"] for one in same["trials"]], same["reason"]) == (3, [3, 4, 6], "KeyError: 5")


def test_four_fifths_of_the_budget() -> None:
    notices, share = Collected(), [0.79]
    events = Events(notices, CELLS, unknown, lambda: (Limit(3600.0, "--gpu-hours", "--gpu-hours"), share[0]))
    events.check()
    assert notices.sent == {}
    share[0] = 0.81
    events.check()
    assert notices.sent == {"budget": {"limit": "--gpu-hours", "share": 0.81}}


def test_silence_counts_from_the_last_epoch_or_result_and_by_the_longest_epoch() -> None:
    notices, clock = Collected(), Clock()
    events = Events(notices, CELLS, unknown, clock=clock)
    clock.now = QUIET_SECONDS - 1
    events.check()
    events.epoch(KEYS[0], {"epoch": 2, "seconds": 1200.0})
    clock.now += QUIET_EPOCHS * 600.0
    events.check()
    assert notices.sent == {}
    clock.now += 1
    events.check()
    assert notices.sent == {"no_progress": {"seconds": 6001}}


def test_one_cause_counts_each_training_once_whatever_its_message() -> None:
    notices = Collected()
    failures = {
        f"{seed}" * 16: Failure(exception="KeyError", message=f"{seed}", file="mucon/a.py", line=3, function="f")
        for seed in range(1, 10)
    }
    events = Events(notices, CELLS, failures.get)
    for key in (KEYS[0], KEYS[0], KEYS[1]):
        events.ended(key, failed(f"KeyError: {key}"))
    assert list(notices.sent) == ["first_failure"]
    events.ended(KEYS[2], failed("KeyError: other"))
    assert [one["seed"] for one in notices.sent["same_failures"]["trials"]] == [1, 2, 3]
