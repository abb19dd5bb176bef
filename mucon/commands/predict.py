"""`mucon predict`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import PREDICTIONS, add_decoding, add_device, add_run, decoding_of, warn_if_unfinished
from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.inference import Prediction
    from mucon.videos import Video
    from mucon.vocabulary import Vocabulary

DESCRIPTION = """\
Segments recordings from their features and prints one line per segment: first
frame, number of frames, action. With --transcript the actions and their order
are given, and only the boundaries are predicted (alignment)."""
EXAMPLE = """\
examples:
  mucon predict runs/tug DATA/tug/features/s01_01.npy --json
  mucon predict runs/tug DATA/tug/features/s01_01.npy --transcript SEATED,STANDING_UP,WALKING"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("predict", help="segment new recordings", description=DESCRIPTION, epilog=EXAMPLE)
    add_run(parser)
    parser.add_argument(
        "features", type=Path, nargs="+", metavar="FEATURES.npy", help="array [T, D], one file per recording"
    )
    parser.add_argument(
        "--prediction", choices=PREDICTIONS, metavar="NAME",
        help=f"{', '.join(PREDICTIONS)} (default: the method's main one)",
    )  # fmt: skip
    parser.add_argument("--transcript", metavar="A,B,C", help="actions in their order, the same for each recording")
    add_decoding(parser)
    add_device(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON per recording")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Segments or aligns each recording and prints its segments."""
    from mucon.device import cpu_threads
    from mucon.library import load_predictor, read_features
    from mucon.method import training_of
    from mucon.videos import Video

    predictor = load_predictor(args.run_folder, args.device)
    warn_if_unfinished(args.run_folder, predictor)
    decoding = decoding_of(predictor, args.settings)
    transcript = None if args.transcript is None else transcript_ids(args.transcript, predictor.vocabulary)
    videos = [Video.from_arrays(path.stem, read_features(path)) for path in args.features]
    if transcript is not None:
        check_transcript(transcript, videos, predictor.vocabulary)
    name = args.prediction or predictor.main
    status = EXIT_OK
    for video in videos:
        with cpu_threads(training_of(predictor.config).threads):
            features = video.features(predictor.device)
            if transcript is None:
                prediction = predictor.begin(features, predictions=(name,), decoding=decoding)()
            else:
                prediction = predictor.align(features, transcript, predictions=(name,), decoding=decoding)
        if prediction.undefined:
            status = EXIT_PARTIAL
            for problem in prediction.undefined[name].under(video.id):
                print(f"error: {problem}", file=sys.stderr)
        else:
            show(video, prediction, name, predictor.vocabulary, as_json=args.json)
    return status


def show(video: Video, prediction: Prediction, name: str, vocabulary: Vocabulary, *, as_json: bool) -> None:
    """Prints the segments of a recording, as lines or as one line of JSON."""
    segments = [
        {"action": vocabulary.actions[action], "start": start, "frames": stop - start}
        for action, start, stop in prediction.segmentations[name].spans()
    ]
    if as_json:
        print(json.dumps({"id": video.id, "n_frames": video.n_frames, "cut": prediction.cut, "segments": segments}))
        return
    print(f"{video.id}: {video.n_frames} frames, {len(segments)} segments{' (truncated)' if prediction.cut else ''}")
    for segment in segments:
        print(f"{segment['start']:>8} {segment['frames']:>7}  {segment['action']}")


def transcript_ids(text: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    """Ids of comma-separated action names.

    Raises:
        InputError: an empty name, or names that are not in the vocabulary.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        expected = "comma-separated action names such as pour,stir,pour"
        raise InputError(Problem(rule="type", place="--transcript", value=text, expected=expected))
    return vocabulary.ids(names)


def check_transcript(transcript: tuple[int, ...], videos: list[Video], vocabulary: Vocabulary) -> None:
    """Checks that a recording is long enough for the transcript.

    Raises:
        InputError: one problem per recording; none is.
    """
    from mucon.inference.predictions import transcript_problems

    found = [transcript_problems(transcript, video.n_frames, vocabulary, repr(video.id)) for video in videos]
    if all(found):
        raise InputError(problem for problems in found for problem in problems)
