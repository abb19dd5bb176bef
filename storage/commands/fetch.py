"""`store fetch DATASET DIR`."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path

from storage.commands.command import Subparsers, add_command, reports_problems
from storage.errors import EXIT_OK

_DESCRIPTION = """\
Downloads a published archive of features and unpacks it into a new folder:

  breakfast   Breakfast, I3D features as the authors of MuCon published them (Zenodo 5179904)

An interrupted download continues where it ended when the same command is run again. Size and checksum are compared
with those that the publisher states; free space is checked before."""
_EXAMPLE = """\
example:
  %(prog)s breakfast data/breakfast"""
_WIDTH = 20


def add(subparsers: Subparsers) -> None:
    """Adds `fetch`."""
    parser = add_command(subparsers, "fetch", run, "download a published dataset", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("dataset", metavar="DATASET", help="breakfast")
    parser.add_argument("target", type=Path, metavar="DIR", help="folder of the data, new or empty")
    parser.add_argument("--archive-only", action="store_true", help="do not unpack the archive")
    parser.add_argument("--server", metavar="URL", help="a mirror with the same paths (default: the publisher's)")


@reports_problems
def run(args: argparse.Namespace) -> int:
    """Runs `store fetch DATASET DIR`."""
    from storage.remote.fetching import archive_named, fetch

    archive = archive_named(args.dataset)
    print(f"{archive.title}: {archive.file} from {args.server or archive.server}", flush=True)
    fetch(
        archive,
        args.target,
        server=args.server,
        archive_only=args.archive_only,
        say=lambda line: print(line, flush=True),
        progress=Bar(),
    )
    if args.archive_only:
        print(f"wrote {args.target / archive.file}")
    else:
        words = f"mucon store import {shlex.quote(str(args.target))} stores/{args.dataset} {archive.options}"
        print(f"wrote {args.target}; next: {words}")
    return EXIT_OK


class Bar:
    """Shows a bar with speed and remaining time on a terminal, at most ten times a second; nothing elsewhere."""

    def __init__(self) -> None:
        self._is_shown = sys.stderr.isatty()
        self._what, self._first, self._since, self._last = "", 0, 0.0, 0.0

    def __call__(self, what: str, done: int, total: int) -> None:
        """Shows that `done` of `total` bytes are done."""
        now = time.monotonic()
        if not self._is_shown or (what == self._what and done < total and now - self._last < 0.1):
            return
        if what != self._what:
            self._what, self._first, self._since = what, done, now
        self._last = now
        share = done / total if total else 1.0
        bar = "#" * int(share * _WIDTH)
        rate = (done - self._first) / max(now - self._since, 1e-9)
        left = f", {(total - done) / rate / 60:.0f} min left" if rate > 0 and done < total else ""
        text = f"{what} [{bar:<{_WIDTH}}] {100 * share:3.0f} % of {total / 1e9:.2f} GB, {rate / 1e6:.1f} MB/s{left}"
        print(f"\r{text:<78}", end="\n" if done == total else "", file=sys.stderr, flush=True)
