"""The commands `store import`, `store inspect` and `store verify`.

`add_store_commands` adds them to any `argparse` subparsers; each parser carries its function as the default `run`,
which takes the parsed arguments and returns the exit status: 0, or 2 with one line per problem on standard error.
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
from storage.errors import EXIT_INPUT, EXIT_INTERRUPTED, EXIT_OK, StoreError
from storage.layouts import LENGTH_POLICIES, ORIENTATIONS

# The handlers import what needs numpy or pyarrow, so that the parser is built without them.
if TYPE_CHECKING:
    from storage.importing import Imported

Command = Callable[[argparse.Namespace], int]
# `argparse` gives this class no public name.
Subparsers = Any


def tells_problems(command: Command) -> Command:
    """A command whose `StoreError` becomes one line per problem on standard error and exit status 2."""

    @wraps(command)
    def told(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except StoreError as error:
            for problem in error.problems:
                print(problem, file=sys.stderr)
            return EXIT_INPUT

    return told


def add_store_commands(subparsers: Subparsers) -> None:
    """Adds `import`, `inspect` and `verify`.

    Args:
        subparsers: what `ArgumentParser.add_subparsers` returned.
    """
    _add_import(subparsers)
    inspect = _added(subparsers, "inspect", inspect_command, "show what a store holds", "Shows what a store holds.")
    inspect.add_argument("store", type=Path, help="folder of the store")
    inspect.add_argument("--json", action="store_true", help="one JSON object instead of text")
    verify = _added(
        subparsers,
        "verify",
        verify_command,
        "compare a store with its checksums",
        "Reads a store whole, compares it with its checksums and records, and names what is damaged.",
    )
    verify.add_argument("store", type=Path, help="folder of the store")


def _added(subparsers: Subparsers, name: str, run: Command, short: str, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=short, description=text, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.set_defaults(run=run)
    return parser


_IMPORT = """\
Imports a data set in the layout of MS-TCN:

  SRC/features/NAME.npy             [T D] or [D T], one file per video; folders may be nested
  SRC/groundTruth/NAME.txt          an action per line, one line per frame
  SRC/mapping.txt                   lines `id name`; built from the labels where it is missing
  SRC/splits/train.split1.bundle    a video per line; likewise test, and 2, 3, ...

Everything is checked first; all problems are told together, and then nothing is written."""


def _add_import(subparsers: Subparsers) -> None:
    parser = _added(subparsers, "import", import_command, "make a store from a data set", _IMPORT)
    parser.add_argument("source", type=Path, metavar="SRC", help="folder of the data set")
    parser.add_argument("store", type=Path, metavar="STORE", help="folder of the new store")
    parser.add_argument("--replace", action="store_true", help="let a store that stands at STORE give way")
    parser.add_argument(
        "--background",
        action="append",
        default=[],
        metavar="NAME",
        help="an action that is background; repeat for more",
    )
    parser.add_argument("--dtype", choices=DTYPES, help="of the store (default: as found)")
    parser.add_argument("--orientation", choices=ORIENTATIONS, help="of the feature files (default: found out)")
    parser.add_argument(
        "--length-policy",
        choices=LENGTH_POLICIES,
        default="error",
        help="when features and labels differ by more than the tolerance: refuse, drop the last frames of the longer, "
        "or stretch the labels (default: error)",
    )
    parser.add_argument(
        "--length-tolerance",
        type=int,
        default=0,
        metavar="N",
        help="up to so many frames the longer of the two loses its last frames (default: 0)",
    )
    parser.add_argument("--group-regex", metavar="REGEX", help="finds a video's group (subject) in its name")
    parser.add_argument("--activity-regex", metavar="REGEX", help="finds a video's activity in its name")
    parser.add_argument("--fps", type=float, help="feature frames per second")
    parser.add_argument("--window", type=float, help="seconds that one frame's features look at")
    parser.add_argument("--stride", type=float, help="seconds from one frame to the next")
    parser.add_argument("--offset", type=float, help="seconds to the window of the first frame")


@tells_problems
def import_command(args: argparse.Namespace) -> int:
    """`store import SRC STORE`."""
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
    """What the user should know of an import."""
    lines = [f"note: {note}" for note in imported.survey.notes]
    change = imported.conversion
    if change.relative or change.absolute_below:
        lines.append(
            f"converted to {imported.survey.dtype}: largest relative error {change.relative:.3g}; of values too small "
            f"for full precision, largest absolute error {change.absolute_below:.3g}"
        )
    return lines


@tells_problems
def inspect_command(args: argparse.Namespace) -> int:
    """`store inspect STORE`."""
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
    """Lets numpy start no OpenBLAS threads: they cost more CPU time than the whole command and would do nothing."""
    if "numpy" not in sys.modules:
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


@tells_problems
def verify_command(args: argparse.Namespace) -> int:
    """`store verify STORE`."""
    from storage.overview import size_text
    from storage.verify import verify_store

    found = verify_store(args.store, show_progress)
    if found.problems:
        raise StoreError(found.problems)
    print(f"{args.store}: {found.n_videos} videos, {size_text(found.n_bytes)} of features, nothing damaged")
    return EXIT_OK


def show_progress(what: str, done: int, total: int) -> None:
    """One line that counts, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r{what} {done} of {total}", end="\n" if done == total else "", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m storage`: the store's commands alone."""
    parser = argparse.ArgumentParser(prog="python -m storage", description="Feature stores.")
    add_store_commands(parser.add_subparsers(metavar="COMMAND", required=True))
    args = parser.parse_args(argv)
    try:
        status: int = args.run(args)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    return status
