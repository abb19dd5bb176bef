"""In what compared models differ, in the order in which a difference of scores is explained."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mucon.identity.fingerprint import digest
from sweeps.service.compare.entrants import Entrant, Training
from sweeps.service.text import param_text
from sweeps.service.trials.differences import ENVIRONMENT_FACTS, NOTHING, Recordings, changed_settings
from sweeps.service.trials.provenance import changed_files

KINDS = ("recordings", "method", "settings", "seed", "versions", "code", "packages", "machine")
"""The kinds of differences, the most suspicious one first."""
_DEFAULT = {"settings": "default"}
"""What stands for an absent value: results contain the choices of decoding that differ from the defaults."""
_NOT_MACHINE = ("git_commit", "git_diff_sha256", "git_untracked", "numerics")


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A fact in which compared models differ.

    Attributes:
        kind: one of `KINDS`.
        what: path of a setting, or name of a fact.
        values: its value in each entrant as text; several values of a row's seeds are joined.
        note: more about it; may be empty.
    """

    kind: str
    what: str
    values: tuple[str, ...]
    note: str = ""


def differences(entrants: Sequence[Entrant]) -> tuple[Difference, ...]:
    """The recorded facts in which entrants differ, in the order of `KINDS`; unknown facts are not compared.

    Raises:
        InputError: a training is of an unknown method.
    """
    facts = [[dict(_facts(training)) for training in entrant.trainings] for entrant in entrants]
    keys = dict.fromkeys(key for of in facts for one in of for key in one)
    known = [one for of in facts for one in of]
    rows = [
        (kind, what, [[one.get((kind, what), _DEFAULT.get(kind, NOTHING)) for one in of] for of in facts])
        for kind, what in keys
        if kind in _DEFAULT or all((kind, what) in one for one in known)
    ]
    rows += [("settings", path, values) for path, values in _settings(entrants).items()]
    found = [
        Difference(kind=kind, what=what, values=texts, note=_note(kind, what, *entrants) if len(entrants) == 2 else "")
        for kind, what, values in rows
        if len(set(texts := tuple(map(_joined, values)))) > 1
    ]
    return tuple(sorted(found, key=lambda one: KINDS.index(one.kind)))


def _facts(training: Training) -> Iterator[tuple[tuple[str, str], Any]]:
    """(kind, name) -> value of what is recorded about a training, besides its settings."""
    trial, result, environment = training.trial, training.result, training.environment
    yield ("recordings", "task"), result.get("task", "segmentation")
    yield ("recordings", "part"), trial.get("part", "test")
    yield ("recordings", "split"), str(trial.get("split", NOTHING))
    scored = [(row["id"], row.get("n_frames")) for row in result["per_video"]]
    yield ("recordings", "scored recordings"), f"{len(scored)} ({digest([*map(list, sorted(scored))])[:8]})"
    if "data_fingerprint" in trial:
        yield ("recordings", "data of the split"), trial["data_fingerprint"]
    if training.trained_on is not None:
        yield ("recordings", "training data"), training.trained_on.fingerprint
    yield ("method", "method"), training.method
    yield ("method", "members of an ensemble"), trial.get("members", 1)
    yield from ((("settings", path), value) for path, value in result.get("choices", {}).items())
    yield ("seed", "seed"), trial.get("seed", NOTHING)
    if "numerics" in trial:
        yield ("versions", "numerics"), trial["numerics"]
    yield ("versions", "evaluation version"), result.get("evaluation_version", 1)
    yield ("machine", "environment"), "recorded" if environment else "not recorded"
    if not environment:
        return
    yield ("code", "commit"), environment.get("git_commit", NOTHING)
    yield ("code", "changed files"), sorted({*_files(training.patch), *map(str, environment.get("git_untracked", ()))})
    yield ("code", "local changes"), environment.get("git_diff_sha256", NOTHING)
    yield from ((("packages", name), version) for name, version in environment.get("packages", {}).items())
    facts = ("host", *ENVIRONMENT_FACTS)
    known = [name for name in facts if name in environment and name not in _NOT_MACHINE]
    yield from ((("machine", name), environment[name]) for name in known)


def _settings(entrants: Sequence[Entrant]) -> dict[str, list[list[Any]]]:
    """The settings that differ, by path; for each entrant one value per training."""
    trainings = [training for entrant in entrants for training in entrant.trainings]
    found = changed_settings([(one.method, one.trial.get("config", {})) for one in trainings])
    settings = {}
    for path, values in found.items():
        rest = iter(values)
        settings[path] = [[next(rest) for _ in entrant.trainings] for entrant in entrants]
    return settings


def _joined(values: Sequence[Any]) -> str:
    return ", ".join(dict.fromkeys(map(param_text, values)))


def _files(patch: str) -> list[str]:
    """The files that a patch changes.

    >>> _files("diff --git a/mucon/masks.py b/mucon/masks.py")
    ['mucon/masks.py']
    """
    return re.findall(r"^diff --git a/.* b/(.*)$", patch, flags=re.MULTILINE)


def _note(kind: str, what: str, one: Entrant, another: Entrant) -> str:
    """What else is known about a difference of two entrants; may be empty."""
    first, other = one.first, another.first
    if (kind, what) == ("code", "commit"):
        then, now = (str(of.environment.get("git_commit", "")) for of in (first, other))
        files = changed_files(then, now)
        return f"{len(files)} files: {', '.join(files[:5])}{', ...' if len(files) > 5 else ''}" if files else ""
    if kind != "recordings":
        return ""
    pairs: list[tuple[Mapping[str, Any], Mapping[str, Any]]] = []
    if what == "scored recordings":
        pairs = [(_scored(other), _scored(first))]
    elif what == "training data" and first.trained_on is not None and other.trained_on is not None:
        pairs = [(other.trained_on.recordings, first.trained_on.recordings)]
    return f"from the first to the second: {Recordings.between(pairs)}" if pairs else ""


def _scored(training: Training) -> dict[str, Any]:
    return {row["id"]: row.get("n_frames") for row in training.result["per_video"]}
