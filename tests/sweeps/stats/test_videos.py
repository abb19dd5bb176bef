"""Two trained models on the same videos: the exact test, its error rate, subjects, and the command."""

import itertools
import json
import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mucon.metrics.catalogue import metric_of
from sweeps.service.cli import main
from sweeps.service.stats.videos import compare_models, wilcoxon_over_videos
from sweeps.service.trials.folder import FORMAT_VERSION
from tests.helpers.planted_sweeps import make_sweep
from tests.helpers.refusals import refused
from tests.sweeps.tables.test_statistics import experiment

SMALL = settings(max_examples=25, deadline=None)


def signed_rank_p(differences: list[float]) -> float:
    """From the definition: the share of all sign patterns that are at least as uneven."""
    sizes = [abs(d) for d in differences if d]
    ranks = [Fraction(sum(v < x for v in sizes) * 2 + sum(v == x for v in sizes) + 1, 2) for x in sizes]
    signs = [1 if d > 0 else -1 for d in differences if d]

    def unevenness(pattern: Sequence[int]) -> Fraction:
        return abs(sum((sign * rank for sign, rank in zip(pattern, ranks, strict=True)), Fraction(0)))

    patterns = list(itertools.product((1, -1), repeat=len(ranks)))
    return sum(unevenness(pattern) >= unevenness(signs) for pattern in patterns) / len(patterns)


@SMALL
@given(st.lists(st.integers(-4, 4), min_size=6, max_size=9))
def test_few_videos_have_the_exact_p_with_ties_and_zeros(differences: list[int]) -> None:
    outcome = wilcoxon_over_videos([0.1 * d + 0.3 for d in differences], [0.3] * len(differences))
    assert outcome.p == pytest.approx(signed_rank_p([float(d) for d in differences]))
    assert outcome.n == sum(d != 0 for d in differences)


@pytest.mark.parametrize("n_videos", [6, 20, 50, 51, 200])
def test_without_ties_the_p_over_videos_is_scipys(n_videos: int) -> None:
    random = np.random.default_rng(n_videos)
    first, second = random.normal(0.2, 1, n_videos), random.normal(0, 1, n_videos)
    outcome, expected = wilcoxon_over_videos(first, second), stats.wilcoxon(first, second)
    assert (outcome.statistic, outcome.p) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-9)


def test_many_tied_videos_have_scipys_p_corrected_for_ties() -> None:
    differences = np.random.default_rng(3).integers(-3, 5, 120)
    expected = stats.wilcoxon(differences[differences != 0])
    assert wilcoxon_over_videos(0.1 * differences, np.zeros(120)).p == pytest.approx(expected.pvalue)


def test_rounding_hides_neither_zeros_nor_ties() -> None:
    first, second = [0.1 + 0.2, 0.7, 0.6, 0.5, 0.4, 0.9], [0.3, 0.6, 0.5, 0.4, 0.3, 1.0]
    outcome = wilcoxon_over_videos(first, second)
    assert outcome.counted == "5 of 6 videos differ"
    assert outcome.p == pytest.approx(signed_rank_p([0, 1, 1, 1, 1, -1]))


def test_equal_videos_do_not_differ_and_few_videos_have_no_p() -> None:
    equal = wilcoxon_over_videos([0.5] * 8, [0.5] * 8)
    assert (equal.p, equal.n, equal.counted) == (1.0, 0, "0 of 8 videos differ")
    few = wilcoxon_over_videos([3, 4, 5, 6, 7], [0] * 5)
    assert (few.p, few.statistic, few.smallest_p) == (None, None, 0.0625)
    assert (few.n, few.counted) == (5, "5 of 5 videos differ")
    assert all(number in str(few.reason) for number in ("5", "0.0625", "6"))
    with refused("shape", place="video", value=((2,), (3,)), n=1):
        wilcoxon_over_videos([1, 2], [1, 2, 3])
    with refused("range", place="scores[1]", value=math.inf, n=1):
        wilcoxon_over_videos([1, 2], [1, math.inf])


def test_the_error_rate_over_videos_is_five_percent() -> None:
    random = np.random.default_rng(11)
    wrong = [wilcoxon_over_videos(*random.normal(size=(2, 25))).significant for _ in range(400)]
    assert 0.03 < np.mean(wrong) < 0.075


def rows(values: dict[str, float | None], metric: str = "mof") -> list[dict[str, Any]]:
    return [{"id": id, "full": {metric: value}} for id, value in values.items()]


def test_models_are_compared_on_the_videos_that_both_define() -> None:
    first = rows({"a": 0.5, "b": 0.9, "c": None, "d": 0.1})
    second = rows({"d": 0.3, "c": 0.2, "a": 0.7, "x": 0.9})
    (found,) = compare_models(first, second, "full", [metric_of("mof"), metric_of("edit")])
    assert (found.first, found.second) == pytest.approx((0.3, 0.5))
    assert (found.outcome.counted, found.outcome.p) == ("2 of 2 videos differ", None)
    with refused("mismatch", place="test videos", n=1):
        compare_models(first, rows({"x": 0.5}), "full", [metric_of("mof")])


def test_subjects_count_once_however_many_videos_they_have() -> None:
    random = np.random.default_rng(2)
    subjects = {f"{subject}_{i}": f"s{subject}" for subject in range(7) for i in range(9)}
    shift = {f"s{subject}": float(random.normal(0, 0.1)) for subject in range(7)}
    first = rows({video: 0.5 + shift[subject] for video, subject in subjects.items()})
    second = rows(dict.fromkeys(subjects, 0.5))
    (by_video,) = compare_models(first, second, "full", [metric_of("mof")])
    (by_subject,) = compare_models(first, second, "full", [metric_of("mof")], groups=subjects)
    assert (by_video.outcome.n, by_subject.outcome.n) == (63, 7)
    assert by_video.first == pytest.approx(by_subject.first)
    expected = stats.wilcoxon([0.5 + shift[f"s{i}"] - 0.5 for i in range(7)])
    assert by_subject.outcome.p == pytest.approx(expected.pvalue)


def test_the_command_compares_two_trials_and_names_the_better_model(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def score(row: str, split: str, seed: int, prediction: str) -> float:
        return 0.7 if row == "b" else 0.5

    plan = make_sweep(tmp_path, experiment("ab", "a"), score, n_videos=8)
    for folder in plan.tracked.folders:
        folder.trial_path.write_text(json.dumps({"format_version": FORMAT_VERSION, "config": {}, "store": plan.store}))
    first, second = (next(cell.identity for cell in plan.cells if cell.variant.name == row) for row in "ab")
    assert main(arguments=["compare", first, second, "--results", str(tmp_path)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("MoF ")]
    assert f"{second} is better" in line
    assert main(arguments=["compare", first, first, "--results", str(tmp_path)]) == 0
    assert "is better" not in capsys.readouterr().out
    assert main(arguments=["compare", first, second, "--results", str(tmp_path), "--prediction", "x"]) == 2
    assert "'x'" in capsys.readouterr().err
