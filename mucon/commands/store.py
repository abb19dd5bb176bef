"""`mucon store`: the commands of `storage`, and `mucon store synthesize`."""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.commands.options import PREDICTIONS, add_settings, check_run, warn_if_unfinished
from mucon.configuration import flatten, parse_settings
from mucon.errors import EXIT_OK, EXIT_PARTIAL, InputError, Problem, Rule, counted
from mucon.synthetic.feature_model import PRESETS, FeatureModel, preset
from mucon.synthetic.grammar_config import GrammarConfig, SyntheticConfig
from storage.cli import add_store_commands
from storage.commands.command import show_progress
from storage.commands.export import run as export_command
from storage.remote.addresses import place

if TYPE_CHECKING:
    from mucon.commands.parser import Commands, Parser
    from mucon.commands.recordings import Recording
    from mucon.library import Model
    from mucon.outputs.batch import Outcome

DESCRIPTION = """\
Writes a store of made-up recordings, by default those of the demo; equal
options give equal features. With --like SOURCE: simulated features for the
transcripts and lengths of real recordings."""
EXAMPLE = """\
examples:
  mucon store synthesize stores/made_up --actions 12 --dim 64
  mucon store synthesize stores/simulated --like stores/tug --videos 60"""
EXAMPLES = """\
examples:
  mucon store import DATA/tug stores/tug --fps 20
  mucon store inspect stores/tug"""

OPTIONS = (
    ("--videos", "n_videos", int, "number of recordings"),
    ("--test-every", "test_every", int, "every Nth recording is for testing"),
    ("--actions", "grammar.n_actions", int, "number of actions, including the background"),
    ("--recipes", "grammar.n_recipes", int, "number of step orders that recordings follow"),
    ("--dim", "features.dim", int, "features per frame"),
    ("--separation", "features.separation", float, "distance between the actions' features; the noise is 1"),
    ("--longest-mean", "lengths.longest_mean", float, "mean frames of the longest action"),
)
"""Options of made-up recordings: flag, path in `SyntheticConfig`, type and help."""
SHARED = {"n_videos": "; with --like: of training recordings, all", "features.dim": "; with --like: the preset's"}
"""Options that --like accepts too, and their defaults there."""
LIKE_OPTIONS = {
    "--preset": "preset",
    "--set": "settings",
    "--split": "split",
    "--longest": "longest",
    "--background": "background",
}
"""Options that require --like: flag and name of the parsed argument."""
PRESET = "breakfast_fv"


def add(commands: Commands) -> None:
    """Adds `store` with its commands."""
    store = commands.add_parser(
        "store", help="create and inspect feature stores", description="Feature stores.", epilog=EXAMPLES
    )
    store_commands = store.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_store_commands(store_commands)
    _add_inspect_options(store_commands.choices["inspect"])
    _add_predictions(store_commands.choices["export"])
    parser = store_commands.add_parser(
        "synthesize",
        help="create a store of made-up or simulated recordings",
        description=DESCRIPTION,
        epilog=EXAMPLE,
    )
    parser.add_argument("store", type=place, metavar="STORE", help="folder or URI of the new store")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="random seed (default: 1)")
    defaults = flatten(dataclasses.asdict(SyntheticConfig()))
    for flag, path, kind, text in OPTIONS:
        default = f"(default: {defaults[path]}{SHARED.get(path, '')})"
        parser.add_argument(flag, dest=path, type=kind, metavar="N" if kind is int else "X", help=f"{text} {default}")
    _add_like(parser)
    parser.set_defaults(run=run)


def _add_like(parser: Parser) -> None:
    group = parser.add_argument_group("simulated features for real transcripts and lengths")
    group.add_argument("--like", type=place, metavar="SOURCE", help="a folder with transcripts.csv, or a store")
    group.add_argument(
        "--preset", choices=tuple(PRESETS), metavar="NAME",
        help=f"feature model: {', '.join(PRESETS)} (default: {PRESET}, calibrated on real features)",
    )  # fmt: skip
    add_settings(group, "override a value of the feature model, such as offset=0.1 (repeatable)")
    group.add_argument("--split", metavar="NAME", help="only this split (default: all; with --videos: the first)")
    group.add_argument("--longest", type=int, metavar="FRAMES", help="only recordings of at most FRAMES frames")
    group.add_argument(
        "--background",
        action="append",
        metavar="NAME",
        help="background action (repeatable; default: SIL and the like)",
    )


def _add_predictions(parser: Parser) -> None:
    """Adds --predictions to `export`."""
    group = parser.add_argument_group("predictions instead of features")
    group.add_argument(
        "--predictions", type=Path, metavar="RUN",
        help="write DIR/predictions/NAME.txt, an action name per frame, for a part of a split, and no features",
    )  # fmt: skip
    group.add_argument("--prediction", choices=PREDICTIONS, help="prediction (default: the main one of the run)")
    group.add_argument("--split", metavar="NAME", help="split of the predicted recordings (default: 1)")
    group.add_argument("--part", metavar="NAME", help="part of the split (default: test)")
    group.add_argument("--device", metavar="NAME", help="cpu, cuda, cuda:N or auto, a GPU if present (default: auto)")
    parser.epilog = f"{parser.epilog}\n  %(prog)s stores/gtea predicted --predictions runs/gtea"
    parser.set_defaults(run=export)


def run(args: argparse.Namespace) -> int:
    """Writes a made-up or a simulated store."""
    from storage.remote.uploading import target_of

    check_options(args)
    with target_of(args.store) as folder:
        if args.like is None:
            from mucon.stores.made_up import write_synthetic

            config = config_of(args)
            write_synthetic(config, folder)
            description = f"{config.n_videos} recordings"
        else:
            description = f"{_simulate(args, folder)} simulated recordings"
    print(f"created {args.store} with {description}; see `mucon store inspect {args.store}`")
    return EXIT_OK


def inspect(args: argparse.Namespace) -> int:
    """Shows the findings of a store, and what training on it needs; with --plot also as a figure."""
    from mucon.commands.context import context_lines
    from mucon.stores.fitness import RECIPES, fitness_of
    from mucon.videos import all_videos_of
    from storage import open_store
    from storage.inspection.findings import inspect_store

    store = open_store(args.store)
    videos = all_videos_of(store)
    fitness = fitness_of(store, videos, measure=args.memory)  # before features are read, which counts as memory
    found = inspect_store(store, features=args.features, progress=show_progress)
    if args.plot is not None:
        from mucon.stores.figure import draw_store

        draw_store(store, videos, args.plot)
    if args.json:
        every = {**found.to_dict(), **fitness.to_dict()}
        every["warnings"] = [*every["warnings"], *map(dataclasses.asdict, fitness.warnings)]
        print(json.dumps(every, ensure_ascii=False))
    else:
        backbones = {f"recipe {recipe.__name__}": recipe().backbone for recipe in RECIPES}
        context = context_lines(backbones, videos, store.manifest.fps)
        print("\n".join(found.lines([*context, *fitness.lines()], fitness.warnings)))
    return EXIT_OK


def _add_inspect_options(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(run=inspect)
    parser.add_argument(
        "--plot", type=Path, metavar="FILE", help="draw actions, their lengths and timelines (.png, .svg, .pdf)"
    )
    parser.add_argument(
        "--memory",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure the memory of a training with a few steps (default: yes)",
    )


def export(args: argparse.Namespace) -> int:
    """Exports a store with its features, or with the predictions of a run.

    Raises:
        InputError: options that require --predictions, or a run that does not fit the store.
    """
    if args.predictions is None:
        values = {f"--{name}": getattr(args, name) for name in ("prediction", "split", "part", "device")}
        problems = [
            Problem(rule="missing", place=flag, value=value, message="requires --predictions RUN")
            for flag, value in values.items()
            if value is not None
        ]
        if problems:
            raise InputError(problems)
        return export_command(args)
    from mucon.commands.recordings import recordings_of_store
    from mucon.inference.requests import check_predictions
    from mucon.library import load
    from mucon.videos import check_same_data, vocabulary_of
    from storage import open_store
    from storage.exporting.ms_tcn import export_store

    folder = check_run(args.predictions)
    model = load(folder, args.device or "auto")
    warn_if_unfinished(folder, model.predictor)
    store = open_store(args.store)
    check_same_data(model.vocabulary, model.dim, vocabulary_of(store), store.manifest.dim)
    name = args.prediction or model.predictor.main
    check_predictions([name], model.predictions)
    recordings = recordings_of_store(store, args.split or "1", args.part or "test")
    outcomes: list[Outcome] = []
    export_store(store, args.target, predictions=_predictions(model, recordings, name, outcomes), replace=args.replace)
    problems = [problem for outcome in outcomes for problem in outcome.problems]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    n_predicted = sum(outcome.segments is not None for outcome in outcomes)
    print(f"{args.target}: predictions {name} of {counted(n_predicted, 'recording')}")
    return EXIT_PARTIAL if problems else EXIT_OK


def _predictions(
    model: Model, recordings: list[Recording], name: str, outcomes: list[Outcome]
) -> Iterator[tuple[str, list[str]]]:
    """Yields id and labels of each recording with a prediction; appends the outcomes of all."""
    from mucon.outputs.batch import Request, predict_all
    from mucon.outputs.progress import Bar

    items = ((one.id, one.place, one.load) for one in recordings)
    with Bar(len(recordings), 0, shown=True) as bar:
        for outcome in predict_all(model.predictor, model.contract, items, Request(prediction=name)):
            outcomes.append(outcome)
            if outcome.segments is not None:
                yield outcome.name, outcome.segments.labels
            bar.advance()


def check_options(args: argparse.Namespace) -> None:
    """Checks that made-up and simulated recordings are not mixed.

    Raises:
        InputError: one problem per option that does not fit with or without --like.
    """
    rule: Rule
    if args.like is None:
        values = {flag: getattr(args, name) for flag, name in LIKE_OPTIONS.items()}
        rule, message = "missing", "requires --like SOURCE"
    else:
        values = {flag: getattr(args, path) for flag, path, _, _ in OPTIONS if path not in SHARED}
        rule, message = "conflict", "cannot be combined with --like, which takes real transcripts"
    problems = [
        Problem(rule=rule, place=flag, value=value, message=message)
        for flag, value in values.items()
        if value not in (None, [])
    ]
    if problems:
        raise InputError(problems)


def config_of(args: argparse.Namespace) -> SyntheticConfig:
    """The demo's configuration, overridden by the command line; recipes are shortened to the number of actions.

    Raises:
        InputError: values outside their ranges.
    """
    parts: dict[str, dict[str, Any]] = {}
    for _, path, _, _ in OPTIONS:
        if (value := getattr(args, path)) is not None:
            part, _, name = path.rpartition(".")
            parts.setdefault(part, {})[name] = value
    if (n_actions := getattr(args, "grammar.n_actions")) is not None:
        for name in ("fewest_steps", "most_steps"):
            parts["grammar"][name] = max(2, min(getattr(GrammarConfig(), name), n_actions - 1))
    top = parts.pop("", {})
    default = SyntheticConfig()
    replaced = {part: dataclasses.replace(getattr(default, part), **values) for part, values in parts.items()}
    return SyntheticConfig(**replaced, **top, seed=args.seed)


def feature_model(args: argparse.Namespace) -> FeatureModel:
    """The preset, overridden by --set and --dim.

    Raises:
        InputError: unknown fields or wrong values.
    """
    model = preset(args.preset or PRESET)
    settings = parse_settings(args.settings)
    if (dim := getattr(args, "features.dim")) is not None:
        settings["dim"] = str(dim)
    for name, value in settings.items():
        model = model.override(name, value)
    return model


def _simulate(args: argparse.Namespace, folder: Path) -> int:
    """Writes simulated recordings; returns their number."""
    from mucon.stores.simulated import Selection, write_simulated
    from mucon.stores.sources import read_source

    model = feature_model(args)
    selection = Selection(videos=args.n_videos, longest=args.longest, split=args.split)
    source = read_source(args.like, args.background or (), args.seed)
    for note in source.notes:
        print(f"note: {note}")
    name = args.preset or PRESET
    return write_simulated(folder, source, model, preset=name, seed=args.seed, selection=selection)
