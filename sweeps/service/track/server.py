"""Addresses of tracking servers and the client's environment; does not import mlflow."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from mucon.errors import InputError

DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
CONNECT = 5.0
"""Seconds in which a server takes a connection."""
UI_PORT = 5000
SQLITE_HEADER = b"SQLite format 3\x00"

ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",  # the shipper tries again by itself: four minutes of waiting help nobody
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "MLFLOW_LOGGING_LEVEL": "WARNING",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # two lines and one request for each trial
}
"""What mlflow reads when it is imported; a variable that the user has set stays."""


class ServerError(Exception):
    """The tracking server does not answer or refuses a request."""


def set_environment() -> None:
    """Sets the variables of `ENVIRONMENT` that are not set, in this process, before mlflow is imported."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def checked_uri(uri: str) -> str:
    """The address in the form that MLflow's client takes on every machine.

    A path of sqlite becomes absolute and its folder is made; plain `postgresql:` names the driver that is installed.

    >>> checked_uri("http://127.0.0.1:5000/")
    'http://127.0.0.1:5000'

    Raises:
        InputError: no tracking server has such an address, or the driver for it is missing.
    """
    scheme = uri.partition(":")[0]
    kind = scheme.partition("+")[0]
    if kind == "sqlite" and uri.startswith("sqlite:///"):
        path = Path(uri.removeprefix("sqlite:///")).expanduser().absolute()
        _check_sqlite(path, uri)
        return f"sqlite:///{path}"
    if kind in ("http", "https") and urlsplit(uri).hostname:
        return uri.rstrip("/")
    if kind == "postgresql" and urlsplit(uri).hostname:
        return f"{_postgresql_driver(scheme, uri)}{uri.removeprefix(scheme)}"
    if kind in ("mysql", "mssql") and urlsplit(uri).hostname:
        return uri
    raise InputError(
        "--tracking-uri is sqlite:///PATH, http(s)://HOST:PORT or postgresql+psycopg2://USER@HOST:PORT/NAME, "
        f"{uri!r} is none of them: for a local file write sqlite:///mlflow.db"
    )


def check_connection(uri: str) -> None:
    """Passes where something listens at a server's address; a database's client would ask for a quarter of an hour.

    Raises:
        OSError: nothing answers within five seconds.
    """
    parts = urlsplit(uri)
    kind = parts.scheme.partition("+")[0]
    if kind in DEFAULT_PORTS:
        socket.create_connection((parts.hostname or "localhost", parts.port or DEFAULT_PORTS[kind]), CONNECT).close()


def artifact_location(uri: str) -> str | None:
    """Where a new experiment keeps its artifacts: with a server it decides, with a bare database we do.

    >>> artifact_location("sqlite:////data/results/mlflow.db")
    '/data/results/mlartifacts'
    >>> artifact_location("http://127.0.0.1:5000")
    """
    if uri.startswith("sqlite:///"):
        return str(Path(uri.removeprefix("sqlite:///")).parent / "mlartifacts")
    return None if uri.startswith("http") else str(Path("mlartifacts").absolute())


def ui_command(uri: str) -> str:
    """The command that shows a bare database in a browser.

    >>> ui_command("sqlite:////data/mlflow.db")
    'mlflow server --host 127.0.0.1 --port 5000 --backend-store-uri sqlite:////data/mlflow.db'
    """
    return f"mlflow server --host 127.0.0.1 --port {UI_PORT} --backend-store-uri {uri}"


def run_page(uri: str, experiment: str, run: str) -> str:
    """The page of a run; that of a bare database once `ui_command` serves it. Names and passwords are left out.

    >>> run_page("https://me:secret@tracks.example:8080/mlflow", "1", "f00")
    'https://tracks.example:8080/mlflow/#/experiments/1/runs/f00?workflowType=machine_learning'
    >>> run_page("sqlite:////data/mlflow.db", "1", "f00")
    'http://127.0.0.1:5000/#/experiments/1/runs/f00?workflowType=machine_learning'
    """
    server = f"http://127.0.0.1:{UI_PORT}"
    if uri.startswith("http"):
        parts = urlsplit(uri)
        server = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    return f"{server}/#/experiments/{experiment}/runs/{run}?workflowType=machine_learning"


def _check_sqlite(path: Path, uri: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            with path.open("rb") as file:
                head = file.read(len(SQLITE_HEADER))
            if head not in (b"", SQLITE_HEADER):
                raise InputError(
                    f"{uri} names an SQLite database, {path} is a file of another kind: "
                    "name another with --tracking-uri"
                )
    except OSError as error:
        raise InputError(f"{uri} names a file that can be opened, {path} cannot ({error}): name another") from error


def _postgresql_driver(scheme: str, uri: str) -> str:
    """SQLAlchemy 2.1 takes plain `postgresql:` for psycopg 3, older ones for psycopg2: the installed one is named."""
    driver = scheme.partition("+")[2]
    for candidate in (driver,) if driver else ("psycopg2", "psycopg"):
        if importlib.util.find_spec(candidate) is not None:
            return f"postgresql+{candidate}"
    raise InputError(
        f"{uri} needs the driver {driver or 'psycopg2'}, which is not installed: pip install 'mucon[postgresql]', and "
        "write postgresql+psycopg2://"
    )
