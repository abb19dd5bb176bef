"""What training on a store needs: latent frames enough for its segments, and memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from mucon.config import TrainConfig
from mucon.errors import Problem
from mucon.recipes import small, weak
from mucon.videos import Video, crowded_videos, short_video_problems, short_videos, vocabulary_of
from storage import Store

RECIPES: tuple[Callable[[], TrainConfig], ...] = (weak, small)
"""The default and the one for few recordings."""
MEASURING_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipeFit:
    """A recipe beside the training recordings of a store.

    Attributes:
        pooling: frames per latent frame of its backbone.
        receptive_field: frames on which a latent frame depends.
        shorter: number of recordings that are shorter than a latent frame.
        crowded: number of recordings with more segments than latent frames.
    """

    pooling: int
    receptive_field: int
    shorter: int
    crowded: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitness:
    """The recipes beside a store.

    Attributes:
        recipes: by name.
        memory: bytes of a training with the default recipe; None if not measured.
        warnings: what does not fit the default recipe.
    """

    recipes: dict[str, RecipeFit]
    memory: int | None
    warnings: tuple[Problem, ...]

    def to_dict(self) -> dict[str, Any]:
        """Returns recipes and memory for JSON."""
        return {"recipes": {name: asdict(fit) for name, fit in self.recipes.items()}, "training_memory": self.memory}

    def lines(self) -> Iterator[str]:
        """Formats the memory."""
        if self.memory is not None:
            yield (
                f"memory: {self.memory / 2**30:.1f} GiB for a training with recipe weak on a CPU; a sweep needs as "
                "much for each training that runs at the same time"
            )


def fitness_of(store: Store, every: list[Video], *, measure: bool) -> Fitness:
    """Compares the recipes with the training recordings of all splits; without splits, with all recordings.

    Args:
        store: an open store.
        every: all of its recordings.
        measure: whether to measure the memory: takes a few training steps on the recording of median length, before
            which the process must not have used more memory than now.
    """
    training = {id for part, ids in store.parts.items() if part.endswith(":train") for id in ids}
    videos = [video for video in every if video.transcript and (not training or video.id in training)]
    recipes = {
        recipe.__name__: RecipeFit(
            pooling=backbone.pooling,
            receptive_field=backbone.receptive_field,
            shorter=len(short_videos(videos, backbone.pooling)),
            crowded=len(crowded_videos(videos, backbone.pooling)),
        )
        for recipe in RECIPES
        for backbone in (recipe().backbone,)
    }
    default = weak().backbone.pooling
    found = [problem.under("recipe weak") for problem in short_video_problems(videos, default)]
    memory = _memory(store, videos, every) if measure and videos else None
    return Fitness(recipes=recipes, memory=memory, warnings=tuple(found))


def _memory(store: Store, videos: list[Video], every: list[Video]) -> int:
    """Bytes of a training with the default recipe on the largest training part."""
    from mucon.methods.mucon import MUCON
    from mucon.training.measured_step import measure_step, memory_of, typical

    parts = [set(ids) for part, ids in store.parts.items() if part.endswith(":train")]
    ids = max(parts, key=len, default=set(store.ids))
    typical_video = typical(videos, store.manifest.dim)
    step = measure_step(MUCON, weak(), typical_video, vocabulary_of(store), device="cpu", seconds=MEASURING_SECONDS)
    return memory_of(step, [video for video in every if video.id in ids], every)
