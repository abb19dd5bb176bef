"""`store fetch DATASET DIR`."""

from __future__ import annotations

import argparse
import shlex
from urllib.parse import urlsplit

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK
from storage.remote.addresses import local_place

_DESCRIPTION = """\
Downloads a published archive of features and unpacks it into a new folder:

  breakfast   Breakfast, I3D features as the authors of MuCon published them (Zenodo 5179904)

An interrupted download continues where it ended when the same command is run again. Size and checksum are compared
with those that the publisher states; free space is checked before."""
_EXAMPLE = """\
example:
  %(prog)s breakfast data/breakfast"""


def add(subparsers: Subparsers) -> None:
    """Adds `fetch`."""
    parser = add_command(subparsers, "fetch", run, "download a published dataset", _DESCRIPTION, _EXAMPLE)
    parser.add_argument("dataset", metavar="DATASET", help="breakfast")
    parser.add_argument("target", type=local_place, metavar="DIR", help="folder of the data, new or empty")
    parser.add_argument("--archive-only", action="store_true", help="do not unpack the archive")
    parser.add_argument(
        "--server", type=_mirror, metavar="URL", help="a mirror with the same paths (default: the publisher's)"
    )


def _mirror(text: str) -> str:
    """The address of a server as the type of an argument; refuses passwords, which would be printed."""
    parts = urlsplit(text)
    if parts.scheme in ("http", "https") and parts.netloc and "@" not in parts.netloc:
        return text
    raise argparse.ArgumentTypeError("expected http://HOST or https://HOST, without a user name")


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
        progress=_show_megabytes,
    )
    if args.archive_only:
        print(f"wrote {args.target / archive.file}")
    else:
        words = f"mucon store import {shlex.quote(str(args.target))} stores/{args.dataset} {archive.options}"
        print(f"wrote {args.target}; next: {words}")
    return EXIT_OK


def _show_megabytes(what: str, done: int, total: int) -> None:
    show_progress(f"{what}, MB:", done // 10**6, total // 10**6)
