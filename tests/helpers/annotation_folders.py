"""Folders of annotations without features, whole or damaged."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ACTIONS = ("SIL", "take", "pour", "stir", "cut", "fry", "peel", "wash")


def write_annotations(folder: Path, n: int = 12, seed: int = 0) -> Path:
    """Recordings `v00`, `v01`, ... of 20 to 120 frames, every third for testing, with all the files there can be."""
    random = np.random.default_rng(seed)
    rows = ["video,subject,activity,frames,transcript,lengths"]
    segments = ["video,index,label,length"]
    parts: dict[str, list[str]] = {"train": [], "test": []}
    for i in range(n):
        steps = (random.permutation(len(ACTIONS) - 1)[:3] + 1).tolist()
        names = [ACTIONS[action] for action in (0, *steps, 0)]
        lengths = random.integers(4, 25, size=5).tolist()
        rows.append(f"v{i:02},P{i % 4},tea,{sum(lengths)},{' '.join(names)},{' '.join(map(str, lengths))}")
        segments += [f"v{i:02},{k},{a},{t}" for k, (a, t) in enumerate(zip(names, lengths, strict=True))]
        parts["train" if i % 3 else "test"].append(f"v{i:02}.txt")
    (folder / "splits").mkdir(parents=True)
    for part, names in parts.items():
        (folder / "splits" / f"{part}.split1.bundle").write_text("\n".join(names) + "\n")
        (folder / "splits" / f"{part}.split2.bundle").write_text("\n".join(names[:2]) + "\n")
    (folder / "transcripts.csv").write_text("\n".join(rows) + "\n")
    (folder / "segments.csv").write_text("\n".join(segments) + "\n")
    (folder / "mapping.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(ACTIONS)))
    statistics = ["class,min,max,log_mean,log_std", *(f"{name},5,60,3.0,0.5" for name in ACTIONS)]
    (folder / "class_length_stats.csv").write_text("\n".join(statistics) + "\n")
    return folder


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def without_column(path: Path, name: str) -> None:
    rows = [line.split(",") for line in path.read_text().splitlines()]
    place = rows[0].index(name)
    path.write_text("".join(",".join((*row[:place], *row[place + 1 :])) + "\n" for row in rows))
