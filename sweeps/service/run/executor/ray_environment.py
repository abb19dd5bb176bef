"""Ray's environment variables, set before ray is imported."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile
from pathlib import Path

from mucon.device import set_cublas_workspace
from mucon.errors import InputError, Problem

_PREFIX = "ray-"
MAX_RAY_FOLDER = 36
"""Bytes of the path under which Ray's sockets still have names of at most 107 bytes, the system's limit."""
LEAST_FREE_BYTES = 2**20
"""Room without which Ray does not start, and says no more than that it waits for a file."""


def is_cluster() -> bool:
    """Whether trials run on the cluster at RAY_ADDRESS instead of this machine."""
    return bool(os.environ.get("RAY_ADDRESS"))


def set_ray_environment() -> None:
    """Sets the variables that the user has not set, for this process and its children.

    Turns off usage statistics and Tune's loggers, interrupt handler and output. A local Ray (no RAY_ADDRESS) listens on
    the loopback address only and requires a random token, which is not stored; it collects no metrics and starts
    no worker before a trial needs one; its workers inherit CUBLAS_WORKSPACE_CONFIG.
    """
    values = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_AIR_NEW_OUTPUT": "0",
        "RAY_CHDIR_TO_TRIAL_DIR": "0",
        "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
        "TUNE_DISABLE_SIGINT_HANDLER": "1",
        "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
        "TUNE_GLOBAL_CHECKPOINT_S": str(10**9),
        "TUNE_WARN_THRESHOLD_S": "60",
    }
    if not is_cluster():
        values["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        values["RAY_AUTH_MODE"] = "token"
        values["RAY_enable_metrics_collection"] = "0"
        values["RAY_prestart_worker_first_driver"] = "0"
        values["REPORTER_UPDATE_INTERVAL_MS"] = str(10**9)
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            values["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        set_cublas_workspace()
    for name, value in values.items():
        os.environ.setdefault(name, value)


def check_ray_folder() -> None:
    """Checks that a local Ray can make its sockets.

    Raises:
        InputError: no folder whose path is short enough can be written, or it has no room.
    """
    if not is_cluster():
        folder = os.environ.get("RAY_TMPDIR") or _temporary_folder()
        if len(os.fsencode(folder)) > MAX_RAY_FOLDER or not os.access(folder, os.W_OK | os.X_OK):
            raise InputError(
                Problem(
                    rule="unsupported",
                    place="RAY_TMPDIR",
                    value=folder,
                    message=f"Ray needs a writable folder with a path of at most {MAX_RAY_FOLDER} bytes, got {folder}",
                    hint="set RAY_TMPDIR to such a folder",
                )
            )
        if (free := shutil.disk_usage(folder).free) < LEAST_FREE_BYTES:
            message = f"the folder for Ray's temporary files is full: {folder}, {free} bytes free"
            hint = "make room, or set RAY_TMPDIR to another folder"
            raise InputError(Problem(rule="unwritable", place="RAY_TMPDIR", value=folder, message=message, hint=hint))


def new_ray_folder() -> str | None:
    """A new folder for a local Ray's session that only this user can open; None if RAY_TMPDIR names another one."""
    return None if os.environ.get("RAY_TMPDIR") else tempfile.mkdtemp(prefix=_PREFIX, dir=_temporary_folder())


def ray_folders() -> list[Path]:
    """The folders that `new_ray_folder` has made, and perhaps others."""
    return list(Path(_temporary_folder()).glob(f"{_PREFIX}*"))


def _temporary_folder() -> str:
    """A short path where this user can write: /tmp, whatever TMPDIR is, or else the folder for temporary files."""
    short = Path("/tmp")
    return str(short) if os.access(short, os.W_OK | os.X_OK) else tempfile.gettempdir()
