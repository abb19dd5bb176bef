"""Importing 200 clips of 2,100 x 2,048 with two threads, against copying their files on the same disk.

Both write to the same folder and flush every file to disk. The copy uses `shutil.copyfile`, one file after the other;
the import also reads each value, and computes statistics and checksums, of which that of the written file has a thread
of its own. The source files are in the page cache if the memory suffices. The largest memory is that of the importing
process, mapped files included.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
from pathlib import Path

import numpy as np
from harness import record, seconds

from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn

FRAMES, DIM = 2100, 2048


def write(folder: Path, n_clips: int) -> None:
    for name in ("features", "groundTruth", "splits"):
        (folder / name).mkdir(parents=True)
    clip = np.random.default_rng(0).standard_normal((FRAMES, DIM), dtype=np.float32)
    labels = "\n".join(["SIL"] * 100 + ["pour"] * (FRAMES - 100)) + "\n"
    names = [f"clip{index:04d}" for index in range(n_clips)]
    for index, name in enumerate(names):
        clip[index] += 1  # another clip
        np.save(folder / "features" / f"{name}.npy", clip)
        (folder / "groundTruth" / f"{name}.txt").write_text(labels)
    (folder / "splits" / "train.split1.bundle").write_text("".join(f"{name}.txt\n" for name in names))


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for file in sorted((source / "features").iterdir()):
        shutil.copyfile(file, target / file.name)
        with (target / file.name).open("rb") as copied:
            os.fsync(copied.fileno())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, store, copied = folder / "data", folder / "store", folder / "copy"
        write(source, options.clips)
        os.sync()
        for case, dtype in (("float32", None), ("to float16", "float16")):
            pairs = []
            for _ in range(options.runs):
                layout = MsTcn(source, ImportOptions(dtype=dtype))
                ours = seconds(lambda layout=layout: import_data(layout, store, threads=2))
                shutil.rmtree(store)
                os.sync()
                pairs.append((ours, seconds(lambda: copy(source, copied))))
                shutil.rmtree(copied)
                os.sync()
            peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            case = f"{options.clips} clips T={FRAMES} D={DIM}, {case}"
            of = "shutil.copyfile of the files, flushed to disk"
            record("storage_import", case, pairs, of=of, threads=2, max_bytes=peak)


if __name__ == "__main__":
    main()
