"""Trained models from Python.

model = mucon.load("runs/tug")
result = model.predict(features)  # an array [T, D] or the path of a feature file
for action, start, stop, confidence in result.segments:
    print(action, start, stop, confidence)
table = result.to_dataframe()  # pandas or polars
for outcome in model.predict_many(paths):
    print(outcome.name, outcome.segments or outcome.problems)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from functools import partial
from importlib.metadata import entry_points
from io import BytesIO
from pathlib import Path
from tokenize import TokenError
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint_files import contract_of, method_of, of_run
from mucon.decoding.config import DecodingConfig
from mucon.device import choose_device, cpu_threads
from mucon.errors import DataWarning, InputError, Problem
from mucon.identity.checksums import check_sums, has_sums
from mucon.identity.contract import Contract
from mucon.inference.alternatives import check_alternatives
from mucon.inference.requests import check_predictions, unsupported_task
from mucon.method import Predictor, training_of
from mucon.methods import method_named
from mucon.outputs.batch import Outcome, Request, predict_all, predicted
from mucon.outputs.results import Alternative, Segment, Segments
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from storage.feature_files import PICKLES, SUFFIXES
from storage.feature_files.files import open_features

__all__ = ["Alternative", "Model", "Outcome", "Segment", "Segments", "load"]

Features: TypeAlias = NDArray[Any] | Tensor | str | Path
"""Features of a recording: an array or tensor `[T, D]`, or the path of a feature file with such an array."""
NPY = "expected a .npy file of numbers [T, D], as written by numpy.save"
REGISTERED = "models:/"
"""Beginning of the address of a registered model."""
ADDRESSES = "mucon.addresses"
"""Group of entry points that fetch models by their addresses."""


class Model:
    """A trained model of any method.

    Args:
        predictor: the trained model on its device.
        contract: what it expects of features; by default what the predictor knows, without statistics.
    """

    def __init__(self, predictor: Predictor, contract: Contract | None = None) -> None:
        self.predictor = predictor
        self.contract = Contract(dim=predictor.dim, vocabulary=predictor.vocabulary) if contract is None else contract

    def __repr__(self) -> str:
        return f"<{self.method} model: {self.dim} features, {len(self.actions)} actions, {self.predictor.device}>"

    @property
    def method(self) -> str:
        """Name of the method, such as `mucon` or `ms_tcn`."""
        return self.predictor.method

    @property
    def vocabulary(self) -> Vocabulary:
        """The actions with their ids."""
        return self.predictor.vocabulary

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the N actions in the order of their ids."""
        return self.predictor.vocabulary.actions

    @property
    def dim(self) -> int:
        """D, number of features per frame."""
        return self.predictor.dim

    @property
    def fps(self) -> float | None:
        """Frames per second of the training recordings; None if unknown."""
        return self.contract.fps

    @property
    def predictions(self) -> tuple[str, ...]:
        """Names of the available predictions."""
        return self.predictor.predictions

    def predict(self, features: Features, prediction: str | None = None, *, alternatives: int = 0) -> Segments:
        """Segments a recording.

        Args:
            features: array or tensor `[T, D]` of numbers, T >= 1, or the path of a feature file with such an array.
            prediction: one of `predictions`; by default the method's main one (MuCon: `full`).
            alternatives: most alternatives to `full`, the next best segmentations of the decoder's beam.

        Raises:
            InputError: an unknown prediction or one without alternatives, an unreadable file, features of another
                shape, values that are not finite, or a recording for which the prediction is undefined.

        Warns:
            DataWarning: features that are far from those of training.
        """
        return self._one(features, self._request(prediction, alternatives=alternatives))

    def align(self, features: Features, transcript: Sequence[str], prediction: str | None = None) -> Segments:
        """Aligns a known transcript to a recording: predicts the boundaries of given actions.

        Args:
            features: as for `predict`.
            transcript: names of the actions in their order, at most T.
            prediction: as for `predict`.

        Raises:
            InputError: as `predict`, an unknown action, more actions than frames, or (rule `unsupported`) a method
                without alignment.

        Warns:
            DataWarning: as `predict`.
        """
        return self._one(features, self._request(prediction, transcript=self.vocabulary.ids(transcript)))

    def predict_many(
        self,
        recordings: Iterable[Features | tuple[str, Features]],
        prediction: str | None = None,
        *,
        alternatives: int = 0,
        jobs: int | None = None,
    ) -> Generator[Outcome, None, None]:
        """Segments recordings, several at a time, and yields their outcomes in order.

        The recordings are read when it is their turn. One that cannot be predicted has `problems` instead of
        `segments` in its outcome, and the others are predicted. torch computes with the threads of the training until
        the iterator ends or is closed.

        Args:
            recordings: features as for `predict`, or pairs of a name and features. Other names are the path as text,
                or the position, from `0`.
            prediction: as for `predict`.
            alternatives: as for `predict`.
            jobs: recordings at a time; by default one per core, on a GPU 4, and long ones alone.

        Raises:
            InputError: an unknown prediction or one without alternatives, fewer than 1 job.
        """
        request = self._request(prediction, alternatives=alternatives)
        return predict_all(self.predictor, self.contract, _named(recordings), request, jobs=jobs)

    def _one(self, features: Features, request: Request) -> Segments:
        """The prediction for one recording with the number of threads of the training."""
        with cpu_threads(training_of(self.predictor.config).threads):
            segments, doubts = predicted(self.predictor, self.contract, read_video("recording", features), request)
        for doubt in doubts:
            warnings.warn(DataWarning(doubt), stacklevel=3)
        return segments

    def _request(
        self, prediction: str | None, *, transcript: tuple[int, ...] | None = None, alternatives: int = 0
    ) -> Request:
        """A request without decoding choices of its own.

        Raises:
            InputError: an unknown prediction or one without alternatives, or a transcript for a method without
                alignment.
        """
        name = self.predictor.main if prediction is None else prediction
        check_predictions([name], self.predictions)
        decoding = method_named(self.method).decoding(self.predictor.config) or DecodingConfig()
        check_alternatives(alternatives, name, decoding)
        if transcript is not None and "alignment" not in self.predictor.tasks:
            raise InputError(unsupported_task(self.method, "alignment"))
        return Request(prediction=name, transcript=transcript, alternatives=alternatives, fps=self.fps)


def _named(
    recordings: Iterable[Features | tuple[str, Features]],
) -> Iterator[tuple[str, str, Callable[[], Video]]]:
    for position, one in enumerate(recordings):
        name, features = one if isinstance(one, tuple) else (None, one)
        if name is None:
            name = str(features) if isinstance(features, str | Path) else str(position)
        yield name, name, partial(read_video, name, features)


def load(path: str | Path, device: str = "auto") -> Model:
    """Loads a trained model of any method.

    Args:
        path: a run folder (`mucon train --out RUN`), its checkpoint folder, an exported folder, whose
            checksums are verified, the folder of a sweep's trial, or the address `models:/NAME@ALIAS` or
            `models:/NAME/VERSION` of a registered model.
        device: `auto` (the current GPU if there is one), `cpu`, `cuda` or `cuda:0`.

    Raises:
        InputError: no checkpoint there, a damaged one, no such device, or (rule `unsupported`) a registered model
            where no installed program can fetch it.
    """
    folder = place_of(path)
    return Model(load_predictor(folder, device), contract_of(of_run(folder)))


def load_predictor(path: str | Path, device: str = "auto") -> Predictor:
    """Loads the predictor of a trained model of any method.

    Args:
        path: as for `load`.
        device: `auto` (the current GPU if there is one), `cpu`, `cuda` or `cuda:0`.

    Raises:
        InputError: as `load`.
    """
    folder = of_run(place_of(path))
    if has_sums(folder):
        check_sums(folder)
    name = method_of(folder)
    try:
        method = method_named(name)
    except InputError as error:
        raise InputError(error.under(folder)) from error
    return method.load(folder, choose_device(device))


def place_of(path: str | Path) -> Path:
    """The folder of a model, which is fetched first if the path is the address of a registered model.

    Registered models are fetched by the entry point `models` of the group `mucon.addresses`: a function that takes the
    address and returns a folder. `mucon` itself imports no registry.

    Raises:
        InputError: no such entry point is installed, what it needs is not installed, or its own problems.
    """
    address = str(path)
    if not address.startswith(REGISTERED):
        return Path(path)
    message, required = "no installed program fetches registered models", None
    for entry in entry_points(group=ADDRESSES, name=REGISTERED.partition(":")[0]):
        try:
            fetch: Callable[[str], Path] = entry.load()
            return Path(fetch(address))
        except ModuleNotFoundError as error:
            message, required = f"requires {error.name}, which is not installed", error.name
    hint = "install mucon with MLflow, or pass a folder of the model"
    raise InputError(Problem(rule="unsupported", place=address, value=required, message=message, hint=hint))


def read_video(name: str, features: Features) -> Video:
    """A recording of features in memory or in a file.

    Args:
        name: names it in problems, unless it is a file.
        features: as for `Model.predict`.

    Raises:
        InputError: an unreadable file, or features that are no `[T, D]` array of finite numbers.
    """
    if isinstance(features, str | Path):
        return Video.from_arrays(str(features), read_features(Path(features)))
    if isinstance(features, Tensor):
        features = features.detach().cpu().float().numpy()
    return Video.from_arrays(name, features)


def read_features(path: Path, key: str | None = None) -> NDArray[Any]:
    """The array of a feature file in native byte order; never unpickles.

    Args:
        path: a file with a suffix of `storage.feature_files`; any other file is read as .npy.
        key: name of the array in a file with several arrays.

    Raises:
        InputError: no such file, a file of another kind, a truncated file, or an array of objects.
    """
    suffix = path.suffix.lower()
    if suffix != ".npy" and suffix in (*SUFFIXES, *PICKLES) and path.exists():
        array = open_features(path, key)
        return array.astype(array.dtype.newbyteorder("="), copy=False)
    try:
        with path.open("rb") as file:
            return read_array(file if file.seekable() else BytesIO(file.read()), str(path))
    except FileNotFoundError as error:
        raise InputError(Problem(rule="missing", place=str(path), message="no such file", hint=NPY)) from error
    except OSError as error:
        raise _unreadable(str(path), error) from error


def read_array(file: BinaryIO, place: str) -> NDArray[Any]:
    """The array of an open .npy file or stream, see `read_features`.

    Args:
        file: read from its position.
        place: names it in problems.

    Raises:
        InputError: not a .npy file, a truncated one, or an array of objects.
    """
    try:
        array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except (ValueError, EOFError, MemoryError, OverflowError, SyntaxError, TokenError, TypeError, KeyError) as error:
        raise _unreadable(place, error) from error
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def _unreadable(place: str, error: Exception) -> InputError:
    message = f"cannot read as .npy ({error or type(error).__name__})"
    return InputError(Problem(rule="unreadable", place=place, message=message, hint=NPY))
