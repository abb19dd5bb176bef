"""`mucon-sweeps compare`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, InputError, Problem
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from sweeps.service.trials.reading import TrialReading


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "compare",
        help="compare two trained models on the test videos",
        description=(
            "Compares two trained models, not two configurations, on the test videos of their first evaluation: the "
            "mean over subjects, or over videos if the store has no subjects, and Wilcoxon's signed-rank test of the "
            "differences. Tables compare configurations; they need at least five seeds of each."
        ),
        epilog="example: mucon-sweeps compare 1f0c52d4a9e37b86 58591acea081f2d3",
    )
    parser.add_argument("first", metavar="TRIAL", help="identity of a trial, or its directory")
    parser.add_argument("second", metavar="OTHER", help="identity of the other trial, or its directory")
    parser.add_argument("--prediction", default="full", metavar="NAME", help="frames, segments or full (default: full)")
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compares the trials and prints a table."""
    from mucon.metrics.catalogue import printed_metrics
    from sweeps.service.stats.videos import VIDEOS_NOTE, WILCOXON, compare_models
    from sweeps.service.trials.reading import TrialReading
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    readings = [TrialReading(results.find_trial(name)) for name in (options.first, options.second)]
    first, second = (_videos(reading, options.prediction) for reading in readings)
    groups = _groups(readings[0], [row["id"] for row in first])
    metrics = [metric for metric in printed_metrics("segmentation") if not metric.ignores_background]
    compared = compare_models(first, second, options.prediction, metrics, groups)
    console = new_console()
    ids = [reading.folder.identity for reading in readings]
    say(
        console,
        f"{options.prediction} of {ids[0]} and {ids[1]}, mean over {'videos' if groups is None else 'subjects'}",
    )
    for row in compared:
        metric, outcome = row.metric, row.outcome
        digits = 3 if metric.decimals is None else metric.decimals
        ours, theirs = (f"{metric.scale * value:.{digits}f}" for value in (row.first, row.second))
        p = outcome.reason if outcome.adjusted_p is None else f"p {outcome.adjusted_p:.2g}"
        better = {1: f"  {ids[0]} is better", -1: f"  {ids[1]} is better"}
        verdict = better.get(outcome.direction, "") if outcome.significant else ""
        say(console, f"{metric.title:<10} {ours:>7} {theirs:>7}  {p}{verdict}")
    say(console, f"p: {WILCOXON}, Holm over {len(compared)} metrics; {VIDEOS_NOTE}")
    return EXIT_OK


def _videos(reading: TrialReading, prediction: str) -> list[dict[str, Any]]:
    """The scores by video of a trial's first evaluation."""
    result = reading.first_result
    place = str(reading.folder.path)
    if result is None:
        raise InputError(Problem(rule="missing", place=place, message="the trial has no result yet"))
    rows: list[dict[str, Any]] = result["per_video"]
    if not any(prediction in row for row in rows):
        known = ", ".join(sorted({name for row in rows for name, value in row.items() if isinstance(value, dict)}))
        raise InputError(
            Problem(rule="unknown", place=place, value=prediction, expected=f"a prediction of it: {known}")
        )
    return rows


def _groups(reading: TrialReading, ids: list[str]) -> dict[str, str] | None:
    """Video -> its group in the trial's store; None if the store is elsewhere now or lacks a group."""
    from storage import StoreError, open_store

    try:
        store = open_store(reading.trial["store"])
        groups = {id: store.record(id).group for id in ids}
    except (StoreError, KeyError, OSError):
        return None
    return {id: group for id, group in groups.items() if group is not None} if all(groups.values()) else None
