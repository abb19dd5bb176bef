"""Trained models from Python.

model = mucon.load("runs/tug")
for action, start, stop in model.predict(features).segments:
    print(action, start, stop)
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mucon.checkpoint_files import method_of, of_run
from mucon.device import choose_device, cpu_threads
from mucon.errors import InputError, Problem
from mucon.inference.requests import Prediction, transcript_problems
from mucon.method import Predictor, training_of
from mucon.methods import method_named
from mucon.segments import Segmentation
from mucon.videos import Video
from mucon.vocabulary import Vocabulary


class Segment(NamedTuple):
    """One segment of a recording.

    Attributes:
        action: name of the action.
        start: first frame.
        stop: frame after the last one.
    """

    action: str
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Segments:
    """The predicted segments of a recording.

    Attributes:
        segments: consecutive segments from frame 0 to T; empty if the model predicts an empty transcript.
        prediction: name of the prediction, such as `full`.
    """

    segments: list[Segment]
    prediction: str

    @property
    def labels(self) -> list[str]:
        """Action of each frame, T names."""
        return [segment.action for segment in self.segments for _ in range(segment.start, segment.stop)]

    @property
    def transcript(self) -> list[str]:
        """Action of each segment."""
        return [segment.action for segment in self.segments]


class Model:
    """A trained model of any method.

    Args:
        predictor: the trained model on its device.
    """

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

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
    def predictions(self) -> tuple[str, ...]:
        """Names of the available predictions."""
        return self.predictor.predictions

    def predict(self, features: NDArray[Any] | Tensor | str | Path, prediction: str | None = None) -> Segments:
        """Segments a recording.

        Args:
            features: array or tensor `[T, D]` of numbers, T >= 1, or the path of a .npy file with such an array.
            prediction: one of `predictions`; by default the method's main one (MuCon: `full`).

        Raises:
            InputError: an unknown prediction, an unreadable file, features of another shape, values that are not
                finite, or a recording for which the prediction is undefined.
        """
        name = self._name(prediction)
        video = self._video(features)
        with self._threads():
            result = self.predictor.begin(video.features(self.predictor.device), predictions=(name,))()
        return self._segments(result, name)

    def align(
        self,
        features: NDArray[Any] | Tensor | str | Path,
        transcript: Sequence[str],
        prediction: str | None = None,
    ) -> Segments:
        """Aligns a known transcript to a recording: predicts the boundaries of given actions.

        Args:
            features: as for `predict`.
            transcript: names of the actions in their order, at most T.
            prediction: as for `predict`.

        Raises:
            InputError: as `predict`, an unknown action, more actions than frames, or (rule `unsupported`) a method
                without alignment.
        """
        name = self._name(prediction)
        video = self._video(features)
        ids = self.vocabulary.ids(transcript)
        problems = transcript_problems(ids, video.n_frames, self.vocabulary)
        if problems:
            raise InputError(problems)
        with self._threads():
            result = self.predictor.align(video.features(self.predictor.device), ids, predictions=(name,))
        return self._segments(result, name)

    def _threads(self) -> AbstractContextManager[None]:
        """The number of threads of the training."""
        return cpu_threads(training_of(self.predictor.config).threads)

    def _name(self, prediction: str | None) -> str:
        return self.predictor.main if prediction is None else prediction

    def _video(self, features: NDArray[Any] | Tensor | str | Path) -> Video:
        if isinstance(features, str | Path):
            return Video.from_arrays(str(features), read_features(Path(features)))
        if isinstance(features, Tensor):
            features = features.detach().cpu().float().numpy()
        return Video.from_arrays("features", features)

    def _segments(self, result: Prediction, name: str) -> Segments:
        segmentation: Segmentation = result.whole().segmentations[name]
        segments = [Segment(self.actions[action], start, stop) for action, start, stop in segmentation.spans()]
        return Segments([segment for segment in segments if segment.stop > segment.start], name)


def load(path: str | Path, device: str = "auto") -> Model:
    """Loads a trained model of any method.

    Args:
        path: a run folder (`mucon train --out RUN`), its checkpoint folder, or the folder of a sweep's trial.
        device: `auto` (the current GPU if there is one), `cpu`, `cuda` or `cuda:0`.

    Raises:
        InputError: no checkpoint there, a damaged one, or no such device.
    """
    return Model(load_predictor(path, device))


def load_predictor(path: str | Path, device: str = "auto") -> Predictor:
    """Loads the predictor of a trained model of any method.

    Args:
        path: a run folder (`mucon train --out RUN`), its checkpoint folder, or the folder of a sweep's trial.
        device: `auto` (the current GPU if there is one), `cpu`, `cuda` or `cuda:0`.

    Raises:
        InputError: no checkpoint there, a damaged one, or no such device.
    """
    folder = of_run(Path(path))
    name = method_of(folder)
    try:
        method = method_named(name)
    except InputError as error:
        raise InputError(error.under(folder)) from error
    return method.load(folder, choose_device(device))


def read_features(path: Path) -> NDArray[Any]:
    """The array of a .npy file in native byte order; never unpickles.

    Raises:
        InputError: no such file, not a .npy file, a truncated file, or an array of objects.
    """
    hint = "expected a .npy file of numbers [T, D], as written by numpy.save"
    try:
        with path.open("rb") as file:
            array: NDArray[Any] = np.lib.format.read_array(file, allow_pickle=False)
    except FileNotFoundError as error:
        raise InputError(Problem(rule="missing", place=str(path), message="no such file", hint=hint)) from error
    except (OSError, ValueError, EOFError) as error:
        message = f"cannot read as .npy ({error})"
        raise InputError(Problem(rule="unreadable", place=str(path), message=message, hint=hint)) from error
    return array.astype(array.dtype.newbyteorder("="), copy=False)
