"""The sweeps that were sent to a cluster, for `mucon-sweeps status`, `logs` and `stop` with --cluster."""

from __future__ import annotations

import json
import time
from dataclasses import asdict

from mucon.errors import EXIT_OK, InputError, Problem
from sweeps.service.run.executor.cluster.jobs import Jobs
from sweeps.service.run.executor.cluster.sending import follow

PLACE = "--cluster"
FORMAT_VERSION = 1
"""Version of the documents with jobs, see docs/formats.md."""


def print_jobs(address: str, name: str | None, *, as_json: bool) -> int:
    """Prints the jobs of a cluster, or one."""
    jobs = Jobs(address, PLACE)
    found = jobs.all() if name is None else [jobs.named(name)]
    if as_json:
        print(json.dumps({"format_version": FORMAT_VERSION, "jobs": [asdict(job) for job in found]}, indent=1))
        return EXIT_OK
    for job in found:
        began = "" if job.started is None else time.strftime("  %Y-%m-%d %H:%M:%S", time.localtime(job.started))
        print(f"{job.identity}  {job.state.lower()}{began}  {job.results}")
    if not found:
        print(f"no sweep was sent to {jobs.address}")
    return EXIT_OK


def print_output(address: str, name: str, *, lines: int, follows: bool) -> int:
    """Prints the last lines of a job; or all of them until it ends, and returns the exit status of its sweep."""
    jobs = Jobs(address, PLACE)
    job = jobs.named(name)
    if follows:
        return follow(jobs, job.identity, print)
    for line in jobs.output(job).splitlines()[-lines:]:
        print(line)
    return EXIT_OK


def stop_job(address: str, name: str, *, as_json: bool) -> int:
    """Asks a job to stop, and does not wait for its end."""
    jobs = Jobs(address, PLACE)
    job = jobs.named(name)
    if job.is_over:
        message = f"{job.identity} does not run any more ({job.state.lower()})"
        raise InputError(Problem(rule="state", place=PLACE, value=job.identity, message=message))
    jobs.stop(job)
    if as_json:
        print(json.dumps({"format_version": FORMAT_VERSION, "jobs": [asdict(job)]}, indent=1))
    else:
        print(f"asked the cluster to stop {job.identity}; the same command resumes it")
    return EXIT_OK
