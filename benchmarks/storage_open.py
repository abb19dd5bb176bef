"""Opening a store: of one clip and of 1,000,000 clips of 10 frames.

`again`: in a process that has opened the store before, against opening a `.npy` file. `cold`: a new Python that imports
the package, opens the store and reads one clip by its name, against a new Python that imports numpy and pyarrow; with
the largest memory of that process. The row groups have 512 kB, so that the store has as many as one of 4 MiB with 512
features in float16.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from harness import compare, record, seconds

from storage import StoreWriter, open_store
from storage.constants import Limits

FRAMES, DIM = 10, 64
CLIP = """
from storage import open_store
store = open_store({path!r})
store.features({clip!r}).sum()
print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""
IMPORTS = "import numpy, pyarrow.parquet"


def write(path: Path, n_clips: int) -> None:
    generator = np.random.default_rng(0)
    limits = Limits(row_group_bytes=2**19)
    with StoreWriter(path, dim=DIM, dtype="float16", vocabulary=["action", "other"], limits=limits) as writer:
        for index in range(n_clips):
            clip = generator.standard_normal((FRAMES, DIM), dtype=np.float32).astype(np.float16)
            writer.add(f"clip{index:07d}", clip, transcript=[0, 1], lengths=[4, 6], splits=["1:train"], group="a")


def cold(path: Path, clip: str) -> int:
    """Reads a clip in a new process and returns the largest memory of that process in bytes."""
    code = CLIP.format(path=str(path), clip=clip)
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return 1024 * int(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.save(folder / "one.npy", np.zeros((FRAMES, DIM), np.float16))
        for n_clips in (1, options.clips):
            path = folder / str(n_clips)
            writing = seconds(lambda path=path, n=n_clips: write(path, n))
            size = {"clips": n_clips, "frames": FRAMES, "written_in": round(writing, 2)}
            time.sleep(0.2)  # a store that was just written is read again each time
            clip = f"clip{n_clips * 2 // 3:07d}"
            case = f"{n_clips} clips"
            compare(
                "storage_open", f"{case}, again", lambda path=path: open_store(path),
                lambda: np.load(folder / "one.npy", mmap_mode="r"), of="numpy.load of one clip, mapped", n=200, **size,
            )  # fmt: skip
            memory = cold(path, clip)
            pairs = []
            for _ in range(5):
                ours = seconds(lambda path=path, clip=clip: cold(path, clip))
                pairs.append((ours, seconds(lambda: subprocess.run([sys.executable, "-c", IMPORTS], check=True))))
            of = "a new Python that imports numpy and pyarrow"
            record("storage_open", f"{case}, a clip by id, cold", pairs, of=of, max_bytes=memory, **size)
        peak = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"largest memory of the writing process: {peak / 1e9:.2f} GB", file=sys.stderr)


if __name__ == "__main__":
    main()
