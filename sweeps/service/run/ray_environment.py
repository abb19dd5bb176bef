"""Ray's environment variables, set before ray is imported."""

from __future__ import annotations

import os
import secrets

from mucon.device import set_cublas_workspace


def is_cluster() -> bool:
    """Whether trials run on the cluster at RAY_ADDRESS instead of this machine."""
    return bool(os.environ.get("RAY_ADDRESS"))


def set_ray_environment() -> None:
    """Sets the variables that the user has not set, for this process and its children.

    Turns off usage statistics and Tune's loggers, interrupt handler and output. A local Ray (no RAY_ADDRESS) listens on
    the loopback address only and requires a random token, which is not stored; its workers inherit
    CUBLAS_WORKSPACE_CONFIG.
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
        if "RAY_AUTH_TOKEN_PATH" not in os.environ:
            values["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
        set_cublas_workspace()
    for name, value in values.items():
        os.environ.setdefault(name, value)
