"""Comparisons of planted rows: bold where rows differ and only there, and error rates on real results."""

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from sweeps.service.stats.comparisons import (
    SeedValues,
    best_rows,
    common_seeds,
    compare_with_default,
    seed_means,
)
from sweeps.service.stats.ranking import ranking
from sweeps.service.stats.significance import (
    WELCH,
    Floats,
    friedman_with_replicates,
    holm,
    smallest_pairwise_p,
    welch_over_seeds,
)
from sweeps.service.stats.videos import wilcoxon_over_videos
from tests.helpers.refusals import refused

REAL = Path(__file__).parents[2] / "data" / "tug_seeds.npz"
"""Test scores of 20 trainings of one configuration on tug that differ only in the seed, prediction `full`: `scores` by
seed and metric (MoF, Edit, F1@10/25/50), `mof_by_video` by seed and video. Made by `python sweeps/ablation_masks.py
--store stores/tug --rows 'box, no' --seeds 20 --epochs 30 --set training.lr_drop_epoch=20`."""
HARD = {"1": 0.0, "2": 0.2, "3": -0.1, "4": 0.05}


def planted(
    random: np.random.Generator, means: Sequence[float], *, splits: str = "1", n_seeds: int = 5, spread: float = 0.01
) -> list[SeedValues]:
    return [
        {(s, seed): mean + HARD[s] + spread * random.normal() for s in splits for seed in range(n_seeds)}
        for mean in means
    ]


def real_seeds() -> tuple[Floats, Floats]:
    """Scores of the real trainings: by seed and metric `[20 5]`, and MoF by seed and video `[20 56]`."""
    with np.load(REAL) as arrays:
        return arrays["scores"], arrays["mof_by_video"]


def as_rows(values: Floats) -> list[SeedValues]:
    """Rows of one split from `[k R]`."""
    return [{("1", seed): float(value) for seed, value in enumerate(row)} for row in values]


def test_the_best_rows_are_bold_and_only_they() -> None:
    random = np.random.default_rng(1)
    found = best_rows(planted(random, [0.40, 0.50, 0.501, 0.30], splits="1234"))
    assert found.best in (1, 2)
    assert found.rows == (1, 2)
    assert found.against_best[found.best] is None
    assert [outcome is not None and outcome.significant for outcome in found.against_best] == [True, False, False, True]
    tests = [(outcome.test, outcome.comparisons) for outcome in found.against_best if outcome is not None]
    assert tests == [(WELCH, 3)] * 3


def test_five_seeds_on_one_split_separate_six_rows() -> None:
    means = [0.49, 0.436, 0.40, 0.38, 0.36, 0.30]
    assert best_rows(planted(np.random.default_rng(2), means, spread=0.001)).rows == (0,)


def test_the_lowest_error_is_bold() -> None:
    rows = planted(np.random.default_rng(3), [12.0, 9.0, 15.0], spread=0.1)
    assert best_rows(rows, higher_is_better=False).rows == (1,)
    assert best_rows(rows).rows == (2,)


@pytest.mark.parametrize("n_rows", [2, 3, 6])
@pytest.mark.parametrize("n_seeds", [5, 10])
def test_equally_good_rows_are_told_apart_in_at_most_six_percent_of_the_tables(n_rows: int, n_seeds: int) -> None:
    random = np.random.default_rng(10 * n_rows + n_seeds)
    draws = 300
    found = [best_rows(planted(random, [0.5] * n_rows, n_seeds=n_seeds)).rows for _ in range(draws)]
    assert sum(bool(rows) for rows in found) / draws <= 0.06


@pytest.mark.parametrize("n_seeds", range(2, 11))
def test_seeds_of_one_real_configuration_are_told_apart_in_at_most_six_percent(n_seeds: int) -> None:
    scores, _ = real_seeds()
    random = np.random.default_rng(n_seeds)
    draws, bold, different = 200, 0, 0
    for draw in range(draws):
        chosen = random.permutation(len(scores))[: 2 * n_seeds].reshape(2, n_seeds)
        rows = as_rows(scores[chosen, draw % scores.shape[1]])
        bold += bool(best_rows(rows).rows)
        comparison = compare_with_default(rows, 0)[1]
        assert comparison is not None
        different += comparison.seeds.significant
    assert bold / draws <= 0.06
    assert different / draws <= 0.06
    assert n_seeds >= 5 or bold == different == 0


def test_a_test_over_videos_would_tell_most_pairs_of_these_seeds_apart() -> None:
    """Why tables do not use it: every pair has the same configuration."""
    _, videos = real_seeds()
    random = np.random.default_rng(0)
    groups = [random.permutation(len(videos))[:4].reshape(2, 2) for _ in range(100)]
    claims = [wilcoxon_over_videos(*videos[group].mean(axis=1)).significant for group in groups]
    assert np.mean(claims) > 0.5


def test_five_seeds_find_a_difference_of_two_standard_deviations() -> None:
    scores, _ = real_seeds()
    random = np.random.default_rng(1)
    for _ in range(50):
        values = scores[random.permutation(len(scores))[:10], 0].reshape(2, 5)
        standard = (values - values.mean(axis=1, keepdims=True)) / values.std(axis=1, ddof=1, keepdims=True)
        rows = as_rows(standard + np.array([[2.0], [0.0]]))
        assert best_rows(rows).rows == (0,)
        comparison = compare_with_default(rows, 1)[0]
        assert comparison is not None
        assert (comparison.seeds.significant, comparison.seeds.direction) == (True, 1)


def test_a_difference_is_bold_only_from_five_seeds_of_both_rows_on() -> None:
    random = np.random.default_rng(5)
    few, many = planted(random, [0.9, 0.5], n_seeds=4), planted(random, [0.9, 0.5], n_seeds=5)
    assert best_rows(few).rows == ()
    assert best_rows(many).rows == (0,)
    mixed = best_rows([few[0], *many])
    assert (mixed.best in (0, 1), mixed.rows) == (True, (1,) if mixed.best == 1 else ())
    for outcome in best_rows(few).against_best:
        if outcome is not None:
            assert (outcome.p, outcome.adjusted_p, outcome.significant) == (None, None, False)
            assert outcome.reason is not None
            assert "4 seeds on 1 split" in outcome.reason


def test_the_p_against_the_best_is_holms_and_not_below_that_of_the_clearest_pair() -> None:
    rows = planted(np.random.default_rng(4), [0.50, 0.49, 0.47], spread=0.01)
    found = best_rows(rows)
    pairs = [(0, 1), (0, 2), (1, 2)]
    plain = [welch_over_seeds(list(rows[i].values()), list(rows[j].values())).p for i, j in pairs]
    clearest = min(p for p in holm(plain) if p is not None)
    for i, p in zip((1, 2), holm(plain[:2]), strict=True):
        outcome = found.against_best[i]
        assert outcome is not None
        assert p is not None
        assert outcome.adjusted_p == pytest.approx(max(p, clearest))


def test_the_clearest_of_all_pairs_is_that_of_the_tests_one_by_one() -> None:
    random = np.random.default_rng(3)
    samples = [random.normal(0.5, 0.02, n).tolist() for n in (5, 7, 4, 6, 10)] + [[0.5] * 5, [0.6] * 6]
    single = [welch_over_seeds(a, b).p for a, b in itertools.combinations(samples, 2)]
    assert smallest_pairwise_p(samples) == pytest.approx(min(p for p in single if p is not None))
    assert smallest_pairwise_p(samples[:5]) == pytest.approx(
        min(p for a, b in itertools.combinations(samples[:5], 2) if (p := welch_over_seeds(a, b).p) is not None)
    )
    assert smallest_pairwise_p([[0.5, 0.6]] * 3) == 1.0


def test_splits_are_paired() -> None:
    """Splits that differ by far more than the rows do not hide the difference."""
    random = np.random.default_rng(6)
    rows = planted(random, [0.50, 0.53], splits="1234", spread=0.01)
    assert best_rows(rows).rows == (1,)


def test_rows_without_a_value_are_neither_bold_nor_tested() -> None:
    rows = planted(np.random.default_rng(8), [0.5, 0.3])
    found = best_rows([{}, *rows])
    assert (found.best, found.rows, found.against_best[0]) == (1, (1,), None)
    assert found.against_best[2] is not None
    assert found.against_best[2].p is not None
    assert found.against_best[2].adjusted_p == pytest.approx(2 * found.against_best[2].p)
    nothing = best_rows([{}, {}])
    assert (nothing.best, nothing.rows, nothing.against_best) == (None, (), (None, None))


def test_each_row_is_tested_against_the_default_with_holm_over_the_others() -> None:
    random = np.random.default_rng(9)
    means = [0.5, 0.4, 0.505, 0.6]
    rows = planted(random, means, splits="12")
    found = compare_with_default(rows, 0)
    assert found[0] is None
    comparisons = [comparison for comparison in found if comparison is not None]
    seeds = [[*seed_means(row, "12").values()] for row in rows]
    welch = [welch_over_seeds(of_row, seeds[0]).p for of_row in seeds[1:]]
    paper = [friedman_with_replicates(common_seeds([row, rows[0]]).values).p for row in rows[1:]]
    assert [c.seeds.p for c in comparisons] == welch
    assert [c.seeds.adjusted_p for c in comparisons] == holm(welch)
    assert [c.paper.p for c in comparisons] == paper
    assert [c.paper.adjusted_p for c in comparisons] == holm(paper)
    assert [(c.seeds.comparisons, c.seeds.direction) for c in comparisons] == [(3, -1), (3, 1), (3, 1)]
    assert found[1] is not None
    assert found[1].seeds.counted == found[1].paper.counted == "5 seeds on 2 splits"
    assert found[1].paper.smallest_p == pytest.approx(0.000222, abs=5e-7)


def test_the_papers_test_has_no_p_below_five_seeds_either() -> None:
    rows = planted(np.random.default_rng(1), [0.9, 0.5], splits="1234", n_seeds=3)
    (comparison,) = (found for found in compare_with_default(rows, 0) if found is not None)
    assert (comparison.paper.p, comparison.paper.adjusted_p, comparison.paper.direction) == (None, None, 0)
    assert comparison.paper.reason is not None


def test_only_seeds_that_both_rows_have_on_every_split_are_compared() -> None:
    rows = planted(np.random.default_rng(10), [0.5, 0.4, 0.45], splits="12")
    short = {key: value for key, value in rows[1].items() if key != ("2", 3)}
    found = compare_with_default([rows[0], short, rows[2]], 0)
    assert [c.paper.counted for c in found if c] == ["4 seeds on 2 splits", "5 seeds on 2 splits"]
    assert [c.seeds.counted for c in found if c] == ["4 seeds on 2 splits", "5 seeds on 2 splits"]
    common = common_seeds([rows[0], short])
    assert (common.seeds, common.splits, common.values.shape) == ((0, 1, 2, 4), ("1", "2"), (2, 2, 4))
    assert common_seeds([rows[0], short], splits=("1",)).seeds == (0, 1, 2, 3, 4)
    assert sorted(seed_means(short, ("1", "2"))) == [0, 1, 2, 4]
    apart = compare_with_default([{("1", 0): 0.5}, {("1", 1): 0.5}], 0)
    assert apart[1] is not None
    assert (apart[1].paper.p, apart[1].paper.counted) == (None, "0 seeds on 1 split")


def test_wrong_rows_are_refused() -> None:
    rows = planted(np.random.default_rng(11), [0.5, 0.4])
    with refused("range", place="row", value=2, n=1):
        compare_with_default(rows, 2)
    with refused("range", place="row", value=-1, n=1):
        compare_with_default(rows, -1)


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
