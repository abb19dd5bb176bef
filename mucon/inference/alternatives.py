"""The alternatives of `full`: other transcripts of the segment branch's beam, each with its best alignment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from mucon.decoding.config import DecodingConfig
from mucon.decoding.fusion import TrainingFacts, Transcript, length_prior
from mucon.decoding.transcripts import Candidate, best_joint
from mucon.errors import InputError, Problem
from mucon.inference.requests import Alternative, Prediction
from mucon.segments import Segmentation


def check_alternatives(number: int, name: str, decoding: DecodingConfig) -> None:
    """Checks that a prediction has alternatives.

    Args:
        number: requested alternatives.
        name: name of the prediction.
        decoding: choices of decoding.

    Raises:
        InputError: a negative number, or a prediction or choices of decoding without a beam.
    """
    if number < 0:
        raise InputError(Problem(rule="range", place="alternatives", value=number, expected="at least 0"))
    if not number:
        return
    reason = ""
    if name != "full":
        reason = f"the prediction {name} has no beam of transcripts; only `full` has alternatives"
    elif decoding.transcripts != "segment_branch":
        reason = f"decoding.transcripts={decoding.transcripts} has no beam of transcripts"
    elif decoding.method != "exact":
        reason = f"decoding.method={decoding.method} aligns one transcript only"
    if reason:
        raise InputError(Problem(rule="unsupported", place="alternatives", value=number, message=reason))


def ranked(
    evidence: NDArray[np.floating],
    candidates: Iterable[tuple[Transcript, NDArray[np.float64]]],
    decoding: DecodingConfig,
    facts: TrainingFacts | None = None,
) -> list[Alternative]:
    """The best alignment of each candidate, the highest score first.

    Args:
        evidence: `[T, N]`, see `mucon.decoding.fusion.evidence`.
        candidates: transcripts with their predicted lengths `[M]` in frames; those that cannot fill the recording have
            no alignment and are left out.
        decoding: prior on the lengths and their cap.
        facts: facts about the training videos, for `length_prior=fitted`.
    """
    found = []
    for one, lengths in candidates:
        transcript = np.asarray(one.transcript, dtype=np.int64)
        if not 0 < len(transcript) <= len(evidence):
            continue
        prior = length_prior(transcript, lengths, evidence.shape[1], decoding, facts)
        try:
            _, best, score = best_joint(
                evidence, [Candidate(transcript, one.log_prob, prior)], max_length=decoding.max_length
            )
        except InputError:  # too few segments for their longest length
            continue
        found.append(Alternative(Segmentation(transcript, best), float(score)))
    return sorted(found, key=lambda alternative: -alternative.score)


def with_alternatives(prediction: Prediction, candidates: Iterable[Alternative], number: int) -> Prediction:
    """A prediction `full` with its own score and the best alternatives to it.

    Args:
        prediction: with or without `full`, which may be undefined.
        candidates: see `ranked`; the transcript of `full` may be among them.
        number: most alternatives.
    """
    full = prediction.segmentations.get("full")
    own = () if full is None else tuple(full.transcript.tolist())
    others, score = [], None
    for candidate in candidates:
        if tuple(candidate.segmentation.transcript.tolist()) == own:
            score = candidate.score
        else:
            others.append(candidate)
    return replace(prediction, score=score, alternatives=tuple(others[:number]))
