"""`mucon predict`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import (
    FORMATS,
    PICTURES,
    PREDICTIONS,
    add_decoding,
    add_device,
    add_run,
    check_run,
    decoding_of,
    warn_if_unfinished,
)
from mucon.commands.outputs import check_file, check_folder, check_suffix
from mucon.errors import (
    EXIT_OK,
    EXIT_PARTIAL,
    DataWarning,
    InputError,
    Interrupted,
    Problem,
    Rule,
    check_ranges,
    counted,
    some,
)
from storage.feature_files import SUFFIXES
from storage.remote.addresses import is_uri, place

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.commands.recordings import Recording
    from mucon.library import Model
    from mucon.outputs.batch import Outcome, Request
    from mucon.outputs.predicted_files import PredictedFiles
    from mucon.outputs.results import Segments
    from mucon.vocabulary import Vocabulary

DESCRIPTION = """\
Segments recordings from their features, several at a time, and prints
one line per segment: first frame, number of frames, action. With
--transcript the actions and their order are given, and only the
boundaries are predicted (alignment). Features unlike those of training
raise a warning. A recording that cannot be predicted is reported at the
end, with status 3; the others are predicted. With --out, the same command
continues after an interruption: what is already predicted is skipped."""
EXAMPLE = """\
examples:
  mucon predict runs/tug DATA/tug/features/s01_01.npy --json
  mucon predict runs/tug DATA/tug/features --out predicted --format csv --plot png
  mucon predict runs/tug --store stores/tug --split 1 --part test --out predicted
  find DATA/tug/features -name 's01*.npy' | mucon predict runs/tug - --out predicted
  mucon predict runs/tug DATA/tug/features --fps 20 --out subtitles --format vtt
  mucon predict runs/tug DATA/tug/features/s01_01.npy --transcript SEATED,STANDING_UP,WALKING"""

M_MMAP_THRESHOLD = -3
"""Parameter of glibc's `mallopt`: bytes from which an array has pages of its own."""


def _local(text: str) -> Path:
    if is_uri(text):
        raise argparse.ArgumentTypeError(f"{text}: features are files of this machine; a store is given with --store")
    return Path(text)


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser("predict", help="segment new recordings", description=DESCRIPTION, epilog=EXAMPLE)
    add_run(parser, "MODEL")
    parser.add_argument(
        "features", type=_local, nargs="*", default=[], metavar="FEATURES",
        help=f"array [T, D], one file per recording ({', '.join(SUFFIXES)}); a folder means all of them in it but "
        ".csv; - means standard input, one array as .npy or a list of paths",
    )  # fmt: skip
    parser.add_argument("--key", metavar="NAME", help="name of the array in .npz, .pt, .h5 and .mat files with several")
    parser.add_argument("--store", type=place, help="predict recordings of a store (folder or URI) instead of files")
    parser.add_argument("--split", metavar="NAME", help="split of the store (default: 1)")
    parser.add_argument("--part", metavar="NAME", help="part of the split (default: test)")
    parser.add_argument(
        "--prediction", choices=PREDICTIONS, metavar="NAME",
        help=f"{', '.join(PREDICTIONS)} (default: the method's main one)",
    )  # fmt: skip
    parser.add_argument("--transcript", metavar="A,B,C", help="actions in their order, the same for each recording")
    parser.add_argument(
        "--alternatives", type=int, default=0, metavar="N",
        help="add the N next best segmentations of the decoder's beam with their log scores (full only)",
    )  # fmt: skip
    add_decoding(parser)
    add_device(parser)
    parser.add_argument(
        "--jobs",
        type=int,
        metavar="N",
        help="recordings at a time (default: one per core; 4 on a GPU; long ones alone)",
    )
    _add_output(parser)
    parser.set_defaults(run=run)


def _add_output(parser: argparse.ArgumentParser) -> None:
    """Adds the options of what is printed, written and drawn."""
    parser.add_argument("--json", action="store_true", help="print one line of JSON per recording")
    parser.add_argument("--out", type=Path, metavar="DIR", help="write one file per recording instead of its segments")
    parser.add_argument(
        "--format", choices=FORMATS, metavar="FORMAT",
        help="with --out: txt, one action per frame; csv or json, one row or object per segment; vtt, subtitles; "
        "tsv, for ELAN's import of tab-delimited text (default: txt)",
    )  # fmt: skip
    parser.add_argument("--plot", choices=PICTURES, metavar="KIND", help="with --out: add a timeline, png, svg or pdf")
    parser.add_argument("--replace", action="store_true", help="with --out: predict again and replace existing files")
    parser.add_argument(
        "--fps",
        type=float,
        metavar="X",
        help="frames per second, for seconds; vtt and tsv need it (default: those of --store or of the training data)",
    )
    parser.add_argument(
        "--confidence", action="store_true",
        help="add the mean probability of each segment's action to lines, vtt and tsv; csv and json always have it",
    )  # fmt: skip
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw the segments of some recordings (.png, .svg)")
    parser.add_argument("--recordings", nargs="+", metavar="ID", help="recordings to draw (default: the first 3)")


def run(args: argparse.Namespace) -> int:
    """Segments or aligns each recording, prints its segments or writes its files."""
    from mucon.library import load
    from mucon.outputs.batch import predict_all
    from mucon.outputs.progress import Bar

    check_options(args)
    folder = check_run(args.run_folder)
    model = load(folder, args.device)
    warn_if_unfinished(folder, model.predictor)
    recordings, fps = chosen_recordings(args, model)
    request = request_of(args, model, fps)
    files = None if args.out is None else files_of(args, model, recordings, request)
    drawn = {} if args.figure is None else drawn_recordings(args, recordings)
    release_large_arrays()
    report = Report(args, files)
    left = []
    for one in recordings:
        if files is None or files.absent[one.id] or one.id in drawn:
            left.append(one)
        else:
            report.skipped(one, files)
    outcomes = predict_all(
        model.predictor, model.contract, ((one.id, one.place, one.load) for one in left), request,
        jobs=args.jobs, checksums=files is not None,
    )  # fmt: skip
    try:
        with Bar(len(recordings), len(recordings) - len(left), shown=files is not None) as bar:
            for one, outcome in zip(left, outcomes, strict=True):
                report.add(one, outcome)
                if one.id in drawn:
                    drawn[one.id] = outcome.segments
                bar.advance()
                if files is None and not drawn and not getattr(sys.stdout, "has_reader", True):
                    break
    except KeyboardInterrupt:
        if files is None:
            raise
        raise Interrupted(f"predicted {report.n_done} of {counted(len(recordings), 'recording')}") from None
    finally:
        outcomes.close()
    if args.figure is not None:
        draw_figure(args.figure, drawn, model, request.fps)
    return report.status()


class Report:
    """Prints and writes what has become of each recording.

    Args:
        args: options of the command.
        files: files of the recordings; None if they are printed only.

    Attributes:
        n_done: recordings with a prediction.
        problems: those of the others.
    """

    def __init__(self, args: argparse.Namespace, files: PredictedFiles | None) -> None:
        self.args, self.files = args, files
        self.n_done = 0
        self.problems: list[Problem] = []

    def skipped(self, one: Recording, files: PredictedFiles) -> None:
        """Prints that a recording is already predicted."""
        from mucon.outputs.formats import one_line

        self.n_done += 1
        names = [str(file) for file in files.of_recording(one.id)]
        line = json.dumps({"id": one.id, "skipped": True, "files": names})
        text = one_line(f"{one.id}: already predicted -> {', '.join(names)}")
        print(line if self.args.json else text, flush=True)

    def add(self, one: Recording, outcome: Outcome) -> None:
        """Writes the files of a recording, and prints it as lines, as JSON, or with the names of the files."""
        from mucon.outputs.formats import as_json, lines, one_line, summary

        for doubt in outcome.doubts:
            warnings.warn(DataWarning(doubt), stacklevel=2)
        self.problems += outcome.problems
        if outcome.segments is None:
            return
        try:
            if self.files is not None:
                self.files.write(one, outcome.segments, outcome.checksum)
        except InputError as error:
            self.problems += error.problems
            return
        self.n_done += 1
        if self.args.json:
            print(as_json(one.id, outcome.segments), end="", flush=True)
        elif self.files is None:
            print(lines(one.id, outcome.segments, confidence=self.args.confidence), flush=True)
        else:
            names = ", ".join(str(file) for file in self.files.of_recording(one.id))
            print(one_line(f"{summary(one.id, outcome.segments)} -> {names}"), flush=True)

    def status(self) -> int:
        """Prints all problems and returns the exit status.

        Raises:
            InputError: no recording has a prediction.
        """
        if not self.n_done:
            raise InputError(self.problems)
        for problem in self.problems:
            print(f"error: {problem}", file=sys.stderr)
        return EXIT_PARTIAL if self.problems else EXIT_OK


def release_large_arrays() -> None:
    """Makes glibc return each array of a recording to the system, instead of keeping its memory for the next one."""
    import ctypes

    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 2**20)


def check_options(args: argparse.Namespace) -> None:
    """Checks the options that depend on each other, the output folder and the figure.

    Raises:
        InputError: no recordings or two sources of them, options without the one they belong to, numbers out of range,
            or a folder or file that cannot be written.
    """
    problems = []
    if (args.store is None) == (not args.features):
        rule: Rule = "missing" if args.store is None else "conflict"
        problems.append(Problem(rule=rule, place="FEATURES", message="expected files, a folder, - or --store STORE"))
    needs = {"split": "store", "part": "store", "format": "out", "plot": "out", "replace": "out"}
    for flag, needed in {**needs, "recordings": "figure"}.items():
        if getattr(args, flag) not in (None, False) and getattr(args, needed) is None:
            value = getattr(args, flag)
            problems.append(Problem(rule="missing", place=f"--{flag}", value=value, message=f"requires --{needed}"))
    if args.key is not None and args.store is not None:
        message = "a store has no arrays to choose from"
        problems.append(Problem(rule="conflict", place="--key", value=args.key, message=message))
    if args.alternatives and args.transcript is not None:
        message = "a given transcript has no alternatives"
        problems.append(Problem(rule="conflict", place="--alternatives", value=args.alternatives, message=message))
    if problems:
        raise InputError(problems)
    check_ranges(
        "--",
        [
            ("fps", args.fps, "a number above 0", args.fps is None or 0 < args.fps < float("inf")),
            ("alternatives", args.alternatives, "at least 0", args.alternatives >= 0),
            ("jobs", args.jobs, "at least 1", args.jobs is None or args.jobs >= 1),
        ],
    )
    if args.out is not None:
        check_folder(args.out, "--out")
    if args.figure is not None:
        check_suffix(args.figure, "--figure", PICTURES)
        check_file(args.figure, "--figure")


def chosen_recordings(args: argparse.Namespace, model: Model) -> tuple[list[Recording], float | None]:
    """The recordings to predict, and their frames per second if known.

    Raises:
        InputError: nothing to predict, or a store with another number of features per frame.
    """
    from mucon.commands.recordings import recordings_of_files, recordings_of_store

    if args.store is None:
        return recordings_of_files(args.features, args.key), args.fps or model.fps
    from mucon.videos import check_same_data
    from storage import open_store

    store = open_store(args.store)
    check_same_data(model.vocabulary, model.dim, model.vocabulary, store.manifest.dim)
    return recordings_of_store(store, args.split or "1", args.part or "test"), args.fps or store.manifest.fps


def request_of(args: argparse.Namespace, model: Model, fps: float | None) -> Request:
    """What is predicted of each recording.

    Raises:
        InputError: a prediction, task, transcript or setting that the model does not have, or a format that needs the
            frame rate, which is unknown.
    """
    from mucon.decoding.config import DecodingConfig
    from mucon.inference.alternatives import check_alternatives
    from mucon.inference.requests import check_predictions, unsupported_task
    from mucon.outputs.batch import Request
    from mucon.outputs.formats import check_fps

    name = args.prediction or model.predictor.main
    check_predictions([name], model.predictions)
    if args.transcript is not None and "alignment" not in model.predictor.tasks:
        raise InputError(unsupported_task(model.method, "alignment"))
    transcript = None if args.transcript is None else transcript_ids(args.transcript, model.vocabulary)
    decoding = decoding_of(model.predictor, args.settings)
    check_alternatives(args.alternatives, name, decoding or DecodingConfig())
    check_fps(fps, args.format or FORMATS[0])
    return Request(prediction=name, transcript=transcript, decoding=decoding, alternatives=args.alternatives, fps=fps)


def files_of(
    args: argparse.Namespace, model: Model, recordings: Sequence[Recording], request: Request
) -> PredictedFiles:
    """The files of the recordings in the output folder.

    Raises:
        InputError: files would be overwritten.
    """
    from mucon import EVALUATION, NUMERICS
    from mucon.outputs.files import OutputFolder, digest
    from mucon.outputs.predicted_files import PredictedFiles

    requested = digest(
        EVALUATION, NUMERICS, model.predictor.weights_sha256(), list(model.actions), dataclasses.asdict(request),
        args.confidence,
    )  # fmt: skip
    kinds = [args.format or FORMATS[0], *([] if args.plot is None else [args.plot])]
    folder = OutputFolder(args.out, requested, replace=args.replace)
    return PredictedFiles.of(folder, kinds, recordings, model.vocabulary, confidence=args.confidence)


def drawn_recordings(args: argparse.Namespace, recordings: Sequence[Recording]) -> dict[str, Segments | None]:
    """The ids of the recordings in the figure, whose segments follow.

    Raises:
        InputError: one problem per unknown id.
    """
    from mucon.plots import chosen_recordings as chosen

    return {one.id: None for one in chosen(recordings, args.recordings)}


def draw_figure(path: Path, drawn: Mapping[str, Segments | None], model: Model, fps: float | None) -> None:
    """Draws the recordings that have a prediction.

    Raises:
        InputError: none has, or the file cannot be written.
    """
    from mucon.outputs.predicted_files import timelines
    from mucon.plots import draw

    known = {id: segments for id, segments in drawn.items() if segments is not None}
    if not known:
        message = f"no recording to draw has a prediction ({some(drawn)})"
        raise InputError(Problem(rule="missing", place="--figure", value=str(path), message=message))
    draw(timelines(known, model.vocabulary), model.vocabulary, path, fps=fps)


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
