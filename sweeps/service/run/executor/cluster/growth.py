"""Asks Ray's autoscaler whether a node for a trial can come, while there is none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from ray._private.ray_constants import DEBUG_AUTOSCALING_STATUS
from ray.autoscaler._private.util import format_readonly_node_type
from ray.core.generated.autoscaler_pb2 import GetClusterStatusReply
from ray.util.placement_group import PlacementGroup, placement_group, remove_placement_group

from mucon.errors import InputError
from sweeps.service.run.executor.ray_session import ANSWER_SECONDS, gcs_client, ray_session
from sweeps.service.run.resources import Placement, Resources

DECISION_SECONDS = 60.0
"""Time limit for a decision of the autoscaler, which decides every 5 seconds."""
LARGE = 1e6
"""Cores and GPUs of a node on which any trial fits."""


def awaited(place: Callable[[Mapping[str, tuple[float, float]]], Placement]) -> tuple[Placement, bool] | None:
    """Where trials run once the cluster at RAY_ADDRESS has started nodes for them; on GPUs if it has any.

    Args:
        place: returns the placement for the (cores, GPUs) of each node.

    Returns:
        The placement, and whether it is known that such a node can come; None if it cannot.
    """
    unknown = None
    with ray_session():
        for gpus in (LARGE, 0.0):
            try:
                placement = place({"to come": (LARGE, gpus)})
            except InputError:  # trials on GPUs alone
                continue
            placement = replace(placement, slots=placement.most)
            can_come = _can_come(placement.each)
            if can_come:
                return placement, True
            if can_come is None:
                unknown = placement, False
    return unknown


def _can_come(each: Resources) -> bool | None:
    """Whether the cluster can start a node for a trial; None if Ray does not say. Requests such a node meanwhile."""
    bundle = {name: amount for name, amount in (("CPU", each.cpus), ("GPU", each.gpus)) if amount}
    group = placement_group([bundle])
    requested = None
    until = time.monotonic() + DECISION_SECONDS
    try:
        while time.monotonic() < until:
            if group.wait(1):
                return True
            cluster, scaling = _states()
            if requested is None and _is_in(cluster.pending_gang_resource_requests, group):
                requested = cluster.cluster_resource_state_version
            if requested is not None and scaling.last_seen_cluster_resource_state_version >= requested:
                return not _is_in(scaling.infeasible_gang_resource_requests, group)
            if status := gcs_client().internal_kv_get(DEBUG_AUTOSCALING_STATUS.encode(), timeout=ANSWER_SECONDS):
                return None if _has_provider(json.loads(status)) else False
    finally:
        remove_placement_group(group)
    return None


def _states() -> tuple[Any, Any]:
    """What the cluster requests, and what an autoscaler of version 2 has decided."""
    reply = GetClusterStatusReply()
    reply.ParseFromString(gcs_client().get_cluster_status(timeout_s=ANSWER_SECONDS))
    return reply.cluster_resource_state, reply.autoscaling_state


def _is_in(requests: Iterable[Any], group: PlacementGroup) -> bool:
    """Whether a placement group is one of several requests, whose details begin with its identity."""
    return any(request.details.startswith(group.id.hex()) for request in requests)


def _has_provider(status: Mapping[str, Any]) -> bool:
    """Whether an autoscaler of version 1 may start nodes; one that only watches names the types after the nodes."""
    types = status.get("autoscaler_report", {}).get("active_nodes", {})
    return not types or any(not name.startswith(format_readonly_node_type("")) for name in types)
