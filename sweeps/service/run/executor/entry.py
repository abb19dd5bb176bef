"""What Ray sends to a worker process, by value: it starts, and says what is missing, also where the package is not."""

from __future__ import annotations

import contextlib
import sys
import time
from typing import Any

import ray
from ray import cloudpickle, tune
from ray.tune.trainable.function_trainable import wrap_function

cloudpickle.register_pickle_by_value(sys.modules[__name__])


def _train(config: dict[str, Any]) -> None:
    """Called by Tune in a thread of the worker process."""
    try:
        from sweeps.service.imports import quick_imports

        with quick_imports():
            from sweeps.service.run.executor.trainable import train_trial  # needs torch, which only the workers load
    except ImportError as error:
        node = ray.get_runtime_context().get_node_id()
        reason = f"node {ray.util.get_node_ip_address()}: cannot import the package ({error})"
        tune.report({"key": "", "refused": reason, "node": node})
        while True:  # keeps its share of the node, so that no other trial comes here
            time.sleep(1)
    train_trial(config)


class Training(wrap_function(_train)):  # type: ignore[misc]  # Ray has no types
    """Tune's trainable."""

    def setup(self, config: dict[str, Any]) -> None:
        """Called in the main thread, which alone can receive signals."""
        with contextlib.suppress(ImportError):
            from sweeps.service.run.executor.leaving import catch_sigterm

            catch_sigterm()
        super().setup(config)

    @classmethod
    def default_resource_request(cls, config: dict[str, Any]) -> tune.PlacementGroupFactory:
        """The share of a node of one trial."""
        return tune.PlacementGroupFactory([{"CPU": config["cpus"], "GPU": config["gpus"]}])
