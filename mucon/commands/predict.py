"""`mucon predict`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import (
    FORMATS,
    PREDICTIONS,
    add_decoding,
    add_device,
    add_run,
    check_run,
    decoding_of,
    warn_if_unfinished,
)
from mucon.commands.outputs import check_folder
from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem, Rule, some

if TYPE_CHECKING:
    from torch import Tensor

    from mucon.commands.parser import Commands
    from mucon.commands.recordings import Recording
    from mucon.commands.segments_files import Predicted
    from mucon.decoding.config import DecodingConfig
    from mucon.method import Predictor
    from mucon.segments import Segmentation
    from mucon.vocabulary import Vocabulary

DESCRIPTION = """\
Segments recordings from their features, one after another, and prints one line
per segment: first frame, number of frames, action. With --transcript the
actions and their order are given, and only the boundaries are predicted
(alignment). A recording that cannot be read is reported at the end, with
status 3; the others are predicted."""
EXAMPLE = """\
examples:
  mucon predict runs/tug DATA/tug/features/s01_01.npy --json
  mucon predict runs/tug DATA/tug/features --out predicted --format csv
  mucon predict runs/tug --store stores/tug --split 1 --part test --out predicted
  mucon predict runs/tug DATA/tug/features/s01_01.npy --transcript SEATED,STANDING_UP,WALKING"""

M_MMAP_THRESHOLD = -3
"""Parameter of glibc's `mallopt`: bytes from which an array has pages of its own."""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("predict", help="segment new recordings", description=DESCRIPTION, epilog=EXAMPLE)
    add_run(parser)
    parser.add_argument(
        "features", type=Path, nargs="*", default=[], metavar="FEATURES",
        help="array [T, D] as .npy, one file per recording; a folder means all .npy files in it",
    )  # fmt: skip
    parser.add_argument("--store", type=Path, help="predict recordings of a feature store instead of files")
    parser.add_argument("--split", metavar="NAME", help="split of the store (default: 1)")
    parser.add_argument("--part", metavar="NAME", help="part of the split (default: test)")
    parser.add_argument(
        "--prediction", choices=PREDICTIONS, metavar="NAME",
        help=f"{', '.join(PREDICTIONS)} (default: the method's main one)",
    )  # fmt: skip
    parser.add_argument("--transcript", metavar="A,B,C", help="actions in their order, the same for each recording")
    add_decoding(parser)
    add_device(parser)
    parser.add_argument("--json", action="store_true", help="print one line of JSON per recording")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write one file per recording instead of its segments")
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT",
        help="with --out: txt, one action per frame; csv or json, one row or object per segment (default: txt)",
    )  # fmt: skip
    parser.add_argument("--replace", action="store_true", help="with --out: replace existing files")
    parser.add_argument(
        "--fps",
        type=float,
        metavar="X",
        help="frames per second, for seconds in csv and json (default: those of --store or of the training data)",
    )
    parser.add_argument(
        "--confidence", action="store_true",
        help="with csv or json: add the mean probability of each segment's action, from another pass of the network",
    )  # fmt: skip
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Segments or aligns each recording, prints its segments or writes its file."""
    from mucon.inference.requests import check_predictions, unsupported_task
    from mucon.library import load_predictor

    check_options(args)
    check_run(args.run_folder)
    predictor = load_predictor(args.run_folder, args.device)
    warn_if_unfinished(args.run_folder, predictor)
    name = args.prediction or predictor.main
    check_predictions([name], predictor.predictions)
    if args.transcript is not None and "alignment" not in predictor.tasks:
        raise InputError(unsupported_task(predictor.method, "alignment"))
    transcript = None if args.transcript is None else transcript_ids(args.transcript, predictor.vocabulary)
    recordings, fps = chosen_recordings(args, predictor)
    if args.out is not None and not args.replace:
        check_new_files(recordings, args)
    request = Request(name, transcript, decoding_of(predictor, args.settings), fps, args.confidence)
    release_large_arrays()
    problems: list[Problem] = []
    n_predicted = 0
    for recording in recordings:
        try:
            show(predict(predictor, recording, request), args)
            n_predicted += 1
        except InputError as error:
            problems += error.problems
    if not n_predicted:
        raise InputError(problems)
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    return EXIT_PARTIAL if problems else EXIT_OK


def release_large_arrays() -> None:
    """Makes glibc return each array of a recording to the system, instead of keeping its memory for the next one."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 2**20)


def check_options(args: argparse.Namespace) -> None:
    """Checks the options that depend on each other, and the output folder.

    Raises:
        InputError: no recordings or two sources of them, options without the one they belong to, a frame rate out of
            range, or a folder that cannot be written.
    """
    problems = []
    if (args.store is None) == (not args.features):
        rule: Rule = "missing" if args.store is None else "conflict"
        problems.append(Problem(rule=rule, place="FEATURES", message="expected files, a folder or --store STORE"))
    for flag, needed in (("split", "store"), ("part", "store"), ("format", "out"), ("replace", "out")):
        if getattr(args, flag) not in (None, False) and getattr(args, needed) is None:
            value = getattr(args, flag)
            problems.append(Problem(rule="missing", place=f"--{flag}", value=value, message=f"requires --{needed}"))
    written = "json" if args.json else args.format or FORMATS[0]
    if args.confidence and written not in ("csv", "json"):
        message = "requires --json, or --out with --format csv or json"
        problems.append(Problem(rule="missing", place="--confidence", value=True, message=message))
    if args.fps is not None and not 0 < args.fps < float("inf"):
        problems.append(Problem(rule="range", place="--fps", value=args.fps, expected="a number above 0"))
    if problems:
        raise InputError(problems)
    if args.out is not None:
        check_folder(args.out, "--out")


def check_new_files(recordings: Sequence[Recording], args: argparse.Namespace) -> None:
    """Checks that no file is overwritten, such as an annotation.

    Raises:
        InputError: files of the recordings exist.
    """
    files = [args.out / f"{recording.id}.{args.format or FORMATS[0]}" for recording in recordings]
    existing = [file for file in files if os.path.lexists(file)]
    if existing:
        message, hint = f"{some(existing)} would be overwritten", "choose another folder or pass --replace"
        raise InputError(Problem(rule="exists", place="--out", value=len(existing), message=message, hint=hint))


def chosen_recordings(args: argparse.Namespace, predictor: Predictor) -> tuple[list[Recording], float | None]:
    """The recordings to predict, and their frames per second if known.

    Raises:
        InputError: nothing to predict, or a store with another number of features per frame.
    """
    from mucon.commands.recordings import recordings_of_files, recordings_of_store

    if args.store is None:
        data = predictor.trained_on
        return recordings_of_files(args.features), args.fps or (None if data is None else data.source.fps)
    from mucon.videos import check_same_data
    from storage import open_store

    store = open_store(args.store)
    check_same_data(predictor.vocabulary, predictor.dim, predictor.vocabulary, store.manifest.dim)
    return recordings_of_store(store, args.split or "1", args.part or "test"), args.fps or store.manifest.fps


@dataclass(frozen=True, slots=True)
class Request:
    """What is predicted of each recording.

    Attributes:
        name: name of the prediction.
        transcript: the known actions for alignment; None for segmentation.
        decoding: choices of decoding.
        fps: frames per second; None if unknown.
        confidence: adds the confidence of each segment.
    """

    name: str
    transcript: tuple[int, ...] | None
    decoding: DecodingConfig | None
    fps: float | None
    confidence: bool


def predict(predictor: Predictor, recording: Recording, request: Request) -> Predicted:
    """The prediction for a recording, which is read here and not kept.

    Raises:
        InputError: features that cannot be read or have another shape, a transcript with more segments than frames, or
            a prediction that is not defined for the recording.
    """
    from mucon.commands.segments_files import Predicted
    from mucon.device import cpu_threads
    from mucon.inference.requests import transcript_problems
    from mucon.method import training_of

    video, vocabulary = recording.load(), predictor.vocabulary
    transcript, names = request.transcript, (request.name,)
    problems = transcript_problems(transcript, video.n_frames, vocabulary) if transcript else []
    if problems:
        raise InputError(InputError(problems).under(recording.place))
    try:
        with cpu_threads(training_of(predictor.config).threads):
            features = video.features(predictor.device)
            if transcript is None:
                prediction = predictor.begin(features, predictions=names, decoding=request.decoding)()
            else:
                prediction = predictor.align(features, transcript, predictions=names, decoding=request.decoding)
            if prediction.undefined:
                raise prediction.undefined[request.name]
            found = prediction.segmentations[request.name]
            confidence = mean_probabilities(predictor.frame_log_probs(features), found) if request.confidence else None
    except InputError as error:
        raise InputError(error.under(recording.place)) from error
    return Predicted(recording.id, video.n_frames, prediction.cut, found, vocabulary, request.fps, confidence)


def mean_probabilities(log_probs: Tensor, segmentation: Segmentation) -> list[float | None]:
    """Mean probability of each segment's action over its frames; None for a segment without frames.

    Args:
        log_probs: `[T, N]`.
        segmentation: T frames.
    """
    return [
        float(log_probs[start:stop, action].exp().mean()) if stop > start else None
        for action, start, stop in segmentation.spans()
    ]


def show(predicted: Predicted, args: argparse.Namespace) -> None:
    """Writes the file of a recording, and prints it as lines, as JSON, or with the name of the file."""
    file = "" if args.out is None else f" -> {predicted.write(args.out, args.format or FORMATS[0])}"
    if args.json:
        print(predicted.as_json(), end="", flush=True)
    else:
        print(predicted.summary() + file if file else predicted.lines(), flush=True)


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
