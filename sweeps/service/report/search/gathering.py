"""Reads from the folders of a search and its last step what the report shows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mucon.errors import InputError
from sweeps.service.plan.plan import FILE as PLAN_FILE
from sweeps.service.plan.plan import Plan, read_plan
from sweeps.service.plan.recordings import validation_lines
from sweeps.service.report.search.findings import Findings
from sweeps.service.search.points import FILE, STUDY, SearchHistory, final_name, read_history, recorded_storage
from sweeps.service.search.sweep.optimism import comma_separated, fresh_points, optimism_table
from sweeps.service.tables.latex import latex
from sweeps.service.tables.standing import Standing
from sweeps.service.tables.text import markdown


def is_search(plan: Plan) -> bool:
    """Whether a plan is that of a search."""
    return (plan.folder / FILE).exists()


def findings_of(plan: Plan) -> Findings:
    """What a search has found.

    A last step whose plan is damaged has no table: the command of the search makes the plan again.

    Raises:
        InputError: a file of the search is damaged.
    """
    history = read_history(plan.folder)
    study = plan.folder / STUDY
    storage = recorded_storage(plan.folder) or (str(study) if study.exists() else "")
    findings = Findings(history=history, held_out=held_out(plan), storage=storage)
    try:
        return replace(findings, **_optimism(plan, history)) if history.fresh else findings
    except InputError as error:
        return replace(findings, damage=error.line)


def held_out(plan: Plan) -> str:
    """On what the points of a search are scored."""
    return "; ".join((*validation_lines(plan.splits), "no label of the test part is read before the last step"))


def _optimism(plan: Plan, history: SearchHistory) -> dict[str, Any]:
    """The table of the optimism, and its files."""
    name = final_name(plan.name)
    if not (plan.results.sweep(name) / PLAN_FILE).exists():
        return {}
    (final,) = Standing.of(read_plan(plan.results, name)).tables.values()
    points = fresh_points(history, final)
    table = optimism_table(plan.name, plan.title, points, final)
    texts = {"md": markdown(table), "csv": comma_separated(points, final), "tex": latex(table)}
    return {"optimism": table, "files": {f"{table.name}.{kind}": text for kind, text in texts.items()}}
