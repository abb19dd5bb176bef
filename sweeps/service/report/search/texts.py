"""A search in few lines, for the terminal, a description and the tracking server."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sweeps.service.report.search.findings import Findings, settings_text
from sweeps.service.search.points import PointRecord
from sweeps.service.stats.summary import Summary
from sweeps.service.text import in_markdown, redacted

NAMED = ("best", "second", "third")
"""Titles of the points that the terminal names."""
MAX_IMPORTANT = 5
"""Settings whose importance the terminal names."""


def search_lines(findings: Findings) -> list[str]:
    """What a search has found: its points, the best ones, the importance of the settings, and where the study is."""
    points = [f"  {title + ':':<9} {point}" for title, point in _points(findings).items()]
    lines = [*_about(findings), *points, *_importance(findings)]
    return [*lines, f"study:      {dashboard_command(findings.storage)}"] if findings.storage else lines


def fresh_lines(findings: Findings) -> list[str]:
    """The fresh scores of the last step, where its table is not at hand; the best point of the search first."""
    (objective, *_), history = findings.objectives, findings.history
    known = [number for number in (*history.best, *history.fresh) if number in history.fresh]
    scores = {number: Summary.of(list(history.fresh[number].values())) for number in dict.fromkeys(known)}
    return [
        f"  {'fresh:':<9} point {number}, {objective['title']} {_text(score, objective)} on the test part "
        f"({_seeds(len(history.fresh[number]))})"
        for number, score in scores.items()
    ]


def best_point(findings: Findings) -> str:
    """The best point with scores and what differs from the default; empty without one."""
    found = [f"{_point(findings, one)}: {settings_text(findings.changed(one))}" for one in findings.chosen[:1]]
    return "".join(found)


def markdown(findings: Findings) -> str:
    """The best points, for the description of the sweep's run."""
    heads = [
        "point",
        *(in_markdown(one["title"]) for one in findings.objectives),
        "seeds",
        "differs from the default in",
    ]
    lines = [f"**{in_markdown(findings.history.search['title'])}: best points**", "", _row(heads)]
    lines.append(_row(["---"] * len(heads)))
    for record in findings.chosen[: len(NAMED)]:
        scores = [_text(findings.score(record, index), one) for index, one in enumerate(findings.objectives)]
        settings = in_markdown(settings_text(findings.changed(record)))
        lines.append(_row([str(record.point.number), *scores, str(record.n), settings]))
    notes = [*_about(findings), *_importance(findings)]
    return "\n".join([*lines, "", *(f"- {in_markdown(line)}" for line in notes), ""])


def search_metrics(findings: Findings) -> dict[str, float]:
    """Numbers of a search for its run on the tracking server: points by state, and scores of the best and the default.

    The names are `search/points`, `search/STATE`, `search/best/PREDICTION/METRIC` with `_std`, `search/default/...`,
    and, after the last step, `search/fresh/...` and `search/optimism/...` of the best point in the first objective.
    """
    history = findings.history
    states = Counter(record.state for record in history.records)
    metrics: dict[str, float] = {"search/points": len(history.records), "search/duplicates": history.duplicates}
    metrics |= {f"search/{state}": count for state, count in states.items()}
    best = [history.record(number) for number in history.best[:1]]
    default = [] if findings.default is None else [findings.default]
    for name, records in (("best", best), ("default", default)):
        for index, objective in enumerate(findings.objectives):
            for summary in (findings.score(record, index) for record in records):
                metrics |= _mean_and_std(f"search/{name}/{_place(objective)}", summary)
    rows = () if findings.optimism is None else findings.optimism.rows
    for row in (row for row in rows if best and row.labels[0] == str(best[0].point.number)):
        _, fresh, optimism = row.summaries
        place = _place(findings.objectives[0])
        metrics |= _mean_and_std(f"search/fresh/{place}", fresh) | _mean_and_std(f"search/optimism/{place}", optimism)
    return metrics


def dashboard_command(storage: str) -> str:
    """The command that opens a study in a browser.

    >>> dashboard_command("results/my search/study.log")
    "optuna-dashboard 'results/my search/study.log'"
    """
    return shlex.join(["optuna-dashboard", redacted(storage)])


def _about(findings: Findings) -> Iterator[str]:
    history = findings.history
    equal = f"; {history.duplicates} suggestions equalled an earlier point" if history.duplicates else ""
    yield f"search: {findings.progress}{equal}"
    if findings.damage:
        yield f"no table of the fresh scores: {findings.damage}"
    if findings.held_out:
        yield findings.held_out


def _points(findings: Findings) -> dict[str, str]:
    """The best points and the default, by what they are."""
    points = {
        title: f"{_point(findings, record)}: {settings_text(findings.changed(record))}"
        for title, record in zip(NAMED, findings.chosen, strict=False)
    }
    default = findings.default
    return points if default is None or not default.n else {**points, "default": _point(findings, default)}


def _point(findings: Findings, record: PointRecord) -> str:
    scores = [
        f"{objective['title']} {_text(findings.score(record, index), objective)}"
        for index, objective in enumerate(findings.objectives)
    ]
    return f"point {record.point.number}, {', '.join(scores)} ({_seeds(record.n)})"


def _importance(findings: Findings) -> Iterator[str]:
    for objective, shares in zip(findings.objectives, findings.history.importance, strict=False):
        largest = sorted(shares.items(), key=lambda item: -item[1])[:MAX_IMPORTANT]
        if largest:
            settings = ", ".join(f"{path} {100 * share:.0f} %" for path, share in largest)
            yield f"importance for {objective['title']}: {settings}"


def _place(objective: Mapping[str, Any]) -> str:
    return f"{objective['prediction']}/{objective['metric']}"


def _mean_and_std(name: str, summary: Summary | None) -> dict[str, float]:
    if summary is None:
        return {}
    return {name: summary.mean} | ({} if summary.std is None else {f"{name}_std": summary.std})


def _text(summary: Summary | None, objective: Mapping[str, Any]) -> str:
    return "–" if summary is None else summary.text(objective["unit"])


def _seeds(n: int) -> str:
    return f"{n} seed{'s' * (n != 1)}"


def _row(fields: Sequence[str]) -> str:
    return f"| {' | '.join(fields)} |"
