"""What a trial's directory looked like when its run was brought up to date: the reason to read it again, or not."""

from __future__ import annotations

from dataclasses import dataclass

from sweeps.service.trials import lease
from sweeps.service.trials.folder import State, TrialFolder
from sweeps.service.trials.reading import TrialReading


@dataclass(frozen=True, slots=True)
class Seen:
    """A trial's directory when its run was last brought up to date.

    Attributes:
        state: the recorded state; None if the trial had not started.
        journal_bytes: size of the journal. Every evaluation appends to it, before it begins and when it ends.
        n_results: number of results.
        is_held: whether a process held the trial.
    """

    state: State | None
    journal_bytes: int
    n_results: int
    is_held: bool

    def is_current(self, folder: TrialFolder) -> bool:
        """Whether the directory has not changed since."""
        if self.state is State.FINISHED and not self.is_held:  # only a further evaluation can change it
            return self.journal_bytes == journal_bytes(folder)
        return (self.journal_bytes, self.n_results, self.is_held) == signature(folder)


def signature(folder: TrialFolder) -> tuple[int, int, bool]:
    """Journal size, number of results and whether a process holds the trial: changes whenever the record does."""
    size = journal_bytes(folder)
    if not size:  # not started
        return 0, 0, False
    return size, TrialReading(folder).n_results, lease.holder(folder.path) is not None


def journal_bytes(folder: TrialFolder) -> int:
    """Size of a trial's journal; 0 if it has none."""
    try:
        return folder.journal_path.stat().st_size
    except FileNotFoundError:
        return 0
