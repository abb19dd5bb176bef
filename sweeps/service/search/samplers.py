"""Optuna's samplers and distributions for a space."""

from __future__ import annotations

import hashlib
import warnings
from typing import TYPE_CHECKING, Any

import optuna
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning

from sweeps.service.search.space import always_numbers, high, label, labels
from sweeps.service.spec.search import Choice, Dimension, Integer, LogUniform, Sampler, Space

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import Trial

_POPULATION = 20
"""Number of points of a generation of NSGA-II; the same for every `trials`, so that a search can be enlarged."""


def sampler(name: Sampler, space: Space, seed: int, number: int) -> BaseSampler:
    """A new sampler for one suggestion.

    It has no state of its own: the suggestion depends on the seed, the number and the study only, so that a search
    that was killed continues with the same suggestions.

    Args:
        name: kind of the sampler; with `random` and `grid` it draws at random.
        space: the space.
        seed: seed of the search.
        number: number of the suggestion in the study.
    """
    of_this = int.from_bytes(hashlib.sha256(f"{seed}:{number}".encode()).digest()[:4], "big")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        if name == "tpe":
            return optuna.samplers.TPESampler(multivariate=True, group=True, constant_liar=True, seed=of_this)
        if name == "nsga2":
            return optuna.samplers.NSGAIISampler(population_size=_POPULATION, seed=of_this)
    if name == "cmaes":
        from sweeps.service.search.evolution import EvolutionSampler  # of an optional package

        return EvolutionSampler({path: distribution(space[path]) for path in always_numbers(space)}, of_this)
    return optuna.samplers.RandomSampler(seed=of_this)


def distribution(dimension: Dimension) -> BaseDistribution:
    """What a sampler draws for a dimension; a choice by the labels of its options."""
    if isinstance(dimension, Choice):
        return CategoricalDistribution(labels(dimension))
    if isinstance(dimension, Integer):
        return IntDistribution(dimension.low, int(high(dimension)), log=dimension.log, step=dimension.step)
    if isinstance(dimension, LogUniform):
        return FloatDistribution(dimension.low, dimension.high, log=True)
    return FloatDistribution(dimension.low, high(dimension), step=dimension.step)


def drawn(trial: Trial, path: str, dimension: Dimension) -> Any:
    """What a trial's sampler draws for a dimension."""
    one = distribution(dimension)
    if isinstance(one, CategoricalDistribution):
        return trial.suggest_categorical(path, one.choices)
    suggest = trial.suggest_int if isinstance(one, IntDistribution) else trial.suggest_float
    return suggest(path, one.low, one.high, step=one.step, log=one.log)


def drawn_for(dimension: Dimension, value: object) -> Any:
    """What a sampler would have drawn for a setting."""
    return label(dimension, value) if isinstance(dimension, Choice) else value
