"""How much each setting of a search matters, by fANOVA over the finished points."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

import optuna
from optuna.importance import FanovaImportanceEvaluator
from optuna.trial import FrozenTrial, create_trial

from sweeps.service.search.points import PointRecord
from sweeps.service.search.samplers import distribution, drawn_for
from sweeps.service.search.space import inside
from sweeps.service.spec.search import Search, Space

MIN_POINTS = 8
"""Number of points with different settings below which an importance is left out."""


def importance(search: Search, records: Sequence[PointRecord]) -> tuple[Mapping[str, float], ...]:
    """Per objective, configuration path -> share of the variation of the scores, between 0 and 1.

    A setting that always has an effect is judged on all points, and one that has it sometimes on the points where it
    does, beside the others; their shares do not add up. Points outside of the space are left out, as are settings that
    do not vary, and all of them below `MIN_POINTS` or without different scores.

    Source: Hutter, Hoos and Leyton-Brown, An efficient approach for assessing hyperparameter importance, 2014.
    """
    usable = [one for one in records if one.n and inside(search.space, one.point.settings) is not None]
    return tuple(_of_objective(search, usable, i) for i in range(len(search.objectives)))


def _of_objective(search: Search, records: Sequence[PointRecord], objective: int) -> Mapping[str, float]:
    always = [path for path, one in search.space.items() if not one.when]
    shares = _shares(search, records, always, objective)
    for path in search.space:
        if path not in always:
            with_effect = [one for one in records if path in one.point.settings]
            beside = _shares(search, with_effect, [*always, path], objective)
            shares |= {path: beside[path]} if path in beside else {}
    return dict(sorted(shares.items(), key=lambda one: (-one[1], one[0])))


def _shares(search: Search, records: Sequence[PointRecord], paths: Sequence[str], objective: int) -> dict[str, float]:
    varying = [path for path in paths if len({repr(one.point.settings[path]) for one in records}) > 1]
    scores = [one.mean[objective] for one in records]
    if len(records) < MIN_POINTS or not varying or statistics.pstdev(scores) == 0:
        return {}
    study = optuna.create_study(direction="maximize")
    study.add_trials(
        [_trial(search.space, record, varying, score) for record, score in zip(records, scores, strict=True)]
    )
    found = FanovaImportanceEvaluator(seed=search.sampler_seed).evaluate(study, params=varying)
    return {path: float(share) for path, share in found.items()}


def _trial(space: Space, record: PointRecord, paths: Sequence[str], score: float) -> FrozenTrial:
    settings = record.point.settings
    return create_trial(
        value=score,
        params={path: drawn_for(space[path], settings[path]) for path in paths},
        distributions={path: distribution(space[path]) for path in paths},
    )
