"""Problems and notes that are collected while a dataset is validated."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from storage.errors import Problem, StoreError, condensed

Value = TypeVar("Value")


@dataclass(slots=True)
class Findings:
    """Problems and notes about a dataset.

    Attributes:
        problems: errors; the dataset cannot be imported.
        notes: messages about assumptions, changes and suspicious data.
    """

    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def report(self, problems: Iterable[Problem]) -> None:
        """Adds the problems of one check, `condensed`."""
        self.problems += condensed(problems)

    def read_all(self, paths: Mapping[str, Path], read: Callable[[Path], Value]) -> dict[str, Value]:
        """Reads the files of all clips; files that cannot be read are reported and omitted from the result."""
        contents = {}
        problems: list[Problem] = []
        for video, path in paths.items():
            try:
                contents[video] = read(path)
            except StoreError as error:
                problems += error.problems
        self.report(problems)
        return contents

    def note_all(self, notes: Sequence[str], most: int = 3) -> None:
        """Adds notes of one kind; of more than `most`, the first ones and the number of the others as one line."""
        self.notes += notes if len(notes) <= most else [f"{'; '.join(notes[:most])}; and {len(notes) - most} more"]

    def raise_problems(self) -> None:
        """Raises all problems.

        Raises:
            StoreError: there are problems.
        """
        if self.problems:
            raise StoreError(self.problems)
