"""The address of a cluster, before Ray connects to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from sweeps.service.run.executor.cluster.address import PLACE, VARIABLE, check_cluster, use_address
from sweeps.service.run.executor.ray_environment import is_cluster
from tests.helpers.refusals import refused


@pytest.fixture(autouse=True)
def _variable() -> Iterator[None]:
    before = os.environ.pop(VARIABLE, None)
    yield
    os.environ.pop(VARIABLE, None)
    if before is not None:
        os.environ[VARIABLE] = before


@pytest.mark.parametrize(
    ("address", "rule"),
    [
        ("ray://head:10001", "unsupported"),
        ("http://head:8265", "unsupported"),
        ("https://head:8265", "unsupported"),
        ("head", "range"),
        ("head:port", "range"),
        ("head:99999", "range"),
        (":6379", "range"),
        ("head:6379/path", "range"),
        ("user@head:6379", "range"),
        ("local", "range"),
        ("", "range"),
    ],
)
def test_what_is_no_address_of_a_cluster_is_refused_in_the_option_and_in_the_variable(address: str, rule: str) -> None:
    with refused(rule, place=PLACE, value=address, n=1):
        use_address(address)
    assert not is_cluster()
    os.environ[VARIABLE] = address
    with refused(rule, place=PLACE, value=address, n=1):
        check_cluster()


@pytest.mark.parametrize(
    ("given", "variable", "used"),
    [
        (None, None, None),
        (None, "there:6379", "there:6379"),
        ("here:6379", None, "here:6379"),
        ("here:6379", "there:6379", "here:6379"),
        ("[::1]:6379", None, "[::1]:6379"),
        ("auto", None, "auto"),
        ("auto", "there:6379", "there:6379"),
    ],
)
def test_the_option_wins_over_the_variable(given: str | None, variable: str | None, used: str | None) -> None:
    if variable is not None:
        os.environ[VARIABLE] = variable
    use_address(given)
    assert os.environ.get(VARIABLE) == used


def test_a_cluster_that_does_not_answer_is_refused_before_ray_tries_it() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        use_address(address)
        with refused("unreachable", place=PLACE, value=address, n=1):
            check_cluster()


def test_the_process_of_a_ray_session_loads_no_torch() -> None:
    """In a job of Ray it cannot, and on a cluster it would take 200 MB for nothing."""
    program = "import sys, sweeps.service.run.executor.tuning; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
