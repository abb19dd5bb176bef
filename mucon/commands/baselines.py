"""`mucon baselines`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from mucon.commands.options import add_data
from mucon.errors import EXIT_OK

if TYPE_CHECKING:
    from mucon.commands.parser import Commands

DESCRIPTION = """\
Scores reference predictions on a part of a split. `action` is the most
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
    parser.add_argument(
        "--part", default="test", metavar="NAME", help="part of the split, such as validation (default: test)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints a table with one row per reference prediction."""
    from mucon import baselines
    from mucon.commands.printing import print_table_of_scores
    from mucon.metrics.scores import score
    from mucon.videos import training_videos_of, videos_of, vocabulary_of
    from storage import open_store

    store = open_store(args.store)
    train, test = training_videos_of(store, args.split, args.part), videos_of(store, args.split, args.part)
    labelled, named = [v for v in train if v.lengths is not None], [v for v in train if v.transcript]
    undefined = [None] * len(test)
    predictions = {
        "action": baselines.most_frequent_action_baseline(labelled, test) if labelled else undefined,
        "transcript": baselines.blind_baseline(named, test) if named else undefined,
        "centroid": baselines.nearest_centroid(labelled, test) if labelled else undefined,
    }
    truth, background = [video.truth for video in test], vocabulary_of(store).background_ids
    scores = {name: score(truth, predicted, background).values for name, predicted in predictions.items()}
    print_table_of_scores(len(test), scores)
    n_known = sum(video.lengths is not None for video in test)
    if n_known < len(test):
        print(f"{args.part} recordings with lengths: {n_known}; the others are scored by their transcripts only")
    if len(labelled) < len(train):
        print(f"training recordings with lengths, from which action and centroid learn: {len(labelled)}")
    return EXIT_OK
