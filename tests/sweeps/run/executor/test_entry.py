"""A worker process of a node on which the package is missing says so to the driver, which does not wait for it."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from sweeps.service.run.executor import entry, tuning


class SleptError(Exception):
    """The worker keeps its share of the node."""


def test_the_refusal_of_a_node_without_the_package_reaches_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []
    channel: Any = SimpleNamespace(send=lambda event, **values: sent.append({"event": event, **values}))
    trial = SimpleNamespace(config={"job": 3})

    def slept(seconds: float) -> None:
        raise SleptError

    monkeypatch.setitem(sys.modules, "sweeps.service.run.executor.trainable", None)  # as if it was not installed
    monkeypatch.setattr(entry.ray, "get_runtime_context", lambda: SimpleNamespace(get_node_id=lambda: "a"))
    monkeypatch.setattr(entry.ray.util, "get_node_ip_address", lambda: "10.0.0.9")
    monkeypatch.setattr(entry.tune, "report", lambda result: tuning.Relay(channel).on_trial_result(trial, result))
    monkeypatch.setattr(entry.time, "sleep", slept)
    with pytest.raises(SleptError):
        entry._train({})
    (report,) = sent
    assert (report["event"], report["job"], report["node"]) == ("report", 3, "a")
    assert report["refused"].startswith("node 10.0.0.9: ")
