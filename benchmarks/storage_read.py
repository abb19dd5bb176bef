"""Reading a clip of 2,100 x 2,048 from a mapped store, against numpy.load of a float32 `.npy` file.

Every byte is read on both sides: the clip's bytes are summed as 64-bit words, the cheapest pass over them that numpy
has. Both go through the same eight clips in turn, whose files are in the page cache; together these are larger than the
processor's caches.
"""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import compare
from numpy.typing import NDArray

from storage import Store, StoreWriter, open_store

FRAMES, DIM, CLIPS = 2100, 2048, 8


def touched(features: NDArray[Any]) -> int:
    return int(np.add.reduce(features.reshape(-1).view(np.uint64)))


def write(folder: Path) -> None:
    generator = np.random.default_rng(0)
    clips = [generator.standard_normal((FRAMES, DIM), dtype=np.float32) for _ in range(CLIPS)]
    for index, clip in enumerate(clips):
        np.save(folder / f"{index}.npy", clip)
    for dtype in ("float16", "float32"):
        with StoreWriter(folder / dtype, dim=DIM, dtype=dtype, vocabulary=["action"]) as writer:
            for index, clip in enumerate(clips):
                writer.add(str(index), clip, transcript=[0], lengths=[FRAMES])


def turns() -> Iterator[str]:
    return itertools.cycle(str(index) for index in range(CLIPS))


def from_npy(folder: Path) -> Callable[[], int]:
    order = turns()
    return lambda: touched(np.load(folder / f"{next(order)}.npy"))


def from_store(store: Store) -> Callable[[], int]:
    order = turns()
    return lambda: touched(store.features(next(order)))


def opened_anew(path: Path) -> Callable[[], int]:
    order = turns()
    return lambda: touched(open_store(path).features(next(order)))


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder)
        npy_bytes = (folder / "0.npy").stat().st_size
        for dtype in ("float16", "float32"):
            store = open_store(folder / dtype)
            size = store.features("0").nbytes
            sizes = {"bytes": size, "reference_bytes": npy_bytes, "bytes_ratio": round(size / npy_bytes, 4)}
            for case, ours in (("", from_store(store)), (", open_store included", opened_anew(folder / dtype))):
                case = f"T={FRAMES} D={DIM} {dtype}{case}"
                of = "numpy.load of float32"
                compare("storage_read", case, ours, from_npy(folder), of=of, n=40, mapped=store.is_mapped("0"), **sizes)


if __name__ == "__main__":
    main()
