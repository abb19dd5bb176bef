"""Sends a sweep to a cluster, follows its output there, and turns its end into an exit status."""

from __future__ import annotations

import shlex
from collections.abc import Callable

from mucon.errors import EXIT_FAULT, EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, EXIT_PARTIAL, InputError, Problem
from sweeps.service.run.executor.cluster.jobs import Job, Jobs, LostError
from sweeps.service.run.executor.cluster.submission import PROGRAM, Submission, sender

PLACE = "--submit"
NOT_FOUND = 127
"""Exit status of a shell that does not find the program."""


def send(sent: Submission, address: str, *, detach: bool, say: Callable[[str], None]) -> int:
    """Sends a sweep to the cluster whose dashboard has an address; one that runs there already is followed.

    Args:
        sent: the sweep.
        address: of the dashboard.
        detach: whether to return at once.
        say: receives a line.

    Returns:
        The exit status of the sweep; 130 after Ctrl-C, which leaves the sweep running; 0 if it is not followed.

    Raises:
        InputError: no cluster answers, or the sweep runs there with another command.
    """
    jobs = Jobs(address, PLACE)
    there, here = jobs.ray_versions
    if there != here:
        say(f"warning: the cluster runs Ray {there}, this machine {here}; the versions of the cluster count")
    if sent.kept:
        say(f"not sent, because the cluster needs secrets of its own: {', '.join(sent.kept)}")
    running = next((job for job in jobs.all() if not job.is_over and _is_same(job, sent)), None)
    if running is not None and running.command != sent.metadata["mucon_command"]:
        message = f"sweep {sent.sweep} is running on the cluster with another command ({running.identity})"
        hint = f"wait for it (`{_command('logs', running.identity, address)} --follow`), or stop it"
        raise InputError(Problem(rule="busy", place=PLACE, value=running.identity, message=message, hint=hint))
    if running is not None:
        say(f"{sent.sweep} is already running on the cluster as {running.identity}; nothing is started")
    identity = running.identity if running is not None else jobs.submit(sent, sender())
    if running is None:
        say(f"sent to {jobs.address} as {identity}; it goes on if this command ends")
    if detach:
        _say_commands(identity, address, say)
        return EXIT_OK
    return follow(jobs, identity, say)


def follow(jobs: Jobs, identity: str, say: Callable[[str], None]) -> int:
    """Prints the output of a job until it ends; returns the exit status of the sweep, or 130 after Ctrl-C."""
    try:
        job = jobs.follow(identity)
    except KeyboardInterrupt:
        say(f"\n{identity} goes on")
        _say_commands(identity, jobs.address, say)
        return EXIT_INTERRUPTED
    except LostError as error:
        say(f"{jobs.address} does not answer any more ({error}); if the cluster lives, {identity} goes on")
        _say_commands(identity, jobs.address, say)
        return EXIT_PARTIAL
    status, line = ending(job)
    if line:
        say(line)
    return status


def ending(job: Job) -> tuple[int, str]:
    """The exit status of a job that is over, and what to say about it."""
    resumes = "the same command resumes it"
    if job.state == "STOPPED":
        return EXIT_INTERRUPTED, f"{job.identity} was stopped; {resumes}"
    if job.exit_status == NOT_FOUND:
        return EXIT_INPUT, f"error: {PLACE}: no {PROGRAM} on the search path of the cluster; install mucon there"
    if job.exit_status in (EXIT_OK, EXIT_FAULT, EXIT_INPUT, EXIT_PARTIAL, EXIT_INTERRUPTED):
        return job.exit_status, ""
    said = (job.message.strip().splitlines() or ["no reason is known"])[0]
    if job.exit_status is not None:
        said = f"exit status {job.exit_status}"
    return EXIT_PARTIAL, f"{job.identity} died ({said}); {resumes}"


def _is_same(job: Job, sent: Submission) -> bool:
    return (job.sweep, job.results) == (sent.sweep, sent.results)


def _command(name: str, identity: str, address: str) -> str:
    return shlex.join([PROGRAM, name, identity, "--cluster", address])


def _say_commands(identity: str, address: str, say: Callable[[str], None]) -> None:
    for line in (
        f"follow it: {_command('logs', identity, address)} --follow",
        f"stop it:   {_command('stop', identity, address)}",
        f"see it:    {shlex.join([PROGRAM, 'status', '--cluster', address])}",
    ):
        say(line)
