"""`mucon-sweeps export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.commands.export import add_forms, forms
from mucon.commands.outputs import check_folder
from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from mucon.export.scores import Score
    from sweeps.service.plan.cells import Cell


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "export",
        help="write the best model of a sweep as a folder for others",
        description=(
            "Writes the best trial of a sweep as a folder with weights, configuration, actions, scores, a model card "
            "and checksums: of the row with the best mean on a split, the seed with the best score. `mucon predict`, "
            "`mucon evaluate` and mucon.load take the folder."
        ),
        epilog="example: mucon-sweeps export ablation_masks --best full.mof --split 1 --out models/best",
    )
    add_choice(parser)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder of the exported model, new")
    add_forms(parser)
    add_results(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Exports the best trial or an ensemble."""
    check_folder(options.out, "--out")
    cells = write_chosen(options, options.out, name=options.heading, more=forms(options), replace_old=options.replace)
    seeds = ", ".join(str(cell.seed) for cell in cells)
    console = new_console()
    say(console, f"exported: {options.out} (row {cells[0].variant.name}, split {options.split}, seed {seeds})")
    say(console, f"next:     mucon predict {options.out} FEATURES.npy")
    return EXIT_OK


def add_choice(parser: argparse._ActionsContainer) -> None:
    """Adds the options that choose a trial of a sweep, or the seeds of a row."""
    parser.add_argument("name", help="name of a sweep that has run")
    parser.add_argument(
        "--best", default="full.mof", metavar="METRIC", help="prediction and metric that decide (default: full.mof)"
    )
    parser.add_argument("--split", default="1", metavar="NAME", help="split of the trial (default: 1)")
    parser.add_argument("--row", metavar="NAME", help="row of the trial (default: the best one)")
    parser.add_argument("--table", metavar="NAME", help="table of the row, in a sweep with several (default: all)")
    parser.add_argument("--ensemble", action="store_true", help="combine all seeds of the row, and score them together")


def write_chosen(
    options: argparse.Namespace,
    target: Path,
    *,
    name: str | None = None,
    more: Sequence[Callable[[Path], None]] = (),
    replace_old: bool = False,
) -> tuple[Cell, ...]:
    """Writes the chosen trial or ensemble as an exported folder.

    Args:
        options: values of the options of `add_choice` and `add_results`.
        target: the folder.
        name: heading of its card; by default the sweep and the row.
        more: each writes further files.
        replace_old: replace an exported folder.

    Returns:
        The cells whose weights it has, the best one first.

    Raises:
        InputError: no such sweep, split, row or score, or a folder that cannot be written.
    """
    from mucon.export import folder as exported
    from mucon.export.scores import scored
    from storage import open_store
    from sweeps.service.plan.plan import read_plan
    from sweeps.service.tables.chosen import chosen
    from sweeps.service.tables.standing import Standing
    from sweeps.service.trials.results_folder import ResultsFolder

    plan = read_plan(ResultsFolder.at(options.results), options.name)
    found = chosen(Standing.of(plan), options.best, options.split, row=options.row, table=options.table)
    trainings = found.trainings(ensemble=options.ensemble)

    def scores(folder: Path) -> list[Score]:
        if not options.ensemble:
            return found.scores()
        store, runs = open_store(plan.store), list(trainings)
        return found.with_seeds(scored(folder, store, split=options.split, part=plan.part, runs=runs))

    exported.write(
        target,
        trainings,
        name=name or f"{options.name}: {found.cells[0].variant.name}",
        scores=scores,
        selection=found.selection,
        more=more,
        replace_old=replace_old,
    )
    return found.cells if options.ensemble else found.cells[:1]
