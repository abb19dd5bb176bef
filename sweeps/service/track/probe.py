"""One real request to a tracking server before anything is trained; does not import mlflow."""

from __future__ import annotations

import contextlib
import http.client
import json
import sqlite3
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from mucon.errors import InputError, Problem
from sweeps.service.text import redacted
from sweeps.service.track.server import ServerError, database_path, one_line, unreachable

PROBE_SECONDS = 5.0
"""Time limit of the request."""
MAX_ANSWER_BYTES = 1_000_000
NOT_FOUND = "RESOURCE_DOES_NOT_EXIST"
"""MLflow's answer if the experiment does not exist yet."""


def probe(uri: str, experiment: str) -> bool:
    """Asks a tracking server for an experiment, in at most five seconds; changes nothing.

    Args:
        uri: address in the form of `checked_uri`.
        experiment: name of the experiment, which need not exist.

    Returns:
        Whether the server answers as MLflow does; False if only MLflow's client can tell, as with a login.

    Raises:
        InputError: the server does not answer, is no MLflow server, lacks its database or driver, or is locked.
    """
    ask = _ask_sqlite if uri.startswith("sqlite") else _ask_http if uri.startswith("http") else _ask_database
    try:
        return _within(PROBE_SECONDS, lambda: ask(uri, experiment))
    except ImportError as error:
        raise _wrong(uri, "missing", f"the database driver is not installed ({one_line(error)})") from error
    except (ServerError, OSError, http.client.HTTPException) as error:
        raise unreachable(uri, error) from error


def _within(seconds: float, call: Callable[[], bool]) -> bool:
    """The result of a call; the thread of a call that takes longer is abandoned, because some cannot be interrupted."""
    result: list[bool] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            result.append(call())
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="probe", daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise errors[0]
    if not result:
        raise ServerError(f"no answer within {seconds:.0f} s")
    return result[0]


def _ask_http(uri: str, experiment: str) -> bool:
    parts = urlsplit(uri)
    plain = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    address = f"{plain}/api/2.0/mlflow/experiments/get-by-name?experiment_name={quote(experiment)}"
    try:
        with urllib.request.urlopen(address, timeout=PROBE_SECONDS) as response:
            status, body = response.status, response.read(MAX_ANSWER_BYTES)
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read(MAX_ANSWER_BYTES)
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):  # MLflow's variables may name the certificate
            return False
        raise ServerError(str(error.reason)) from error
    if status in (401, 403):
        return False
    answer: Any = None
    with contextlib.suppress(ValueError, RecursionError):
        answer = json.loads(body)
    if not isinstance(answer, dict) or not answer.keys() & {"experiment", "error_code"}:
        raise _wrong(uri, "type", f"what answers at {redacted(uri)} is no MLflow server (status {status})")
    if "experiment" not in answer and answer["error_code"] != NOT_FOUND:
        raise ServerError(f"status {status}: {answer.get('message', answer['error_code'])}")
    return True


def _ask_sqlite(uri: str, _: str) -> bool:
    path = database_path(uri)
    if not path.exists():
        return True
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=PROBE_SECONDS - 1)) as database:
            tables = {name for (name,) in database.execute("select name from sqlite_master where type = 'table'")}
            if tables and not {"experiments", "runs", "alembic_version"} <= tables:
                raise _wrong(uri, "type", f"{path} is a database of another program")
            database.execute("begin immediate")
            database.rollback()
    except sqlite3.Error as error:
        raise ServerError(f"{path}: {error}") from error
    return True


def _ask_database(uri: str, _: str) -> bool:
    import sqlalchemy  # a dependency of mlflow that starts faster

    try:
        with sqlalchemy.create_engine(uri, poolclass=sqlalchemy.pool.NullPool).connect() as connection:
            connection.execute(sqlalchemy.text("select 1"))
    except sqlalchemy.exc.SQLAlchemyError as error:
        raise ServerError(str(getattr(error, "orig", None) or error)) from error
    return True


def _wrong(uri: str, rule: Any, message: str) -> InputError:
    return InputError(
        Problem(
            rule=rule,
            place="--tracking-uri",
            value=redacted(uri),
            message=message,
            hint="use another address, or --tracking off and `mucon-sweeps sync` later",
        )
    )
