"""Predictions of an exported model with onnxruntime, without torch: numpy, numba and the exact decoding.

runner = load_runner("models/tug")
labels = runner.predict(features).labels
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mucon.decoding.background import lowered
from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import (
    TrainingFacts,
    align,
    background_offset,
    best_candidate,
    best_training_transcript,
    evidence,
    known_facts,
)
from mucon.decoding.rounding import largest_remainder
from mucon.errors import DataWarning, InputError, Problem
from mucon.identity.checksums import check_sums
from mucon.identity.contract import Contract
from mucon.inference.requests import problems_of_log_probs
from mucon.segments import SHORTEST, Segmentation
from mucon.vocabulary import Vocabulary

Array = NDArray[np.float32]
ONNX = "onnx"
"""Folder of the ONNX files in an exported folder."""
FACTS = "runner.json"
"""What a runner needs to know besides the networks."""
MISSING = "export the model again with --onnx"


class Networks(Protocol):
    """The networks of an exported model, see `mucon.export.onnx_files` for the shapes."""

    def frames(self, features: Array) -> tuple[Array, ...]:
        """Log probabilities `[T, N]` of features `[T, D]`, and for MuCon the latent sequences."""

    def encoder(self, latent: Array) -> tuple[Array, Array, Array, Array]:
        """Keys, values, hidden and cell states."""

    def decoder(
        self, symbols: NDArray[np.int64], hidden: Array, cell: Array, keys: Array, values: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Log probabilities, log lengths, and the next hidden and cell states."""


class Named(NamedTuple):
    """A decoded transcript, see `mucon.model.Decoded`; `log_lengths` is `[M]`."""

    transcript: tuple[int, ...]
    log_lengths: NDArray[np.float64]
    cut: bool
    log_prob: float


@dataclass(frozen=True, slots=True)
class Predicted:
    """A prediction of a recording.

    Attributes:
        segmentation: the segments; none for an empty transcript.
        vocabulary: the actions.
        cut: see `mucon.inference.Prediction`.
    """

    segmentation: Segmentation
    vocabulary: Vocabulary
    cut: bool

    @property
    def labels(self) -> list[str]:
        """Action of each frame, T names; none for an empty transcript."""
        return list(self.vocabulary.names(self.segmentation.to_frame_labels()))


class Runner:
    """An exported model whose networks run outside of torch.

    Args:
        networks: the networks.
        facts: content of `runner.json`.
        contract: what the model expects of features, with its actions.
        decoding: choices of decoding of the exported model.
        training: facts about the training videos; None if the model has none.
    """

    def __init__(
        self,
        networks: Networks,
        facts: Mapping[str, Any],
        contract: Contract,
        decoding: DecodingConfig,
        training: TrainingFacts | None,
    ) -> None:
        self.networks, self.contract, self.decoding, self.training = networks, contract, decoding, training
        self.dim, self.vocabulary = contract.dim, contract.vocabulary
        self.main = str(facts["main"])
        self.predictions = tuple(facts["predictions"])
        self.max_segments = int(facts.get("max_segments", 0))

    def log_probs(self, features: NDArray[Any]) -> Array:
        """Log probabilities `[T, N]` of the actions in each frame of features `[T, D]`."""
        return self.networks.frames(self._checked(features))[0]

    def predict(
        self, features: NDArray[Any], prediction: str | None = None, *, decoding: DecodingConfig | None = None
    ) -> Predicted:
        """Segments a recording, with the same labels as `mucon.load(FOLDER).predict(features, prediction)`.

        Args:
            features: `[T, D]` of numbers, T >= 1.
            prediction: one of `predictions`; by default the method's main one.
            decoding: choices of `full`; by default those of the exported model.

        Raises:
            InputError: an unknown prediction, features of another shape or with values that are not finite, a network
                that computes NaN, or a recording for which the prediction is undefined.

        Warns:
            DataWarning: features that are far from those of training.
        """
        name = prediction or self.main
        if name not in self.predictions:
            expected = " or ".join(self.predictions)
            raise InputError(Problem(rule="unknown", place="prediction", value=name, expected=expected))
        chosen = decoding or self.decoding
        log_probs, *latent = self.networks.frames(self._checked(features))
        log_probs = lowered(log_probs, self.vocabulary.background_ids, background_offset(self.training, chosen))
        problems = problems_of_log_probs(log_probs)
        if problems:
            raise InputError(problems)
        if name == "frames":
            found, cut = Segmentation.from_frame_labels(log_probs.argmax(axis=1)), False
        elif name == "full" and chosen.transcripts != "segment_branch":
            facts = known_facts(self.training, "decoding.transcripts")
            found, cut = best_training_transcript(evidence(log_probs, self.training, chosen), facts, chosen), False
        else:
            found, cut = self._named(name, log_probs, latent[0], chosen)
        return Predicted(found, self.vocabulary, cut)

    def _named(self, name: str, log_probs: Array, latent: Array, decoding: DecodingConfig) -> tuple[Segmentation, bool]:
        """`segments` or `full` with the transcripts of the segment branch, see `mucon.inference.predictions`."""
        n_frames = len(log_probs)
        keys, values, hidden, cell = self.networks.encoder(latent)
        greedy = self._greedy(keys, values, hidden, cell)
        transcript = np.asarray(greedy.transcript[:n_frames], dtype=np.int64)
        lengths = frames_of(greedy.log_lengths[: len(transcript)], n_frames)
        cut = greedy.cut or len(greedy.transcript) > n_frames
        empty = Segmentation.of([], [])
        if name == "segments":
            return Segmentation(transcript, largest_remainder(lengths, n_frames)) if len(transcript) else empty, cut
        used = evidence(log_probs, self.training, decoding)
        if decoding.beam > 1:
            beam = self._beam(keys, values, hidden, cell, decoding.beam)
            if not greedy.cut and greedy.transcript not in [one.transcript for one in beam]:
                beam = [*beam, greedy]  # so that a beam never scores below the greedy transcript
            named = [(one, frames_of(one.log_lengths, n_frames)) for one in beam]
            return best_candidate(used, named, decoding, self.training), False
        return align(used, transcript, lengths, decoding, self.training) if len(transcript) else empty, cut

    def _greedy(self, keys: Array, values: Array, hidden: Array, cell: Array) -> Named:
        """Decodes the most likely symbol at each step, see `mucon.model.segment_branch.SegmentBranch.greedy`."""
        end = self.vocabulary.n_actions
        symbol, log_prob = end + 1, 0.0
        transcript: list[int] = []
        log_lengths: list[float] = []
        for n_done in range(self.max_segments + 1):
            step = self.networks.decoder(np.array([symbol]), hidden, cell, keys, values)
            log_probs, lengths, hidden, cell = step
            symbol = int(log_probs[0].argmax())
            if symbol == end:
                return Named(tuple(transcript), np.array(log_lengths), False, log_prob + float(log_probs[0, end]))
            if n_done < self.max_segments:
                transcript.append(symbol)
                log_lengths.append(float(lengths[0]))
                log_prob += float(log_probs[0, symbol])
        return Named(tuple(transcript), np.array(log_lengths), True, log_prob)

    def _beam(self, keys: Array, values: Array, hidden: Array, cell: Array, width: int) -> list[Named]:
        """Beam search for the most likely transcripts, see `mucon.model.segment_branch.SegmentBranch.beam`."""
        n = self.vocabulary.n_actions
        symbols, reached = np.array([n + 1]), np.zeros(1, dtype=np.float32)
        prefixes: list[tuple[int, ...]] = [()]
        log_lengths: list[tuple[float, ...]] = [()]
        done: list[Named] = []
        for step in range(self.max_segments + 1):
            log_probs, lengths, hidden, cell = self.networks.decoder(symbols, hidden, cell, keys, values)
            log_probs = reached[:, None] + log_probs
            done += [
                Named(prefix, np.array(own), False, float(end))
                for prefix, own, end in zip(prefixes, log_lengths, log_probs[:, n], strict=True)
            ]
            done = sorted(done, key=lambda one: -one.log_prob)[:width]
            if step == self.max_segments:
                break
            flat = log_probs[:, :n].reshape(-1)
            best = np.argsort(-flat, kind="stable")[:width]
            reached = flat[best]
            if len(done) == width and done[-1].log_prob >= float(reached[0]):
                break
            parents, symbols = best // n, best % n
            prefixes = [(*prefixes[p], int(s)) for p, s in zip(parents, symbols, strict=True)]
            log_lengths = [(*log_lengths[p], float(lengths[p])) for p in parents]
            hidden, cell = hidden[parents], cell[parents]
        return done

    def _checked(self, features: NDArray[Any]) -> Array:
        for doubt in self.contract.check(features):
            warnings.warn(DataWarning(doubt), stacklevel=3)
        values: Array = np.ascontiguousarray(features, dtype=np.float32)
        return values


def frames_of(log_lengths: NDArray[np.float64], n_frames: int) -> NDArray[np.float64]:
    """Real frames `[M]` that sum to T from relative log lengths `[M]`, see `mucon.masks.absolute_lengths`."""
    if not len(log_lengths):
        return np.zeros(0)
    shares = np.exp(log_lengths - log_lengths.max())
    frames: NDArray[np.float64] = np.maximum(n_frames * (shares / shares.sum()), SHORTEST)
    return frames


class OnnxNetworks:
    """Networks in onnxruntime; a network is loaded when it is used.

    Args:
        folder: the folder `onnx`.
        threads: CPU threads of a network; 0: all cores.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder, self._threads = folder, threads
        self._sessions: dict[str, Callable[..., Sequence[Any]]] = {}

    def frames(self, features: Array) -> tuple[Array, ...]:
        """See `Networks`."""
        return tuple(self._run("frames", features=features))

    def encoder(self, latent: Array) -> tuple[Array, Array, Array, Array]:
        """See `Networks`."""
        keys, values, hidden, cell = self._run("encoder", latent=latent)
        return keys, values, hidden, cell

    def decoder(
        self, symbols: NDArray[np.int64], hidden: Array, cell: Array, keys: Array, values: Array
    ) -> tuple[Array, Array, Array, Array]:
        """See `Networks`."""
        found = self._run("decoder", symbols=symbols, hidden=hidden, cell=cell, keys=keys, values=values)
        log_probs, log_lengths, next_hidden, next_cell = found
        return log_probs, log_lengths, next_hidden, next_cell

    def _run(self, name: str, **inputs: NDArray[Any]) -> Sequence[Any]:
        if name not in self._sessions:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.intra_op_num_threads = self._threads
            session = onnxruntime.InferenceSession(
                str(self._folder / f"{name}.onnx"), options, providers=["CPUExecutionProvider"]
            )
            self._sessions[name] = lambda given: session.run(None, given)
        return self._sessions[name](inputs)


def load_runner(folder: str | Path, *, threads: int = 1) -> Runner:
    """Loads an exported model with ONNX files after a check of its checksums; imports no torch.

    Args:
        folder: an exported folder (`mucon export --onnx`).
        threads: CPU threads of the networks; 0: all cores.

    Raises:
        InputError: a damaged folder, or one without ONNX files.
    """
    path = Path(folder)
    facts_path = path / ONNX / FACTS
    check_sums(path)
    if not facts_path.is_file():
        message = "no ONNX files"
        raise InputError(Problem(rule="missing", place=str(path), value=str(path), message=message, hint=MISSING))
    return runner_of(path, OnnxNetworks(path / ONNX, threads), read_json(facts_path))


def runner_of(folder: Path, networks: Networks, facts: Mapping[str, Any]) -> Runner:
    """A runner with the feature contract, decoding and training facts of an exported folder."""
    training = folder / "training.json"
    return Runner(
        networks,
        facts,
        Contract.from_dict(read_json(folder / "contract.json")),
        DecodingConfig(**read_json(folder / "config.json").get("decoding", {})),
        TrainingFacts.from_dict(read_json(training)) if training.is_file() else None,
    )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object of an exported folder whose checksums have been verified."""
    value: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return value
