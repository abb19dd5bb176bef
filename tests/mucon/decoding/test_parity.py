"""The published decoder (golden/viterbi.npz): ours of that name gives its numbers, the exact one no lower score."""

from __future__ import annotations

import numpy as np
import pytest

from mucon.decoding.alignment import best_lengths
from mucon.decoding.length_priors import PoissonPerClass
from mucon.decoding.published import published_lengths
from tests.helpers.oracles_decoding import best_score_by_recursion, poisson_table, true_score
from tests.mucon.parity import golden

INPUTS = ("log_probs", "transcript", "mean_length_per_class")


@pytest.mark.parity
def test_every_number_of_the_published_decoder_is_met():
    compared = 0
    for name, case in golden.cases(golden.read("viterbi.npz")).items():
        steps = sorted({key.partition("/")[0] for key in case if key not in INPUTS})
        assert steps == ["every1", "every10"]
        for step in steps:
            labels, lengths, score = published_lengths(
                *(case[key] for key in INPUTS), step=int(step.removeprefix("every"))
            )
            np.testing.assert_array_equal(labels, case[f"{step}/labels"], err_msg=f"{name}/{step}")
            np.testing.assert_array_equal(lengths, case[f"{step}/segment_lengths"], err_msg=f"{name}/{step}")
            assert score == pytest.approx(float(case[f"{step}/score"]), rel=1e-12), f"{name}/{step}"
            compared += 3
    assert compared == golden.count_outputs("viterbi.npz", INPUTS) > 0


@pytest.mark.parity
def test_exact_decoding_never_scores_below_any_published_path():
    compared = 0
    for name, case in golden.cases(golden.read("viterbi.npz")).items():
        log_probs, transcript, means = (case[key] for key in INPUTS)
        table = poisson_table(means[transcript], len(log_probs))
        lengths, score = best_lengths(log_probs, transcript, PoissonPerClass(means))
        assert score == pytest.approx(true_score(log_probs, transcript, lengths, table), rel=1e-12)
        assert score == pytest.approx(best_score_by_recursion(log_probs, transcript, table), rel=1e-12)
        for step in ("every1", "every10"):
            published = true_score(log_probs, transcript, case[f"{step}/segment_lengths"], table)
            assert score >= published - 1e-9 * abs(published), f"{name}/{step}"
            compared += 1
    assert compared > 0
