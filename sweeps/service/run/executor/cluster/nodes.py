"""A node of a cluster as a value; imports nothing, because the process of a Ray session needs no torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node of a Ray cluster.

    Attributes:
        identity: Ray's identity of the node.
        offers: (CPUs, GPUs) that Ray gives to trials there.
    """

    identity: str
    offers: tuple[float, float]
