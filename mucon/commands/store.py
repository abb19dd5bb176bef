"""`mucon store`: the store's own commands, and `synthesize`: made-up recordings, or features for real annotations."""

from __future__ import annotations

import argparse
import dataclasses
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mucon.errors import EXIT_OK, InputError
from storage.cli import add_store_commands as add_commands_of_storage
from storage.writer import StoreWriter

if TYPE_CHECKING:
    from mucon.synthetic.feature_model import FeatureModel
    from mucon.synthetic.grammar_config import SyntheticConfig

_OPTIONS = (
    ("--videos", "n_videos", int, "recordings, training and test together; with --like, of training"),
    ("--test-every", "test_every", int, "of so many recordings the last is for testing"),
    ("--actions", "grammar.n_actions", int, "actions, the background among them"),
    ("--recipes", "grammar.n_recipes", int, "orders of steps that recordings follow"),
    ("--dim", "features.dim", int, "features of a frame"),
    ("--separation", "features.separation", float, "how far the actions' features lie apart; the noise is 1"),
    ("--longest-mean", "lengths.longest_mean", float, "frames of the longest action on average"),
)
_PRESET = "breakfast_fv"
_SHARED = ("n_videos", "features.dim")
_LIKE_OPTIONS = (
    ("--preset", "preset", "NAME", "feature model: breakfast_fv (default; calibrated on real features) or clear"),
    ("--set", "settings", "FIELD=VALUE", "one value of the feature model, as offset=0.1; repeat for more"),
    ("--split", "split", "NAME", "only this split (default: all; with --videos the first)"),
    ("--longest", "longest", "FRAMES", "only recordings of at most so many frames"),
    ("--background", "background", "NAME", "an action that is background; repeat for more (default: SIL and the like)"),
)


def demo_store(path: str | os.PathLike[str], seed: int = 1) -> Path:
    """Writes the demo's made-up recordings as a store.

    Args:
        path: where the store appears, whole or not at all.
        seed: equal seeds give the same bytes of features.

    Returns:
        `path`.

    Raises:
        InputError: a negative seed.
        StoreError: something stands at `path`, or it cannot be written.
    """
    from mucon.synthetic.grammar_config import SyntheticConfig

    return write_synthetic(SyntheticConfig(seed=seed), path)


def write_synthetic(config: SyntheticConfig, path: str | os.PathLike[str]) -> Path:
    """Writes made-up recordings as a store, one after the other, so that a set may be larger than the memory.

    Args:
        config: of the recordings; it stands in the store's metadata.
        path: where the store appears, whole or not at all.

    Returns:
        `path`.

    Raises:
        StoreError: something stands at `path`, or it cannot be written.
    """
    from mucon.synthetic.grammar import synthesize

    data = synthesize(config)
    parts: dict[str, list[str]] = {video.id: [] for video in data.videos}
    for split, ids_of_parts in data.splits.items():
        for part, ids in ids_of_parts.items():
            for id in ids:
                parts[id].append(f"{split}:{part}")
    with StoreWriter(
        path,
        dim=config.features.dim,
        dtype="float32",
        vocabulary=data.vocabulary.actions,
        background=data.vocabulary.background,
        metadata={"synthetic": dataclasses.asdict(config)},
    ) as writer:
        for video in data.videos:
            writer.add(
                video.id,
                video.read(),
                transcript=video.transcript,
                lengths=video.lengths,
                splits=parts[video.id],
                activity=data.activities[video.id],
            )
    return Path(path)


def add_store_commands(commands: Any) -> None:
    """Adds `store` with all its commands to the subparsers of `mucon`."""
    store = commands.add_parser("store", help="make and look at feature stores", description="Feature stores.")
    subparsers = store.add_subparsers(title="commands", required=True, metavar="COMMAND")
    add_commands_of_storage(subparsers)
    synthesize = subparsers.add_parser(
        "synthesize", help="make a store of made-up or simulated recordings", description=_synthesize.__doc__
    )
    synthesize.add_argument("store", type=Path, metavar="STORE", help="folder that appears")
    synthesize.add_argument("--seed", type=int, default=1, metavar="N", help="of the recordings (default: 1)")
    for flag, path, kind, text in _OPTIONS:
        metavar = "N" if kind is int else "X"
        synthesize.add_argument(flag, dest=path, type=kind, metavar=metavar, help=f"{text} (default: the demo's)")
    like = synthesize.add_argument_group("features for real transcripts and lengths")
    like.add_argument(
        "--like",
        type=Path,
        metavar="SOURCE",
        help="folder with transcripts.csv, or a store, whose features are not used",
    )
    for flag, name, metavar, text in _LIKE_OPTIONS:
        many = {"action": "append"} if name in ("settings", "background") else {}
        number = {"type": int} if name == "longest" else {}
        like.add_argument(flag, dest=name, metavar=metavar, help=text, **many, **number)
    synthesize.set_defaults(run=_synthesize)


def _synthesize(args: argparse.Namespace) -> int:
    """Makes made-up recordings with known answers, the same for the same options; by default those of the demo.

    With --like SOURCE: simulated features for the transcripts and lengths of real recordings.
    """
    others = [(flag, path, "makes up transcripts") for flag, path, _, _ in _OPTIONS if path not in _SHARED]
    if args.like is None:
        others = [(flag, name, "belongs to --like") for flag, name, _, _ in _LIKE_OPTIONS]
    wrong = [(flag, what) for flag, name, what in others if getattr(args, name) is not None]
    if wrong:
        advice = "leave it out" if args.like is not None else "give --like SOURCE or leave it out"
        side = "--like takes real ones" if args.like is not None else "there is no --like"
        raise InputError(f"{flag} {what}, {side}: {advice}" for flag, what in wrong)
    if args.like is not None:
        return _simulate(args)
    config = _config(args)
    write_synthetic(config, args.store)
    print(f"made {args.store} with {config.n_videos} recordings; see `mucon store inspect {args.store}`")
    return EXIT_OK


def _simulate(args: argparse.Namespace) -> int:
    from mucon.stores.simulated import Selection, write_simulated
    from mucon.stores.sources import read_source

    model = _feature_model(args)
    selection = Selection(videos=args.n_videos, longest=args.longest, split=args.split)
    source = read_source(args.like, args.background or (), args.seed)
    for note in source.notes:
        print(f"note: {note}")
    preset = args.preset or _PRESET
    n = write_simulated(args.store, source, model, preset=preset, seed=args.seed, selection=selection)
    print(f"made {args.store} with {n} simulated recordings; see `mucon store inspect {args.store}`")
    return EXIT_OK


def _feature_model(args: argparse.Namespace) -> FeatureModel:
    """The preset with what the command line says."""
    from mucon.synthetic.feature_model import preset

    model = preset(args.preset or _PRESET)
    settings = list(args.settings or ())
    if (dim := getattr(args, "features.dim")) is not None:
        settings.append(f"dim={dim}")
    for setting in settings:
        name, sign, value = setting.partition("=")
        if not sign:
            raise InputError(f"--set takes FIELD=VALUE, not {setting!r}: write it as offset=0.1")
        model = model.override(name, value)
    return model


def _config(args: argparse.Namespace) -> SyntheticConfig:
    """The demo's configuration with what the command line says; a recipe never has more steps than there are."""
    from mucon.synthetic.grammar_config import GrammarConfig, SyntheticConfig

    rooms: dict[str, dict[str, Any]] = {}
    for _, path, _, _ in _OPTIONS:
        if (value := getattr(args, path)) is not None:
            room, _, name = path.rpartition(".")
            rooms.setdefault(room, {})[name] = value
    if (n_actions := getattr(args, "grammar.n_actions")) is not None:
        for name in ("fewest_steps", "most_steps"):
            rooms["grammar"][name] = max(2, min(getattr(GrammarConfig(), name), n_actions - 1))
    default = SyntheticConfig()
    replaced = {room: dataclasses.replace(getattr(default, room), **new) for room, new in rooms.items() if room}
    return SyntheticConfig(**replaced, **rooms.get("", {}), seed=args.seed)
