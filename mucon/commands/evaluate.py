"""`mucon evaluate`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import (
    TASKS,
    add_data,
    add_decoding,
    add_device,
    add_run,
    check_run,
    decoding_of,
    warn_if_data_unknown,
    warn_if_unfinished,
)
from mucon.commands.outputs import check_file, check_suffix
from mucon.errors import EXIT_OK, InputError, Problem

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.evaluation import Evaluation

DESCRIPTION = """\
Scores the predictions frames (MuCon-Y), segments (MuCon-S) and full
(MuCon-full) of a run on a part of a split."""
EXAMPLE = """\
examples:
  mucon evaluate runs/tug --store stores/tug --figure bars.png
  mucon evaluate runs/tug --store stores/tug --task alignment --details"""
DETAILS = ("task", "recall", "precision", "confusion", "true_frames")
"""Fields of an `Evaluation` that --details adds to the JSON."""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("evaluate", help="score a run on a store", description=DESCRIPTION, epilog=EXAMPLE)
    add_run(parser)
    add_data(parser)
    parser.add_argument(
        "--part", default="test", metavar="NAME", help="part of the split, such as validation (default: test)"
    )
    parser.add_argument(
        "--task", choices=TASKS, default="segmentation",
        help="alignment: the true transcripts are given (default: segmentation)",
    )  # fmt: skip
    add_decoding(parser)
    add_device(parser)
    parser.add_argument(
        "--json", action="store_true", help="print one line of JSON: fractions from 0 to 1, boundary errors in frames"
    )
    parser.add_argument(
        "--details", action="store_true", help="add recall, precision and confusion per action, and boundary errors"
    )
    parser.add_argument(
        "--figure", type=Path, metavar="FILE", help="draw true and predicted segments (.png, .svg or .pdf)"
    )
    parser.add_argument("--recordings", nargs="+", metavar="ID", help="recordings to draw (default: the first 3)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Scores a run and prints a table or JSON."""
    from mucon.device import usable_cpus
    from mucon.evaluation import evaluate
    from mucon.library import load_predictor
    from mucon.plots import chosen_recordings, draw_evaluation, suffixes
    from mucon.videos import check_same_data, training_videos_of, videos_of, vocabulary_of
    from storage import open_store

    if args.figure is not None:
        check_suffix(args.figure, "--figure", suffixes())
        check_file(args.figure, "--figure")
    elif args.recordings:
        raise InputError(Problem(rule="missing", place="--recordings", message="requires --figure FILE"))
    folder = check_run(args.run_folder)
    predictor = load_predictor(folder, "cpu")
    warn_if_unfinished(folder, predictor)
    warn_if_data_unknown(folder, predictor)
    store = open_store(args.store)
    check_same_data(predictor.vocabulary, predictor.dim, vocabulary_of(store), store.manifest.dim)
    videos = videos_of(store, args.split, args.part)
    drawn = [] if args.figure is None else chosen_recordings(videos, args.recordings)
    decoding = decoding_of(predictor, args.settings)
    needs_facts = decoding is not None and decoding.needs_training_facts
    evaluation = evaluate(
        predictor,
        videos,
        device=args.device,
        task=args.task,
        fps=store.manifest.fps,
        decoding=decoding,
        training_videos=training_videos_of(store, args.split, args.part) if needs_facts else [],
        threads=usable_cpus(),
    )
    show(evaluation, weights_sha256=predictor.weights_sha256(), as_json=args.json, details=args.details)
    if args.figure is not None:
        draw_evaluation(evaluation, drawn, predictor.vocabulary, args.figure, fps=store.manifest.fps)
    return EXIT_OK


def show(evaluation: Evaluation, *, weights_sha256: str, as_json: bool, details: bool) -> None:
    """Prints an evaluation.

    Args:
        evaluation: scores of a run.
        weights_sha256: part of the JSON only.
        as_json: one line of JSON instead of tables, with `undefined` and `not_predicted` if a recording lacks true
            lengths or a prediction.
        details: adds results per action, and boundary errors to the tables.
    """
    if as_json:
        more = {name: getattr(evaluation, name) for name in DETAILS} if details else {}
        if evaluation.n_without_lengths or any(evaluation.not_predicted.values()):
            more |= {name: getattr(evaluation, name) for name in ("undefined", "not_predicted")}
        print(json.dumps({**evaluation.scores, **more, "weights_sha256": weights_sha256}))
        return
    from mucon.commands.printing import print_details, print_scores

    print_scores(evaluation)
    if details:
        print_details(evaluation)
