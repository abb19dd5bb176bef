"""Registered models of a tracking server: versions made from exported folders, their aliases, and their way back."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.errors import InputError, Problem
from mucon.export.folder import check
from mucon.identity.checksums import EXPORTED
from storage.folders import StagedFolder
from sweeps.service.text import redacted
from sweeps.service.track.content.versions import CONTENT_TAG, Version, version_description, version_tags
from sweeps.service.track.server import ServerError, checked_uri, unreachable
from sweeps.service.track.tracker import TRACKING_EXPERIMENT
from sweeps.service.trials.results_folder import ResultsFolder

EXPORTED_NAME = "model"
"""Name of an exported folder that is registered: MLflow keeps it."""
MODEL_FOLDER = f"data/{EXPORTED_NAME}"
"""The exported folder in MLflow's, which calls it data."""
if TYPE_CHECKING:
    from sweeps.service.track.client import Client

NAME = re.compile(r"[0-9A-Za-z_.-]{1,100}")
REFERENCE = re.compile(r"models:/(?P<name>[^/@:]+)(?:@(?P<alias>[^/@:]+)|/(?P<version>[0-9]+))")


def check_name(place: str, name: str) -> None:
    """Checks the name of a model or an alias.

    Raises:
        InputError: a name that MLflow or a reference cannot have.
    """
    if NAME.fullmatch(name) is None or re.fullmatch(r"v\d+|latest", name):
        expected = "letters, digits, _, - and ., and neither latest nor v1, v2, ..."
        raise InputError(Problem(rule="type", place=place, value=name, expected=expected))


def promote(
    exported: Path,
    name: str,
    alias: str,
    *,
    trials: Sequence[str],
    facts: Mapping[str, str],
    uri: str,
    results: ResultsFolder,
) -> tuple[Version, bool]:
    """Registers an exported model, unless a version with the same files exists, and moves an alias to it.

    Args:
        exported: an exported folder named `EXPORTED_NAME`.
        name: name of the registered model; it is created if the server has none.
        alias: the alias.
        trials: identities of the trials whose weights it has; the first one's run becomes the version's source.
        facts: further tags of the version.
        uri: address of the server.
        results: the results folder.

    Returns:
        The version, and whether it is new.

    Raises:
        InputError: the server does not respond or rejects a request, has no run of the first trial, or `exported` is
            damaged.
    """
    check(exported)
    uri = checked_uri(uri)
    every = version_tags(exported, trials, facts)
    try:
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        client = Client(uri, TRACKING_EXPERIMENT, results.path)
        runs = client.search(f"tags.trial = '{trials[0]}'")
        if not runs:
            message, hint = f"the tracking server has no run of trial {trials[0]}", f"mucon-sweeps sync {results.path}"
            raise InputError(
                Problem(rule="missing", place="--tracking-uri", value=trials[0], message=message, hint=hint)
            )
        known = [version for version in client.versions(name) if version.tags.get(CONTENT_TAG) == every[CONTENT_TAG]]
        if known:
            client.set_alias(name, alias, known[-1].version)
            return known[-1], False
        with tempfile.TemporaryDirectory() as scratch:
            from sweeps.service.track.served import write_served

            write_served(exported, Path(scratch, "served"))
            description = version_description(exported)
            version = client.register(runs[0].run_id, Path(scratch, "served"), name, every, description)
        client.set_alias(name, alias, version.version)
        return version, True
    except ServerError as error:
        raise unreachable(uri, error) from error


def fetch(reference: str, target: Path, uri: str, results: ResultsFolder, *, replace_old: bool = False) -> Version:
    """Copies the exported folder of a registered model from a tracking server.

    Args:
        reference: `models:/NAME@ALIAS` or `models:/NAME/VERSION`.
        target: the folder; the old or the new one is complete at any time.
        uri: address of the server.
        results: the results folder.
        replace_old: replace an exported folder.

    Raises:
        InputError: another form of reference, no such model, one that was not made by `promote`, damaged files, a
            target that exists, or a server that does not respond.
    """
    with _found(reference, uri, results) as (client, version):
        _download(client, version, target, replace_old=replace_old)
        return version


def fetch_once(reference: str, folder: Path = Path("results")) -> Path:
    """The exported folder of a registered model in the user's cache, where it is copied at its first use.

    Args:
        reference: as for `fetch`.
        folder: the results folder, whose file is the tracking server unless MLFLOW_TRACKING_URI names one.

    Raises:
        InputError: as `fetch`.
    """
    results = ResultsFolder.at(folder)
    uri = os.environ.get("MLFLOW_TRACKING_URI") or results.tracking_uri
    with _found(reference, uri, results) as (client, version):
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        target = cache / "mucon" / "models" / version.tags[CONTENT_TAG]
        try:
            check(target)
        except InputError:  # missing or damaged; another process may be faster
            _download(client, version, target, replace_old=True)
        return target


@contextlib.contextmanager
def _found(reference: str, uri: str, results: ResultsFolder) -> Iterator[tuple[Client, Version]]:
    """A client and the version that a reference names; failures of the server are `InputError`s."""
    match = REFERENCE.fullmatch(reference)
    if match is None:
        expected = "models:/NAME@ALIAS or models:/NAME/VERSION"
        raise InputError(Problem(rule="type", place="model", value=reference, expected=expected))
    uri = checked_uri(uri)
    try:
        from sweeps.service.track.client import Client  # imports mlflow, which takes seconds

        client = Client(uri, TRACKING_EXPERIMENT, results.path, create=False)
        version = client.version(match["name"], match["version"], match["alias"])
        if version is None:
            message = f"the tracking server at {redacted(uri)} has no model {reference}"
            hint = "`mucon-sweeps promote` registers one; MLFLOW_TRACKING_URI names another server"
            raise InputError(Problem(rule="unknown", place="model", value=reference, message=message, hint=hint))
        if CONTENT_TAG not in version.tags:
            message, hint = f"{version} was not registered by this program", "use MLflow's own functions for it"
            raise InputError(Problem(rule="unsupported", place="model", value=reference, message=message, hint=hint))
        yield client, version
    except ServerError as error:
        raise unreachable(uri, error) from error


def _download(client: Client, version: Version, target: Path, *, replace_old: bool) -> None:
    staged = StagedFolder(target, marker=EXPORTED, replace=replace_old)
    try:
        client.download(version, MODEL_FOLDER, staged.path)
        check(staged.path)
        staged.publish()
    except BaseException:
        staged.discard()
        raise
