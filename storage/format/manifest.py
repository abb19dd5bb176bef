"""Header of a store: typed, versioned and small for stores of any size."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from storage.constants import DTYPES, FORMAT, FORMAT_VERSION, RESTORE_HINT
from storage.errors import Problem, StoreError


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """Name, size and checksum of a file at the time of writing.

    Attributes:
        file: name in the folder of the store.
        bytes: size of the file.
        sha256: hexadecimal checksum of its bytes.
    """

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(FileEntry):
    """A file of features.

    Attributes:
        row_groups: number of Parquet row groups.
        frames: number of rows.
    """

    row_groups: int
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Properties of a whole store that its writer chooses; times are None if they are not known.

    Attributes:
        dim: D, values per frame.
        dtype: `float16`, `float32` or `float64`.
        vocabulary: action names; the id of an action is its index.
        background: names of the actions that mean "nothing of interest"; may be empty.
        fps: feature frames per second.
        window: seconds of the recording that the features of one frame cover.
        stride: seconds from one frame to the next.
        offset: seconds from the beginning of the recording to the window of the first frame.
        metadata: additional information of the writer.
    """

    dim: int
    dtype: str
    vocabulary: tuple[str, ...]
    background: tuple[str, ...]
    fps: float | None
    window: float | None
    stride: float | None
    offset: float | None
    metadata: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest(Header):
    """A header, and the files of a store.

    Attributes:
        format_version: 1.
        splits: names of the splits.
        n_videos: number of clips.
        n_frames: number of frames of all clips.
        videos: file of records.
        shards: files of features, in order.
    """

    splits: tuple[str, ...]
    n_videos: int
    n_frames: int
    videos: FileEntry
    shards: tuple[Shard, ...]
    format_version: int = FORMAT_VERSION

    @property
    def header(self) -> Header:
        """The properties that another store with these clips would have, too."""
        return Header(**{one.name: getattr(self, one.name) for one in fields(Header)})

    @property
    def sha256(self) -> str:
        """Checksum of the manifest, which contains the checksums of all other files."""
        return _checksum(_body(self))

    @property
    def n_bytes(self) -> int:
        """Size of all files of the store."""
        return self.videos.bytes + sum(shard.bytes for shard in self.shards) + len(self.to_json().encode())

    def to_json(self) -> str:
        """Returns the text of `manifest.json`."""
        return json.dumps({**_body(self), "sha256": self.sha256}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> Manifest:
        """Parses and validates the text of `manifest.json`.

        Args:
            text: content of the file.
            place: path of the file, for the problems.

        Raises:
            StoreError: invalid JSON, another format or format version, fields that are missing or of the wrong type
                (all of them), or a text that was edited.
        """
        try:
            value = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise StoreError(
                Problem(rule="unreadable", place=place, message=f"invalid JSON ({error})", hint=RESTORE_HINT)
            ) from error
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise StoreError(
                Problem(
                    rule="type",
                    place=place,
                    value=value.get("format") if isinstance(value, dict) else type(value).__name__,
                    message=f'not the manifest of a feature store, expected "format": "{FORMAT}"',
                )
            )
        _check_version(value.get("format_version"), place)
        _check_types(value, place)
        if value["sha256"] != _checksum({key: value[key] for key in value if key != "sha256"}):
            raise StoreError(
                Problem(
                    rule="damaged",
                    place=place,
                    value=value["sha256"],
                    message="fails its own checksum, the file was damaged or edited",
                    hint=RESTORE_HINT,
                )
            )
        known = {key: value[key] for key in _FIELDS if key not in ("format", "sha256")}
        for name in ("vocabulary", "background", "splits"):
            known[name] = tuple(known[name])
        for name in ("fps", "window", "stride", "offset"):
            known[name] = None if known[name] is None else float(known[name])
        known["videos"] = FileEntry(**{key: known["videos"][key] for key in _FILE})
        known["shards"] = tuple(Shard(**{key: shard[key] for key in _SHARD}) for shard in known["shards"])
        return cls(**known)


def _body(manifest: Manifest) -> dict[str, Any]:
    value = {"format": FORMAT, **asdict(manifest)}
    # Through JSON and back, so that the checksum covers the values that a reader sees.
    return dict(json.loads(json.dumps({name: value[name] for name in _FIELDS if name in value})))


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _check_version(version: object, place: str) -> None:
    if version == FORMAT_VERSION and not isinstance(version, bool):
        return
    hint = "import the recordings again"
    if isinstance(version, int) and version > FORMAT_VERSION:
        hint = "install a newer mucon or " + hint
    raise StoreError(
        Problem(
            rule="version",
            place=place,
            value=version,
            message=f"unsupported format version {version!r}, expected {FORMAT_VERSION}",
            hint=hint,
        )
    )


Check = Callable[[object], bool]


def _text(value: object) -> bool:
    return isinstance(value, str)


def _file_name(value: object) -> bool:
    return isinstance(value, str) and value not in ("", ".", "..") and "/" not in value and "\0" not in value


def _count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _number_or_none(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _object(value: object) -> bool:
    return isinstance(value, dict)


def _entry(fields: dict[str, Check]) -> Check:
    def check(value: object) -> bool:
        return isinstance(value, dict) and all(key in value and test(value[key]) for key, test in fields.items())

    return check


_FILE: dict[str, Check] = {"file": _file_name, "bytes": _count, "sha256": _text}
_SHARD: dict[str, Check] = {**_FILE, "row_groups": _count, "frames": _count}


def _shards(value: object) -> bool:
    return isinstance(value, list) and all(_entry(_SHARD)(shard) for shard in value)


_FIELDS: dict[str, Check] = {
    "format": _text,
    "format_version": _count,
    "dim": lambda value: _count(value) and value != 0,
    "dtype": lambda value: value in DTYPES,
    "vocabulary": _texts,
    "background": _texts,
    "fps": _number_or_none,
    "window": _number_or_none,
    "stride": _number_or_none,
    "offset": _number_or_none,
    "splits": _texts,
    "n_videos": _count,
    "n_frames": _count,
    "videos": _entry(_FILE),
    "shards": _shards,
    "metadata": _object,
    "sha256": _text,
}


def _check_types(value: dict[str, Any], place: str) -> None:
    problems = []
    for name, check in _FIELDS.items():
        if name not in value:
            problems.append(
                Problem(rule="missing", place=f"{place}: {name}", message="missing field", hint=RESTORE_HINT)
            )
        elif not check(value[name]):
            problems.append(
                Problem(
                    rule="type", place=f"{place}: {name}", value=value[name], message="invalid value", hint=RESTORE_HINT
                )
            )
    if problems:
        raise StoreError(problems)
