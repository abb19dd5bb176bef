"""Comparisons of planted rows: bold where they should be and only there, on the seeds and videos that both have."""

from collections.abc import Sequence

import numpy as np
import pytest
from scipy import stats

from sweeps.service.stats.comparisons import (
    SeedValues,
    VideoValues,
    best_rows,
    common_seeds,
    common_videos,
    compare_with_default,
    seed_means,
)
from sweeps.service.stats.ranking import ranking
from sweeps.service.stats.significance import (
    FRIEDMAN,
    WILCOXON,
    friedman_with_replicates,
    smallest_attainable_p,
    wilcoxon_over_videos,
)
from tests.helpers.refusals import refused

HARD = {"1": 0.0, "2": 0.2, "3": -0.1, "4": 0.05}


def planted(
    random: np.random.Generator, means: Sequence[float], *, splits: str = "1", n_seeds: int = 5, spread: float = 0.01
) -> list[SeedValues]:
    return [
        {(s, seed): mean + HARD[s] + spread * random.normal() for s in splits for seed in range(n_seeds)}
        for mean in means
    ]


def planted_videos(
    random: np.random.Generator, means: Sequence[float], *, n_videos: int = 40, n_seeds: int = 1
) -> list[VideoValues]:
    hard = random.normal(size=n_videos)
    return [
        {("1", s): {f"v{i}": mean + hard[i] + 0.02 * random.normal() for i in range(n_videos)} for s in range(n_seeds)}
        for mean in means
    ]


def test_the_best_rows_are_bold_and_only_they() -> None:
    random = np.random.default_rng(1)
    found = best_rows(planted(random, [0.40, 0.50, 0.501, 0.30], splits="1234"))
    assert found.best in (1, 2)
    assert found.rows == (1, 2)
    assert found.against_best[found.best] is None
    assert [outcome is not None and outcome.significant for outcome in found.against_best] == [True, False, False, True]
    tests = [(outcome.test, outcome.comparisons) for outcome in found.against_best if outcome is not None]
    assert tests == [(FRIEDMAN, 3)] * 3


def test_five_seeds_on_one_split_separate_six_rows() -> None:
    means = [0.49, 0.436, 0.40, 0.38, 0.36, 0.30]
    assert best_rows(planted(np.random.default_rng(2), means, spread=0.001)).rows == (0,)


def test_the_lowest_error_is_bold() -> None:
    rows = planted(np.random.default_rng(3), [12.0, 9.0, 15.0], spread=0.1)
    assert best_rows(rows, higher_is_better=False).rows == (1,)
    assert best_rows(rows).rows == (2,)


@pytest.mark.parametrize("n_rows", [2, 4])
def test_a_row_that_is_as_good_loses_its_mark_in_about_five_percent(n_rows: int) -> None:
    random = np.random.default_rng(n_rows)
    lost = np.zeros(n_rows)
    draws = 300
    for _ in range(draws):
        bold = best_rows(planted(random, [0.5] * n_rows)).rows
        lost += [i not in bold for i in range(n_rows)]
    some_row = lost.sum() / draws
    assert (lost / draws < 0.06).all()
    assert n_rows > 2 or 0.025 < some_row < 0.09


def test_with_too_few_seeds_the_videos_decide() -> None:
    random = np.random.default_rng(5)
    means = [0.5, 0.3, 0.4999]
    rows, videos = planted(random, means, n_seeds=1, spread=0.0), planted_videos(random, means)
    found = best_rows(rows, videos)
    assert (found.best, found.rows) == (0, (0, 2))
    outcomes = [outcome for outcome in found.against_best if outcome is not None]
    assert [(outcome.test, outcome.comparisons, outcome.significant) for outcome in outcomes] == [
        (WILCOXON, 2, True),
        (WILCOXON, 2, False),
    ]


def test_where_no_test_can_judge_only_the_best_is_bold_without_a_claim() -> None:
    rows = planted(np.random.default_rng(6), [0.5, 0.5, 0.3], n_seeds=2, spread=0.001)
    found = best_rows(rows)
    assert found.rows == (found.best,)
    outcomes = [outcome for outcome in found.against_best if outcome is not None]
    assert [(outcome.test, outcome.counted, outcome.comparisons) for outcome in outcomes] == [
        (FRIEDMAN, "2 seeds on 1 split", 2)
    ] * 2
    for outcome in outcomes:
        assert (outcome.p, outcome.adjusted_p, outcome.significant) == (None, None, False)
        assert outcome.smallest_p == pytest.approx(0.121, abs=5e-4)
        assert outcome.reason is not None
        assert all(number in outcome.reason for number in ("0.121", "0.243", "4 seeds"))


def test_a_row_that_is_better_over_videos_than_the_best_mean_keeps_its_mark() -> None:
    rows: list[SeedValues] = [{("1", 0): 0.6}, {("1", 0): 0.5}]
    videos = planted_videos(np.random.default_rng(7), [0.4, 0.6])
    found = best_rows(rows, videos)
    assert found.against_best[1] is not None
    assert found.against_best[1].significant
    assert found.rows == (0, 1)


def test_rows_without_a_value_are_neither_bold_nor_tested() -> None:
    rows = planted(np.random.default_rng(8), [0.5, 0.3])
    found = best_rows([{}, *rows])
    assert (found.best, found.rows, found.against_best[0]) == (1, (1,), None)
    assert found.against_best[2] is not None
    assert found.against_best[2].adjusted_p == pytest.approx(2 * smallest_attainable_p(1, 5))
    nothing = best_rows([{}, {}])
    assert (nothing.best, nothing.rows, nothing.against_best) == (None, (), (None, None))


def test_each_row_is_tested_against_the_default_with_holm_over_the_others() -> None:
    random = np.random.default_rng(9)
    means = [0.5, 0.4, 0.505, 0.6]
    rows, videos = planted(random, means, splits="12"), planted_videos(random, means, n_seeds=5)
    found = compare_with_default(rows, 0, videos)
    assert found[0] is None
    p_values: list[float] = []
    adjusted: list[float] = []
    for row, comparison in zip(rows[1:], found[1:], strict=True):
        assert comparison is not None
        plain = friedman_with_replicates(common_seeds([row, rows[0]]).values)
        assert (comparison.seeds.p, comparison.seeds.comparisons) == (plain.p, 3)
        p_values.append(plain.p or 0.0)
        adjusted.append(comparison.seeds.adjusted_p or 0.0)
        assert comparison.videos is not None
    assert min(adjusted) == pytest.approx(3 * min(p_values))
    assert min(p_values) > 0
    assert [c.seeds.direction for c in found[1:] if c] == [-1, 1, 1]
    assert found[1] is not None
    assert found[1].seeds.counted == "5 seeds on 2 splits"
    assert found[1].seeds.smallest_p == pytest.approx(0.000222, abs=5e-7)


def test_only_seeds_that_both_rows_have_on_every_split_are_compared() -> None:
    rows = planted(np.random.default_rng(10), [0.5, 0.4, 0.45], splits="12")
    short = {key: value for key, value in rows[1].items() if key != ("2", 3)}
    found = compare_with_default([rows[0], short, rows[2]], 0)
    assert [c.seeds.counted for c in found if c] == ["4 seeds on 2 splits", "5 seeds on 2 splits"]
    common = common_seeds([rows[0], short])
    assert (common.seeds, common.splits, common.values.shape) == ((0, 1, 2, 4), ("1", "2"), (2, 2, 4))
    assert common_seeds([rows[0], short], splits=("1",)).seeds == (0, 1, 2, 3, 4)
    assert sorted(seed_means(short, ("1", "2"))) == [0, 1, 2, 4]
    apart = compare_with_default([{("1", 0): 0.5}, {("1", 1): 0.5}], 0)
    assert apart[1] is not None
    assert (apart[1].seeds.p, apart[1].seeds.counted) == (None, "0 seeds on 1 split")


def test_a_video_counts_where_every_seed_of_both_rows_defines_it() -> None:
    first: VideoValues = {("1", 0): {"a": 0.2, "b": 0.5, "c": 0.1}, ("1", 1): {"a": 0.4, "b": 0.5, "c": None}}
    second: VideoValues = {("1", 0): {"a": 0.0, "c": 0.3}, ("1", 1): {"a": 0.1, "b": 0.2, "c": 0.3}}
    values, names = common_videos([first, second], ("1",), (0, 1))
    assert names == (("1", "a"),)
    assert values == pytest.approx(np.array([[0.3], [0.05]]))
    none, _ = common_videos([first, {}], ("1",), (0, 1))
    assert none.shape == (2, 0)
    without = wilcoxon_over_videos(*none)
    assert (without.p, without.n, without.counted) == (None, 0, "0 of 0 videos differ")


def test_wrong_rows_are_refused() -> None:
    rows = planted(np.random.default_rng(11), [0.5, 0.4])
    with refused("range", place="row", value=2, n=1):
        compare_with_default(rows, 2)
    with refused("range", place="row", value=-1, n=1):
        compare_with_default(rows, -1)
    with refused("shape", place="videos", value=1, n=1):
        compare_with_default(rows, 0, [{}])
    with refused("shape", place="videos", value=3, n=1):
        best_rows(rows, [{}] * 3)


def test_a_ranking_over_splits_is_demsars() -> None:
    scores = np.array([[0.9, 0.8, 0.9, 0.7, 0.9], [0.8, 0.6, 0.8, 0.6, 0.8], [0.1, 0.2, 0.1, 0.2, 0.1]])
    found = ranking(scores[[2, 0, 1]][:, :, None])
    assert (found.mean_ranks, found.order) == ((3.0, 1.0, 2.0), (1, 2, 0))
    assert found.friedman.p == pytest.approx(stats.friedmanchisquare(*scores).pvalue)
    assert found.critical_difference == pytest.approx(2.343 * np.sqrt(3 * 4 / (6 * 5)), abs=5e-4)  # Demšar, table 5
    assert found.groups == ((1, 2), (2, 0))
    upside_down = ranking(-scores[:, :, None], higher_is_better=False)
    assert upside_down.mean_ranks == (1.0, 2.0, 3.0)


def test_a_ranking_with_replicates_needs_one_split_and_separates_planted_groups() -> None:
    random = np.random.default_rng(12)
    means = np.array([0.30, 0.60, 0.601, 0.302])[:, None, None]
    found = ranking(means + 0.004 * random.normal(size=(4, 1, 8)))
    assert found.friedman.significant
    assert sorted(found.groups[0]) == [1, 2]
    assert sorted(found.groups[-1]) == [0, 3]
    assert len(found.groups) == 2


def test_methods_that_do_not_differ_are_one_group_and_too_few_splits_have_no_p() -> None:
    same = ranking(np.tile(np.arange(5.0), (3, 1))[:, :, None])
    assert (same.groups, same.friedman.p) == (((0, 1, 2),), 1.0)
    few = ranking([[[0.9]], [[0.8]], [[0.7]]])
    assert (few.critical_difference, few.groups, few.order) == (None, (), (0, 1, 2))
    assert (few.friedman.p, few.friedman.n, few.friedman.reason is None) == (None, 1, False)
    assert few.friedman.smallest_p == pytest.approx(0.368, abs=5e-4)
    assert all(text in str(few.friedman.reason) for text in ("0.368", "3 splits"))
    two = ranking(np.zeros((2, 2, 1))).friedman
    assert all(text in str(two.reason) for text in ("2 splits", "0.157", "4 splits"))
    seeds = ranking(np.zeros((2, 1, 2))).friedman
    assert (seeds.p, seeds.counted) == (None, "2 seeds on 1 split")
    assert "3 seeds" in str(seeds.reason)
    assert ranking([[[]], [[]]]).order == ()


def test_a_row_with_the_best_mean_is_bold_though_no_test_can_judge_it() -> None:
    rows: list[SeedValues] = [{("1", 1): 0.2}, {("1", 1): 0.3}, {("1", 1): 0.3}, {}]
    assert best_rows(rows).rows == (1, 2)
