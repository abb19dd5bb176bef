"""Feature stores: folders of Parquet files that readers map into memory (see FORMAT.md).

The names below are imported on first use, because `storage.errors` and `storage.failpoints` must work where pyarrow is
not installed.

>>> from storage import open_store  # store = open_store("stores/tug"); store.features(store.ids[0])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storage.errors import StoreError
    from storage.format.manifest import Manifest
    from storage.format.records import Record
    from storage.reader import Store, open_store
    from storage.writer import StoreWriter

__all__ = ["Manifest", "Record", "Store", "StoreError", "StoreWriter", "open_store"]

_MODULES = {
    "Manifest": "format.manifest",
    "Record": "format.records",
    "Store": "reader",
    "StoreError": "errors",
    "StoreWriter": "writer",
    "open_store": "reader",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
