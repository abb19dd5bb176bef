"""`store cache list|clear|verify`."""

from __future__ import annotations

import argparse
import json
import re
import time
from pathlib import Path

from storage.commands.command import Subparsers, add_command, reports_problems, show_progress
from storage.errors import EXIT_OK, Problem, StoreError, counted
from storage.remote.addresses import place

FORMAT_VERSION = 1
_DESCRIPTION = """\
Copies of remote stores on this machine. A store at a URI is fetched once; all processes map the same copy.

The cache is in MUCON_CACHE_DIR (default: ~/.cache/mucon) and has at most MUCON_CACHE_SIZE bytes (default: 200GB).
To make room, the store that was used the longest time ago is removed, but none that a process has open."""
_EXAMPLE = """\
examples:
  %(prog)s list
  %(prog)s clear s3://lab/stores/tug
  %(prog)s clear --unused-for 30d
  %(prog)s verify"""
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def add(subparsers: Subparsers) -> None:
    """Adds `cache` with its commands."""
    summary = "list, clear or verify the copies of remote stores"
    parser = add_command(subparsers, "cache", run_list, summary, _DESCRIPTION, _EXAMPLE)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    listed = add_command(commands, "list", run_list, "show what is cached", "Shows the stores in the cache.", "")
    listed.add_argument("--json", action="store_true", help="print one JSON object")
    clear = add_command(
        commands, "clear", run_clear, "remove stores", "Removes stores that no process has open; default: all.", ""
    )
    clear.add_argument("uris", nargs="*", type=place, metavar="URI", help="only these stores")
    clear.add_argument(
        "--unused-for",
        type=_seconds,
        default=0.0,
        metavar="TIME",
        help="only stores unused for 12h, 30d, ...",
    )
    text = "Compares all files with their checksums and removes the damaged ones, which are then fetched again."
    verify = add_command(commands, "verify", run_verify, "compare the copies with their checksums", text, "")
    for command in (listed, clear, verify):
        command.add_argument("--cache-dir", type=Path, metavar="DIR", help="the cache (default: MUCON_CACHE_DIR)")


def _seconds(text: str) -> float:
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a time such as 12h or 30d, got {text!r}")
    return float(found[1]) * _SECONDS[found[2]]


@reports_problems
def run_list(args: argparse.Namespace) -> int:
    """Runs `store cache list`."""
    from storage.inspection.overview import size_text
    from storage.remote.cache import Cache

    cache = Cache.configured(args.cache_dir)
    with cache.locked("room"):
        stores = cache.stores()
        used = cache.used(stores)
    if args.json:
        rows = [
            {
                "addresses": list(one.addresses),
                "manifest_sha256": one.sha256,
                "bytes": one.n_bytes,
                "complete": one.is_complete,
                "in_use": one.is_used,
                "last_used": one.last_used,
            }
            for one in stores
        ]
        content = {"folder": str(cache.folder), "bytes": used, "limit": cache.limit, "stores": rows}
        print(json.dumps({"format_version": FORMAT_VERSION, **content}))
        return EXIT_OK
    for one in stores:
        state = "open" if one.is_used else time.strftime("%Y-%m-%d %H:%M", time.localtime(one.last_used))
        state += "" if one.is_complete else ", incomplete"
        print(f"{', '.join(one.addresses) or one.sha256}  {size_text(one.n_bytes)}  {state}")
    print(f"{cache.folder}: {counted(len(stores), 'store')}, {size_text(used)} of {size_text(cache.limit)}")
    return EXIT_OK


@reports_problems
def run_clear(args: argparse.Namespace) -> int:
    """Runs `store cache clear`."""
    from storage.inspection.overview import size_text
    from storage.remote.cache import Cache

    cache, asked = Cache.configured(args.cache_dir), set(map(str, args.uris))
    with cache.locked("room"):
        stores = cache.stores()
        known = {address for one in stores for address in one.addresses}
        if unknown := sorted(asked - known):
            hint = "`mucon store cache list` lists the stores"
            raise StoreError(
                [Problem(rule="missing", place=uri, message="not in the cache", hint=hint) for uri in unknown]
            )
        before = cache.used(stores)
        chosen = [
            one
            for one in stores
            if (not asked or asked & {*one.addresses}) and one.last_used <= time.time() - args.unused_for
        ]
        kept = [one for one in chosen if not cache.remove(one.sha256)]
        cache.remove_unlinked()
        freed = before - cache.used(cache.stores())
    print(f"removed {counted(len(chosen) - len(kept), 'store')}, {size_text(freed)}")
    if kept:
        message = "a process has it open or fetches it; not removed"
        raise StoreError(
            [Problem(rule="busy", place=", ".join(one.addresses) or one.sha256, message=message) for one in kept]
        )
    return EXIT_OK


@reports_problems
def run_verify(args: argparse.Namespace) -> int:
    """Runs `store cache verify`."""
    from storage.remote.cache import Cache

    cache = Cache.configured(args.cache_dir)
    with cache.locked("room"):
        stores = cache.stores()
    problems: list[Problem] = []
    for done, one in enumerate(stores, 1):
        if one.manifest is not None:
            problems += cache.verify(one.manifest)
        show_progress("verifying", done, len(stores))
    if problems:
        raise StoreError(problems)
    print(f"{cache.folder}: {counted(sum(one.is_complete for one in stores), 'complete store')}, nothing damaged")
    return EXIT_OK
