"""Addresses of tracking servers, and the environment of MLflow's client; does not import mlflow."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import shlex
import socket
from pathlib import Path
from urllib.parse import unquote, urlsplit

from mucon.errors import InputError, Problem
from sweeps.service.text import redacted
from sweeps.service.trials.results_folder import sqlite_uri

DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
CONNECT_SECONDS = 5.0
"""Time limit for connecting to a server."""
UI_PORT = 5000
MAX_MESSAGE_CHARACTERS = 300
"""Characters of an error message that are shown."""
SQLITE_HEADER = b"SQLite format 3\x00"

ENVIRONMENT = {
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0",  # the tracker retries; the default blocks for four minutes
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "15",
    "MLFLOW_LOGGING_LEVEL": "ERROR",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # saves two lines and one request per trial
}
"""Variables that mlflow reads when it is imported."""


class ServerError(Exception):
    """The tracking server does not respond or rejects a request."""


def set_environment() -> None:
    """Sets the variables of `ENVIRONMENT` that the user has not set; must be called before mlflow is imported.

    An error of a database, such as a full disk, reaches the caller; MLflow does not print its traceback as well.
    """
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)


def checked_uri(uri: str) -> str:
    """The address in the form that MLflow's client accepts on every machine.

    Makes the path of an SQLite database absolute and creates its folder; adds the installed driver to `postgresql:`.

    >>> checked_uri("http://127.0.0.1:5000/")
    'http://127.0.0.1:5000'

    Raises:
        InputError: an unsupported address, a missing database driver, or a file that is not an SQLite database.
    """
    scheme = uri.partition(":")[0]
    kind = scheme.partition("+")[0]
    if kind == "sqlite" and uri.startswith("sqlite:///"):
        file, mark, query = uri.removeprefix("sqlite:///").partition("?")
        path = Path(unquote(file)).expanduser().absolute()
        _check_sqlite(path, uri)
        return f"{sqlite_uri(path)}{mark}{query}"
    if kind in ("http", "https") and urlsplit(uri).hostname:
        return uri.rstrip("/")
    if kind == "postgresql" and urlsplit(uri).hostname:
        return f"{_postgresql_driver(scheme, uri)}{uri.removeprefix(scheme)}"
    if kind in ("mysql", "mssql") and urlsplit(uri).hostname:
        return uri
    raise InputError(
        Problem(
            rule="unsupported",
            place="--tracking-uri",
            value=redacted(uri),
            expected="sqlite:///PATH, http(s)://HOST:PORT or postgresql+psycopg2://USER@HOST:PORT/NAME",
            hint="sqlite:///mlflow.db is a local file",
        )
    )


def exists(uri: str) -> bool:
    """Whether the file of an SQLite database exists; true of every other address."""
    return not uri.startswith("sqlite:///") or database_path(uri).exists()


def database_path(uri: str) -> Path:
    """The file of an SQLite database."""
    return Path(unquote(uri.removeprefix("sqlite:///").partition("?")[0]))


def check_connection(uri: str) -> None:
    """Connects to a server's address once; the client of a database would retry for a quarter of an hour.

    Raises:
        OSError: no connection within five seconds.
    """
    parts = urlsplit(uri)
    kind = parts.scheme.partition("+")[0]
    if kind in DEFAULT_PORTS:
        address = (parts.hostname or "localhost", parts.port or DEFAULT_PORTS[kind])
        socket.create_connection(address, CONNECT_SECONDS).close()


def unreachable(uri: str, error: Exception) -> InputError:
    """The error for a tracking server that does not respond."""
    return InputError(
        Problem(
            rule="unreachable",
            place="--tracking-uri",
            value=redacted(uri),
            message=f"cannot reach the tracking server at {redacted(uri)} ({one_line(error)})",
            hint="start it, or use --tracking off and `mucon-sweeps sync` later",
        )
    )


def one_line(error: BaseException) -> str:
    """An error's message without secrets, on one line, cut to `MAX_MESSAGE_CHARACTERS`."""
    return " ".join(redacted(str(error)).split())[:MAX_MESSAGE_CHARACTERS] or type(error).__name__


def artifact_location(uri: str, results: Path = Path()) -> str | None:
    """Where an experiment stores its artifacts; None if the server chooses the location.

    Args:
        uri: address of the server.
        results: the results folder, for a database that is no file; by default the current folder.

    >>> artifact_location("sqlite:////data/results/mlflow.db")
    '/data/results/mlartifacts'
    >>> artifact_location("http://127.0.0.1:5000")
    """
    if uri.startswith("sqlite:///"):
        results = database_path(uri).parent
    # MLflow decodes it
    return None if uri.startswith("http") else str(results.absolute() / "mlartifacts").replace("%", "%25")


def remove_stray_folders(uri: str) -> None:
    """Removes the empty folders that MLflow makes where the address of a database has an escaped character."""
    path = Path(uri.removeprefix("sqlite:///").partition("?")[0])
    if uri.startswith("sqlite:///") and path.parent != Path(unquote(str(path.parent))):
        with contextlib.suppress(OSError):
            os.removedirs(path.parent)


def ui_command(uri: str) -> str:
    """The command that serves a database to browsers; the address of one that may contain a password is a variable.

    >>> ui_command("sqlite:////data/mlflow.db")
    'mlflow server --host 127.0.0.1 --port 5000 --backend-store-uri sqlite:////data/mlflow.db'
    """
    address = shlex.quote(uri) if uri.startswith("sqlite:") else '"$MLFLOW_TRACKING_URI"'
    return f"mlflow server --host 127.0.0.1 --port {UI_PORT} --backend-store-uri {address}"


def run_page(uri: str, experiment: str, run: str = "") -> str:
    """The page of a run, without user name and password; for a database, the page that `ui_command` serves.

    Args:
        uri: address of the server.
        experiment: MLflow's number of the experiment.
        run: MLflow's identifier of the run; if empty, the page is that of all runs of the experiment.

    >>> run_page("https://me:secret@tracks.example:8080/mlflow", "1", "f00")
    'https://tracks.example:8080/mlflow/#/experiments/1/runs/f00?workflowType=machine_learning'
    >>> run_page("sqlite:////data/mlflow.db", "1")
    'http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning'
    """
    server = f"http://127.0.0.1:{UI_PORT}"
    if uri.startswith("http"):
        parts = urlsplit(uri)
        server = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="").geturl()
    return f"{server}/#/experiments/{experiment}/runs{f'/{run}' if run else ''}?workflowType=machine_learning"


def _check_sqlite(path: Path, uri: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open("rb") as file:
                head = file.read(len(SQLITE_HEADER))
            if head not in (b"", SQLITE_HEADER):
                raise InputError(
                    Problem(
                        rule="type",
                        place="--tracking-uri",
                        value=redacted(uri),
                        message=f"{path} is not an SQLite database",
                    )
                )
    except OSError as error:
        raise InputError(
            Problem(
                rule="unreadable", place="--tracking-uri", value=redacted(uri), message=f"cannot open {path} ({error})"
            )
        ) from error


def _postgresql_driver(scheme: str, uri: str) -> str:
    """The scheme with an installed driver; for plain `postgresql:` the default depends on SQLAlchemy's version."""
    driver = scheme.partition("+")[2]
    for candidate in (driver,) if driver else ("psycopg2", "psycopg"):
        if importlib.util.find_spec(candidate) is not None:
            return f"postgresql+{candidate}"
    raise InputError(
        Problem(
            rule="missing",
            place="--tracking-uri",
            value=redacted(uri),
            message=f"the database driver {driver or 'psycopg2'} is not installed",
            hint="pip install 'mucon[postgresql]' and use postgresql+psycopg2://",
        )
    )
