"""The paths in a results folder; no other file builds them."""

from __future__ import annotations

import os
import shlex
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from mucon.errors import InputError, Problem, nearest
from sweeps.service.trials import lease
from sweeps.service.trials.folder import TrialFolder
from sweeps.service.trials.reading import TrialReading

STOP_FILE = "stop"
"""File in a running sweep's scratch directory that asks its workers to write a checkpoint and stop, and may say why."""
SLOTS_FILE = "slots"
"""File there with the number of trials that run at a time."""


def ask_to_stop(stop_file: Path, reason: str) -> None:
    """Creates a `STOP_FILE` together with its reason."""
    draft = stop_file.with_name(f".{stop_file.name}.{threading.get_native_id()}")
    draft.write_text(reason, encoding="utf-8")
    draft.replace(stop_file)


@dataclass(frozen=True, slots=True)
class ResultsFolder:
    """A results folder: trials, sweeps, scratch directories, and the default tracking database.

    Args:
        path: absolute.
    """

    path: Path

    @classmethod
    def at(cls, path: Path) -> ResultsFolder:
        """The results folder at a path, absolute or not, which need not exist.

        Raises:
            InputError: a file has this path.
        """
        whole = path.expanduser().absolute()
        if whole.is_file():
            raise InputError(
                Problem(rule="type", place=str(path), value=str(path), message="a file, not a results folder")
            )
        return cls(whole)

    def trained_run(self, identity: str) -> str | None:
        """The run folder of a trial whose training has finished; None for another trial."""
        folder = self.trial(identity)
        return str(folder.run_path) if folder.training_path.exists() else None

    @property
    def tracking_uri(self) -> str:
        """Address of the tracking database inside the folder."""
        return sqlite_uri(self.path / "mlflow.db")

    def database(self, recorded: str) -> str:
        """A recorded SQLite address, or that of the folder's own database if it is gone since the folder was moved."""
        is_gone = not Path(unquote(recorded.removeprefix("sqlite:///"))).exists()
        return self.tracking_uri if is_gone and (self.path / "mlflow.db").exists() else recorded

    @property
    def writer_path(self) -> Path:
        """The file with the name under which the folder sends runs to a tracking server."""
        return self.path / "writer.json"

    def trial(self, identity: str) -> TrialFolder:
        """The directory of a trial, whether it exists or not."""
        return TrialFolder(self.path / "trials" / identity)

    def reading(self, identity: str) -> TrialReading:
        """The current content of a trial's directory."""
        return TrialReading(self.trial(identity))

    def is_held(self, identity: str) -> bool:
        """Whether a process currently holds a trial."""
        return lease.holder(self.trial(identity).path) is not None

    def argument(self, identity: str) -> str:
        """A trial as a word of a command line: its identity, or its directory if `--results` would have to be given."""
        is_default = self.path == Path("results").absolute()
        return identity if is_default else shlex.quote(str(self.trial(identity).path))

    def trials(self) -> list[TrialFolder]:
        """The trials that have started, sorted by identity."""
        return [TrialFolder(path.parent) for path in sorted(self.path.glob("trials/*/trial.json"))]

    def sweep(self, name: str) -> Path:
        """Directory of a sweep's plan, tables, figures and page."""
        return self.path / "sweeps" / name

    def sweeps(self, file: str) -> list[Path]:
        """The directories of the sweeps that have a file, sorted by name."""
        return [path.parent for path in sorted(self.path.glob(f"sweeps/*/{file}"))]

    def running(self, name: str) -> Path:
        """Scratch directory of a running sweep, with its lease."""
        return self.path / "running" / name

    def output(self, identity: str) -> Path:
        """What the process that runs a trial prints, until it is added to the trial's log."""
        return self.path / "running" / ".output" / f"{identity}.log"

    def find_trial(self, run: str) -> TrialFolder:
        """The directory of a trial that is named by its identity or by its directory (or `run` in it).

        Raises:
            InputError: no such trial.
        """
        for path in (Path(run), Path(run).parent, self.trial(run).path):
            if os.path.exists(TrialFolder(path).trial_path):  # noqa: PTH110  # False for a name that is too long
                return TrialFolder(path.absolute())
        trials = [folder.identity for folder in self.trials()]
        raise InputError(
            Problem(
                rule="unknown",
                place=str(self.path),
                value=run,
                message=f"no trial {run!r}{nearest(run, trials)} among {len(trials)} trials",
                hint="pass a trial id (`--dry-run` lists them) or its directory, or name another --results folder",
            )
        )


def sqlite_uri(path: Path) -> str:
    """The address of a database file; SQLAlchemy decodes the path and ends it at a question mark.

    >>> sqlite_uri(Path("/data/50%? done/mlflow.db"))
    'sqlite:////data/50%25%3F done/mlflow.db'
    """
    return f"sqlite:///{str(path).replace('%', '%25').replace('?', '%3F')}"
