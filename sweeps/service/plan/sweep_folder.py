"""The record of a sweep, `RESULTS/sweeps/NAME/sweep.json`, and the addresses of its runs on the tracking server.

The sweeps' runs on a tracking server can be rebuilt from these records, as the trials' runs can from their directories.
"""

from __future__ import annotations

import contextlib
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from mucon.errors import InputError, Problem
from sweeps.service.text import redacted
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.json_files import (
    ANY_KEY,
    UNREADABLE,
    damaged,
    leaves,
    misfit,
    read_json,
    set_aside,
    write_json,
)
from sweeps.service.trials.lease import Holder, Lease
from sweeps.service.trials.results_folder import SLOTS_FILE, STOP_FILE, ResultsFolder

FORMAT_VERSION = 1
FILE = "sweep.json"
LINKS_FILE = "runs.json"
LIVE_PAGE = "index.html"
"""The page of the running sweep, afterwards a copy of its page."""
HINT = "run the sweep again: it renames the file and makes it again; no trial is lost"
SHAPE = {
    **{"name": str, "title": str, "command": str, "config": {}, "experiment": str, "created": (str, type(None))},
    "rows": {ANY_KEY: str},
}
OPTIONAL_SHAPE: dict[str, Any] = {
    "keep": int,
    "within": str,
    "labels": {ANY_KEY: {ANY_KEY: str}},
    "rerun": {"sweep": str, "words": [str], "folder": str},
}
TABLE_SUFFIXES = (".md", ".csv", ".tex", ".parquet", ".html", ".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """What runs a sweep again in this program, without a shell.

    Attributes:
        sweep: name of an experiment of the package, or absolute path of a file.
        words: options of its command line, without passwords.
        folder: the directory in which the command ran.
    """

    sweep: str
    words: tuple[str, ...]
    folder: str

    @property
    def command(self) -> str:
        """The command line, for a shell in `folder`."""
        return redacted(shlex.join(["mucon-sweeps", "run", self.sweep, *self.words]))

    def with_options(self, values: Mapping[str, str], without: Collection[str] = ()) -> Rerun:
        """The same with other values of some options, and without some others.

        >>> words = ("--seeds", "3", "--notify", "***", "--keep", "1", "--cpu-hours=2")
        >>> Rerun(sweep="grid", words=words, folder="/").with_options({"--cpu-hours": "5"}, ["--notify"]).words
        ('--seeds', '3', '--keep', '1', '--cpu-hours', '5')
        """
        options = {*values, *without}
        places = [i for i, word in enumerate(self.words) if word in options]
        out = {*places, *(i + 1 for i in places)}
        kept = (word for i, word in enumerate(self.words) if i not in out and word.partition("=")[0] not in options)
        return replace(self, words=(*kept, *(word for option in values.items() for word in option)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepInfo:
    """Facts about a sweep for the tracking server.

    Attributes:
        name: name of the sweep.
        title: its caption.
        command: command line.
        config: recipe, seeds, splits, store and settings of the command line; plain values.
        keep: number of its best trials that keep their whole checkpoints; None for all.
        rerun: what runs it again; None in older records and in those of other results folders.
        labels: row -> title of a label column -> its label; empty in older records.
        within: name of the sweep whose run contains that of this one; None for a sweep of its own.
    """

    name: str
    title: str
    command: str
    config: Mapping[str, Any]
    keep: int | None = None
    rerun: Rerun | None = None
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    within: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """What a tracking server shows of a sweep.

    Attributes:
        sweep: digest of the plan whose tables the sweep's run has; empty if the last shipment was not complete.
        trials: trial identity -> bytes of its journal when its run was brought up to date. Every attempt and every
            evaluation appends to the journal.
    """

    sweep: str = ""
    trials: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """A sweep as recorded in the results.

    Attributes:
        sweep: facts for the tracking server.
        experiment_name: name of the MLflow experiment.
        created: ISO time; the oldest of the sweeps that share a trial owns it. None if there is no such sweep.
        rows: trial identity -> row of the table.
        tables: name -> existing file.
        shipped: address of a tracking server, without its password -> what it shows.
        started: start of the newest run, seconds since 1970; None in older records.
    """

    sweep: SweepInfo
    experiment_name: str
    created: str | None
    rows: Mapping[str, str]
    tables: Mapping[str, Path]
    shipped: Mapping[str, Shipped] = field(default_factory=dict)
    started: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a sweep has found, for the tracking server.

    Attributes:
        metrics: name -> value: scores of the best row of each table, numbers of rows, seeds and trials.
        tags: name -> text: the best row of each table.
    """

    metrics: Mapping[str, float] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Pages of a sweep's runs on the tracking server.

    Attributes:
        sweep: page of the sweep's own run; None if the sweep was never tracked.
        runs: page with the runs of all sweeps; None in the records of older programs.
        serve: command that starts the server of these pages; None if they are on a server of its own.
        trials: trial identity -> page of its run.
    """

    sweep: str | None = None
    runs: str | None = None
    serve: str | None = None
    trials: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepCells:
    """What of a plan a tracking server shows.

    Attributes:
        results: the results folder.
        name: name of the sweep.
        digest: identifies title and cells.
        rows: trial identity -> row of the table.
        labels: row -> title of a label column -> its label.
        evaluations: trial identity -> identities of its evaluations in the sweep.
    """

    results: ResultsFolder
    name: str
    digest: str
    rows: Mapping[str, str]
    labels: Mapping[str, Mapping[str, str]]
    evaluations: Mapping[str, Sequence[str]]

    @property
    def folder(self) -> Path:
        """Directory of the sweep."""
        return self.results.sweep(self.name)

    @property
    def folders(self) -> list[TrialFolder]:
        """Directories of the trials."""
        return [self.results.trial(identity) for identity in self.evaluations]


def hold(results: ResultsFolder, name: str, tell: Callable[[str], None] | None = None) -> Lease:
    """The lease of a sweep, with which no other process runs or changes it; a stop is asked for from now on.

    A process of another machine that holds it may have been killed: then its lease is not renewed and expires.

    Args:
        results: the results folder.
        name: name of the sweep.
        tell: receives a line before the wait for that; None: does not wait.

    Raises:
        InputError: another process holds it.
    """
    scratch, owners = results.running(name), list[Holder]()

    def lives(owner: Holder) -> bool:
        owners.append(owner)
        if tell is None or owner.is_here or len(owners) > 1:
            return True
        tell(f"{owner} runs {name}, or was killed: waiting up to {owner.duration:g} s for a sign of life")
        return False

    held = lease.acquire_when_free(scratch, renewed=lives)
    if held is None:
        message = f"sweep {name} is already running ({owners[-1]})"
        hint = "wait for it, or name another --results folder"
        raise InputError(Problem(rule="busy", place=str(results.path), value=name, message=message, hint=hint))
    with contextlib.suppress(OSError):
        for left in (STOP_FILE, SLOTS_FILE):  # of an earlier process
            (scratch / left).unlink(missing_ok=True)
    return held


def write_sweep(results: ResultsFolder, sweep: SweepInfo, experiment_name: str, rows: Mapping[str, str]) -> None:
    """Writes or updates a sweep's record; rows and creation time of an earlier call are kept.

    A damaged record is renamed.

    Args:
        results: the results folder.
        sweep: facts for the tracking server.
        experiment_name: name of the MLflow experiment.
        rows: trial identity -> row of the table.
    """
    path = results.sweep(sweep.name) / FILE
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        earlier = read_sweep(path.parent)
    except InputError as error:
        if error.problems[0].rule not in UNREADABLE:
            raise
        set_aside(path)
        earlier = None
    write_json(
        path,
        {
            "format_version": FORMAT_VERSION,
            "name": sweep.name,
            "title": sweep.title,
            "command": sweep.command,
            "config": dict(sweep.config),
            "keep": sweep.keep,
            "within": sweep.within,
            "rerun": sweep.rerun and asdict(sweep.rerun),
            "experiment": experiment_name,
            "created": earlier.created if earlier else time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "started": time.time(),
            "shipped": {uri: asdict(shown) for uri, shown in earlier.shipped.items()} if earlier else {},
            "rows": {**(earlier.rows if earlier else {}), **rows},
            "labels": {**(earlier.sweep.labels if earlier else {}), **sweep.labels},
        },
    )


def mark_shipped(folder: Path, uri: str, shipped: Shipped) -> None:
    """Records what the tracking server at an address shows; the same command ships what is missing from the record."""
    value = read_json(folder / FILE, versions=(FORMAT_VERSION,), hint=HINT)
    earlier = value["shipped"] if isinstance(value.get("shipped"), dict) else {}
    whole = {**earlier, redacted(uri): asdict(shipped)}
    write_json(folder / FILE, {**value, "command": redacted(value["command"]), "shipped": whole})


def read_sweep(folder: Path) -> SweepRecord | None:
    """The record in a sweep's directory; None if the sweep was never tracked.

    Raises:
        InputError: the record is damaged or of another format version.
    """
    return _read(folder / FILE) if (folder / FILE).exists() else None


def read_sweeps(results: ResultsFolder) -> tuple[list[SweepRecord], dict[str, str]]:
    """The sweeps of a results folder, the oldest first; and the name of each whose record cannot be read, with why."""
    records, unreadable = [], {}
    for folder in results.sweeps(FILE):
        try:
            records.append(_read(folder / FILE))
        except InputError as error:
            unreadable[folder.name] = error.line
    return sorted(records, key=lambda record: (record.created or "", record.sweep.name)), unreadable


def write_links(folder: Path, links: Links) -> None:
    """Writes the addresses of a sweep's runs, for pages that are made without the tracking server.

    Args:
        folder: the sweep's directory.
        links: addresses of the runs.
    """
    named = {"": links.sweep, "runs": links.runs, "serve": links.serve}
    write_json(folder / LINKS_FILE, {**{name: page for name, page in named.items() if page}, **links.trials})


def read_links(folder: Path) -> Links:
    """The addresses that `write_links` wrote; none if the sweep was never tracked, or if the file is damaged.

    The next shipment writes the file again. Whatever is neither a page on a server nor the command that starts MLflow's
    is left out: it would be a link or a line to copy.
    """
    try:
        pages = read_json(folder / LINKS_FILE, hint=HINT, shape={ANY_KEY: str})
    except InputError:
        return Links()
    serve = pages.pop("serve", "")
    serve = serve if _starts_mlflow(serve) else None
    if serve and (uri := shlex.split(serve)[-1]).startswith("sqlite:///"):
        here = ResultsFolder(folder.parent.parent).database(uri)
        serve = serve.removesuffix(shlex.quote(uri)) + shlex.quote(here)
    pages = {name: page for name, page in pages.items() if page.startswith(("http://", "https://"))}
    sweep, runs = (pages.pop(name, None) for name in ("", "runs"))
    return Links(sweep=sweep, runs=runs, serve=serve, trials=pages)


def _starts_mlflow(line: str) -> bool:
    """Whether a shell would run `mlflow server` and nothing else.

    >>> _starts_mlflow("mlflow server --port 5000 'a b'"), _starts_mlflow('mlflow server "$MLFLOW_TRACKING_URI"')
    (True, True)
    >>> _starts_mlflow("mlflow server; rm x"), _starts_mlflow("mlflow server $(rm x)"), _starts_mlflow("rm x")
    (False, False, False)
    """
    try:
        words = shlex.split(line)
    except ValueError:
        return False
    return words[:2] == ["mlflow", "server"] and line in (
        shlex.join(words),
        f'{shlex.join(words[:-1])} "$MLFLOW_TRACKING_URI"',
    )


def _read(path: Path) -> SweepRecord:
    value = read_json(path, versions=(FORMAT_VERSION,), hint=HINT, shape=SHAPE)
    wrong = "; ".join(misfit(value[key], of, key) for key, of in OPTIONAL_SHAPE.items() if value.get(key) is not None)
    if wrong.strip("; "):
        raise damaged(path, wrong, HINT)
    if value["name"] != path.parent.name:
        raise damaged(path, f"record of the sweep {value['name']!r}", HINT)
    rerun = value.get("rerun")
    return SweepRecord(
        sweep=SweepInfo(
            name=value["name"],
            title=value["title"],
            command=redacted(value["command"]),
            config=value["config"],
            keep=value.get("keep"),
            rerun=rerun and Rerun(sweep=rerun["sweep"], words=tuple(rerun["words"]), folder=rerun["folder"]),
            labels=value.get("labels") or {},
            within=value.get("within"),
        ),
        experiment_name=value["experiment"],
        created=value["created"],
        rows=value["rows"],
        started=value.get("started") if isinstance(value.get("started"), float) else None,
        tables={
            file.name: file
            for file in sorted(path.parent.iterdir())
            if file.suffix in TABLE_SUFFIXES and file.name != LIVE_PAGE and not leaves(file, path.parent)
        },
        shipped=_shipped(value.get("shipped")),
    )


def _shipped(value: object) -> dict[str, Shipped]:
    """What was shipped where; nothing in the records of older programs, so that the sweep is compared once."""
    if misfit(value, {ANY_KEY: {"sweep": str, "trials": {ANY_KEY: int}}}):
        return {}
    assert isinstance(value, dict)
    return {uri: Shipped(sweep=shown["sweep"], trials=shown["trials"]) for uri, shown in value.items()}
