"""Reads user-defined sweeps from files: YAML, or Python with a value EXPERIMENT."""

from __future__ import annotations

import importlib.util
import math
import re
from collections.abc import Collection, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import yaml

from mucon.errors import InputError, Problem
from sweeps.service.spec.experiment import Collection as Tables
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.files.content import name_taken, sweep_of
from sweeps.service.spec.files.format import SUFFIXES
from sweeps.service.spec.search import Search
from sweeps.service.spec.texts import joined, text_problems

TEXT_KEYS = ("title", "name", "default", "splits", "x", "y", "x_title", "recordings")
"""Keys whose values are texts, also where YAML reads numbers or dates."""
MAX_NODES = 100_000
"""Largest number of values in a YAML file."""
_TEXT = "tag:yaml.org,2002:str"
_NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float", "tag:yaml.org,2002:timestamp")
_PLAIN_NUMBER = re.compile(r"[-+]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][-+]?\d+)?|[-+]?\.(inf|nan)", re.IGNORECASE)


def read_experiment(path: Path, taken: Collection[str] = ()) -> Experiment | Tables | Search:
    """The sweep that a file describes.

    Args:
        path: ends with one of `SUFFIXES`.
        taken: names of other sweeps.

    Raises:
        InputError: no such file, or one problem per wrong value.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(
            Problem(rule="unsupported", place=str(path), value=path.suffix, expected=f"one of {', '.join(SUFFIXES)}")
        )
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(Problem(rule="missing", place=str(path), message="no such file")) from None
    except OSError as error:
        raise InputError(_unreadable(str(path), error.strerror, f"cannot read ({error.strerror})")) from None
    except UnicodeDecodeError as error:
        raise InputError(_unreadable(str(path), error.start, f"not UTF-8 text (byte {error.start})")) from None
    try:
        if path.suffix == ".py":
            return _of_python(path, taken)
        return sweep_of(_yaml(text), stem=path.stem, taken=taken)
    except InputError as error:
        raise InputError(error.under(path)) from None


def _unreadable(place: str, value: object, message: str) -> Problem:
    return Problem(rule="unreadable", place=place, value=value, message=message)


def _yaml(text: str) -> object:
    """The content of a YAML file."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        if tree is None:
            return None
        if _size(tree, {}) > MAX_NODES:
            message = f"more than {MAX_NODES:,} values with every anchor in its places, or an anchor inside itself"
            raise InputError(_unreadable("", MAX_NODES, message))
        problems = list(_problems(tree, "", set()))
        if problems:
            raise InputError(problems)
        content: object = yaml.SafeLoader("").construct_document(tree)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context
        raise InputError(
            _unreadable(f"line {mark.line + 1}" if mark else "", reason, f"invalid YAML ({reason})")
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(_unreadable("", reason, f"invalid YAML ({reason})")) from None
    return content


def _size(node: yaml.Node, known: dict[int, float]) -> float:
    """Number of nodes with every anchor in each of its places; infinite if one is inside itself.

    Args:
        node: where to count.
        known: sizes of the nodes that were visited, by their `id`.
    """
    if id(node) not in known:
        known[id(node)] = math.inf  # until its parts are counted
        parts = chain.from_iterable(node.value) if isinstance(node, yaml.MappingNode) else node.value
        is_leaf = isinstance(node, yaml.ScalarNode)
        known[id(node)] = 1 if is_leaf else 1 + sum(_size(part, known) for part in parts)
    return known[id(node)]


def _problems(node: yaml.Node, place: str, seen: set[int]) -> Iterator[Problem]:
    """What YAML's reader accepts although it is a mistake: duplicate keys, texts that cannot be shown, odd numbers.

    Makes texts of the numbers under `TEXT_KEYS`, as they are written, and joins halves of characters.

    Args:
        node: where to look; changed in place.
        place: keys that lead to the node.
        seen: nodes that were visited, since an anchor can occur in several places.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else "?"
            if isinstance(key, yaml.ScalarNode) and name in keys:
                line = f"line {key.start_mark.line + 1}"
                yield Problem(rule="duplicate", place=line, value=name, message=f"duplicate key {name!r}")
            keys.add(name)
            yield from _problems(key, f"line {key.start_mark.line + 1}", seen)
            if name in TEXT_KEYS:
                for one in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    one.tag = _TEXT if one.tag in _NUMBERS else one.tag
            yield from _problems(value, f"{place}{'.' * bool(place)}{name}", seen)
    elif isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield from _problems(item, f"{place}[{i}]", seen)
    elif node.tag in _NUMBERS and not _PLAIN_NUMBER.fullmatch(node.value):
        expected = "a decimal number, or a text in quotes"  # YAML reads 010 as 8 and 1:30 as 90
        yield Problem(rule="type", place=place, value=node.value, expected=expected)
    else:
        node.value = joined(node.value)
        yield from text_problems(place, node.value)


def _of_python(path: Path, taken: Collection[str]) -> Experiment | Tables | Search:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None  # the suffix is .py
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(_unreadable(f"line {error.lineno}", error.msg, f"invalid Python ({error.msg})")) from None
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment | Tables | Search):
        value = None if experiment is None else type(experiment).__name__
        raise InputError(
            Problem(
                rule="missing" if experiment is None else "type",
                place="EXPERIMENT",
                value=value,
                expected="an Experiment, a Collection or a Search",
                hint="see sweeps/ablation_masks.py",
            )
        )
    if experiment.name in taken:
        raise InputError(name_taken(experiment.name))
    return experiment
