"""The store's header: small whatever the store's size, typed and versioned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from storage.constants import DTYPES, FORMAT, FORMAT_VERSION, MANIFEST
from storage.errors import StoreError, some


@dataclass(frozen=True, slots=True, kw_only=True)
class FileEntry:
    """A file of the store as it was written.

    Attributes:
        file: its name in the store's folder.
        bytes: its size.
        sha256: of its bytes, hexadecimal.
    """

    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard(FileEntry):
    """A file of features.

    Attributes:
        row_groups: how many it has.
        frames: how many rows it has.
    """

    row_groups: int
    frames: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """What holds for the whole store.

    Attributes:
        format_version: 1.
        dim: D, values per frame.
        dtype: `float16`, `float32` or `float64`.
        vocabulary: action names, id `n` is `vocabulary[n]`.
        background: names of the actions that stand for "nothing of interest"; may be empty.
        fps: feature frames per second, None where it is not known.
        window: seconds of the recording that one frame's features look at.
        stride: seconds from one frame to the next.
        offset: seconds from the recording's beginning to the first frame's window.
        splits: names of the splits.
        n_videos: clips in the store.
        n_frames: frames of all clips.
        videos: the file of records.
        shards: the files of features, in order.
        metadata: whatever else the writer wanted to say.
    """

    dim: int
    dtype: str
    vocabulary: tuple[str, ...]
    background: tuple[str, ...]
    fps: float | None
    window: float | None
    stride: float | None
    offset: float | None
    splits: tuple[str, ...]
    n_videos: int
    n_frames: int
    videos: FileEntry
    shards: tuple[Shard, ...]
    metadata: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION

    @property
    def sha256(self) -> str:
        """Of the whole manifest, and through its checksums of the whole store."""
        return _checksum(_body(self))

    @property
    def n_bytes(self) -> int:
        """Of all files of the store."""
        return self.videos.bytes + sum(shard.bytes for shard in self.shards) + len(self.to_json().encode())

    def to_json(self) -> str:
        """The text of `manifest.json`."""
        return json.dumps({**_body(self), "sha256": self.sha256}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, place: str) -> Manifest:
        """The inverse of `to_json`.

        Args:
            text: content of `manifest.json`.
            place: its path, for the problems.

        Raises:
            StoreError: no JSON object, another format or format version, a field that is missing or of the wrong type,
                or a text that was changed after it had been written.
        """
        try:
            value = json.loads(text)
        except (UnicodeDecodeError, json.JSONDecodeError) as error:
            raise StoreError(f"a manifest is JSON, {place} is not ({error}): copy or import the store again") from error
        if not isinstance(value, dict) or value.get("format") != FORMAT:
            raise StoreError(f'a manifest has "format": "{FORMAT}", {place} has not: this is no feature store')
        _check_version(value.get("format_version"), place)
        _check_types(value, place)
        if value["sha256"] != _checksum({key: value[key] for key in value if key != "sha256"}):
            raise StoreError(
                f"a manifest agrees with its own checksum, {place} does not: it was damaged or edited; "
                "copy or import the store again"
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
    value = asdict(manifest)
    version = value.pop("format_version")
    # Through JSON and back, so that the checksum is of what a reader will see.
    return dict(json.loads(json.dumps({"format": FORMAT, "format_version": version, **value})))


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _check_version(version: object, place: str) -> None:
    if version == FORMAT_VERSION and not isinstance(version, bool):
        return
    advice = "import the recordings again"
    if isinstance(version, int) and version > FORMAT_VERSION:
        advice = "install a newer mucon, or " + advice
    raise StoreError(
        f"the store's format version is {version!r}, this program knows {FORMAT_VERSION} ({place}): {advice}"
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
    wrong = [name for name, check in _FIELDS.items() if name not in value or not check(value[name])]
    if wrong:
        raise StoreError(
            f"{MANIFEST} has fields of stated types, {place} lacks these or has them wrong: {some(wrong, 20)}: "
            "copy or import the store again"
        )
