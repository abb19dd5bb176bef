"""The published decoder's paths (golden/viterbi.npz): an exact decoder never scores below their true score."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import PoissonPerClass
from tests.oracles_decoding import best_score_by_recursion, poisson_table, true_score

FOLDER = Path(os.environ.get("MUCON_PARITY_DIR", Path(__file__).parents[1] / "data" / "parity"))


@pytest.mark.parity
def test_exact_decoding_never_scores_below_any_published_path():
    golden = np.load(FOLDER / "viterbi.npz")
    cases = sorted({key.split("/")[0] for key in golden.files})
    compared = 0
    for case in cases:
        log_probs, transcript = golden[f"{case}/log_probs"], golden[f"{case}/transcript"]
        means = golden[f"{case}/mean_length_per_class"]
        table = poisson_table(means[transcript], len(log_probs))
        lengths, score = best_lengths(log_probs, transcript, PoissonPerClass(means))
        assert score == pytest.approx(true_score(log_probs, transcript, lengths, table), rel=1e-12)
        assert score == pytest.approx(best_score_by_recursion(log_probs, transcript, table), rel=1e-12)
        for key in golden.files:
            if key.startswith(f"{case}/") and key.endswith("/segment_lengths"):
                published = true_score(log_probs, transcript, golden[key], table)
                assert score >= published - 1e-9 * abs(published), key
                compared += 1
    assert cases
    assert compared == sum(key.endswith("/segment_lengths") for key in golden.files) >= 2 * len(cases)
