"""Frozen dataclasses as configurations: typed overrides by dotted path, JSON round trips and differences.

Knows of the methods only the name of the default one. A method's configuration inherits from `Config`, see
`mucon.config.TrainConfig`.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, Self, Union

from mucon.errors import InputError, Problem, nearest

DEFAULT_METHOD = "mucon"
"""The method of command lines, rows, checkpoints and trials that name none."""
ALIASES = MappingProxyType(
    {
        **dict.fromkeys(("lr", "eta", "step_size"), "learning_rate"),
        **dict.fromkeys(("batch_size", "batch", "bs", "accumulation"), "accumulate"),
        **dict.fromkeys(("workers", "num_workers", "n_workers", "jobs", "cpus"), "threads"),
        **dict.fromkeys(("n_epochs", "num_epochs", "max_epochs", "epoch"), "epochs"),
        **dict.fromkeys(("clip", "grad_clip", "clip_grad", "max_norm", "gradient_clip"), "clip_norm"),
        **dict.fromkeys(("amp", "fp16", "bf16", "half", "dtype", "mixed_precision"), "precision"),
        **dict.fromkeys(("beam_size", "beam_width"), "beam"),
        **dict.fromkeys(("random_seed", "random_state"), "seed"),
        **dict.fromkeys(("init", "pretrained", "checkpoint", "weights"), "warm_start"),
        **{"wd": "weight_decay", "l2": "weight_decay", "optimizer": "optimiser", "optim": "optimiser"},
        **{"normalize": "normalise", "hidden_size": "hidden", "labeled": "labelled", "num_layers": "n_layers"},
    }
)
"""Names of settings elsewhere -> last part of their paths here; for suggestions only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Base of a method's configuration.

    A subclass is a frozen dataclass with slots whose fields all have defaults. A field is an int, float, bool, str,
    `Literal`, tuple of one of them, an optional one, or a frozen dataclass of such fields. One field is `seed: int`.

    Attributes:
        NOT_TRAINED: paths, or their first parts, that do not change the trained weights.
        ORDER: names of the first fields, see `fields_of`.
    """

    NOT_TRAINED: ClassVar[tuple[str, ...]] = ()
    ORDER: ClassVar[tuple[str, ...]] = ()

    @property
    def seed(self) -> int:
        """Seed of the run; each subclass declares it as a field."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Nested dictionaries of numbers, strings and lists, for JSON."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields_of(self)}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; absent keys keep their defaults.

        Stored choices that exclude each other (rule `conflict`) are accepted, so that results of earlier versions,
        which ignored one of them, can be read.

        Raises:
            InputError: one problem per unknown key and per value of a wrong type or out of range.
        """
        return cls()._with(flatten(value), is_stored=True)

    def override(self, path: str, value: Any) -> Self:
        """Returns a copy with one value replaced.

        Args:
            path: dotted, such as `loss.smoothing`.
            value: of the field's type, or its text as on a command line (`"0.1"`, `"1,2,4"`, `"none"`).

        Raises:
            InputError: an unknown path, a value of a wrong type or out of range.
        """
        return self.with_values({path: value})

    def with_values(self, values: Mapping[str, Any]) -> Self:
        """Returns a copy with several values replaced at once.

        Raises:
            InputError: as `override`; one problem per path, and per choice that excludes another one.
        """
        return self._with(values, is_stored=False)

    def _with(self, values: Mapping[str, Any], *, is_stored: bool) -> Self:
        types_by_path = field_types(type(self))
        problems: list[Problem] = []
        converted: dict[str, Any] = {}
        for path, value in values.items():
            if path not in types_by_path:
                problems.append(_unknown_setting(path, list(types_by_path)))
                continue
            try:
                converted[path] = convert(path, value, types_by_path[path])
            except InputError as error:
                problems.extend(error.problems)
        result: Self = _with_leaves(self, converted, problems, is_stored=is_stored)
        if problems:
            raise InputError(problems)
        return result

    def differences(self) -> dict[str, Any]:
        """The values, by path, that differ from the defaults, in the order of the fields."""
        default = self._defaults()
        return {path: value for path, value in flatten(self.to_dict()).items() if value != default[path]}

    def trained_differences(self) -> dict[str, Any]:
        """`differences` without the seed and without settings that never change the trained weights."""
        ignored = ("seed", *self.NOT_TRAINED)
        return {
            path: value
            for path, value in self.differences().items()
            if not any(path == part or path.startswith(part + ".") for part in ignored)
        }

    def canonical(self, *, labelled: bool | None = None) -> Self:
        """The configuration that all configurations of the same training share.

        Settings without effect beside the others have their defaults; settings with several forms have one.

        Args:
            labelled: whether any video is labelled; None: as `training.labelled` says.
        """
        return self.with_defaults(self.without_effect(labelled))

    def without_effect(self, labelled: bool | None) -> Iterable[str]:
        """Paths of settings without effect beside the others."""
        return ()

    def with_defaults(self, paths: Iterable[str]) -> Self:
        """A copy with the defaults at some paths."""
        default = self._defaults()
        return self.with_values({path: default[path] for path in paths})

    @classmethod
    @functools.cache
    def _defaults(cls) -> Mapping[str, Any]:
        """The default of every leaf by dotted path, as a plain value."""
        return MappingProxyType(flatten(cls().to_dict()))


def flatten(value: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
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


def fields_of(config: Any) -> list[dataclasses.Field[Any]]:
    """The fields of a configuration or of a part of one, in the order in which they are recorded and listed.

    Inherited fields come first in a dataclass. A class that inherits some may name the first ones in its `ORDER`.
    """
    first: tuple[str, ...] = getattr(config, "ORDER", ())
    fields = dataclasses.fields(config)
    return sorted(fields, key=lambda f: first.index(f.name) if f.name in first else len(first))


def field_types(config: type) -> Mapping[str, Any]:
    """The type of every leaf by dotted path."""
    key: Any = config  # mypy takes a class for one of its instances, which need not be hashable
    types_by_path: Mapping[str, Any] = _field_types(key)
    return types_by_path


@functools.cache
def _field_types(config: type, prefix: str = "") -> Mapping[str, Any]:
    leaves: dict[str, Any] = {}
    hints = typing.get_type_hints(config)
    for f in fields_of(config):
        kind = hints[f.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            leaves.update(_field_types(kind, f"{prefix}{f.name}."))
        else:
            leaves[prefix + f.name] = kind
    return MappingProxyType(leaves)


def field_texts(config: type, prefix: str = "") -> dict[str, str]:
    """What the docstrings say about every leaf, by dotted path; fields without a line are absent."""
    found: dict[str, str] = {}
    hints = typing.get_type_hints(config)
    texts: dict[str, str] = {}
    for base in reversed(config.__mro__):
        texts |= _attribute_texts(inspect.cleandoc(base.__doc__ or ""))
    for f in fields_of(config):
        kind = hints[f.name]
        if dataclasses.is_dataclass(kind) and isinstance(kind, type):
            found.update(field_texts(kind, f"{prefix}{f.name}."))
        elif f.name in texts:
            found[prefix + f.name] = texts[f.name]
    return found


def _attribute_texts(docstring: str) -> dict[str, str]:
    r"""The lines `name: text` of the section `Attributes:`, with their continuations.

    >>> _attribute_texts("X.\n\nAttributes:\n    a: one\n        line.\n    b: two.\n\nRaises:\n    E: no.")
    {'a': 'one line.', 'b': 'two.'}
    """
    section = docstring.partition("Attributes:\n")[2].partition("\n\n")[0]
    items = re.split(r"^    (?=\w+: )", section, flags=re.MULTILINE)[1:]
    return {name: " ".join(text.split()) for name, _, text in (item.partition(": ") for item in items)}


def expected_text(kind: Any) -> str:
    """The values that a type of `field_types` accepts, in words."""
    options = typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)
    return " or ".join(map(_expected, options))


def convert(path: str, value: Any, kind: Any) -> Any:
    """A value, or its text, as the type of a field.

    Raises:
        InputError: the value cannot be converted; the problem contains the path, the value and the expected type.
    """
    options = typing.get_args(kind) if typing.get_origin(kind) in (Union, types.UnionType) else (kind,)
    if type(None) in options and (value is None or (isinstance(value, str) and value.lower() == "none")):
        return None
    for option in options:
        if option is not type(None):
            try:
                return _as(value, option)
            except ValueError:
                continue
    raise InputError(Problem(rule="type", place=path, value=value, expected=expected_text(kind)))


def setting_text(value: object) -> str:
    """A value as `--set` takes it, the inverse of `convert`.

    >>> setting_text([1, 2]), setting_text(None), setting_text(True), setting_text("box"), setting_text(0.1)
    ('1,2', 'none', 'true', 'box', '0.1')
    """
    if isinstance(value, list | tuple):
        return ",".join(map(setting_text, value))
    if value is None or isinstance(value, bool):
        return str(value).lower()
    return str(value)


def parse_settings(settings: Iterable[str]) -> dict[str, str]:
    """Texts of paths and values as the option `--set` takes them; a later item replaces an earlier one.

    Raises:
        InputError: one problem per item without `=`.

    >>> parse_settings(["loss.smoothing=0.2"])
    {'loss.smoothing': '0.2'}
    """
    pairs = [(item, *item.partition("=")) for item in settings]
    problems = [
        Problem(rule="type", place="--set", value=item, expected="PATH=VALUE")
        for item, _, equals, _ in pairs
        if not equals
    ]
    if problems:
        raise InputError(problems)
    return {path.strip(): value.strip() for _, path, _, value in pairs}


def _unknown_setting(path: str, paths: list[str]) -> Problem:
    name = path.rpartition(".")[2]
    same = [known for known in paths if known.rpartition(".")[2] == ALIASES.get(name, name)]
    suggestion = f" (did you mean {' or '.join(map(repr, same))}?)" if same else nearest(path, paths)
    return Problem(
        rule="unknown",
        place=path,
        value=path,
        message=f"unknown setting{suggestion}",
        hint="`mucon recipes` lists all settings",
    )


def _with_leaves(config: Any, leaves: Mapping[str, Any], problems: list[Problem], *, is_stored: bool) -> Any:
    """A copy with converted values by dotted path; problems of the parts' own checks are appended.

    Conflicts between stored values are no problem.
    """
    replaced: dict[str, Any] = {}
    parts: dict[str, dict[str, Any]] = {}
    for path, value in leaves.items():
        name, _, rest = path.partition(".")
        if rest:
            parts.setdefault(name, {})[rest] = value
        else:
            replaced[name] = value
    for name, values in parts.items():
        replaced[name] = _with_leaves(getattr(config, name), values, problems, is_stored=is_stored)
    try:
        return dataclasses.replace(config, **replaced)
    except InputError as error:
        if is_stored and all(problem.rule == "conflict" for problem in error.problems):
            return _unchecked(config, replaced)
        problems.extend(error.problems)
        return config


def _unchecked(config: Any, values: Mapping[str, Any]) -> Any:
    """A copy of a frozen dataclass with some values replaced, without the checks of its constructor."""
    unchecked = copy.copy(config)
    for name, value in values.items():
        object.__setattr__(unchecked, name, value)
    return unchecked


def _as(value: Any, kind: Any) -> Any:
    """The value as a type that is no union.

    Raises:
        ValueError: the value cannot be converted.
    """
    if typing.get_origin(kind) is tuple:
        return _tuple(value, typing.get_args(kind)[0])
    if typing.get_origin(kind) is Literal:
        accepted = value in typing.get_args(kind)
    elif kind is bool:
        text = str(value).lower()
        accepted = isinstance(value, bool | str) and text in ("true", "false")
        value = text == "true"
    elif kind in (int, float):
        accepted = isinstance(value, str | int | kind) and not isinstance(value, bool)
        if accepted:
            return _number(value, kind)
    else:
        accepted = isinstance(value, kind)
    if not accepted:
        raise ValueError(value)
    return value


def _tuple(value: Any, kind: Any) -> tuple[Any, ...]:
    items = ([] if not value.strip() else value.split(",")) if isinstance(value, str) else value
    if not isinstance(items, list | tuple):
        raise ValueError(value)
    return tuple(_as(item.strip() if isinstance(item, str) else item, kind) for item in items)


def _number(value: Any, kind: type[int] | type[float]) -> int | float:
    try:
        number = kind(value)
    except OverflowError as error:
        raise ValueError(value) from error
    if not math.isfinite(number):
        raise ValueError(value)
    return number


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
        return {f.name: _plain(getattr(value, f.name)) for f in fields_of(value)}
    return list(value) if isinstance(value, tuple) else value
