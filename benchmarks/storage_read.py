"""Reading all clips of a store like Breakfast's in random order, against numpy.load of float32 `.npy` files.

A case is one pass over all clips (2,100 x 2,048, 200 by default, so 3.4 GB of `.npy` files), per clip. Every byte that
is returned is read: the clip's bytes are summed as 64-bit words, the cheapest pass over them that numpy has. The files
are in the page cache if the memory suffices.

`mapped`: a store as this project writes it. `pyarrow`: its shards rewritten by pyarrow in pages of 1 MB, so that they
cannot be mapped and pyarrow reads them. `8 processes`: each reads the whole store and keeps all clips; their memory is
the sum of PSS, in which a page that n processes share counts 1/n for each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
from harness import record, seconds
from numpy.typing import NDArray

from storage import Store, StoreWriter, open_store
from storage.format.manifest import Manifest
from storage.format.shards import file_digest

FRAMES, DIM, PROCESSES = 2100, 2048, 8
Read = Callable[[str], NDArray[Any]]


def touched(features: NDArray[Any]) -> int:
    return int(np.add.reduce(features.reshape(-1).view(np.uint64)))


def write(folder: Path, n_clips: int) -> None:
    """Writes `.npy` files and stores of the same clips."""
    generator = np.random.default_rng(0)
    clip = generator.standard_normal((FRAMES, DIM), dtype=np.float32)
    stores = {
        dtype: StoreWriter(folder / dtype, dim=DIM, dtype=dtype, vocabulary=["action"])
        for dtype in ("float16", "float32")
    }
    with stores["float16"] as half, stores["float32"] as single:
        for index in range(n_clips):
            clip[index] += 1  # another clip
            np.save(folder / f"{index}.npy", clip)
            for writer in (half, single):
                writer.add(str(index), clip, transcript=[0], lengths=[FRAMES])


def rewrite(store: Path, to: Path) -> None:
    """Copies a store and writes its shards with the default pages of pyarrow, in the same row groups."""
    to.mkdir()
    header = json.loads((store / "manifest.json").read_text())
    (to / "videos.parquet").write_bytes((store / "videos.parquet").read_bytes())
    for shard in header["shards"]:
        file = pq.ParquetFile(store / shard["file"])
        with pq.ParquetWriter(
            to / shard["file"], file.schema_arrow, compression="none", use_dictionary=False
        ) as writer:
            for group in range(file.num_row_groups):
                writer.write_table(file.read_row_group(group))
        shard["sha256"], shard["bytes"] = file_digest(to / shard["file"])
    manifest = Manifest.from_json((store / "manifest.json").read_bytes(), "manifest")
    shards = tuple(type(old)(**new) for old, new in zip(manifest.shards, header["shards"], strict=True))
    (to / "manifest.json").write_text(replace(manifest, shards=shards).to_json())


def one_pass(read: Read, order: list[str]) -> Callable[[], None]:
    def all_clips() -> None:
        for clip in order:
            touched(read(clip))

    return all_clips


def reader(store: Store) -> Read:
    return lambda clip: store.features(clip)


def hold(path: Path, order: list[str], barrier: Barrier, pss: Any) -> None:
    """Reads all clips of a store and reports the memory of the process while all processes hold them."""
    held = [open_store(path).features(clip) for clip in order]
    for clip in held:
        touched(clip)
    barrier.wait()
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    pss.put(1024 * next(int(line.split()[1]) for line in lines if line.startswith("Pss:")))
    barrier.wait()


def shared_memory(path: Path, order: list[str]) -> None:
    """Prints the memory of processes that read the same store, and what one process of them takes."""

    def measured(n: int) -> int:
        context = multiprocessing.get_context("spawn")
        barrier, pss = context.Barrier(n), context.Queue()
        readers = [context.Process(target=hold, args=(path, order, barrier, pss)) for _ in range(n)]
        for process in readers:
            process.start()
        total = sum(pss.get() for _ in readers)
        for process in readers:
            process.join()
        return total

    store = sum(file.stat().st_size for file in path.iterdir())
    case, of = f"{PROCESSES} processes, sum of PSS", "the size of the store"
    one, all_of_them = measured(1), measured(PROCESSES)
    record("storage_read", case, [(all_of_them, store)], of=of, unit="bytes", threads=PROCESSES, one_process=one)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, options.clips)
        rewrite(folder / "float16", folder / "rewritten")
        order = [str(index) for index in np.random.default_rng(1).permutation(options.clips)]
        shared_memory(folder / "float16", order)  # first, because this process would share the pages
        half, single, other = (open_store(folder / kind) for kind in ("float16", "float32", "rewritten"))
        assert half.is_mapped("0")
        assert not other.is_mapped("0")
        loaded: Read = lambda clip: np.load(folder / f"{clip}.npy")  # noqa: E731
        halved: Read = lambda clip: loaded(clip).astype(np.float16)  # noqa: E731
        float32, float16 = "numpy.load of float32", "numpy.load of float32, converted to float16"
        cases: list[tuple[str, Read, Read, str]] = [
            ("mapped float16", reader(half), loaded, float32),
            ("mapped float16", reader(half), halved, float16),
            ("mapped float16, open_store included", lambda clip: open_store(half.path).features(clip), loaded, float32),
            ("mapped float32", reader(single), loaded, float32),
            ("pyarrow float16", reader(other), loaded, float32),
            ("pyarrow float16", reader(other), halved, float16),
        ]
        for case, ours, reference, of in cases:
            mine, theirs = one_pass(ours, order), one_pass(reference, order)
            mine()
            theirs()
            pairs = [(seconds(mine) / len(order), seconds(theirs) / len(order)) for _ in range(options.passes)]
            record("storage_read", f"{case} T={FRAMES} D={DIM}", pairs, of=of, clips=len(order))


if __name__ == "__main__":
    main()
