"""Rows whose rule for the background cannot be followed on a store are refused before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence

from mucon.configuration import Config
from mucon.decoding.background import no_background, no_labels
from mucon.errors import InputError, Problem, some
from mucon.method import training_of
from mucon.methods import method_named
from mucon.videos import ScoredPart
from sweeps.service.plan.cells import RowConfigs


def check_rules(tables: Sequence[RowConfigs], background: Sequence[str], part: ScoredPart) -> None:
    """Checks that each row of some tables can have the background that it asks for.

    Args:
        tables: the rows.
        background: names of the background actions.
        part: the scored part; a sweep over the test part leaves no training recording out.

    Raises:
        InputError: one problem per rule and reason, with the names of the rows.
    """
    found: dict[Problem, list[str]] = {}
    for rows in tables:
        for row, config in rows:
            if problem := rule_problem(row.method, config, background, part):
                found.setdefault(problem, []).append(row.name)
    if found:
        raise InputError([_of_rows(problem, names) for problem, names in found.items()])


def rule_problem(method: str, config: Config, background: Sequence[str], part: ScoredPart) -> Problem | None:
    """Why a configuration cannot have the background that it asks for; None if it can."""
    decoding = method_named(method).decoding(config)
    rule = "offset" if decoding is None else decoding.background_rule
    if rule != "offset" and not background:
        return no_background(rule)
    lacks_labels = rule == "labelled" and training_of(config).labelled == 0
    return no_labels(rule) if lacks_labels or (rule == "held_out" and part == "test") else None


def _of_rows(problem: Problem, names: Sequence[str]) -> Problem:
    message = f"{problem.message}, for the rows {some([repr(name) for name in names])}"
    return Problem(
        rule=problem.rule, place=problem.place, value=problem.value, message=message,
        hint=f"{problem.hint}, or leave these rows out with --rows",
    )  # fmt: skip
