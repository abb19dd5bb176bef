"""Why a trial failed, as one line."""

from __future__ import annotations

import traceback

import pytest

from sweeps.service.run.reasons import MOST_CHARACTERS, reason_in, reason_of

RAISED = """\
\x1b[36mray::ImplicitFunc.train()\x1b[39m (pid=4711, ip=10.0.0.2, actor_id=01af, repr=train_trial)
  File "/opt/lib/ray/tune/trainable.py", line 331, in train
    raise skipped from exception_cause(skipped)
  File "/home/me/sweeps/service/run/engine.py", line 187, in train_trial
    outcome = run_trial(
              ^^^^^^^^^^
mucon.errors.InputError: --device: no CUDA device on this machine
"""
DIED = """\
ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.
\tclass_name: ImplicitFunc
\tactor_id: 01af00
\tpid: 4711
\tip: 10.0.0.2
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR
"""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (RAISED, "InputError: --device: no CUDA device on this machine"),
        (
            DIED,
            "ActorDiedError: The actor died unexpectedly before finishing this task. "
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR",
        ),
        ("\x1b[1;31mRuntimeError\x1b[0m: \x1b]8;;http://x\x07out of memory\x1b]8;;\x07", "RuntimeError: out of memory"),
        ("", ""),
    ],
)
def test_a_reason_has_no_traceback_and_no_terminal_codes(text: str, reason: str):
    assert reason_in(text) == reason


def test_the_last_of_several_chained_errors_is_the_reason():
    def fail() -> None:
        try:
            raise KeyError("first")
        except KeyError as first:
            raise RuntimeError("Error(s) in loading:\n\tmissing key(s): a, b") from first

    with pytest.raises(RuntimeError) as raised:
        fail()
    reason = "RuntimeError: Error(s) in loading: missing key(s): a, b"
    assert reason_of(raised.value) == reason_in("".join(traceback.format_exception(raised.value))) == reason


def test_a_reason_is_short_and_keeps_the_addresses_of_files():
    assert len(reason_of(ValueError("x" * 5000))) == MOST_CHARACTERS
    assert reason_of(OSError(28, "full", "/a/b.py")) == "OSError: [Errno 28] full: '/a/b.py'"
    assert reason_of(KeyboardInterrupt()) == "KeyboardInterrupt"
