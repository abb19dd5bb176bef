"""Runs a search with the options of its script."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from mucon.errors import EXIT_OK
from sweeps.service.commands.running.asked import Asked, base_of, print_notes
from sweeps.service.commands.running.search_options import asked_search, study_storage
from sweeps.service.plan.plan import FILE as PLAN_FILE
from sweeps.service.plan.plan import read_plan
from sweeps.service.report.search.gathering import held_out
from sweeps.service.run.budget.limits import Budget
from sweeps.service.search.points import Job, Point, final_name
from sweeps.service.search.sweep.rows import Ground, PointPlan
from sweeps.service.searching import run_search
from sweeps.service.spec.recipe import recipe_name
from sweeps.service.spec.search import Search
from sweeps.service.text import duration, say


def run_search_here(
    search: Search,
    options: argparse.Namespace,
    words: Sequence[str],
    program: str | None,
    name: str,
    started: float,
) -> int:
    """Runs a search with parsed options; the other arguments are those of `run_script`, and when it began."""
    asked = Asked.of(options, words, program, name, started)
    search = asked_search(search, options)
    base = base_of(search, options)
    ground = Ground(
        store=asked.store,
        base=base(),
        settings=asked.settings,
        splits=options.split or search.splits,
        results=asked.results,
        device=asked.placement.device,
    )
    points = PointPlan(search, ground)
    _print_header(points, recipe_name(base), asked.budget, asked.console)
    if options.dry_run:
        return _dry_run(points, asked)
    config = {"recipe": recipe_name(base), "seeds": search.seeds, "splits": list(points.splits)}
    config |= {"store": str(asked.store), "set": asked.settings, "trials": search.trials, "sampler": search.sampler}
    chosen = asked.run_options(search.name, search.title, config)
    return run_search(points, chosen, asked.placement, options.warm_start, asked.console, study_storage(options))


def _print_header(points: PointPlan, recipe: str, budget: Budget, console: Console) -> None:
    search, plan = points.search, points.empty
    say(console, f"{search.name}: {search.title}")
    size = f"{search.trials} points x up to {search.seeds} seeds, sampler {search.sampler}"
    say(console, f"store {plan.store}, split {', '.join(plan.splits)}, recipe {recipe}, {size}")
    say(console, held_out(plan))
    print_notes(budget, plan.warnings, console)


def _dry_run(points: PointPlan, asked: Asked) -> int:
    """Prints how many trainings the search may need and how long they take; writes nothing."""
    from sweeps.service.run.estimate import estimate  # imports torch

    asked.budget.check(asked.placement.each)
    search, n_splits = points.search, len(points.splits)
    trials = list(points.add(Job(Point(0, {}, "default"), 1)).values())
    expected = estimate(trials, asked.results, asked.placement)
    fresh = (search.best + 1) * search.fresh_seeds
    fewest, most = ((search.trials * seeds + fresh) * n_splits for seeds in (1, search.seeds))
    say(
        asked.console,
        f"{search.trials} points x 1 to {search.seeds} seeds, then the best {search.best} and the base configuration x "
        f"{search.fresh_seeds} fresh seeds: {fewest} to {most} trainings; {_finished(points)} are finished, the others "
        "missing",
    )
    each = sum(expected.trainings) / len(expected.trainings)
    slots = asked.placement.slots or 1
    ends = " to ".join(duration(n * each / slots) for n in (fewest, most))
    say(asked.console, f"estimate: {ends} in total, {duration(each)} per training of the base configuration")
    if asked.price is not None:
        costs = [n * each for n in (fewest, most)]
        say(asked.console, asked.price.line(costs[1], (costs[0], costs[1]), asked.placement.each))
    return EXIT_OK


def _finished(points: PointPlan) -> int:
    """Number of finished trainings of the search and its last step, as the plans of earlier runs have them."""
    names = (points.search.name, final_name(points.search.name))
    results = points.ground.results
    plans = [read_plan(results, name) for name in names if (results.sweep(name) / PLAN_FILE).exists()]
    return sum(result.is_finished for plan in plans for result in plan.read_results().values())
