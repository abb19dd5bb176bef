"""All findings of a store, as data, as lines of text and as warnings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from storage.errors import Problem
from storage.inspection.duplicates import duplicate_clips, duplicate_warnings
from storage.inspection.features import FeatureFacts, feature_facts, feature_rows
from storage.inspection.overview import Overview, overview, overview_rows, size_text
from storage.inspection.pooling import Pooling, pooling_of, pooling_rows
from storage.inspection.splits import SplitFacts, split_facts, split_rows

if TYPE_CHECKING:
    from storage.reader import Store

VERSION = 1
"""Of the output of `inspect --json`."""
MOST_READ_BYTES = 10**9
"""Bytes of the files up to which features are read by default."""

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """All findings.

    Attributes:
        overview: summary.
        sharing: what the parts of each split share, by split.
        duplicates: ids of clips with the same features, at least two each.
        pooling: ceilings of frame accuracy.
        features: what the features show; None if they were not read.
        warnings: what is suspicious.
    """

    overview: Overview
    sharing: dict[str, SplitFacts]
    duplicates: list[tuple[str, ...]]
    pooling: Pooling
    features: FeatureFacts | None
    warnings: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns all findings for JSON: the overview and one key per kind of finding."""
        found = asdict(self)
        return {"format_version": VERSION, **found.pop("overview"), **found}

    def rows(self) -> list[tuple[str, str]]:
        """Formats the findings without the warnings as rows of a name and a text."""
        size = size_text(self.overview.bytes)
        features = [("values", f"not read ({size}); `inspect --features` reads all of them")]
        if self.features is not None:
            features = feature_rows(self.features)
        *rows, on_disk = overview_rows(self.overview)
        return [*rows, *split_rows(self.sharing), *pooling_rows(self.pooling), *features, on_disk]

    def lines(self, more: Sequence[str] = (), warnings: Sequence[Problem] = ()) -> list[str]:
        """Formats the findings as aligned lines, with the warnings at the end.

        Args:
            more: lines of a caller that knows more, before the warnings.
            warnings: its warnings, after those of the store.
        """
        rows = self.rows()
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {text}" for name, text in rows]
        return [*lines, *more, *(f"warning: {warning}" for warning in (*self.warnings, *warnings))]


def inspect_store(store: Store, *, features: bool | None = None, progress: Progress | None = None) -> Inspection:
    """Collects all findings.

    Args:
        store: an open store.
        features: whether to read all features; None: if the files have at most `MOST_READ_BYTES`.
        progress: receives what is done, the number of clips that are read, and the number of all clips.

    Raises:
        StoreError: a damaged file of features.
    """
    sharing = {split: split_facts(store, split) for split in store.manifest.splits}
    duplicates = duplicate_clips(store)
    read = store.manifest.n_bytes <= MOST_READ_BYTES if features is None else features
    facts = feature_facts(store, progress) if read else None
    warnings = [problem for name, split in sharing.items() for problem in split.warnings(name)]
    warnings += duplicate_warnings(store, duplicates)
    if facts is not None:
        warnings += facts.warnings()
    return Inspection(
        overview=overview(store),
        sharing=sharing,
        duplicates=duplicates,
        pooling=pooling_of(store),
        features=facts,
        warnings=tuple(warnings),
    )
