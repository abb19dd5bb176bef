"""What a version of a registered model contains."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mucon.identity.checksums import CARD, FILE

MAX_DESCRIPTION_CHARACTERS = 5000
"""The server's limit for the description of a version."""
THE_REST = f"...\n\nThe whole card is `{CARD}` in the files of the version.\n"
"""End of the description of a version whose card is longer."""
MODEL_DESCRIPTION = """\
Models for temporal action segmentation, registered by `mucon-sweeps promote`. The description of a version is its model
card: what it was trained on, how it was chosen, its scores, and what it is not for.
"""
"""Description of a new registered model, in Markdown."""
CONTENT_TAG = "content"
"""Digest of the checksums of an exported folder: versions with the same one have the same files."""
TRIALS_TAG = "trials"
"""The identities of the trials whose weights a version has, separated by commas."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A version of a registered model.

    Attributes:
        name: name of the model.
        version: its number.
        run_id: MLflow's identifier of the run it comes from; empty if unknown.
        tags: its tags.
    """

    name: str
    version: str
    run_id: str
    tags: Mapping[str, str]

    def __str__(self) -> str:
        return f"models:/{self.name}/{self.version}"


def version_tags(exported: Path, trials: Sequence[str], facts: Mapping[str, str]) -> dict[str, str]:
    """The tags of a version.

    Args:
        exported: an exported folder.
        trials: identities of the trials whose weights it has.
        facts: further tags.
    """
    content = hashlib.sha256((exported / FILE).read_bytes()).hexdigest()
    return {**facts, CONTENT_TAG: content, TRIALS_TAG: ",".join(trials)}


def version_description(exported: Path) -> str:
    """The card of an exported folder, within the server's limit."""
    card = (exported / CARD).read_text(encoding="utf-8")
    if len(card) <= MAX_DESCRIPTION_CHARACTERS:
        return card
    return card[: MAX_DESCRIPTION_CHARACTERS - len(THE_REST)] + THE_REST
