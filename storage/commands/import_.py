"""`store import SRC STORE`."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.constants import DTYPES
from storage.errors import EXIT_OK
from storage.feature_files import SUFFIXES
from storage.layouts import LENGTH_POLICIES, ORIENTATIONS, UNITS, ImportOptions
from storage.layouts.table import LAYOUTS, layout_of
from storage.remote.addresses import is_uri, local_place, place

if TYPE_CHECKING:
    from storage.importing import Imported
    from storage.layouts.dataset import Dataset

_IMPORT = f"""\
Imports a dataset of feature files and annotations. The layout is recognised by its files, or chosen by --layout:

{chr(10).join(f"  {row.name:<20} {row.summary}{'' if row.verified else '; unverified'}" for row in LAYOUTS)}

In all layouts, features are [T D] or [D T], one file per video, and folders may be nested. Feature files end with
{", ".join(SUFFIXES)}. mapping.txt has lines `ID NAME`; without it, the names
that occur are sorted. Training videos need labels or a transcript; if a video has both, they must agree. The whole
dataset is validated first, and all problems are reported at once. The store is written atomically."""
_IMPORT_EXAMPLE = """\
examples:
  %(prog)s data/gtea stores/gtea --background background --fps 15 --group-regex '^S\\d'
  %(prog)s data/transcripts_only stores/weak --background SIL
  %(prog)s data/own stores/own --unit seconds --fps 25 --fill background --background background
  %(prog)s data/breakfast stores/breakfast --layout ms-tcn --dtype float16
  %(prog)s data/gtea s3://lab/stores/gtea --replace"""


def add(subparsers: Subparsers) -> None:
    """Adds `import`."""
    parser = add_command(subparsers, "import", run, "import a dataset as a store", _IMPORT, _IMPORT_EXAMPLE)
    parser.add_argument("source", type=local_place, metavar="SRC", help="folder of the dataset")
    parser.add_argument("store", type=place, metavar="STORE", help="folder or URI of the new store")
    parser.add_argument("--replace", action="store_true", help="replace an existing store")
    add_options(parser)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of commands that read a dataset SRC, see `dataset_of`."""
    parser.add_argument("--layout", choices=[row.name for row in LAYOUTS], help="layout of SRC (default: recognised)")
    parser.add_argument(
        "--background", action="append", default=[], metavar="NAME", help="name of a background action; repeatable"
    )
    parser.add_argument("--dtype", choices=DTYPES, help="dtype of the store (default: widest dtype of the files)")
    parser.add_argument(
        "--key", metavar="NAME", help="name of the array in .npz, .pt, .h5 and .mat files with several arrays"
    )
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
    parser.add_argument(
        "--sample-rate",
        type=int,
        default=1,
        metavar="K",
        help="keep frames 0, K, 2K, ... of features and labels; --fps and --stride are those of SRC, the store has "
        "fps/K and stride*K (default: 1)",
    )
    parser.add_argument(
        "--fill", metavar="NAME", help="action of the frames without a segment, for layouts of segments with times"
    )
    parser.add_argument(
        "--unit", choices=UNITS, help="unit of the columns start and end in segments.csv or segments.parquet"
    )
    parser.add_argument("--fps", type=float, help="feature frames per second; needed for segments in seconds")
    parser.add_argument("--window", type=float, help="seconds of video that the features of one frame cover")
    parser.add_argument("--stride", type=float, help="seconds from one frame to the next")
    parser.add_argument("--offset", type=float, help="seconds to the beginning of the window of the first frame")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store import SRC STORE`."""
    from storage.importing import import_data
    from storage.inspection.findings import inspect_store
    from storage.reader import opened
    from storage.remote.uploading import target_of

    dataset, note = dataset_of(args)
    with target_of(args.store, replace=args.replace) as folder:
        imported = import_data(dataset, folder, times=times_of(args), replace=args.replace, progress=show_progress)
        print(f"note: {note}")
        for line in import_lines(imported, converted=args.dtype is not None):
            print(line)
        for line in inspect_store(opened(folder, args.store if is_uri(args.store) else ""), features=False).lines():
            print(line)
    return EXIT_OK


def dataset_of(args: argparse.Namespace) -> tuple[Dataset, str]:
    """Returns the dataset that the options of `add_options` describe, and a sentence about its layout.

    Raises:
        StoreError: see `layout_of`.
    """
    options = ImportOptions(
        background=tuple(args.background),
        dtype=args.dtype,
        key=args.key,
        orientation=args.orientation,
        length_policy=args.length_policy,
        length_tolerance=args.length_tolerance,
        sample_rate=args.sample_rate,
        fill=args.fill,
        unit=args.unit,
        fps=args.fps,
        group_regex=args.group_regex,
        activity_regex=args.activity_regex,
    )
    return layout_of(args.source, args.layout, options)


def times_of(args: argparse.Namespace) -> dict[str, float | None]:
    """Returns the times of the feature files that the options give."""
    return {name: getattr(args, name) for name in ("fps", "window", "stride", "offset")}


def import_lines(imported: Imported, *, converted: bool) -> list[str]:
    """Formats the notes of an import and, if a dtype was chosen, the rounding errors."""
    lines = [f"note: {note}" for note in imported.survey.notes]
    return [*lines, imported.conversion.line(imported.survey.dtype)] if converted else lines
