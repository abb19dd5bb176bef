"""What a search has found: its points, the best of them, and what fresh seeds say of those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mucon.configuration import setting_text
from sweeps.service.report.search.scales import is_number, number_text
from sweeps.service.search.points import PointRecord, SearchHistory
from sweeps.service.stats.summary import Summary
from sweeps.service.tables.table import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """A search and what its report says besides.

    Attributes:
        history: the points.
        held_out: what the points are judged on, and what they never see.
        optimism: the best points with their score in the search, their score with fresh seeds, and the difference;
            None before the last step.
        storage: file or address of the study for optuna-dashboard, without a password; empty if there is none.
        files: the table of the optimism as Markdown, CSV and LaTeX, by file name.
        damage: why the table is missing although the last step has scores; empty if nothing is damaged.
    """

    history: SearchHistory
    held_out: str = ""
    optimism: Table | None = None
    storage: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    damage: str = ""

    @property
    def objectives(self) -> list[Mapping[str, Any]]:
        """The objectives as in the record of the search."""
        return list(self.history.search["objectives"])

    @property
    def default(self) -> PointRecord | None:
        """The configuration on which the points build."""
        return self.history.default

    @property
    def chosen(self) -> list[PointRecord]:
        """The best points, the best first: those of the Pareto front first if there are several objectives."""
        by_number = {record.point.number: record for record in self.history.records}
        return [by_number[number] for number in self.history.ranked]

    @property
    def progress(self) -> str:
        """Number of the points, of those to come, and of those in each state.

        >>> Findings(history=SearchHistory(search={"trials": 4})).progress
        '0 of 4 points'
        """
        states = Counter(record.state for record in self.history.records)
        counts = ", ".join(f"{count} {state}" for state, count in sorted(states.items()))
        n, known = self.history.n_tried, len(self.history.records) - self.history.n_tried
        more = f" and {known} of a warm start" if known else ""
        return f"{n} of {self.history.search['trials']} points{more}{f' ({counts})' if counts else ''}"

    def score(self, record: PointRecord, index: int) -> Summary | None:
        """The score of a point over its seeds; None without a whole training."""
        if not record.n:
            return None
        return Summary(record.mean[index], record.std[index] if record.n > 1 else None, record.n)

    def changed(self, record: PointRecord) -> dict[str, object]:
        """The settings of a point that differ from those of the default; all of them without a default."""
        default = {} if self.default is None else self.default.point.settings
        missing = object()
        return {path: one for path, one in record.point.settings.items() if default.get(path, missing) != one}


def settings_text(settings: Mapping[str, object]) -> str:
    """Settings in few characters.

    >>> settings_text({"training.learning_rate": 0.00123456, "mask.shape": "box"}), settings_text({})
    ('training.learning_rate=0.001235, mask.shape=box', 'as the default')
    """
    return ", ".join(f"{path}={value_text(value)}" for path, value in settings.items()) or "as the default"


def value_text(value: Any) -> str:
    """A setting in few characters."""
    return number_text(value) if is_number(value) else setting_text(value)


def page_name(name: str) -> str:
    """File name of the page of a search."""
    return f"{name}_search.html"
