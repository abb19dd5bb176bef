"""Models with chosen scores for comparisons, made without training and without files."""

from __future__ import annotations

from typing import Any

from sweeps.service.compare.entrants import Entrant, Training


def planted(
    name: str, videos: dict[str, float], *, segments: dict[str, dict[str, Any]] | None = None, **result: Any
) -> Entrant:
    """A model with a MoF of `full` for each video, and no other seeds.

    Args:
        name: its name.
        videos: video -> MoF.
        segments: video -> `transcript` and `lengths`.
        result: further entries of its result.
    """
    rows = [{"id": id, "n_frames": 50, "full": {"mof": value}} for id, value in videos.items()]
    trial = {"config": {}, "split": "1", "seed": 1}
    whole = {"per_video": rows, **result}
    training = Training(name=name, trial=trial, environment={}, result=whole, segments=lambda _: segments)
    return Entrant(name=name, trainings=(training,), prediction="full")
