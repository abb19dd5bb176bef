"""`mucon-sweeps early-stop`."""

from __future__ import annotations

import argparse
import json
import statistics
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK
from sweeps.service.commands.options import add_results, new_console
from sweeps.service.text import say

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from sweeps.service.triage.epochs import Arm

FORMAT_VERSION = 1
"""Version of the output of `--json`, see docs/formats.md."""
HEADS = ("score", "rank correlation over epochs", "over seeds", "MoF at its epoch", "MoF of its seed")


def add(commands: Any) -> None:
    """Adds the command to a parser's subparsers."""
    parser = commands.add_parser(
        "early-stop",
        help="measure how well scores without labels choose epochs and seeds",
        description=(
            "Reads a sweep whose rows differ in training.stop_after, such as sweeps/early_stopping.py. For each score "
            "of a training that needs no label (minus its losses, and what training.label_free_videos records): "
            "Spearman's rank correlation with the accuracy on the scored part over the epochs of a training (mean, "
            "lowest and highest) and over seeds; the accuracy at the epoch with the highest score; and the last "
            "accuracy of the seed with the highest last score. The row `last` trains to the end, `best` uses the "
            "labels of the scored part and is a limit, not a choice."
        ),
        epilog="example: mucon-sweeps early-stop early_stopping --epoch-of early_stopping_validation",
    )
    parser.add_argument("name", metavar="SWEEP", help="name of a sweep that has run")
    parser.add_argument(
        "--prediction", default="full", choices=("frames", "segments", "full"), help="prediction (default: full)"
    )
    parser.add_argument(
        "--epoch-of",
        metavar="SWEEP",
        help="also stop after the epoch with the best mean accuracy in this sweep, such as one on the validation part",
    )
    add_results(parser)
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Prints a table per arm."""
    from sweeps.service.triage.epochs import arms
    from sweeps.service.trials.results_folder import ResultsFolder

    results = ResultsFolder.at(options.results)
    found = arms(results, options.name, options.prediction)
    others = arms(results, options.epoch_of, options.prediction) if options.epoch_of else []
    if options.json:
        shown = [_as_json(arm, _epoch(arm, others)) for arm in found]
        print(json.dumps({"format_version": FORMAT_VERSION, "prediction": options.prediction, "arms": shown}))
        return EXIT_OK
    console = new_console()
    for arm in found:
        epoch = _epoch(arm, others)
        for line in _lines(arm, options.prediction, epoch):
            say(console, line)
        if options.epoch_of and epoch is None:
            say(console, f"sweep {options.epoch_of} has no rows {arm.title!r}: no epoch is taken from it\n")
    return EXIT_OK


def _epoch(arm: Arm, others: Sequence[Arm]) -> int | None:
    """The best epoch of the same arm of another sweep; None if it has no such arm."""
    from sweeps.service.stats.stopping import best_epoch

    same = next((other for other in others if other.title == arm.title), None)
    return None if same is None else best_epoch(same.trainings.values())


def _stops(arm: Arm, epoch: int | None) -> dict[str, list[float]]:
    """Name of a stop that no score chooses -> accuracy of each training there."""
    stops = {
        "last": [training[-1].value for training in arm.trainings.values()],
        "best": [max(point.value for point in training) for training in arm.trainings.values()],
    }
    if epoch is not None:
        values = [{point.epoch: point.value for point in training} for training in arm.trainings.values()]
        stops[f"epoch {epoch} of the other sweep"] = [one[epoch] for one in values if epoch in one]
    return stops


def _as_json(arm: Arm, epoch: int | None) -> dict[str, Any]:
    from dataclasses import asdict

    from sweeps.service.stats.stopping import choices

    points = [
        {"split": split, "seed": seed, **asdict(point)}
        for (split, seed), training in arm.trainings.items()
        for point in training
    ]
    found = {name: asdict(choice) for name, choice in choices(arm.trainings).items()}
    of_other = {} if epoch is None else {"epoch": epoch}
    return {"arm": arm.title, "left_out": arm.n_left_out, "scores": found, "points": points, **of_other}


def _lines(arm: Arm, prediction: str, epoch: int | None) -> Iterator[str]:
    from sweeps.service.stats.stopping import EPOCH, choices

    trainings = arm.trainings
    chosen = choices(trainings)
    epochs = ", ".join(str(point.epoch) for point in next(iter(trainings.values())))
    left_out = f"; {arm.n_left_out} with other epochs left out" if arm.n_left_out else ""
    yield f"{arm.title}, MoF of {prediction}, {len(trainings)} trainings after {epochs} epochs{left_out}"
    rows = [HEADS]
    for name, found in chosen.items():
        rho, seeds = found.over_epochs, found.over_seeds
        over_epochs = f"{statistics.fmean(rho):.2f} ({min(rho):.2f} to {max(rho):.2f})" if rho else "–"
        over_seeds = "–" if seeds is None else f"{seeds:.2f}"
        rows.append((name, over_epochs, over_seeds, _percent(found.at_epoch), f"{100 * found.of_seed:.1f}"))
    rows += [(name, "", "", _percent(values), "") for name, values in _stops(arm, epoch).items()]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADS))]
    for row in rows:
        yield "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
    if all(name == EPOCH or name.startswith("loss.") for name in chosen):
        yield "the trainings recorded no scores besides their losses; train with training.label_free_videos above 0"
    yield ""


def _percent(values: Sequence[float]) -> str:
    """Mean and deviation in percent."""
    if not values:
        return "–"
    spread = f"±{100 * statistics.stdev(values):.1f}" if len(values) > 1 else ""
    return f"{100 * statistics.fmean(values):.1f}{spread}"
