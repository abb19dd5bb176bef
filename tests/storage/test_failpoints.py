import os
import signal
import subprocess
import sys

import pytest

from storage.failpoints import VARIABLE, FailpointError, reach


def run(code: str, failpoint: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", f"from storage.failpoints import reach\n{code}\nprint('end')"],
        env={**os.environ, VARIABLE: failpoint},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_nothing_happens_without_the_variable(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reach("anywhere") is None


def test_kill_ends_the_process_at_the_counted_time():
    done = run("for i in range(3): print(i, flush=True); reach('here'); reach('elsewhere')", "here:2:kill")
    assert done.returncode == -signal.SIGKILL
    assert done.stdout == "0\n1\n"


def test_raise_raises_once_and_names_the_moment(monkeypatch):
    monkeypatch.setenv(VARIABLE, "only.in.this.test:1:raise")
    with pytest.raises(FailpointError, match=r"only\.in\.this\.test .*1"):
        reach("only.in.this.test")
    assert reach("only.in.this.test") is None


def test_memory_raises_as_a_full_memory_does_and_several_settings_are_separated_by_commas(monkeypatch):
    monkeypatch.setenv(VARIABLE, "several.one:1:memory,several.two:2:raise")
    with pytest.raises(MemoryError):
        reach("several.one")
    assert reach("several.two") is None
    with pytest.raises(FailpointError):
        reach("several.two")


def test_abort_ends_the_process_as_native_code_does():
    assert run("reach('here')", "here:1:abort").returncode == -signal.SIGABRT


def test_hang_waits_until_it_is_killed():
    process = subprocess.Popen(
        [sys.executable, "-c", "from storage.failpoints import reach; print(1, flush=True); reach('x'); print(2)"],
        env={**os.environ, VARIABLE: "x:1:hang"},
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"1\n"
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.2)
    process.kill()
    assert process.communicate(timeout=60)[0] == b""


def test_stop_freezes_the_process_until_it_is_continued():
    process = subprocess.Popen(
        [sys.executable, "-c", "from storage.failpoints import reach; reach('x'); print(2)"],
        env={**os.environ, VARIABLE: "x:1:stop"},
        stdout=subprocess.PIPE,
    )
    assert os.WIFSTOPPED(os.waitpid(process.pid, os.WUNTRACED)[1])
    process.send_signal(signal.SIGCONT)
    assert process.communicate(timeout=60)[0] == b"2\n"


@pytest.mark.parametrize("setting", ["here", "here:0:kill", "here:x:kill", "here:1:explode"])
def test_a_malformed_variable_is_refused(monkeypatch, setting):
    monkeypatch.setenv(VARIABLE, setting)
    with pytest.raises(ValueError, match=f"name:count:action.*{setting}"):
        reach("here")
