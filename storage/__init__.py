"""Features on disk: a store is a folder of Parquet files that readers map into memory (see FORMAT.md).

>>> from storage import open_store  # store = open_store("stores/tug"); store.features(store.ids[0])
"""

from storage.errors import StoreError
from storage.manifest import Manifest
from storage.reader import Store, open_store
from storage.records import Record
from storage.writer import StoreWriter

__all__ = ["Manifest", "Record", "Store", "StoreError", "StoreWriter", "open_store"]
