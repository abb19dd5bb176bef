"""A comparison as lines of text."""

from __future__ import annotations

from collections.abc import Iterator

from mucon.errors import counted
from mucon.metrics.catalogue import Metric
from sweeps.service.compare.comparison import Comparison, Pair
from sweeps.service.compare.entrants import Entrant
from sweeps.service.compare.noise import Noise
from sweeps.service.stats.videos import VIDEOS_NOTE, WILCOXON, Compared

SHORT = 5
"""Lines of each list without `--details`."""
_WIDTH = 40
"""Characters of a value of a difference."""


def shown(metric: Metric, value: float | None, *, sign: bool = False) -> str:
    """A value in the unit of the tables, with a sign for a difference."""
    if value is None:
        return "–"
    digits = 3 if metric.decimals is None else metric.decimals
    return f"{metric.scale * value:{'+' if sign else ''}.{digits}f}"


def percent(value: float | None, *, sign: bool = False) -> str:
    """A share in percent."""
    return "–" if value is None else f"{100 * value:{'+' if sign else ''}.1f}"


def verdict(noise: Noise) -> str:
    """Whether seeds explain a difference, as a column of a table."""
    if noise.is_inside is None:
        return "no other seeds" if noise.limit is None else "the seeds do not vary"
    return "inside the seed noise" if noise.is_inside else "outside the seed noise"


def title(comparison: Comparison) -> str:
    """The compared predictions and models."""
    entrants = comparison.entrants
    if len({entrant.prediction for entrant in entrants}) == 1:
        return f"{entrants[0].prediction} of {' and '.join(entrant.name for entrant in entrants)}"
    return " and ".join(f"{entrant.prediction} of {entrant.name}" for entrant in entrants)


def lines(comparison: Comparison, *, details: bool = False) -> Iterator[str]:
    """The comparison for the terminal.

    Args:
        comparison: the comparison.
        details: whether lists are whole.
    """
    yield f"{title(comparison)}, mean over {comparison.unit}"
    for entrant in comparison.entrants:
        seeds = f" ({counted(len(entrant.trainings), 'seed')})" if len(entrant.trainings) > 1 else ""
        if entrant.row:
            yield f"  {entrant.name}: {entrant.row}{seeds}"
    yield from dict.fromkeys(line for entrant in comparison.entrants for line in without_result(entrant))
    for pair in comparison.pairs:
        if sentence := about_recordings(comparison, pair):
            yield f"NOT COMPARABLE: {sentence}"
    yield ""
    yield from _difference_lines(comparison, details=details)
    for pair in comparison.pairs:
        yield from _pair_lines(comparison, pair, details=details)
    tested = [one for pair in comparison.pairs for one in pair.metrics]
    if tested:
        yield f"p: {WILCOXON}, Holm over {counted(len(tested), 'test')}; {VIDEOS_NOTE}"
    yield ""
    yield from _action_lines(comparison, details=details)


def without_result(entrant: Entrant) -> list[str]:
    """The seeds of an entrant's row that do not count."""
    return [f"no result of seed {seed} of {entrant.row}: {reason}" for seed, reason in entrant.without.items()]


def about_recordings(comparison: Comparison, pair: Pair) -> str:
    """Why the scores of a pair are not comparable; empty if they are."""
    first, second = comparison.entrants[0].name, pair.second.name
    if pair.is_comparable:
        return ""
    if pair.recordings is None and not pair.n_common:
        return f"{first} and {second} have different tasks: no score is comparable"
    if pair.recordings is None:
        return f"{first} and {second} are scored on the same recordings with other labels"
    tests = f"only the {counted(pair.n_common, 'recording')} that both have can be compared"
    rest = tests if pair.n_common else "no recording can be compared"
    return f"{second} is scored on other recordings than {first} ({pair.recordings}): {rest}"


def about_noise(comparison: Comparison, pair: Pair) -> Iterator[str]:
    """Sentences about the seeds of both rows and the deciding metric."""
    metric = comparison.metric
    found = pair.noise.get(metric.name)
    if found is None:
        yield f"no recording has {metric.title}"
        return
    for one in found.spreads:
        low, high = shown(metric, one.low), shown(metric, one.high)
        spread = f"{metric.title} {low} to {high}, deviation {shown(metric, one.std)}"
        yield f"the {one.n} seeds of {one.row} have {spread}"
    change = shown(metric, found.difference, sign=True)
    if found.is_inside is None and found.spreads:
        yield f"these seeds do not vary, so it is unknown whether seeds explain the difference of {change}"
    elif found.limit is None:
        yield f"no other seed of these rows has a result: seeds alone may explain the difference of {change}"
    else:
        side = "inside" if found.is_inside else "outside"
        limit = shown(metric, found.limit)
        yield f"the difference of {change} is {side} the seed noise: seeds alone explain up to {limit} (95 %)"


def without_p(pair: Pair) -> list[str]:
    """Why metrics have no p."""
    return [f"no p: {reason}" for reason in dict.fromkeys(one.outcome.reason for one in pair.metrics) if reason]


def _pair_lines(comparison: Comparison, pair: Pair, *, details: bool) -> Iterator[str]:
    first, second = comparison.entrants[0], pair.second
    if not pair.metrics:
        return
    yield ""
    if len(comparison.pairs) > 1:
        yield f"{first.name} and {second.name}"
    width = max(len(one.metric.title) for one in pair.metrics)
    for one in pair.metrics:
        yield _metric_line(one, pair, (first.name, second.name), width)
    yield from without_p(pair)
    yield from about_noise(comparison, pair)
    changed = [one for one in pair.videos if one.first != one.second]
    if changed:
        yield f"videos with the largest differences of {comparison.metric.title}"
    for video in changed if details else changed[:SHORT]:
        change = shown(comparison.metric, video.second - video.first, sign=True)
        values = f"{shown(comparison.metric, video.first):>7} {shown(comparison.metric, video.second):>7}"
        yield f"  {values} {change:>7}  {video.id}"


def _metric_line(one: Compared, pair: Pair, names: tuple[str, str], width: int) -> str:
    metric, outcome = one.metric, one.outcome
    ours, theirs = shown(metric, one.first), shown(metric, one.second)
    change = shown(metric, one.second - one.first, sign=True)
    p = "no p" if outcome.adjusted_p is None else f"p {outcome.adjusted_p:.2g}"
    better = {1: f"  {names[0]} is better", -1: f"  {names[1]} is better"}
    which = better.get(outcome.direction, "") if outcome.significant else ""
    found = pair.noise[metric.name]
    return f"{metric.title:<{width}} {ours:>7} {theirs:>7} {change:>7}  {p}{which}, {verdict(found)}"


def _difference_lines(comparison: Comparison, *, details: bool) -> Iterator[str]:
    found = comparison.differences
    yield f"{counted(len(found), 'recorded difference')}, the most suspicious first" if found else "no fact differs"
    for one in found if details else found[: 2 * SHORT]:
        values = " | ".join(
            value if details or len(value) <= _WIDTH else f"{value[:_WIDTH]}..." for value in one.values
        )
        yield f"  {one.kind:<10} {one.what}: {values}{f' ({one.note})' if one.note else ''}"
    if not details and len(found) > 2 * SHORT:
        yield f"  ... {len(found) - 2 * SHORT} more with --details"


def _action_lines(comparison: Comparison, *, details: bool) -> Iterator[str]:
    recalls = [one for one in comparison.recalls if details or one.change]
    if recalls:
        yield "recall of actions, in %, the largest change first"
    for one in recalls if details else recalls[:SHORT]:
        values = " ".join(f"{percent(value):>6}" for value in one.values)
        yield f"  {values} {percent(one.change, sign=True):>7}  {one.action}"
    confusions = [one for one in comparison.confusions if details or one.change]
    if confusions:
        yield "confusions, in % of the true action's frames, the largest change of frames first"
    for pair in confusions if details else confusions[:SHORT]:
        values = " ".join(f"{percent(value):>6}" for value in pair.shares)
        yield f"  {values}  {pair.true} as {pair.predicted}"
