"""Failures as values, and groups of failures that have the same cause."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Self

from mucon.errors import InputError, counted
from sweeps.service.plan.cells import Cell
from sweeps.service.text import printable, redacted
from sweeps.service.triage.causes import OF_GPU_MEMORY, OF_MEMORY, OF_STORAGE
from sweeps.service.trials.cell_results import CellResult
from sweeps.service.trials.folder import State
from sweeps.service.trials.json_files import misfit
from sweeps.service.trials.provenance import ROOT
from sweeps.service.trials.results_folder import ResultsFolder

FAILURES = (State.FAILED, State.DIVERGED)
"""States of trials that ended with an error."""
CRASH = "Fatal Python error: "
"""What Python's fault handler prints first when native code crashes; a process that is killed prints nothing."""
OURS = ("mucon", "storage", "sweeps")
MOST_CHARACTERS = 300
SHOWN_CHARACTERS = 120
"""Characters of a message in a list of failures or trials."""
SHAPE = {"exception": str, "message": str, "file": str, "line": int, "function": str, "rule": str}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """The error that ended a trial, as its journal records it.

    Attributes:
        exception: name of the class.
        message: at most `MOST_CHARACTERS` characters.
        file: source of the deepest frame in the packages of this project, such as `mucon/losses.py`; empty if unknown.
        line: its line; 0 if unknown.
        function: its function, with the class of a method; empty if unknown.
        rule: the broken rule of an `InputError`; otherwise empty.
    """

    exception: str
    message: str
    file: str = ""
    line: int = 0
    function: str = ""
    rule: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """The failure that an exception describes."""
        message, rule = (error.line, error.problems[0].rule) if isinstance(error, InputError) else (str(error), "")
        message = printable(redacted(" ".join(message.split())))[:MOST_CHARACTERS]
        found: dict[str, Any] = {"exception": type(error).__name__, "message": message, "rule": rule}
        for frame, line in traceback.walk_tb(error.__traceback__):
            place = _ours(Path(frame.f_code.co_filename))
            if place is not None:
                found |= {"file": place, "line": line, "function": frame.f_code.co_qualname}
        return cls(**found)

    @classmethod
    def in_output(cls, text: str) -> Self | None:
        r"""The last crash of native code that Python's fault handler reports in a process's output; None without one.

        >>> Failure.in_output("Fatal Python error: Aborted\n\nStack (most recent call first):\n").message
        'Aborted'
        """
        _, found, dump = text.rpartition(CRASH)
        if not found:
            return None
        message, _, frames = dump.partition("\n")
        crash = cls(exception="crash", message=message.strip()[:MOST_CHARACTERS])
        current = frames.partition("Current thread")[2] or frames  # other threads may come first
        for path, line, function in _DUMPED_FRAME.findall(current):
            if (place := _ours(Path(path))) is not None:
                return replace(crash, file=place, line=int(line), function=function)
        return crash

    @classmethod
    def recorded(cls, record: Mapping[str, Any] | None) -> Self | None:
        """The failure of a status record; None if it has none, as in journals of earlier versions."""
        value: Any = (record or {}).get("failure")
        return None if misfit(value, SHAPE) else cls(**{name: value[name] for name in SHAPE})

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for the journal."""
        return asdict(self)


_DUMPED_FRAME = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def _ours(path: Path) -> str | None:
    """The path of a source of this project, relative to the folder of the packages; None for other sources."""
    relative = path.relative_to(ROOT) if path.is_relative_to(ROOT) else Path()
    return relative.as_posix() if relative.parts and relative.parts[0] in OURS else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A trial that ended with an error.

    Attributes:
        identity: of its training.
        name: row, split and seed.
        state: failed or diverged.
        reason: the recorded reason.
        failure: the recorded error; None in journals of earlier versions, or if its process died.
    """

    identity: str
    name: str
    state: State
    reason: str | None
    failure: Failure | None

    @property
    def text(self) -> str:
        """Exception and message, or the reason."""
        if self.failure is None:
            return _POSSIBLE_CAUSES.sub("", self.reason or "no reason is recorded")
        return f"{self.failure.exception}: {self.failure.message}".removesuffix(": ")

    @property
    def cause(self) -> tuple[str, str]:
        """Name and hint of a known cause; two empty texts if the cause is not known."""
        if self.state is State.DIVERGED:
            return "diverged", "lower training.learning_rate"
        rule = f"{self.failure.exception} {self.failure.rule}" if self.failure else ""
        return next(
            ((name, hint) for name, pattern, hint in _CAUSES if pattern.search(f"{rule} {self.text}")), ("", "")
        )

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for failures of one group: known cause, exception, deepest frame, and message without names."""
        where = self.failure and (self.failure.exception, self.failure.file, self.failure.function, self.failure.line)
        cause = self.cause[0]
        return self.state, cause, where, "" if cause and where else without_names(self.text)


_CAUSES = (
    ("out of GPU memory", OF_GPU_MEMORY, "try --gpus-per-trial 0.5, or 1"),
    ("out of memory", OF_MEMORY, "try --cpus-per-trial 2, so that fewer trials run at a time, or a smaller model"),
    ("disk full", OF_STORAGE, "free space in the results folder; the same command resumes"),
    (
        "store missing or changed",
        re.compile(r"^StoreError|^InputError mismatch|no such store|store was replaced", re.IGNORECASE),
        "compare the store with `mucon store verify`, then run the same command",
    ),
    (
        "other version",
        re.compile(r"^InputError version|ModuleNotFoundError|ImportError|format version", re.IGNORECASE),
        "install the same version of the program on every node",
    ),
)
"""Name, pattern of rule and text, and hint of each known cause; the first one that matches counts."""
_POSSIBLE_CAUSES = re.compile(r" [A-Z][^.]* (common|potential root) causes.*", re.DOTALL)
"""What Ray knows of processes that die, whatever has happened."""
_NAMES = re.compile(
    r"""'[^']*'|"[^"]*"|(?<!\w)[\w.~-]*/[^\s:,;)]+|\b0x[0-9a-f]+\b|\b(?=\w*\d)[0-9a-f]{8,}\b|\d[\d.,]*(?:e[+-]?\d+)?""",
    re.IGNORECASE,
)


def without_names(text: str) -> str:
    """A message without quoted names, paths, identities and numbers, which differ between trials of one cause.

    >>> without_names("video 'a b' of /data/x.npy: expected 3.5e-4 frames, got 0x1f (0123456789abcdef)")
    'video … of …: expected … frames, got … (…)'
    """
    return _NAMES.sub("…", text)


def shortened(text: str) -> str:
    """The text, cut to `SHOWN_CHARACTERS` with an ellipsis."""
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[: SHOWN_CHARACTERS - 2]} …"


@dataclass(frozen=True, slots=True, kw_only=True)
class FailureGroup:
    """Failures with the same cause.

    Attributes:
        state: failed or diverged.
        cause: known cause, or the exception; empty if only a reason was recorded.
        where: deepest function of this project with its place; empty if unknown.
        message: of the example.
        hint: what to try; empty if the cause is not known.
        trials: identities, each once; the first one is the example.
        example: row, split and seed of the example.
    """

    state: State
    cause: str
    where: str
    message: str
    hint: str
    trials: tuple[str, ...]
    example: str

    @property
    def title(self) -> str:
        """The group in one line, without the example."""
        where = f" in {self.where}" if self.where else ""
        hint = f"; {self.hint}" if self.hint else ""
        return f"{counted(len(self.trials), 'trial')}: {self.cause or shortened(self.message)}{where}{hint}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self)


def group_failures(failed: Iterable[Failed]) -> tuple[FailureGroup, ...]:
    """The groups of some failures, the largest first; a training that several cells share counts once."""
    groups: dict[tuple[object, ...], dict[str, Failed]] = {}
    for one in failed:
        groups.setdefault(one.key, {}).setdefault(one.identity, one)
    found = [_group(list(group.values())) for group in groups.values()]
    return tuple(sorted(found, key=lambda group: -len(group.trials)))


def failures_of(
    folder: ResultsFolder, cells: Iterable[Cell], results: Mapping[str, CellResult]
) -> tuple[FailureGroup, ...]:
    """The groups of the failed trials among some cells.

    Args:
        folder: the results folder.
        cells: the cells.
        results: state of each cell, by key.
    """
    failed = [(cell, results[cell.key]) for cell in cells if results[cell.key].state in FAILURES]
    return group_failures(
        Failed(
            identity=cell.identity,
            name=str(cell),
            state=result.state,
            reason=result.reason,
            failure=Failure.recorded(folder.reading(cell.identity).last_status),
        )
        for cell, result in failed
    )


def _group(failed: list[Failed]) -> FailureGroup:
    example = failed[0]
    failure = example.failure
    cause, hint = example.cause
    return FailureGroup(
        state=example.state,
        cause=cause or (failure.exception if failure else ""),
        where=f"{failure.function} ({failure.file}:{failure.line})" if failure and failure.file else "",
        message=(failure and failure.message) or example.text,
        hint=hint,
        trials=tuple(one.identity for one in failed),
        example=example.name,
    )


def failure_lines(groups: Iterable[FailureGroup], results: ResultsFolder) -> Iterator[str]:
    """Each group with an example and the command that repeats it; nothing without groups."""
    for group in groups:
        yield group.title
        yield f"    such as {group.example}: {shortened(group.message)}"
        yield f"    mucon-sweeps debug {results.argument(group.trials[0])}"
