"""Hides passwords and tokens in texts."""

from __future__ import annotations

import os
import re

HIDDEN = "***"
"""What records and messages contain in place of a password."""
MIN_SECRET = 6
"""Characters of the shortest value of a variable that is replaced; shorter ones occur in words."""
_SECRET_WORDS = "password|passwd|pwd|token|secret|api_?key|access_?key|credential|passphrase|signature"
_SECRETS = (
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s/:?#'\"]*:)[^\s\"]+(@)", re.IGNORECASE), r"\1***\2"),
    (re.compile(rf"([?&;][\w.-]*(?:{_SECRET_WORDS})[\w.-]*=)[^\s&;#'\"]+", re.IGNORECASE), r"\1***"),
    (re.compile(r"([?&;](?:sig|sas|key|auth\w*)=)[^\s&;#'\"]+", re.IGNORECASE), r"\1***"),
)
_SECRET_NAME = re.compile(
    r"(PASSWORD|PASSWD|PASSPHRASE)S?($|_)|_PWD$|(^|_)(TOKEN|SECRET|API_?KEY|ACCESS_?KEY|CREDENTIAL)S?($|_)"
)


def redacted(text: str) -> str:
    """The text without secrets: passwords in addresses and values of environment variables such as PGPASSWORD.

    >>> redacted("--tracking-uri postgresql://me:se@cret@host/db?sslpassword=x&sslmode=on")
    '--tracking-uri postgresql://me:***@host/db?sslpassword=***&sslmode=on'
    """
    text = without_passwords(text)
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= MIN_SECRET and not os.path.exists(value):  # noqa: PTH110  # never raises
            text = text.replace(value, HIDDEN)
    return text


def without_passwords(text: str) -> str:
    """The text without passwords in addresses.

    >>> without_passwords("abfs://box/store?sig=abcdef")
    'abfs://box/store?sig=***'
    """
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text
