"""Checks before the first trial starts: what each machine sees of results folder and store, and which code it has.

A machine answers with plain values (`look`), which are compared with the driver's own (`problems`, `warnings`).
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import mucon
from mucon.commands.outputs import check_folder
from mucon.device import gpu_count, usable_cpus
from mucon.errors import InputError, Problem
from mucon.methods import method_named
from mucon.videos import training_videos_of, vocabulary_of
from storage import open_store
from storage.inspection.overview import size_text
from storage.remote.addresses import is_uri
from sweeps.service.run.executor.cluster.address import check_cluster
from sweeps.service.run.executor.ray_environment import is_cluster, set_ray_environment
from sweeps.service.run.resources import Placement
from sweeps.service.trials.provenance import ROOT
from sweeps.service.trials.results_folder import ResultsFolder
from sweeps.service.trials.trial import Trial, by_training

PACKAGES = ("mucon", "torch", "numpy", "ray")
MARK = "sweep-"
"""Beginning of the name of the file that identifies the results folder of a running sweep."""
APPEARANCE_SECONDS = 5.0
"""How long a machine waits for the mark: network file systems show new files late."""
CLOCK_SECONDS = 5.0
"""Difference between two clocks that is reported."""
FILES_PER_TRIAL = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a machine is asked to look at, as absolute paths.

    Attributes:
        results: the results folder.
        mark: the file in it that the driver has written.
        store: the store.
    """

    results: str
    mark: str
    store: str

    def text(self) -> str:
        """The question as it is sent to a machine."""
        return json.dumps(asdict(self))


@contextlib.contextmanager
def marked(results: ResultsFolder, name: str) -> Iterator[Path]:
    """Writes the mark of a running sweep, which no other folder contains, and removes it at the end."""
    scratch = results.running(name)
    for old in scratch.glob(f"{MARK}*"):  # of a driver that was killed
        old.unlink(missing_ok=True)
    mark = scratch / f"{MARK}{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield mark
    finally:
        with contextlib.suppress(OSError):  # a disk that cannot be written hides no error
            mark.unlink(missing_ok=True)


def look(text: str, seconds: float = APPEARANCE_SECONDS) -> str:
    """What this machine sees, as JSON text, so that machines with other versions understand each other.

    Args:
        text: a question.
        seconds: how long to wait for the mark.
    """
    question = Question(**json.loads(text))
    facts: dict[str, Any] = {"results": _results_problem(question, seconds), **_store_facts(question.store)}
    hidden = os.environ.get("CUDA_VISIBLE_DEVICES") == ""  # older versions of Ray hide all GPUs from this question
    facts |= {"versions": versions(), "cpus": usable_cpus(), "gpus": None if hidden else gpu_count()}
    if not facts["results"]:
        facts["room"] = room(Path(question.results))
    return json.dumps({**facts, "clock": time.time()})


def _results_problem(question: Question, seconds: float) -> str:
    """What is wrong with the results folder here; empty if it is the driver's and can be written."""
    if not sees(Path(question.mark), seconds):
        return "another folder" if Path(question.results).is_dir() else "no such folder"
    try:
        check_folder(Path(question.results), "")
    except InputError as error:
        return error.problems[0].body
    return ""


def sees(mark: Path, seconds: float = APPEARANCE_SECONDS) -> bool:
    """Whether the mark of the running sweep exists here, now or soon."""
    until = time.monotonic() + seconds
    while not mark.exists():
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return True


def _store_facts(store: str) -> dict[str, str]:
    """The checksum of the store as this machine sees it, or why it has none."""
    try:
        return {"store": _checksum(store)}
    except InputError as error:
        problem = error.problems[0]
        place = "" if problem.place == store else f"{problem.place}: "
        return {
            "store_problem": f"{place}{problem.body}",
            "store_hint": problem.hint and f"on that node: {problem.hint}",
        }


def _checksum(store: str) -> str:
    """The checksum of a store; the files of a remote one are fetched for the first trial."""
    if not is_uri(store):
        return open_store(store).manifest.sha256
    from storage.remote.cache import Cache
    from storage.remote.opening import manifest_at

    Cache.configured()
    return manifest_at(store).sha256


def own_facts(store: str) -> dict[str, Any]:
    """What the driver compares the nodes of its cluster with: its own store and versions.

    Raises:
        InputError: the store cannot be opened.
    """
    return {"store": _checksum(store), "versions": versions()}


def room(folder: Path) -> tuple[int, int | None]:
    """Free bytes in a folder, and how many more files; None on file systems without such a limit."""
    files = os.statvfs(folder)
    return shutil.disk_usage(folder).free, files.f_favail if files.f_files else None


@cache
def versions() -> dict[str, str]:
    """The versions on which results may depend; `source` is a digest of the packages' own files."""
    found = {"python": ".".join(platform.python_version_tuple()[:2])}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package).partition("+")[0]  # 2.9.0+cpu and 2.9.0+cu128
    digest = hashlib.sha256(f"{mucon.NUMERICS} {mucon.EVALUATION}".encode())
    for folder in ("mucon", "storage", "sweeps/service"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode() + path.read_bytes())
    return {**found, "source": digest.hexdigest()[:12]}


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The answer of a machine.

    Attributes:
        facts: what `look` returned; None if there was no answer.
        failure: why there was none.
        asked: seconds since 1970 on the driver's clock before the question.
        answered: the same after the answer.
        offers: (cores, GPUs) that Ray gives to trials there.
    """

    facts: Mapping[str, Any] | None = None
    failure: str = ""
    asked: float = 0.0
    answered: float = 0.0
    offers: tuple[float, float] = (0.0, 0.0)


def problems(
    question: Question,
    own: Mapping[str, Any],
    answers: Mapping[str, Answer],
    *,
    on_gpus: bool,
    needs: tuple[int, int] = (0, 0),
) -> list[Problem]:
    """Why the machines of a cluster cannot run the trials of a sweep.

    Args:
        question: what they were asked.
        own: the driver's own facts.
        answers: name of each machine -> its answer.
        on_gpus: whether the trials use GPUs.
        needs: bytes and files that the missing trials write into the results folder.
    """
    found = []
    for name, answer in answers.items():
        place, facts = f"node {name}", answer.facts
        if facts is None:
            hint = "end it, or install this version of mucon there and start it again"
            found.append(Problem(rule="unreachable", place=place, value=name, message=answer.failure, hint=hint))
            continue
        if wrong := facts["results"]:
            message = f"does not see the results folder {question.results} of this sweep ({wrong})"
            hint = "mount the same writable folder there under this path"
            found.append(Problem(rule="mismatch", place=place, value=question.results, message=message, hint=hint))
        else:
            found += _shortages(place, facts["room"], needs)
        if facts.get("store") != own["store"]:
            hint = "copy or mount the same store there"
            if "store" in facts:
                sums = f"checksum {facts['store'][:12]}, here {own['store'][:12]}"
                message = f"sees another store at {question.store} ({sums})"
            else:
                message = f"cannot open the store {question.store} ({facts['store_problem']})"
                hint = facts["store_hint"] if is_uri(question.store) else hint
            found.append(Problem(rule="mismatch", place=place, value=question.store, message=message, hint=hint))
        if differing := version_differences(own["versions"], facts["versions"]):
            hint = "install the same versions on every node"
            found.append(Problem(rule="version", place=place, value=differing, message=differing, hint=hint))
        if on_gpus and facts["gpus"] is not None and answer.offers[1] > facts["gpus"]:
            message = f"Ray offers {answer.offers[1]:g} GPU there, but torch finds {facts['gpus']}"
            hint = "give its processes the GPUs, or start it with that number"
            found.append(Problem(rule="unsupported", place=place, value=answer.offers[1], message=message, hint=hint))
        clock = float(facts["clock"])
        apart = max(answer.asked - clock, clock - answer.answered)
        if apart > CLOCK_SECONDS:
            message = f"its clock differs by {apart:.0f} s from this machine's"
            hint = "set it, for example by NTP"
            found.append(Problem(rule="mismatch", place=place, value=round(apart), message=message, hint=hint))
    return found


def refusal(
    question: Question,
    own: Mapping[str, Any],
    name: str,
    offers: tuple[float, float],
    seconds: float,
    *,
    on_gpus: bool,
) -> str:
    """Why this machine, which has joined a cluster, cannot run the trials of a sweep; empty if it can.

    Args:
        question: as for `look`.
        own: the driver's `own_facts`.
        name: the machine's name.
        offers: (cores, GPUs) that Ray gives to a trial here.
        seconds: as for `look`.
        on_gpus: whether the trials use GPUs.
    """
    facts = json.loads(look(question.text(), seconds))
    answer = Answer(facts=facts, asked=facts["clock"], answered=facts["clock"], offers=offers)
    return "; ".join(str(problem) for problem in problems(question, own, {name: answer}, on_gpus=on_gpus))


def version_differences(own: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """The versions of another machine that differ, as text; the digest of the source only if all others agree."""
    pairs = {name: (theirs.get(name, "none"), own.get(name, "none")) for name in {**own, **theirs}}
    differing = [f"{name} {there}, here {here}" for name, (there, here) in pairs.items() if there != here]
    return ", ".join(differing[:-1] if len(differing) > 1 and "source" in differing[-1] else differing)


def warnings(answers: Mapping[str, Answer]) -> list[Problem]:
    """What looks suspicious about machines that can run trials."""
    found = []
    for name, answer in answers.items():
        if answer.facts is None:
            continue
        place = f"node {name}"
        if answer.offers[0] > answer.facts["cpus"]:
            message = f"Ray offers {answer.offers[0]:g} CPU there, but its processes can use {answer.facts['cpus']}"
            hint = f"start it with --num-cpus={answer.facts['cpus']}"
            found.append(Problem(rule="range", place=place, value=answer.offers[0], message=message, hint=hint))
    return found


def space_needed(trainings: Iterable[Trial], copies: int) -> tuple[int, int]:
    """Bytes and number of files that missing trainings write into the results folder, at least.

    Args:
        trainings: one trial of each missing training.
        copies: how often a trained model is written there: 2 if the tracking server keeps its artifacts in the folder.
    """
    sizes: dict[tuple[object, ...], int] = {}
    stores = cache(open_store)
    needed = n_files = 0
    for trial in trainings:
        method = method_named(trial.method)
        kind = (trial.method, trial.store, trial.split, method.step_shape(trial.config))
        if kind not in sizes:
            store = stores(trial.store)
            videos = training_videos_of(store, trial.split, trial.part)
            sizes[kind] = 4 * method.n_parameters(trial.config, videos, vocabulary_of(store))
        needed += copies * sizes[kind]
        n_files += copies * FILES_PER_TRIAL
    return needed, n_files


def _shortages(place: str, found: tuple[int, int | None], needs: tuple[int, int]) -> list[Problem]:
    """Too little space or too few files for the missing trials, as a machine sees the results folder.

    Args:
        place: the folder, or the machine.
        found: its `room`.
        needs: see `space_needed`.
    """
    (free, files), (needed, n_files) = found, needs
    shortages, hint = [], "make room, or name another --results folder"
    if free < needed:
        wanted = f"the weights of the missing trials need {size_text(needed)}"
        message = f"{size_text(free)} free in the results folder, but {wanted}"
        shortages.append(Problem(rule="unwritable", place=place, value=free, message=message, hint=hint))
    if files is not None and files < n_files:
        message = f"room for {files} more files in the results folder, but the missing trials need about {n_files}"
        shortages.append(Problem(rule="unwritable", place=place, value=files, message=message, hint=hint))
    return shortages


def checked_placement(
    place: Callable[[Mapping[str, tuple[float, float]] | None], Placement],
    results: ResultsFolder,
    mark: Path,
    missing: Sequence[Trial],
    copies: int,
) -> tuple[Placement, list[Problem]]:
    """Where the missing trials run, after a look at every machine that can run one; and what looks suspicious.

    Args:
        place: returns the placement for the (cores, GPUs) of each node of a cluster, or for this machine.
        results: the results folder.
        mark: the mark of this sweep, see `marked`.
        missing: the missing trials, at least one.
        copies: see `space_needed`.

    Raises:
        InputError: one problem per fault and node, a trial that does not fit on any node, or no cluster at RAY_ADDRESS.
    """
    needs = space_needed([group[0] for group in by_training(missing)], copies)
    found, suspicious = _shortages(str(results.path), room(results.path), needs), list[Problem]()
    if not is_cluster():
        placement = place(None)
    else:
        set_ray_environment()
        check_cluster()
        from sweeps.service.run.executor.cluster.preflight import ask_cluster  # ray reads its environment on import

        question = Question(results=str(results.path), mark=str(mark), store=missing[0].store)
        answers = ask_cluster(question)
        placement, suspicious = _placed(place, {name: answer.offers for name, answer in answers.items()})
        answers = {name: answer for name, answer in answers.items() if placement.each.slots_of(*answer.offers)}
        on_gpus, own = placement.device == "cuda", own_facts(missing[0].store)
        found += problems(question, own, answers, on_gpus=on_gpus, needs=(0, 0) if found else needs)
        suspicious += warnings(answers)
    if found:
        raise InputError(found)
    return placement, suspicious


def _placed(
    place: Callable[[Mapping[str, tuple[float, float]] | None], Placement], offers: Mapping[str, tuple[float, float]]
) -> tuple[Placement, list[Problem]]:
    """The placement on the nodes of a cluster, or on nodes that it starts for the trials, which is a warning.

    Raises:
        InputError: a trial does not fit on any node, and no node comes on which it does.
    """
    try:
        return place(offers), []
    except InputError:
        from sweeps.service.run.executor.cluster.growth import awaited  # imports ray

        if (coming := awaited(place)) is None:
            raise
    placement, is_known = coming
    outlook = "the cluster starts nodes for the trials" if is_known else "Ray does not say whether there will be one"
    message = f"no node can run a trial yet; {outlook}"
    return placement, [Problem(rule="missing", place="RAY_ADDRESS", value=len(offers), message=message)]
