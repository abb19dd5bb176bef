"""Reads the file of a sweep of one's own: YAML, or Python with a value EXPERIMENT."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import yaml

from mucon.errors import InputError
from sweeps.service.spec.experiment import Collection as Tables
from sweeps.service.spec.experiment import Experiment
from sweeps.service.spec.files.content import experiment_of

SUFFIXES = (".yaml", ".yml", ".py")


def is_file_name(word: str) -> bool:
    """Whether a word names a sweep's file and not one of the package's sweeps.

    >>> is_file_name("mine.yaml"), is_file_name("elsewhere/mine"), is_file_name("ablation_masks")
    (True, True, False)
    """
    return word.endswith(SUFFIXES) or os.sep in word


def read_experiment(path: Path, taken: Collection[str] = ()) -> Experiment | Tables:
    """The sweep that a file describes.

    Args:
        path: ends with `.yaml`, `.yml` or `.py`.
        taken: names that other sweeps have.

    Raises:
        InputError: no such file, or whatever is wrong in it, one line each.
    """
    if path.suffix not in SUFFIXES:
        raise InputError(f"a sweep's file ends with {', '.join(SUFFIXES)}, {path} does not: rename it")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"a sweep's file can be read, {path} cannot ({error.strerror}): name another") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text (byte {error.start}): save it as that") from None
    if path.suffix == ".py":
        return _of_python(path, taken)
    return experiment_of(_of_yaml(path, text), file=str(path), stem=path.stem, taken=taken)


def _of_yaml(path: Path, text: str) -> object:
    try:
        tree = yaml.compose(text, Loader=yaml.SafeLoader)
        twice = [] if tree is None else list(_repeated(tree, set()))
        if twice:
            raise InputError(
                f"{path}: line {line}: a key stands once, {key!r} twice: remove one" for key, line in twice
            )
        value: object = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise InputError(f"{path}: {line}this is no YAML ({error.problem or error.context}): correct it") from None
    except yaml.YAMLError as error:
        raise InputError(f"{path}: this is no YAML ({' '.join(str(error).split())}): correct it") from None
    return value


def _repeated(node: yaml.Node, seen: set[int]) -> Iterator[tuple[str, int]]:
    """Keys that stand twice in one mapping, with the line of the second: YAML's reader would keep the last in silence.

    Args:
        node: where to look.
        seen: nodes that were looked at, since an anchor can stand in several places and in itself.
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
    if spec is None or spec.loader is None:
        raise InputError(f"{path} cannot be loaded as Python: rename it")
    module: Any = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise InputError(f"{path}: line {error.lineno}: this is no Python ({error.msg}): correct it") from None
    except InputError as error:
        raise InputError(error.under(path)) from None
    found = getattr(module, "EXPERIMENT", None)
    if not isinstance(found, Experiment | Tables):
        raise InputError(
            f"{path}: a sweep's file has a value EXPERIMENT (an Experiment or a Collection), this one has "
            f"{'none' if found is None else type(found).__name__}: see sweeps/ablation_masks.py"
        )
    if found.name in taken:
        raise InputError(f"{path}: {found.name!r} is the name of a sweep of this package: take another")
    return found
