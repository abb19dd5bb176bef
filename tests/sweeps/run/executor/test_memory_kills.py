"""A kill by the kernel explains the death of one worker, and only soon after it."""

from pathlib import Path

import pytest

from sweeps.service.run.executor.memory_kills import RECENT_SECONDS, MemoryKills


class Kernel:
    """Counters in a file, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.counters, self.now = folder / "vmstat", 100.0
        self.count(3)

    def count(self, kills: int) -> None:
        self.counters.write_text(f"nr_free_pages 7\noom_kill {kills}\noom_kill_other 99\n")

    def kills(self) -> MemoryKills:
        return MemoryKills(self.counters, lambda: self.now)


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    return Kernel(tmp_path)


def test_a_kill_explains_one_death(kernel: Kernel) -> None:
    kills = kernel.kills()
    assert not kills.take(), "the kills before are those of others"
    kernel.count(5)
    assert [kills.take() for _ in range(3)] == [True, True, False]


def test_a_kill_does_not_explain_a_death_long_after_it(kernel: Kernel) -> None:
    kills = kernel.kills()
    kernel.count(4)
    kills.look()
    kernel.now += RECENT_SECONDS - 1
    kernel.count(5)
    kills.look()
    kernel.now += 2
    assert [kills.take() for _ in range(2)] == [True, False], "the first one is forgotten"


def test_a_kernel_without_the_counter_kills_nobody(kernel: Kernel) -> None:
    kernel.counters.write_text("nr_free_pages 7\n")
    kills = kernel.kills()
    kernel.counters.unlink()
    assert not kills.take()
