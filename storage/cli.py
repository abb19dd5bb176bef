"""Commands `store import`, `store inspect` and `store verify`.

`add_store_commands` adds them to any `argparse` subparsers. Each parser sets the default `run`, a function that takes
the parsed arguments and returns the exit status: 0, or 2 after one line per problem on standard error.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storage.constants import DTYPES
from storage.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, StoreError, counted
from storage.layouts import LENGTH_POLICIES, ORIENTATIONS

# Handlers import the modules that need numpy or pyarrow, so that the parser starts without them.
if TYPE_CHECKING:
    from storage.importing import Imported

Command = Callable[[argparse.Namespace], int]
# `argparse` has no public name for this class.
Subparsers = Any


def reports_problems(command: Command) -> Command:
    """Decorates a command: a `StoreError` is printed, one line per problem, and gives exit status 2."""

    @wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except StoreError as error:
            for problem in error.problems:
                print(f"error: {problem}", file=sys.stderr)
            return EXIT_INPUT

    return run


_IMPORT = """\
Imports a dataset in the layout of MS-TCN, with frame labels, transcripts, or both:

  SRC/features/NAME.npy             features [T D] or [D T], one file per video; folders may be nested
  SRC/groundTruth/NAME.txt          an action name per line, one line per frame
  SRC/transcripts/NAME.txt          an action name per line, one line per segment, for videos without labels
  SRC/transcripts.csv               instead of transcripts/: columns `video` and `transcript` (names and blanks);
                                    optional columns `lengths` (frames), `subject`, `activity`
  SRC/mapping.txt                   lines `ID NAME`; default: the sorted names that occur
  SRC/splits/train.split1.bundle    a video name per line; likewise test, and splits 2, 3, ...

Training videos need labels or a transcript. If a video has both, they must agree. The whole dataset is validated
first, and all problems are reported at once. The store is written atomically."""
_IMPORT_EXAMPLE = """\
examples:
  %(prog)s data/gtea stores/gtea --background background --fps 15 --group-regex '^S\\d'
  %(prog)s data/transcripts_only stores/weak --background SIL"""
_INSPECT_EXAMPLE = """\
examples:
  %(prog)s stores/gtea
  %(prog)s stores/gtea --json"""
_VERIFY = """\
Reads a whole store, compares it with its checksums and records, and reports damaged files and videos."""
_VERIFY_EXAMPLE = """\
example:
  %(prog)s stores/gtea"""


def add_store_commands(subparsers: Subparsers) -> None:
    """Adds `import`, `inspect` and `verify`.

    Args:
        subparsers: result of `ArgumentParser.add_subparsers`.
    """
    _add_import(subparsers)
    inspect = _add_command(
        subparsers,
        "inspect",
        inspect_command,
        "show the contents of a store",
        "Shows the videos, actions and splits of a store.",
        _INSPECT_EXAMPLE,
    )
    inspect.add_argument("store", type=Path, help="folder of the store")
    inspect.add_argument("--json", action="store_true", help="print one JSON object")
    verify = _add_command(
        subparsers, "verify", verify_command, "compare a store with its checksums", _VERIFY, _VERIFY_EXAMPLE
    )
    verify.add_argument("store", type=Path, help="folder of the store")


def _add_command(
    subparsers: Subparsers, name: str, run: Command, summary: str, description: str, example: str
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name,
        help=summary,
        description=description,
        epilog=example,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _add_import(subparsers: Subparsers) -> None:
    parser = _add_command(subparsers, "import", import_command, "import a dataset as a store", _IMPORT, _IMPORT_EXAMPLE)
    parser.add_argument("source", type=Path, metavar="SRC", help="folder of the dataset")
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the new store")
    parser.add_argument("--replace", action="store_true", help="replace an existing store")
    parser.add_argument(
        "--background", action="append", default=[], metavar="NAME", help="name of a background action; repeatable"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="dtype of the store (default: widest dtype of the files)")
    parser.add_argument(
        "--orientation", choices=ORIENTATIONS, help="orientation of the feature files (default: inferred)"
    )
    parser.add_argument(
        "--length-policy",
        choices=LENGTH_POLICIES,
        default="error",
        help="if features and frame labels differ by more than the tolerance: refuse them, drop the last frames of the "
        "longer, or resample the labels; labels that look like a transcript are always refused (default: error)",
    )
    parser.add_argument(
        "--length-tolerance",
        type=int,
        default=0,
        metavar="N",
        help="difference in frames up to which the longer of features and labels is cropped (default: 0)",
    )
    parser.add_argument(
        "--group-regex", metavar="REGEX", help="regular expression for the group (subject) in the name of a video"
    )
    parser.add_argument(
        "--activity-regex", metavar="REGEX", help="regular expression for the activity in the name of a video"
    )
    parser.add_argument("--fps", type=float, help="feature frames per second")
    parser.add_argument("--window", type=float, help="seconds of video that the features of one frame cover")
    parser.add_argument("--stride", type=float, help="seconds from one frame to the next")
    parser.add_argument("--offset", type=float, help="seconds to the beginning of the window of the first frame")


@reports_problems
def import_command(args: argparse.Namespace) -> int:
    """Runs `store import SRC STORE`."""
    from storage.importing import import_data
    from storage.layouts.ms_tcn import MsTcn, MsTcnOptions
    from storage.overview import overview, overview_lines
    from storage.reader import open_store

    options = MsTcnOptions(
        background=tuple(args.background),
        dtype=args.dtype,
        orientation=args.orientation,
        length_policy=args.length_policy,
        length_tolerance=args.length_tolerance,
        group_regex=args.group_regex,
        activity_regex=args.activity_regex,
    )
    imported = import_data(
        MsTcn(args.source, options),
        args.store,
        times={name: getattr(args, name) for name in ("fps", "window", "stride", "offset")},
        replace=args.replace,
        progress=show_progress,
    )
    for line in import_lines(imported):
        print(line)
    for line in overview_lines(overview(open_store(args.store))):
        print(line)
    return EXIT_OK


def import_lines(imported: Imported) -> list[str]:
    """Formats the notes and the rounding errors of an import."""
    lines = [f"note: {note}" for note in imported.survey.notes]
    change = imported.conversion
    if change.relative or change.absolute_below:
        lines.append(
            f"converted to {imported.survey.dtype}: largest relative error {change.relative:.3g}; largest absolute "
            f"error of values below the normal range {change.absolute_below:.3g}"
        )
    return lines


@reports_problems
def inspect_command(args: argparse.Namespace) -> int:
    """Runs `store inspect STORE`."""
    _start_no_blas_threads()
    from storage.overview import overview, overview_lines
    from storage.reader import open_store

    view = overview(open_store(args.store))
    if args.json:
        print(json.dumps(view.to_dict(), ensure_ascii=False))
    else:
        print("\n".join(overview_lines(view)))
    return EXIT_OK


def _start_no_blas_threads() -> None:
    """Prevents numpy from starting OpenBLAS threads, which cost more CPU time than the rest of the command."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@reports_problems
def verify_command(args: argparse.Namespace) -> int:
    """Runs `store verify STORE`."""
    from storage.overview import size_text
    from storage.verify import verify_store

    result = verify_store(args.store, show_progress)
    if result.problems:
        raise StoreError(result.problems)
    print(
        f"{args.store}: {counted(result.n_videos, 'video')}, {size_text(result.n_bytes)} of features, nothing damaged"
    )
    return EXIT_OK


def show_progress(what: str, done: int, total: int) -> None:
    """Shows a counter on a terminal; prints nothing elsewhere."""
    if sys.stderr.isatty():
        print(f"\r{what} {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs `python -m storage`, the store commands without the rest of mucon."""
    parser = argparse.ArgumentParser(prog="python -m storage", description="Creates and checks feature stores.")
    add_store_commands(parser.add_subparsers(title="commands", metavar="COMMAND", required=True))
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status
