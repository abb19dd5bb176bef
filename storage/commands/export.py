"""`store export STORE DIR`."""

from __future__ import annotations

import argparse

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import local_place, place

LAYOUTS = ("ms-tcn",)

_DESCRIPTION = """\
Writes a store as a dataset that other programs read:

  DIR/features/NAME.npy             features [T D]
  DIR/groundTruth/NAME.txt          an action name per line, one line per frame, for videos with known lengths
  DIR/transcripts/NAME.txt          an action name per line, one line per segment, for videos without
  DIR/mapping.txt                   lines `ID NAME`
  DIR/splits/train.split1.bundle    a video name per line
  DIR/store.json                    what else the store knows: groups, activities, background, times, metadata

`store import DIR STORE` makes the same store again. The folder is written atomically."""
_EXAMPLE = """\
examples:
  %(prog)s stores/gtea data/gtea --layout ms-tcn"""


def add(subparsers: Subparsers) -> None:
    """Adds `export`."""
    parser = add_command(subparsers, "export", run, "write a store as a dataset", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("store", type=place, metavar="STORE", help="folder or URI of the store")
    parser.add_argument("target", type=local_place, metavar="DIR", help="the new folder")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="layout of the folder (default: ms-tcn)")
    parser.add_argument("--replace", action="store_true", help="replace an earlier export")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store export STORE DIR`."""
    from storage.errors import counted
    from storage.exporting.ms_tcn import export_store
    from storage.inspection.overview import size_text
    from storage.reader import open_store

    done = export_store(open_store(args.store), args.target, replace=args.replace, progress=show_progress)
    print(f"{args.target}: {counted(done.n_videos, 'video')}, {size_text(done.n_bytes)}")
    return EXIT_OK
