"""The command line `mucon`: train, evaluate, predict, and the store's commands."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from mucon.errors import (
    EXIT_INPUT,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_PARTIAL,
    DataWarning,
    Diverged,
    InputError,
    Interrupted,
)

if TYPE_CHECKING:
    from mucon.config import TrainConfig
    from mucon.decoding.config import DecodingConfig
    from mucon.vocabulary import Vocabulary


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; the exit status is 0, 1 (our fault), 2 (input), 3 (part failed) or 130 (interrupted)."""
    parser = build_parser()
    parsed = parser.parse_args(arguments)
    run: Callable[[argparse.Namespace], int] = parsed.run
    try:
        with warnings_as_lines():
            return run(parsed)
    except InputError as error:
        for problem in error.problems:
            print(f"mucon: {problem}", file=sys.stderr)
        return EXIT_INPUT
    except Diverged as error:
        print(f"mucon: {error}; the last checkpoint stands", file=sys.stderr)
        return EXIT_PARTIAL
    except Interrupted as stop:
        print(f"mucon: {stop}; the same command goes on from there", file=sys.stderr)
        return EXIT_INTERRUPTED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


@contextlib.contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Shows each warning about the data as one line on the error stream; others look as ever."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, DataWarning):
                print(f"mucon: warning: {message}", file=sys.stderr)
            else:
                usual(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        warnings.simplefilter("always", DataWarning)
        yield


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    from mucon.commands.store import add_store_commands
    from mucon.recipes import RECIPES

    parser = argparse.ArgumentParser(
        prog="mucon", description="Action segmentation learnt from transcripts (MuCon): train, evaluate, predict."
    )
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    train = commands.add_parser("train", help="train a model on a store", description=_train.__doc__)
    train.add_argument("recipe", choices=sorted(RECIPES), metavar="RECIPE", help=", ".join(sorted(RECIPES)))
    _add_data(train)
    train.add_argument("--seed", type=int, default=1, help="of weights, order and dropout (default 1)")
    train.add_argument("--out", type=Path, required=True, metavar="RUN", help="folder of the run; goes on if it exists")
    train.add_argument("--epochs", type=int, help="length of the run; schedule points follow it")
    train.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="PATH=VALUE",
        help="replace one setting, as loss.smoothing=0.2 (repeatable; `mucon recipes` lists them)",
    )  # fmt: skip
    train.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0 (default auto)")
    train.set_defaults(run=_train)

    _add_evaluate(commands)
    _add_predict(commands)

    weights = commands.add_parser(
        "import-weights", help="read the authors' published checkpoint", description=_import_weights.__doc__
    )
    weights.add_argument("file", type=Path, metavar="FILE.trc", help="weights that the authors' program saved")
    weights.add_argument("out", type=Path, metavar="OUT", help="folder of the run that appears")
    weights.add_argument("--recipe", choices=sorted(RECIPES), default="published_program", metavar="RECIPE")
    weights.add_argument("--mapping", type=Path, metavar="FILE", help="`id name` lines: the names of the actions")
    weights.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="PATH=VALUE",
        help="what the file does not tell, as backbone.pool_after=1,2,4 (repeatable)",
    )  # fmt: skip
    weights.set_defaults(run=_import_weights)

    recipes = commands.add_parser("recipes", help="list recipes and all settings", description=_recipes.__doc__)
    recipes.set_defaults(run=_recipes)

    add_store_commands(commands)
    return parser


def _add_evaluate(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    from mucon.inference import TASKS

    evaluate = commands.add_parser("evaluate", help="score a run on a store", description=_evaluate.__doc__)
    evaluate.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `mucon train` wrote")
    _add_data(evaluate)
    evaluate.add_argument("--part", default="test", help="part of the split (default test)")
    evaluate.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0 (default auto)")
    evaluate.add_argument(
        "--task", choices=TASKS, default="segmentation", help="alignment: the true transcripts are given"
    )
    evaluate.add_argument("--json", action="store_true", help="one line of JSON, fractions 0..1, boundaries in frames")
    evaluate.add_argument(
        "--details", action="store_true", help="recall, precision and confusion of each action, boundary errors"
    )
    _add_decoding(evaluate)
    evaluate.add_argument("--figure", type=Path, metavar="FILE", help="draw truth and predictions (.png, .svg, .pdf)")
    evaluate.add_argument(
        "--recordings", nargs="+", metavar="ID", help="recordings of the figure (default: the first 3)"
    )
    evaluate.set_defaults(run=_evaluate)


def _add_predict(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    predict = commands.add_parser("predict", help="segment new recordings", description=_predict.__doc__)
    predict.add_argument("run_folder", type=Path, metavar="RUN", help="folder that `mucon train` wrote")
    predict.add_argument("features", type=Path, nargs="+", metavar="FEATURES.npy", help="[T, D] arrays")
    predict.add_argument("--prediction", default="full", help="frames, segments or full (default full)")
    predict.add_argument(
        "--transcript", metavar="A,B,C", help="known actions in their order: finds where each of them lies"
    )
    _add_decoding(predict)
    predict.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:0 (default auto)")
    predict.add_argument("--json", action="store_true", help="one line of JSON per recording")
    predict.set_defaults(run=_predict)


def _add_decoding(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="decoding.NAME=VALUE",
        help="decode in another way than the run says, as decoding.beam=10 (repeatable; see `mucon recipes`)",
    )  # fmt: skip


def _add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--store", type=Path, required=True, help="feature store (see `mucon store import --help`)")
    parser.add_argument("--split", default="1", help="name of the split (default 1)")


def parse_settings(settings: Sequence[str]) -> dict[str, str]:
    """`["a.b=1"]` as `{"a.b": "1"}`.

    Raises:
        InputError: an item without `=`.
    """
    wrong = [item for item in settings if "=" not in item]
    if wrong:
        raise InputError(f"--set takes PATH=VALUE, not {item!r}: write as --set loss.smoothing=0.2" for item in wrong)
    return {path.strip(): value.strip() for path, _, value in (item.partition("=") for item in settings)}


def decoding_of(config: TrainConfig, settings: Sequence[str]) -> DecodingConfig:
    """The run's choices of decoding with those of the command line.

    Raises:
        InputError: a setting that is none of `decoding.`, or a wrong value.
    """
    values = parse_settings(settings)
    trained = [path for path in values if not path.startswith("decoding.")]
    if trained:
        raise InputError(
            f"--set changes decoding.* here, {path!r} was decided in training: train another run with it"
            for path in trained
        )
    return config.with_values(values).decoding


def _train(args: argparse.Namespace) -> int:
    """Trains on a split's training part. Ctrl-C writes a checkpoint; the same command goes on from it."""
    from mucon.commands.printing import EpochPrinter
    from mucon.recipes import RECIPES
    from mucon.training import train
    from mucon.videos import videos_of, vocabulary_of
    from storage import open_store

    values: dict[str, Any] = {"seed": args.seed}
    if args.epochs is not None:
        values["training.epochs"] = args.epochs
    config = RECIPES[args.recipe]().with_values({**values, **parse_settings(args.settings)})
    store = open_store(args.store)
    with StopOnSignal() as stop, EpochPrinter(config.training.epochs) as printer:
        train(
            config,
            videos_of(store, args.split, "train"),
            vocabulary_of(store),
            folder=args.out,
            device=args.device,
            report=printer.epoch,
            should_stop=stop.asked,
        )
    print(f"trained: {args.out / 'checkpoint'}")
    print(f"next:    mucon evaluate {args.out} --store {args.store} --split {args.split}")
    return EXIT_OK


class StopOnSignal:
    """The first SIGINT or SIGTERM asks to stop after the step; the second stops at once. A context manager."""

    def __init__(self) -> None:
        self.stopping = False

    def __enter__(self) -> Self:
        self.before = {number: signal.signal(number, self._handle) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self.before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: types.FrameType | None) -> None:
        if self.stopping:
            raise KeyboardInterrupt
        self.stopping = True
        print("mucon: stopping after this step with a checkpoint; again to stop at once", file=sys.stderr)

    def asked(self) -> bool:
        """Whether a signal came."""
        return self.stopping


def _evaluate(args: argparse.Namespace) -> int:
    """Scores the predictions frames (MuCon-Y), segments (MuCon-S) and full (MuCon-full) on a split's test part."""
    from mucon import checkpoint
    from mucon.commands.printing import print_details, print_scores
    from mucon.evaluation import evaluate
    from mucon.plots import draw_evaluation
    from mucon.videos import check_same_data, videos_of, vocabulary_of
    from storage import open_store

    trained = checkpoint.load(args.run_folder / "checkpoint")
    store = open_store(args.store)
    fps = store.manifest.fps
    check_same_data(trained.vocabulary, trained.model.size.dim, vocabulary_of(store), store.manifest.dim)
    videos = videos_of(store, args.split, args.part)
    decoding = decoding_of(trained.config, args.settings)
    known = videos_of(store, args.split, "train") if decoding.needs_training_facts and trained.facts is None else []
    found = evaluate(
        trained,
        videos,
        device=args.device,
        task=args.task,
        fps=fps,
        decoding=decoding,
        training_videos=known,
        threads=os.cpu_count() or 1,
    )
    if args.figure is not None:
        draw_evaluation(found, videos, args.recordings, trained.vocabulary, args.figure, fps=fps)
    if args.json:
        more = ("task", "recall", "precision", "confusion", "true_frames") if args.details else ()
        details = {name: getattr(found, name) for name in more}
        print(json.dumps({**found.scores, **details, "weights_sha256": checkpoint.weights_sha256(trained.model)}))
        return EXIT_OK
    print_scores(found)
    if args.details:
        print_details(found)
    return EXIT_OK


def _predict(args: argparse.Namespace) -> int:
    """Segments recordings from their features: one line per segment with first frame, frames and action.

    With --transcript the actions and their order are known, and only their places are sought (alignment).
    """
    from mucon import checkpoint
    from mucon.device import choose_device
    from mucon.inference import align_transcript, predict
    from mucon.inference.predictions import transcript_problems
    from mucon.npy import read_features
    from mucon.videos import Video

    device = choose_device(args.device)
    trained = checkpoint.load(args.run_folder / "checkpoint", device)
    decoding = decoding_of(trained.config, args.settings)
    given = None if args.transcript is None else transcript_ids(args.transcript, trained.vocabulary)
    videos = [Video.from_arrays(path.stem, read_features(path)) for path in args.features]
    if given is not None:
        checked = (transcript_problems(given, v.n_frames, trained.vocabulary, repr(v.id)) for v in videos)
        if problems := [problem for found in checked for problem in found]:
            raise InputError(problems)
    for video in videos:
        features = video.features(device)
        if given is None:
            found = predict(trained, features, predictions=(args.prediction,), decoding=decoding)
        else:
            found = align_transcript(trained, features, given, predictions=(args.prediction,), decoding=decoding)
        spans = list(found.segmentations[args.prediction].spans())
        segments = [
            {"action": trained.vocabulary.actions[action], "start": start, "frames": stop - start}
            for action, start, stop in spans
        ]
        if args.json:
            print(json.dumps({"id": video.id, "n_frames": video.n_frames, "cut": found.cut, "segments": segments}))
            continue
        print(f"{video.id}: {video.n_frames} frames, {len(segments)} segments{' (cut)' if found.cut else ''}")
        for segment in segments:
            print(f"{segment['start']:>8} {segment['frames']:>7}  {segment['action']}")
    return EXIT_OK


def transcript_ids(text: str, vocabulary: Vocabulary) -> tuple[int, ...]:
    """The ids of action names that stand between commas.

    Raises:
        InputError: no name, or names that are no action; each is told with the nearest ones.
    """
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise InputError(f"--transcript takes names of actions between commas, not {text!r}: write as pour,stir,pour")
    return vocabulary.ids(names)


def _import_weights(args: argparse.Namespace) -> int:
    """Makes a run of a published checkpoint; `mucon evaluate` and `mucon predict` use it like one trained here.

    The published program pools after the layers 1, 2, 4, 8 (Hollywood Extended: 1, 2, 4, `--recipe hollywood`).
    """
    from mucon import checkpoint
    from mucon.published_weights import import_published
    from mucon.recipes import RECIPES
    from storage.layouts.mapping import read_mapping

    if checkpoint.exists(args.out / "checkpoint"):
        raise InputError(f"OUT is a new folder, {args.out} holds a run: name another, or remove it")
    config = RECIPES[args.recipe]().with_values(parse_settings(args.settings))
    actions = None if args.mapping is None else tuple(read_mapping(args.mapping).values())
    imported = import_published(args.file, config, actions)
    checkpoint.save(args.out / "checkpoint", imported)
    size = imported.model.size
    print(f"imported: {args.out / 'checkpoint'} ({size.dim} features, {size.n_actions} actions)")
    return EXIT_OK


def _recipes(args: argparse.Namespace) -> int:
    """Prints what each recipe changes, and every setting with its default value."""
    from mucon.config import TrainConfig, flatten
    from mucon.recipes import RECIPES

    for name, recipe in RECIPES.items():
        summary = (recipe.__doc__ or "").strip().splitlines()[0]
        print(f"{name}: {summary}")
        for path, value in recipe().differences().items():
            print(f"    {path} = {_shown(value)}")
    print("\nsettings (--set PATH=VALUE) and their defaults:")
    for path, value in flatten(TrainConfig().to_dict()).items():
        print(f"    {path} = {_shown(value)}")
    return EXIT_OK


def _shown(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
