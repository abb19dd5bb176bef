"""`mucon export`."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mucon.commands.options import check_run
from mucon.commands.outputs import check_folder
from mucon.errors import EXIT_OK, InputError, Problem
from storage.remote.addresses import place

if TYPE_CHECKING:
    from mucon.commands.parser import Commands
    from mucon.export.scores import Score

DESCRIPTION = """\
Writes a trained model as a folder for others: weights, configuration, actions,
scores, a model card and checksums. `mucon predict`, `mucon evaluate` and
mucon.load take the folder and verify its checksums. With --store the model is
scored on a part of a split for its card."""
EXAMPLE = """\
examples:
  mucon export runs/tug models/tug --store stores/tug
  mucon export runs/tug models/three --ensemble runs/tug2 runs/tug3 --onnx
  mucon export --check models/tug"""


def add(commands: Commands) -> None:
    """Adds the command."""
    parser = commands.add_parser(
        "export", help="write a trained model as a folder for others", description=DESCRIPTION, epilog=EXAMPLE
    )
    parser.add_argument("run_folder", type=Path, nargs="?", metavar="RUN", help="output directory of `mucon train`")
    parser.add_argument("out", type=Path, nargs="?", metavar="DIR", help="folder of the exported model, new")
    parser.add_argument(
        "--ensemble", type=Path, nargs="+", default=[], metavar="OTHER",
        help="combine RUN with other runs that differ in the seed only: the mean of their log probabilities",
    )  # fmt: skip
    parser.add_argument("--store", type=place, help="score the model on a store (folder or URI), for its card")
    parser.add_argument("--split", metavar="NAME", help="split of the store (default: 1)")
    parser.add_argument("--part", metavar="NAME", help="part of the split (default: test)")
    add_forms(parser)
    parser.add_argument("--check", type=Path, metavar="DIR", help="only verify the checksums of an exported folder")
    parser.set_defaults(run=run)


def add_forms(parser: argparse.ArgumentParser) -> None:
    """Adds the options of what is written."""
    parser.add_argument("--name", dest="heading", metavar="NAME", help="heading of the card (default: the name of DIR)")
    parser.add_argument("--onnx", action="store_true", help="add the networks as ONNX, for onnxruntime without torch")
    parser.add_argument("--torch-export", action="store_true", help="add the networks as programs of torch.export")
    parser.add_argument("--replace", action="store_true", help="replace an exported folder")


def forms(args: argparse.Namespace) -> list[Callable[[Path], None]]:
    """What is written besides the checkpoint.

    Raises:
        InputError: a package that is needed for it is not installed.
    """
    from importlib.util import find_spec

    found: list[Callable[[Path], None]] = []
    if args.onnx:
        if find_spec("onnx") is None:
            hint = "pip install 'mucon[export]'"
            raise InputError(Problem(rule="missing", place="--onnx", message="requires the package onnx", hint=hint))
        from mucon.export.onnx_files import write_onnx

        found.append(write_onnx)
    if args.torch_export:
        from mucon.export.programs import write_programs

        found.append(write_programs)
    return found


def run(args: argparse.Namespace) -> int:
    """Exports a run, or verifies an exported folder."""
    from mucon.checkpoint_files import of_run
    from mucon.export import folder as exported

    check_options(args)
    if args.check is not None:
        exported.check(args.check)
        print(f"intact: {args.check}")
        return EXIT_OK
    runs = [args.run_folder, *args.ensemble]
    for path in runs:
        check_run(path)
    check_folder(args.out, "DIR")
    exported.write(
        args.out,
        {str(path): exported.finished(of_run(path)) for path in runs},
        name=args.heading or args.out.name,
        scores=lambda folder: _scores(folder, args, tuple(path.name for path in runs)),
        more=forms(args),
        replace_old=args.replace,
    )
    print(f"exported: {args.out}")
    print(f"next:     mucon predict {args.out} FEATURES.npy")
    return EXIT_OK


def check_options(args: argparse.Namespace) -> None:
    """Checks the options that depend on each other.

    Raises:
        InputError: no run or folder, a run beside --check, a run that is given twice, or options of --store without it.
    """
    problems = []
    if args.check is not None and args.run_folder is not None:
        problems.append(Problem(rule="conflict", place="--check", value=str(args.check), message="takes no RUN"))
    if args.check is None:
        problems += [
            Problem(rule="missing", place=name, message="the following argument is required")
            for name, value in (("RUN", args.run_folder), ("DIR", args.out))
            if value is None
        ]
    runs = [args.run_folder, *args.ensemble]
    problems += [
        Problem(rule="duplicate", place="--ensemble", value=str(path), message=f"{path} is given twice")
        for i, path in enumerate(runs)
        if path in runs[:i]
    ]
    for flag in ("split", "part"):
        if getattr(args, flag) is not None and args.store is None:
            value = getattr(args, flag)
            problems.append(Problem(rule="missing", place=f"--{flag}", value=value, message="requires --store"))
    if problems:
        raise InputError(problems)


def _scores(folder: Path, args: argparse.Namespace, runs: Sequence[str]) -> list[Score]:
    """The scores of the model in a folder on a part of a split; none without --store."""
    from mucon.export.scores import scored
    from storage import open_store

    if args.store is None:
        return []
    return scored(folder, open_store(args.store), split=args.split or "1", part=args.part or "test", runs=runs)
