"""Choice of epochs and seeds by scores, on trainings with known accuracies."""

import pytest

from sweeps.service.stats.stopping import EPOCH, Point, Training, best_epoch, choices, rank_correlation


def training(values: list[float], **scores: list[float]) -> Training:
    return tuple(
        Point(epoch=n, value=value, scores={name: of_epoch[n - 1] for name, of_epoch in scores.items()})
        for n, value in enumerate(values, start=1)
    )


def test_ranks_and_not_values_count_and_ties_share_their_rank():
    assert rank_correlation([1, 2, 3], [1, 10, 1000]) == 1
    assert rank_correlation([3, 2, 1], [1, 10, 1000]) == -1
    assert rank_correlation([1, 1, 2], [1, 2, 3]) == pytest.approx(3**0.5 / 2)
    assert rank_correlation([1, 2], [1, 2]) is None
    assert rank_correlation([1, 2, 3], [5, 5, 5]) is None


def test_a_score_that_follows_the_accuracy_chooses_the_best_epoch_and_the_best_seed():
    rising, falling = [0.3, 0.4, 0.5, 0.6], [0.7, 0.6, 0.5, 0.4]
    found = choices(
        {
            ("1", 1): training(rising, knows=rising, inverted=falling),
            ("1", 2): training(falling, knows=falling, inverted=rising),
            ("1", 3): training(rising[::-1], knows=rising[::-1], inverted=rising),
        }
    )
    assert list(found) == [EPOCH, "knows", "inverted"]
    assert found["knows"].over_epochs == (1, 1, 1)
    assert found["inverted"].over_epochs == (-1, -1, -1)
    assert found[EPOCH].over_epochs == (1, -1, -1)
    assert found["knows"].over_seeds == 1
    assert found["knows"].at_epoch == (0.6, 0.7, 0.6)
    assert found["inverted"].at_epoch == (0.3, 0.4, 0.3)
    assert found[EPOCH].at_epoch == (0.6, 0.4, 0.3)
    assert (found["knows"].of_seed, found["inverted"].of_seed) == (0.6, 0.4)


def test_seeds_are_compared_within_a_split_and_scores_that_some_epoch_lacks_are_left_out():
    easy, hard = [0.8, 0.85, 0.9], [0.1, 0.2, 0.3]
    ends = {("1", 1): 1, ("1", 2): 2, ("1", 3): 3, ("2", 1): 1, ("2", 2): 2, ("2", 3): 3}
    found = choices(
        {
            (split, seed): training([0, 0, (easy if split == "1" else hard)[rank - 1]], s=[0, 0, rank + (split == "2")])
            for (split, seed), rank in ends.items()
        }
    )
    assert found["s"].over_seeds == 1
    assert found["s"].of_seed == pytest.approx((0.9 + 0.3) / 2)
    partly = training([0.1, 0.2], s=[1, 2])
    assert list(choices({("1", 1): (*partly, Point(epoch=3, value=0.3, scores={}))})) == [EPOCH]


def test_the_best_epoch_of_several_trainings_is_that_of_their_mean():
    assert best_epoch([training([0.1, 0.9, 0.2]), training([0.8, 0.3, 0.2])]) == 2
