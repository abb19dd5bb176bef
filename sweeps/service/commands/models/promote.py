"""`mucon-sweeps promote`."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.models.export import add_choice, write_chosen
from sweeps.service.commands.options import add_results, add_tracking_uri, new_console, tracking_uri
from sweeps.service.text import redacted, say

MODEL = "mucon"


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "promote",
        help="register the best model of a sweep on the tracking server",
        description=(
            "Registers the best trial of a sweep, as `export` chooses it, as a version of a model on the tracking "
            "server, and moves an alias to it. MLflow loads and serves the version; `mucon-sweeps fetch` makes it a "
            "folder again. A version with the same files is not registered twice."
        ),
        epilog="example: mucon-sweeps promote ablation_masks --alias champion",
    )
    add_choice(parser)
    parser.add_argument("--alias", required=True, metavar="NAME", help="alias that the version gets, such as champion")
    parser.add_argument("--model", default=MODEL, metavar="NAME", help=f"name of the model (default: {MODEL})")
    add_results(parser)
    add_tracking_uri(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Registers the best trial or an ensemble."""
    from sweeps.service.track.registry import EXPORTED_NAME, check_name, promote
    from sweeps.service.trials.results_folder import ResultsFolder

    check_name("--alias", options.alias)
    check_name("--model", options.model)
    results, console = ResultsFolder.at(options.results), new_console()
    uri = tracking_uri(options.tracking_uri, results)
    with tempfile.TemporaryDirectory() as scratch:
        exported = Path(scratch, EXPORTED_NAME)
        cells = write_chosen(options, exported)
        trial = results.reading(cells[0].identity).trial
        facts = {
            "store": trial["store"],
            "data_fingerprint": trial["data_fingerprint"],
            "sweep": options.name,
            "row": cells[0].variant.name,
            "split": cells[0].split,
            "part": trial["part"],
            "seeds": ", ".join(str(cell.seed) for cell in cells),
            "chosen_by": options.best,
        }
        trials = [cell.identity for cell in cells]
        version, new = promote(
            exported, options.model, options.alias, trials=trials, facts=facts, uri=uri, results=results
        )
    say(console, f"{'registered' if new else 'known'}: {version}, alias {options.alias}, at {redacted(uri)}")
    say(console, f"fetch: mucon-sweeps fetch models:/{version.name}@{options.alias} DIR --results {options.results}")
    return EXIT_OK
