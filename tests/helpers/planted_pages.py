"""A sweep with a page: planted scores, journals with curves, a run per trial, hostile names, failed cells."""

from __future__ import annotations

from pathlib import Path

from sweeps.service.plan.plan import Plan
from sweeps.service.plan.sweep_folder import Links, SweepInfo, write_links, write_sweep
from sweeps.service.report.report import write_report
from sweeps.service.spec.columns import Column, Variant
from sweeps.service.spec.experiment import Experiment
from sweeps.service.tables.standing import Standing
from sweeps.service.trials.reading import ACCURACY
from tests.helpers.planted_sweeps import Unfinished, make_sweep
from tests.helpers.trial_folders import ENVIRONMENT, START, append, append_epoch

HOSTILE = "a <b>&\" '<script>alert(1)</script> row"
FAILED = "ValueError: no <i>cake</i>"
MOF = {"nine": 0.09, "ten": 0.1, "hundred": 0.995, HOSTILE: 0.3}
"""Row -> MoF of its first seed; sorted as text, 9.2 would come after 10.2."""
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
        (HOSTILE, "1", 2): Unfinished("finished"),  # by another evaluation: this one is missing
    }
    plan = make_sweep(
        results,
        EXPERIMENT,
        lambda row, _, seed, __: MOF[row] + 0.002 * (seed - 1),
        n_seeds=3,
        unfinished=unfinished,
    )
    standing = Standing.of(plan)
    runs = f"{server}/#/experiments/1/runs"
    for cell in plan.cells:
        folder = plan.results.trial(cell.identity)
        folder.write_trial({"config": {"loss": {"smoothing": 0.1}, "seed": cell.seed}})
        if standing.results[cell.key].is_finished:
            append(folder.path, {"kind": "environment", "timestamp": START, **ENVIRONMENT})
            for step in range(1, 5):
                append_epoch(folder.path, step, cell.seed, {ACCURACY: 0.2 * step, "seconds": 28.0 + 2 * step})
    command = "python sweeps/planted_page.py --seeds 3"
    info = SweepInfo(name=plan.name, title=plan.title, command=command, config={})
    write_sweep(plan.results, info, "mucon", plan.rows)
    pages = {cell.identity: f"{runs}/{cell.identity}?a=1&b=2" for cell in plan.cells}
    write_links(plan.folder, Links(sweep=f"{runs}/parent", runs=runs, trials=pages))
    write_report(Standing.of(plan))
    return plan
