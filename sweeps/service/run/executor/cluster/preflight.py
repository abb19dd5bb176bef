"""Asks every node of a Ray cluster what it sees, with one remote call each."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from mucon.errors import InputError, Problem
from sweeps.service.run.executor.cluster.address import HINTS, PLACE, VARIABLE
from sweeps.service.run.executor.cluster.nodes import Node
from sweeps.service.run.executor.ray_session import living_nodes, ray_session
from sweeps.service.run.preflight import Answer, Question, look
from sweeps.service.run.reasons import reason_of

ANSWER_SECONDS = 60.0
"""Time limit for the answers of all nodes; a node that has run nothing before starts Python and imports torch."""


def ask(nodes: Mapping[str, Node], question: Question, seconds: float = ANSWER_SECONDS) -> dict[str, Answer]:
    """The answer of each node; one that does not answer in time has a failure instead.

    Args:
        nodes: name -> node; the process is connected to their cluster.
        question: what they are asked.
        seconds: time limit.
    """
    asked = time.time()
    calls = {}
    for name, node in nodes.items():
        here = NodeAffinitySchedulingStrategy(node.identity, soft=False)
        options = {"num_cpus": 0, "max_retries": 0, "scheduling_strategy": here}
        calls[ray.remote(look).options(**options).remote(question.text())] = name
    answers = {}
    waiting = list(calls)
    until = time.monotonic() + seconds
    while waiting:
        done, waiting = ray.wait(waiting, timeout=max(until - time.monotonic(), 0))
        if not done:
            break
        answered = time.time()
        for call in done:
            offers = nodes[calls[call]].offers
            try:
                facts = json.loads(ray.get(call))
                answers[calls[call]] = Answer(facts=facts, asked=asked, answered=answered, offers=offers)
            except Exception as error:  # of the node, of its installation or of Ray: each is the answer of this node
                answers[calls[call]] = Answer(failure=f"cannot run trials ({reason_of(error)})", offers=offers)
    for call in waiting:
        ray.cancel(call, force=True)
        answers[calls[call]] = Answer(failure=f"does not answer within {seconds:g} s", offers=nodes[calls[call]].offers)
    return {name: answers[name] for name in nodes}


def ask_cluster(question: Question) -> dict[str, Answer]:
    """Asks each node of the cluster at RAY_ADDRESS that has a core or a GPU, see `ask`; the others have no facts.

    Raises:
        InputError: no cluster answers there.
    """
    try:
        with ray_session():
            nodes = living_nodes()
            answers = ask({name: node for name, node in nodes.items() if any(node.offers)}, question)
            return {name: answers.get(name, Answer(offers=node.offers)) for name, node in nodes.items()}
    except (ConnectionError, ValueError) as error:
        address = os.environ[VARIABLE]
        message = f"no Ray cluster at {address} ({str(error).splitlines()[0]})"
        problem = Problem(rule="unreachable", place=PLACE, value=address, message=message, hint=HINTS["token"])
        raise InputError(problem) from error
