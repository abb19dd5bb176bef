"""Named configurations, imported when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mucon.errors import InputError
from sweeps.service.spec.problems import unknown

if TYPE_CHECKING:
    from mucon.config import TrainConfig

    Base = Callable[[], TrainConfig]


@dataclass(frozen=True, slots=True)
class Recipe:
    """A recipe with settings on top; a call returns the configuration, and imports torch.

    Attributes:
        name: name in `mucon.recipes.RECIPES`.
        settings: configuration path -> value.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict, hash=False)

    def __call__(self) -> TrainConfig:
        """The configuration.

        Raises:
            InputError: unknown recipe, unknown setting or wrong value.
        """
        from mucon.recipes import RECIPES

        if self.name not in RECIPES:
            raise InputError(unknown("recipe", "recipe", self.name, RECIPES))
        return RECIPES[self.name]().with_values(self.settings)


WEAK = Recipe("weak")
DEMO = Recipe("demo")


def with_recipe(base: Base, name: str) -> Recipe:
    """Another recipe under the settings of a base.

    >>> with_recipe(Recipe("weak", {"loss.length": 1.0}), "short_videos")
    Recipe(name='short_videos', settings={'loss.length': 1.0})
    """
    return replace(base, name=name) if isinstance(base, Recipe) else Recipe(name)


def recipe_name(base: Base) -> str:
    """Name of a base: of its recipe, or of its function."""
    return base.name if isinstance(base, Recipe) else base.__name__
