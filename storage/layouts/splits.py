"""Split files: `PART.splitK.bundle` with the name of a clip on each line."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storage.errors import StoreError, some
from storage.layouts.text import Names, read_lines
from storage.records import natural

_BUNDLE = re.compile(r"([^.:\s]+)\.split([^:\s]+)\.bundle", re.IGNORECASE)
_SHOWN = 20


@dataclass(slots=True)
class Splits:
    """Which clips stand in which parts.

    Attributes:
        parts: the clips of each part, such as `1:train`.
        problems: lines about names that no clip has, and clips in two parts of a split.
        notes: lines about what looks odd.
    """

    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, video: str) -> tuple[str, ...]:
        """The parts in which a clip stands."""
        return tuple(part for part, videos in self.parts.items() if video in videos)

    def names(self) -> list[str]:
        """Names of the splits."""
        return sorted({part.split(":")[0] for part in self.parts}, key=natural)


def read_splits(folder: Path, names: Names) -> Splits:
    """The splits in a folder; none, with a note, where there is no such folder.

    Args:
        folder: of the bundles.
        names: of the clips that there are.
    """
    splits = Splits()
    bundles = sorted(path for path in folder.glob("*") if _BUNDLE.fullmatch(path.name)) if folder.is_dir() else []
    if not bundles:
        splits.notes.append(f"no split files (PART.splitK.bundle) in {folder}: the store has no splits")
    for path in bundles:
        matched = _BUNDLE.fullmatch(path.name)
        if matched:
            splits.parts[f"{matched[2]}:{matched[1].lower()}"] = _members(path, names, splits)
    for name in splits.names():
        _check_split(name, splits)
    splits.parts = {part: splits.parts[part] for part in sorted(splits.parts, key=natural)}
    return splits


def _members(path: Path, names: Names, splits: Splits) -> frozenset[str]:
    try:
        lines = [line for line in read_lines(path) if line]
    except StoreError as error:
        splits.problems += error.problems
        return frozenset()
    found = {line: names.find(line) for line in lines}
    missing = [line for line, videos in found.items() if not videos]
    if missing:
        splits.problems.append(
            f"a split names videos that there are, {path} names {len(missing)} that are not there: "
            f"{some(missing, _SHOWN)}; add or remove them"
        )
    splits.problems += [
        f"a split names one video a line, {line!r} in {path} can be {some(videos)}: write more of its path"
        for line, videos in found.items()
        if len(videos) > 1
    ]
    members = [videos[0] for line in lines if len(videos := found[line]) == 1]
    if len(set(members)) < len(members):
        twice = sorted({video for video in members if members.count(video) > 1})
        splits.notes.append(f"{path} names videos twice, which counts once: {some(twice, _SHOWN)}")
    if not members and not missing:
        splits.notes.append(f"{path} names no video")
    return frozenset(members)


def _check_split(name: str, splits: Splits) -> None:
    parts = {part: videos for part, videos in splits.parts.items() if part.split(":")[0] == name}
    labels = sorted(parts)
    for index, first in enumerate(labels):
        for second in labels[index + 1 :]:
            shared = sorted(parts[first] & parts[second])
            if shared:
                splits.problems.append(
                    f"the parts of a split have no video in common, {first} and {second} share {len(shared)}: "
                    f"{some(shared, _SHOWN)}; remove them from one"
                )
    if any(f"{name}:{part}" not in parts for part in ("train", "test")):
        splits.notes.append(f"split {name} has the parts {some(labels)} only")


def absent_actions(splits: Splits, actions: Mapping[str, frozenset[str]]) -> list[str]:
    """Lines about actions that a split's other parts have and its training part has not.

    Args:
        splits: of the data set.
        actions: names of the actions in each clip.
    """
    lines = []
    for name in splits.names():
        parts = {part: videos for part, videos in splits.parts.items() if part.split(":")[0] == name}
        if f"{name}:train" not in parts:
            continue
        seen = {part: {action for video in videos for action in actions[video]} for part, videos in parts.items()}
        trained = seen.pop(f"{name}:train")
        absent = sorted(set().union(*seen.values()) - trained)
        if absent:
            lines.append(f"split {name} cannot teach actions that its training part lacks: {some(absent, _SHOWN)}")
    return lines
