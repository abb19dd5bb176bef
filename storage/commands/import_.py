"""`store import SRC STORE`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.constants import DTYPES
from storage.errors import EXIT_OK
from storage.layouts import LENGTH_POLICIES, ORIENTATIONS

if TYPE_CHECKING:
    from storage.importing import Imported

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


def add(subparsers: Subparsers) -> None:
    """Adds `import`."""
    parser = add_command(subparsers, "import", run, "import a dataset as a store", _IMPORT, _IMPORT_EXAMPLE)
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
def run(args: argparse.Namespace) -> int:
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
