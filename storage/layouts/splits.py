"""Split files: `PART.splitK.bundle` with a clip name per line.

If there is a single split, its files may be called `train.bundle` and `test.bundle`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from storage.errors import Problem, StoreError, condensed, counted, some
from storage.format.records import natural
from storage.layouts.text import Names, matching_notes, read_lines

_BUNDLE = re.compile(r"([^.:\s]+)\.split([^:\s]+)\.bundle", re.IGNORECASE)
_ONLY_BUNDLE = re.compile(r"(train|test|val)()\.bundle", re.IGNORECASE)
_MOST_NAMES = 20


@dataclass(slots=True)
class Splits:
    """Split parts of a dataset.

    Attributes:
        parts: clips of each part, such as `1:train`.
        problems: unknown or ambiguous names, and clips in two parts of a split.
        notes: messages about suspicious splits.
    """

    parts: dict[str, frozenset[str]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def of(self, video: str) -> tuple[str, ...]:
        """Returns the parts that contain a clip."""
        return tuple(part for part, videos in self.parts.items() if video in videos)

    def names(self) -> list[str]:
        """Returns the names of the splits."""
        return sorted({part.split(":")[0] for part in self.parts}, key=natural)


def read_splits(folder: Path, names: Names) -> Splits:
    """Reads the splits in a folder. If there is no file in it, the result has a note and no parts.

    Args:
        folder: folder of the bundles.
        names: names of the clips of the dataset.
    """
    splits = Splits()
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not _hidden(path, folder)]
    here = [path for path in files if path.parent == folder]
    bundles = {path: match for path in here if (match := _BUNDLE.fullmatch(path.name))}
    if not bundles:
        bundles = {path: match for path in here if (match := _ONLY_BUNDLE.fullmatch(path.name))}
        if bundles:
            splits.notes.append(f"{folder}: read {', '.join(path.name for path in bundles)} as split 1")
    others = [path.relative_to(folder).as_posix() for path in files if path not in bundles]
    form = "expected PART.splitK.bundle, such as train.split1.bundle"
    if others and bundles:
        splits.notes.append(f"{folder}: ignored files ({len(others)}): {some(others, _MOST_NAMES)}; {form}")
    elif others:
        message = f"no split file among {counted(len(others), 'file')}: {some(others, _MOST_NAMES)}; {form}"
        hint = "rename them, or move them out of the folder for a store without splits"
        splits.problems.append(Problem(rule="unknown", place=str(folder), value=others, message=message, hint=hint))
    elif not bundles:
        names_beside = {path.name for path in folder.parent.iterdir()} - {folder.name}
        likely = sorted(name for name in names_beside if re.search(r"split|bundle|train|test", name))
        unread = f" ({some(likely)} in {folder.parent} not read)" if likely else ""
        splits.notes.append(f"{folder}: no split files (PART.splitK.bundle), the store will have no splits{unread}")
    return read_parts({path: f"{match[2] or '1'}:{match[1].lower()}" for path, match in bundles.items()}, names, splits)


def read_parts(files: Mapping[Path, str], names: Names, splits: Splits | None = None) -> Splits:
    """Reads the files of the parts of splits, with a clip name per line.

    Args:
        files: part of each file, such as `1:train`.
        names: names of the clips of the dataset.
        splits: receives the parts, problems and notes.
    """
    splits = splits or Splits()
    for path, part in files.items():
        if part in splits.parts:
            message, hint = f"another file of {part}", "keep one of them"
            splits.problems.append(Problem(rule="duplicate", place=str(path), value=part, message=message, hint=hint))
        splits.parts[part] = _members(path, names, splits)
    return checked(splits)


def checked(splits: Splits) -> Splits:
    """Returns splits with the problems and notes of their parts, which are sorted."""
    for name in splits.names():
        _check_split(name, splits)
    splits.parts = {part: splits.parts[part] for part in sorted(splits.parts, key=natural)}
    return splits


def _hidden(path: Path, folder: Path) -> bool:
    return any(name.startswith(".") for name in path.relative_to(folder).parts)


def _members(path: Path, names: Names, splits: Splits) -> frozenset[str]:
    try:
        lines = [line for line in read_lines(path) if line]
    except StoreError as error:
        splits.problems += error.problems
        return frozenset()
    matches = {line: names.find(line) for line in lines}
    unknown = [line for line, videos in matches.items() if not videos]
    if unknown:
        message = f"unknown videos ({len(unknown)}): {some(unknown, _MOST_NAMES)}"
        hint = "remove the names, or add the features of the videos"
        splits.problems.append(Problem(rule="unknown", place=str(path), value=unknown, message=message, hint=hint))
    splits.problems += condensed(
        Problem(
            rule="conflict",
            place=str(path),
            value=line,
            message=f"ambiguous name {line!r} matches {some(videos)}",
            hint="add more of its path",
        )
        for line, videos in matches.items()
        if len(videos) > 1
    )
    splits.notes += matching_notes(str(path), {line: videos[0] for line, videos in matches.items() if len(videos) == 1})
    members = [videos[0] for line in lines if len(videos := matches[line]) == 1]
    if len(set(members)) < len(members):
        repeated = sorted({video for video in members if members.count(video) > 1})
        splits.notes.append(f"{path}: ignored duplicate videos: {some(repeated, _MOST_NAMES)}")
    if not members and not unknown:
        splits.notes.append(f"{path}: contains no video")
    return frozenset(members)


def _check_split(name: str, splits: Splits) -> None:
    parts = {part: videos for part, videos in splits.parts.items() if part.split(":")[0] == name}
    labels = sorted(parts)
    for index, first in enumerate(labels):
        for second in labels[index + 1 :]:
            shared = sorted(parts[first] & parts[second])
            if shared:
                splits.problems.append(
                    Problem(
                        rule="conflict",
                        place=f"{first}, {second}",
                        value=shared,
                        message=f"videos in both parts ({len(shared)}): {some(shared, _MOST_NAMES)}",
                        hint="keep each video in one part",
                    )
                )
    if any(f"{name}:{part}" not in parts for part in ("train", "test")):
        splits.notes.append(f"split {name} only has the parts {some(labels)}")
