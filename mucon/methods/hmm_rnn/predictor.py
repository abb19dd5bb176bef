"""The predictor of the HMM/RNN: `full` searches paths of states instead of actions."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from mucon.decoding.fusion import known_facts
from mucon.methods.hmm_rnn.network import StateClassifier
from mucon.methods.weak import EvidencePredictor
from mucon.segments import Segmentation


class HmmPredictor(EvidencePredictor):
    """A predictor from log posteriors of states.

    An ensemble has no common states: its predictions are those of `EvidencePredictor`, from the members' posteriors of
    actions.
    """

    __slots__ = ()

    def outputs(self, features: Tensor) -> Tensor:
        """Log posteriors `[T, N · width]` of the states; `[T, N]` of the actions for an ensemble."""
        if isinstance(self.classifier, StateClassifier):
            return self.classifier.state_log_probs(features)
        return self.classifier.frame_log_probs(features)

    def posteriors(self, outputs: NDArray[np.floating]) -> NDArray[np.floating]:
        """Log posteriors `[T, N]` of the actions."""
        grouped = outputs.reshape(len(outputs), self.vocabulary.n_actions, -1)
        posteriors: NDArray[np.floating] = np.logaddexp.reduce(grouped, axis=2)
        return posteriors

    def segmented(self, name: str, outputs: NDArray[np.floating]) -> Segmentation:
        """See `EvidencePredictor.segmented`."""
        if name == "frames" or not isinstance(self.classifier, StateClassifier):
            return EvidencePredictor.segmented(self, name, self.posteriors(outputs))
        return self.classifier.states.best(outputs, known_facts(self.facts, "training facts").transcripts)

    def aligned(self, name: str, outputs: NDArray[np.floating], transcript: Sequence[int]) -> Segmentation:
        """See `EvidencePredictor.aligned`."""
        if name == "frames" or not isinstance(self.classifier, StateClassifier):
            return EvidencePredictor.aligned(self, name, self.posteriors(outputs), transcript)
        return Segmentation.of(transcript, self.classifier.states.align(outputs, transcript))
