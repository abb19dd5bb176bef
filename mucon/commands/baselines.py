"""`mucon baselines`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mucon.commands.options import add_data
from mucon.errors import EXIT_OK

if TYPE_CHECKING:
    from mucon.commands.parser import Commands

DESCRIPTION = """\
Scores reference predictions on the test part of a split. `action` is the most
frequent action, `transcript` the most frequent transcript with equal lengths;
both ignore the features. `centroid` assigns each frame to the nearest mean of
an action's features; it learns from all frame labels."""
EXAMPLE = """\
example:
  mucon baselines --store stores/tug --split 1"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "baselines", help="score reference predictions", description=DESCRIPTION, epilog=EXAMPLE
    )
    add_data(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a table with one row per reference prediction."""
    from mucon import baselines
    from mucon.commands.printing import print_table_of_scores
    from mucon.errors import InputError, Problem
    from mucon.metrics.scores import score
    from mucon.segments import Segmentation
    from mucon.videos import videos_of, vocabulary_of
    from storage import open_store

    store = open_store(args.store)
    train, test = videos_of(store, args.split, "train"), videos_of(store, args.split, "test")
    missing = [video.id for part in (train, test) for video in part if video.lengths is None]
    if missing:
        message = "the references need the lengths of all segments"
        raise InputError(Problem(rule="missing", place=id, value=None, message=message) for id in missing)
    truth = [Segmentation.of(video.transcript, video.lengths or ()) for video in test]
    background = vocabulary_of(store).background_ids
    predictions = {
        "action": baselines.most_frequent_action_baseline(train, test),
        "transcript": baselines.blind_baseline(train, test),
        "centroid": baselines.nearest_centroid(train, test),
    }
    scores = {name: score(truth, predicted, background).values for name, predicted in predictions.items()}
    print_table_of_scores(len(test), scores)
    return EXIT_OK
