"""A spy on every read of what a store knows about its recordings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from storage.format.records import Catalogue, Record

LABELS = ("transcript", "lengths")


@contextlib.contextmanager
def reads_of_labels() -> Iterator[set[str]]:
    """The ids of the recordings whose transcript or lengths this process reads in the block."""
    read: set[str] = set()
    record, records, column = Catalogue.record, Catalogue.records, Catalogue.column

    def spied_record(self: Catalogue, video: str) -> Record:
        read.add(video)
        return record(self, video)

    def spied_records(self: Catalogue) -> list[Record]:
        read.update(self.ids)
        return records(self)

    def spied_column(self: Catalogue, name: str, videos: Any = None) -> list[Any]:
        if name in LABELS:
            read.update(self.ids if videos is None else videos)
        return column(self, name, videos)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Catalogue, "record", spied_record)
        patch.setattr(Catalogue, "records", spied_records)
        patch.setattr(Catalogue, "column", spied_column)
        yield read
