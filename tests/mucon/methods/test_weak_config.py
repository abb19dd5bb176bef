"""Canonical forms and schedules of the configurations of methods that learn from transcripts."""

from __future__ import annotations

import pytest

from mucon.configuration import flatten
from mucon.methods import method_named


@pytest.mark.parametrize(
    ("name", "base", "path", "canonical"),
    [
        ("hmm_rnn", {"training.epochs": 8}, "training.realign_every", {1: 1, 5: 5, 7: 7, 8: 8, 9: 8}),
        ("hmm_rnn", {"training.epochs": 4}, "training.realign_every", {3: 3, 4: 5, 5: 5, 6: 5}),
        ("isba", {"training.epochs": 10}, "boundaries.patience", {0: 0, 2: 2, 5: 5, 6: 6, 7: 6}),
        ("isba", {"training.epochs": 5}, "boundaries.patience", {0: 0, 1: 2, 2: 2, 3: 2}),
        ("isba", {"training.epochs": 40}, "boundaries.loops", {20: 20, 30: 30, 40: 40, 50: 40}),
        ("isba", {"training.epochs": 10}, "boundaries.loops", {5: 5, 10: 30, 20: 30, 30: 30, 40: 30}),
        ("atba", {"training.epochs": 40}, "training.stage1_epochs", {None: None, 3: 3, 4: None, 5: 5}),
    ],
)
def test_numbers_with_the_same_effect_share_a_canonical_form_and_no_others_do(
    name: str, base: dict[str, object], path: str, canonical: dict[int | None, int | None]
):
    configs = {value: method_named(name).config().with_values({**base, path: value}) for value in canonical}
    found = {value: flatten(config.canonical().to_dict())[path] for value, config in configs.items()}
    assert found == canonical
    assert all(config.canonical().canonical() == config.canonical() for config in configs.values())


@pytest.mark.parametrize("name", ["nnv", "cdfl", "isba", "hmm_rnn", "atba"])
def test_a_setting_that_is_given_wins_over_the_published_schedule_even_with_its_default(name: str):
    method = method_named(name)
    default = method.config()
    asked = default.override("training.schedule", "published")
    published = method.for_videos(asked, 160)
    assert published.training.epochs != default.training.epochs
    kept = method.for_videos(asked, 160, {"training.schedule", "training.epochs"})
    assert kept == published.override("training.epochs", default.training.epochs)
    for config in (published, kept):
        assert method.for_videos(config, 160) == method.for_videos(config, 9) == config
