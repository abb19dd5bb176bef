"""A sweep with a page: planted scores, journals with curves, a run for each trial, hostile names, failed cells."""

from __future__ import annotations

import json
from pathlib import Path

from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import SweepInfo, write_links, write_sweep
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.trial_folders import ENVIRONMENT, START, append, append_epoch

HOSTILE = "a <b>&\" '<script>alert(1)</script> row"
FAILED = "ValueError: no <i>cake</i>"
MOF = {"nine": 0.09, "ten": 0.1, "hundred": 0.995, HOSTILE: 0.3}
"""Row -> MoF of its first seed; as text, 9.5 comes behind 10.5."""
EXPERIMENT = Experiment(
    name="planted_page",
    title="Planted numbers & <names>",
    label_titles=("Row",),
    variants=tuple(Variant(labels=(name,), settings={"loss.smoothing": i}) for i, name in enumerate(MOF)),
    columns=(
        Column(title="MoF", metric="mof"),
        Column(title="borders", metric="boundary_error_frames", unit="frames"),
    ),
    default_row="ten",
)


def planted_page(results: Path, server: str = "http://tracks.example") -> Plan:
    """Writes the sweep, its figures and its page, with links to the runs of a tracking server."""
    unfinished = {
        ("hundred", "1", 3): Unfinished("failed", FAILED),
        (HOSTILE, "1", 2): Unfinished("finished", None),  # finished without a result: not evaluated yet
    }
    plan = make_sweep(
        results,
        EXPERIMENT,
        lambda row, _, seed, __: MOF[row] + 0.002 * (seed - 1),
        n_seeds=3,
        unfinished=unfinished,
    )
    known = plan.known()
    links = {"": f"{server}/#/experiments/1/runs/parent"}
    for cell in plan.cells:
        folder = plan.results / "trials" / cell.identity
        trial = {"format_version": 1, "config": {"loss": {"smoothing": 0.1}, "seed": cell.seed}}
        (folder / "trial.json").write_text(json.dumps(trial))
        links[cell.identity] = f"{server}/#/experiments/1/runs/{cell.identity}?a=1&b=2"
        if known[cell.key].scores is not None:
            append(folder, {"kind": "environment", "timestamp": START, **ENVIRONMENT})
            for step in range(1, 5):
                append_epoch(folder, step, cell.seed, {"progress.full.mof": 0.2 * step})
    command = "python sweeps/planted_page.py --seeds 3"
    info = SweepInfo(name=plan.name, title=plan.title, command=command, config={})
    write_sweep(plan.results, info, "mucon", {cell.identity: cell.variant.name for cell in plan.cells})
    write_links(plan.folder, links)
    known = plan.known()
    write_report(plan, plan.tables(known), known)
    return plan
