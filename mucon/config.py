"""The whole configuration of a run: small frozen configs that live beside the modules that use them."""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from dataclasses import dataclass, field
from typing import Any, Literal, Self, Union

from mucon.decoding.config import DecodingConfig
from mucon.errors import InputError, nearest
from mucon.losses import LossConfig
from mucon.masks import MaskConfig
from mucon.model.backbone import BackboneConfig
from mucon.model.segment_branch import SegmentBranchConfig
from mucon.training_config import TrainingConfig

NOT_TRAINED = (
    "decoding",
    "training.precision",
    "training.progress_every",
    "training.progress_videos",
    "training.threads",
)
"""Paths (or their first parts) that do not change what is trained: evaluation choices, and facts of the machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainConfig:
    """Everything that decides a run besides its data.

    Attributes:
        seed: of the weights, the order of the videos and the dropout.
    """

    backbone: BackboneConfig = field(default_factory=BackboneConfig)
    segment_branch: SegmentBranchConfig = field(default_factory=SegmentBranchConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    loss: LossConfig = field(default_factory=LossConfig)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    decoding: DecodingConfig = field(default_factory=DecodingConfig)
    seed: int = 1

    def __post_init__(self) -> None:
        if self.seed < 0:
            raise InputError(f"seed is at least 0, not {self.seed}")

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of numbers, strings and lists, for JSON."""
        return {f.name: _plain(getattr(self, f.name)) for f in dataclasses.fields(self)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; what is absent keeps its default.

        Raises:
            InputError: unknown keys or values of a wrong type, all told at once.
        """
        return cls().with_values(flatten(value))

    def override(self, path: str, value: Any) -> Self:
        """A copy in which one value, named by its dotted path, is another.

        Args:
            path: as `loss.smoothing`.
            value: of the field's type, or its text as on a command line (`"0.1"`, `"1,2,4"`, `"none"`).

        Raises:
            InputError: an unknown path (the nearest ones are named), a value of a wrong type or out of range.

        >>> TrainConfig().override("mask.shape", "bell").mask.shape
        'bell'
        """
        return self.with_values({path: value})

    def with_values(self, values: dict[str, Any]) -> Self:
        """A copy with several values replaced at once, as `override` for each; all problems are told together.

        Raises:
            InputError: as `override`.
        """
        known = field_types(type(self))
        problems: list[str] = []
        parts: dict[str, dict[str, Any]] = {}
        for path, value in values.items():
            if path not in known:
                problems.append(
                    f"{path!r} is not a setting{nearest(path, list(known))}: `mucon recipes` lists them all"
                )
                continue
            try:
                room, _, name = path.rpartition(".")
                parts.setdefault(room, {})[name] = convert(path, value, known[path])
            except InputError as error:
                problems.extend(error.problems)
        replaced: dict[str, Any] = dict(parts.pop("", {}))
        for room, new in parts.items():
            try:
                replaced[room] = dataclasses.replace(getattr(self, room), **new)
            except InputError as error:
                problems.extend(error.problems)
        if problems:
            raise InputError(problems)
        return dataclasses.replace(self, **replaced)

    def differences(self) -> dict[str, Any]:
        """The values, by path, that are not those of `TrainConfig()`, in the order of the fields."""
        default = flatten(TrainConfig().to_dict())
        return {path: value for path, value in flatten(self.to_dict()).items() if value != default[path]}

    def trained_differences(self) -> dict[str, Any]:
        """`differences` without the seed and without what does not change the trained weights.

        That is what `NOT_TRAINED` names, and a fraction beside an absolute epoch that wins over it.
        """
        idle = {"seed", *(["training.lr_drop_fraction"] if self.training.lr_drop_epoch is not None else [])}
        return {
            path: value
            for path, value in self.differences().items()
            if path not in idle and not any(path == part or path.startswith(part + ".") for part in NOT_TRAINED)
        }


def flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested dictionaries as one, keys joined by dots.

    >>> flatten({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    flat: dict[str, Any] = {}
    for key, item in value.items():
        if isinstance(item, dict):
            flat.update(flatten(item, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = item
    return flat


def field_types(config: type, prefix: str = "") -> dict[str, Any]:
    """The type of every leaf by dotted path."""
    known: dict[str, Any] = {}
    hints = typing.get_type_hints(config)
    for f in dataclasses.fields(config):
        kind = hints[f.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            known.update(field_types(kind, f"{prefix}{f.name}."))
        else:
            known[prefix + f.name] = kind
    return known


def convert(path: str, value: Any, kind: Any) -> Any:
    """A value, or its text, as the type of a field.

    Raises:
        InputError: it is none; the message names the path, the value and what is expected.
    """
    options = typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)
    if type(None) in options and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    for option in options:
        if option is type(None):
            continue
        found, converted = _as(value, option)
        if found:
            return converted
    raise InputError(f"{path} is {' or '.join(map(_expected, options))}, not {value!r}: correct the value")


def _as(value: Any, kind: Any) -> tuple[bool, Any]:
    if typing.get_origin(kind) is Literal:
        return value in typing.get_args(kind), value
    if typing.get_origin(kind) is tuple:
        items = value.split(",") if isinstance(value, str) else value
        if isinstance(value, str) and not value.strip():
            items = []
        if not isinstance(items, (list, tuple)):
            return False, None
        converted = [_as(item.strip() if isinstance(item, str) else item, typing.get_args(kind)[0]) for item in items]
        return all(found for found, _ in converted), tuple(item for _, item in converted)
    if kind is bool:
        words = {"true": True, "false": False}
        text = str(value).lower()
        return isinstance(value, (bool, str)) and text in words, words.get(text)
    if isinstance(value, bool):
        return False, None
    if kind is int:
        return _number(value, int)
    if kind is float:
        return _number(value, float)
    return isinstance(value, kind), value


def _number(value: Any, kind: type[int] | type[float]) -> tuple[bool, Any]:
    if not isinstance(value, (str, int, kind)):
        return False, None
    try:
        number = kind(value)
        return math.isfinite(number), number
    except (ValueError, OverflowError):
        return False, None


def _expected(kind: Any) -> str:
    if kind is type(None):
        return "none"
    if typing.get_origin(kind) is Literal:
        return "one of " + ", ".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) is tuple:
        return f"a list of {_expected(typing.get_args(kind)[0]).removeprefix('a ')}s (as 1,2,4)"
    return {int: "a whole number", float: "a finite number", bool: "true or false", str: "a text"}.get(kind, str(kind))


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    return list(value) if isinstance(value, tuple) else value
