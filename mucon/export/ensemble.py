"""Combines the checkpoints of trainings that differ in their seed only into one checkpoint of an ensemble."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from mucon.checkpoint_files import Saved
from mucon.configuration import flatten
from mucon.decoding.fitted import FittedLengths
from mucon.decoding.fusion import TrainingFacts
from mucon.errors import InputError, Problem
from mucon.identity.trained_on import TrainedOn
from mucon.model.ensemble import ensemble_state


def combined(members: Mapping[str, Saved]) -> Saved:
    """The checkpoint of an ensemble; `mucon.model.ensemble` defines what it predicts.

    Facts about the training videos are those of all members: every transcript, and the means of lengths and shares.

    Args:
        members: checkpoints by the name of their run, at least two.

    Raises:
        InputError: one problem per member that differs from the first in method, actions, size, split or in a setting
            other than the seed, that has the seed of another one, or that is an ensemble itself.
    """
    problems = []
    (first_name, first), *others = members.items()
    seeds = {first.config["seed"]: first_name}
    for name, other in others:
        differing, seed = _differences(first, other), other.config["seed"]
        twin = seeds.setdefault(seed, name)
        if differing:
            message = f"differs from {first_name} in {', '.join(differing)}; an ensemble differs in the seed only"
            problems.append(Problem(rule="mismatch", place=name, value=tuple(differing), message=message))
        elif twin != name:
            message = f"has the seed {seed} like {twin}; an ensemble has each seed once"
            problems.append(Problem(rule="duplicate", place=name, value=seed, message=message))
    for name, one in members.items():
        if (n_members := one.size.get("members", 1)) > 1:
            message, hint = "is an ensemble itself", "combine the runs that it was made of"
            problems.append(Problem(rule="unsupported", place=name, value=n_members, message=message, hint=hint))
    if len(members) < 2:
        expected = "at least two trainings"
        problems.append(Problem(rule="missing", place="--ensemble", value=len(members), expected=expected))
    if problems:
        raise InputError(problems)
    every = list(members.values())
    seconds = sum(one.progress.seconds for one in every)
    return replace(
        first,
        size={**first.size, "members": len(every)},
        weights=ensemble_state([one.weights for one in every]),
        facts=_facts([one.facts for one in every]),
        trained_on=_trained_on(every),
        progress=replace(first.progress, seconds=seconds),
    )


def _differences(first: Saved, other: Saved) -> list[str]:
    """What differs besides the seed; of other methods, the method alone."""
    if first.method != other.method:
        return ["method"]
    found = [name for name in ("vocabulary", "size") if getattr(first, name) != getattr(other, name)]
    splits = [None if one.trained_on is None else one.trained_on.source.split for one in (first, other)]
    if splits[0] != splits[1]:
        found.append("split")
    ours, theirs = flatten(first.config), flatten(other.config)
    paths = sorted((ours.keys() | theirs.keys()) - {"seed"})
    return found + [path for path in paths if ours.get(path) != theirs.get(path)]


def _facts(facts: Sequence[Mapping[str, Any] | None]) -> dict[str, Any] | None:
    """The means of the members' facts; a fact that a member lacks is left out."""
    known = [TrainingFacts.from_dict(one) for one in facts if one is not None]
    if len(known) < len(facts):
        return None

    def mean(name: str) -> tuple[float, ...]:
        values = [getattr(one, name) for one in known]
        return tuple(np.mean(values, axis=0).tolist()) if all(values) else ()

    offsets = [one.background_offsets for one in known]
    common = sorted(set(offsets[0]).intersection(*offsets[1:]))
    counts: Counter[tuple[int, ...]] = Counter()
    for one in known:
        counts.update(dict(zip(one.transcripts, one.counts or (1,) * len(one.transcripts), strict=True)))
    fitted = [one.fitted for one in known if one.fitted is not None]
    return asdict(
        TrainingFacts(
            transcripts=tuple(sorted(counts)),
            counts=tuple(counts[transcript] for transcript in sorted(counts)),
            mean_lengths=mean("mean_lengths"),
            frame_shares=mean("frame_shares"),
            mean_posteriors=mean("mean_posteriors"),
            fitted=FittedLengths.averaged(fitted) if len(fitted) == len(known) else None,
            background_offsets={rule: float(np.mean([one[rule] for one in offsets])) for rule in common},
        )
    )


def _trained_on(members: Sequence[Saved]) -> TrainedOn | None:
    """The data of the first member, with all recordings that a member has seen."""
    first = members[0].trained_on
    if first is None or any(one.trained_on is None for one in members):
        return None
    seen = {id: content for one in members if one.trained_on is not None for id, content in one.trained_on.seen.items()}
    return replace(first, earlier={id: content for id, content in seen.items() if id not in first.recordings})
