"""What is sent to a cluster so that a sweep runs there: the command line, a file, and variables; never a secret."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mucon.errors import InputError, Problem
from storage.remote.addresses import StorePlace
from sweeps.service.run.notice import VARIABLE as NOTIFY
from sweeps.service.spec.files.format import is_file_name
from sweeps.service.text import HIDDEN, redacted

URI = "MLFLOW_TRACKING_URI"
SENDER = "MUCON_SENDER"
"""Environment variable with the versions of the machine that has sent a sweep."""
OWN = (NOTIFY, "MUCON_CORES", "MUCON_CACHE_DIR", SENDER)
"""Variables that are not sent: a secret, folders of the machine, and what the machine adds itself."""
OPTIONS = ("--submit", "--detach")
"""Options that are not sent; the first one has a value."""
PROGRAM = "mucon-sweeps"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A sweep that is sent to a cluster.

    Attributes:
        sweep: name of the sweep.
        results: the results folder on the cluster.
        words: the command line there.
        file: a user-defined sweep, which is sent with it; None for an experiment of the package.
        variables: environment variables there.
        kept: names of the variables that are set here and not sent, because they contain secrets.
    """

    sweep: str
    results: str
    words: tuple[str, ...]
    file: Path | None
    variables: Mapping[str, str]
    kept: tuple[str, ...]

    @property
    def entrypoint(self) -> str:
        """The command for the shell of the cluster."""
        return shlex.join(self.words)

    @property
    def metadata(self) -> dict[str, str]:
        """What the cluster stores beside the job, by which the same sweep is found again."""
        content = b"" if self.file is None else self.file.read_bytes()
        digest = hashlib.sha256(json.dumps([self.words, sorted(self.variables.items())]).encode() + content)
        return {"mucon_sweep": self.sweep, "mucon_results": self.results, "mucon_command": digest.hexdigest()[:16]}

    def new_identity(self) -> str:
        """Name of the job, with the time in UTC."""
        return f"{self.sweep}-{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}"


def submission(
    sweep: str,
    name: str,
    words: Sequence[str],
    *,
    results: Path,
    store: StorePlace | None,
    environment: Mapping[str, str],
) -> Submission:
    """What is sent to run a sweep with the words of a command line.

    Args:
        sweep: name of the sweep.
        name: an experiment of the package, or the path of a file.
        words: options of the command line.
        results: value of --results.
        store: value of --store; None without one.
        environment: environment variables of this process.

    Raises:
        InputError: a path that is not absolute, a missing store, or a secret in the command line.
    """
    sent = tuple(_without(words))
    problems = [*_path_problems(results, store), *_secret_problems(sent)]
    variables = {
        variable: value
        for variable, value in sorted(environment.items())
        if (variable == URI or variable.startswith("MUCON_")) and variable not in OWN
    }
    for place, address in (("--tracking-uri", _value(sent, "--tracking-uri")), (URI, variables.get(URI))):
        if address and _is_relative(address):
            problems.append(_relative(place, address))
    if problems:
        raise InputError(problems)
    hidden = {variable for variable, value in variables.items() if redacted(value) != value}
    file = Path(name).absolute() if is_file_name(name) else None
    return Submission(
        sweep=sweep,
        results=os.path.normpath(results),
        words=(PROGRAM, "run", name if file is None else file.name, *sent),
        file=file,
        variables={variable: value for variable, value in variables.items() if variable not in hidden},
        kept=tuple(sorted(hidden | _secrets(environment))),
    )


def sender() -> dict[str, str]:
    """The variable that says the versions of this machine on the cluster."""
    from sweeps.service.run.preflight import versions  # needs torch, which most commands about jobs do not

    return {SENDER: json.dumps(versions())}


def sender_lines(environment: Mapping[str, str]) -> list[str]:
    """On the cluster: how the versions of the machine that has sent a sweep differ; none if it was started here."""
    from sweeps.service.run.preflight import version_differences, versions

    text = environment.get(SENDER)
    found = version_differences(versions(), json.loads(text)) if text else ""
    return [f"warning: sent from a machine with other versions: {found}; those of the cluster count"] if found else []


def _without(words: Sequence[str]) -> Iterable[str]:
    """The words that are not about sending."""
    rest = iter(words)
    for word in rest:
        if word == OPTIONS[0]:
            next(rest, None)
        elif word.partition("=")[0] not in OPTIONS:
            yield word


def _value(words: Sequence[str], option: str) -> str | None:
    """The last value of an option."""
    found = None
    for word, after in zip(words, (*words[1:], ""), strict=True):
        if word == option:
            found = after
        elif word.startswith(f"{option}="):
            found = word.partition("=")[2]
    return found


def _path_problems(results: Path, store: StorePlace | None) -> list[Problem]:
    found = [_relative("--results", str(results))] if not results.is_absolute() else []
    if store is None:
        message = "a sweep that is sent to a cluster needs a store there"
        hint = "name one that all its nodes see; `mucon store synthesize` makes one"
        found.append(Problem(rule="missing", place="--store", message=message, hint=hint))
    elif isinstance(store, Path) and not store.is_absolute():
        found.append(_relative("--store", str(store)))
    return found


def _relative(place: str, path: str) -> Problem:
    message = f"{redacted(path)} is relative to this machine's directory, but the sweep runs on the cluster"
    return Problem(rule="range", place=place, value=path, message=message, hint="name an absolute path of the cluster")


def _is_relative(address: str) -> bool:
    """Whether the address of a tracking server is a relative path, also that of a database in a file."""
    if "://" in address:
        return re.match(r"sqlite(\+\w+)?:///(?!/)", address) is not None
    return not Path(address.removeprefix("file:")).is_absolute()


def _secret_problems(words: Sequence[str]) -> list[Problem]:
    """Secrets in a command line, which everybody who may see the jobs of the cluster could read."""
    found = []
    if _value(words, "--notify") is not None:
        hint = f"set {NOTIFY} where `ray start` runs on the head of the cluster"
        message = "an address that may be secret is not sent"
        found.append(Problem(rule="unsupported", place="--notify", value=HIDDEN, message=message, hint=hint))
    elif any(redacted(word) != word for word in words):
        is_uri = redacted(_value(words, "--tracking-uri") or "") != (_value(words, "--tracking-uri") or "")
        place = "--tracking-uri" if is_uri else "--submit"
        message, hint = "the command line contains a password, which is not sent", f"set {URI} on the head"
        found.append(Problem(rule="unsupported", place=place, value=HIDDEN, message=message, hint=hint))
    return found


def _secrets(environment: Mapping[str, str]) -> set[str]:
    """Variables of a sweep that are set here and are secrets."""
    return {name for name in (NOTIFY, "MLFLOW_TRACKING_PASSWORD", "MLFLOW_TRACKING_TOKEN") if environment.get(name)}
