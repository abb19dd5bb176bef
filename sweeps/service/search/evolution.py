"""CMA-ES whose state is computed from the points of the study each time, so that no pickle is stored or read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cmaes
import numpy as np
import optuna
from optuna._transform import _SearchSpaceTransform
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import TrialState

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.study import Study
    from optuna.trial import FrozenTrial

_GENERATION = "cmaes:generation"
"""Attribute of a trial: the generation for which it was drawn."""


class EvolutionSampler(BaseSampler):  # type: ignore[misc]  # optuna is not followed
    """Draws the numbers that always have an effect by CMA-ES, and all other dimensions at random.

    A generation is complete when as many of its points have ended as the population is large. Points that failed, were
    stopped or break a constraint rank last.

    Source: Hansen, The CMA evolution strategy: a tutorial, 2016, in the package cmaes.

    Args:
        numbers: the dimensions that CMA-ES draws; at least one, each with several values.
        seed: seed of this suggestion.
    """

    def __init__(self, numbers: dict[str, BaseDistribution], seed: int) -> None:
        self._numbers, self._seed = numbers, seed
        self._random = optuna.samplers.RandomSampler(seed=seed)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The dimensions that CMA-ES draws."""
        return self._numbers

    def sample_relative(self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]) -> Any:
        """Draws from the distribution that the ended generations have led to."""
        scale = _SearchSpaceTransform(search_space, transform_step=True, transform_0_1=True)
        dimensions = len(scale.bounds)
        optimizer = cmaes.CMA(
            mean=np.full(dimensions, 0.5),
            sigma=1 / 6,
            bounds=scale.bounds,
            seed=self._seed,
            n_max_resampling=10 * dimensions,
        )
        ended = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
        generations: dict[int, list[FrozenTrial]] = {}
        for one in ended:
            generations.setdefault(one.system_attrs.get(_GENERATION, -1), []).append(one)
        size, sign = optimizer.population_size, -1 if study.direction == StudyDirection.MAXIMIZE else 1
        while len(population := generations.get(optimizer.generation, [])) >= size:
            optimizer.tell([(scale.transform(_only(one, search_space)), _loss(one, sign)) for one in population[:size]])
        study._storage.set_trial_system_attr(trial._trial_id, _GENERATION, optimizer.generation)
        return scale.untransform(optimizer.ask())

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draws one of the other dimensions at random."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)


def _only(trial: FrozenTrial, space: dict[str, BaseDistribution]) -> dict[str, Any]:
    return {path: trial.params[path] for path in space}


def _loss(trial: FrozenTrial, sign: int) -> float:
    if trial.state != TrialState.COMPLETE or any(violation > 0 for violation in trial.constraints.values()):
        return math.inf
    return sign * float(trial.value)
