"""Reads user-defined sweeps from files: YAML, or Python with a value EXPERIMENT."""

from __future__ import annotations

import importlib.util
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from mucon.errors import InputError, Problem
from sweeps.service.spec.experiment import Collection as Tables
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.files.content import experiment_of, name_taken
from sweeps.service.spec.files.format import SUFFIXES


def read_experiment(path: Path, taken: Collection[str] = ()) -> Experiment | Tables:
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
        return experiment_of(_yaml(text), stem=path.stem, taken=taken)
    except InputError as error:
        raise InputError(error.under(path)) from None


def _unreadable(place: str, value: object, message: str) -> Problem:
    return Problem(rule="unreadable", place=place, value=value, message=message)


def _yaml(text: str) -> object:
    """The content of a YAML file."""
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        problems = [
            Problem(rule="duplicate", place=f"line {line}", value=key, message=f"duplicate key {key!r}")
            for key, line in ([] if tree is None else _repeated(tree, set()))
        ]
        if problems:
            raise InputError(problems)
        content: object = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        reason = error.problem or error.context
        raise InputError(
            _unreadable(f"line {mark.line + 1}" if mark else "", reason, f"invalid YAML ({reason})")
        ) from None
    except yaml.YAMLError as error:
        reason = " ".join(str(error).split())
        raise InputError(_unreadable("", reason, f"invalid YAML ({reason})")) from None
    return content


def _repeated(node: yaml.Node, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Duplicate keys of a mapping, with the line of the second; YAML's reader silently keeps the last value.

    Args:
        node: where to look.
        seen: nodes that were visited, since an anchor can occur in several places and in itself.
    """
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.MappingNode):
        keys: set[str] = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    yield key.value, key.start_mark.line + 1
                keys.add(key.value)
            yield from _repeated(value, seen)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item, seen)


def _of_python(path: Path, taken: Collection[str]) -> Experiment | Tables:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None  # the suffix is .py
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(_unreadable(f"line {error.lineno}", error.msg, f"invalid Python ({error.msg})")) from None
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment | Tables):
        value = None if experiment is None else type(experiment).__name__
        raise InputError(
            Problem(
                rule="missing" if experiment is None else "type",
                place="EXPERIMENT",
                value=value,
                expected="an Experiment or a Collection",
                hint="see sweeps/ablation_masks.py",
            )
        )
    if experiment.name in taken:
        raise InputError(name_taken(experiment.name))
    return experiment
