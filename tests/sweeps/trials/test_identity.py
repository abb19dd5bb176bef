"""Identities: golden values, and what they depend on."""

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mucon import checkpoint
from mucon.config import TrainConfig
from mucon.errors import InputError
from mucon.identity.fingerprint import VideoFacts, canonical, data_fingerprint, digest
from sweeps.service.trials.identity import evaluation_identity
from sweeps.service.trials.trial import Trial
from tests.mucon.inference.test_predictions import checkpoint as small_checkpoint

FINGERPRINT = "0123456789abcdef"

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


def trial(seed: int = 1, split: str = "1", data: str = FINGERPRINT, **settings: Any) -> Trial:
    config = TrainConfig().with_values({path.replace("__", "."): value for path, value in settings.items()})
    return Trial.of(config.override("seed", seed), split=split, data_fingerprint=data, store="/anywhere")


@pytest.mark.parametrize(
    ("identity", "made"),
    [
        ("bf9e9f17298a632f", lambda: trial()),
        ("be287bb2ff444e55", lambda: trial(seed=2)),
        ("7f7d6d92b51b8f94", lambda: trial(split="2")),
        ("2e0c38e45f04c32f", lambda: trial(data="fedcba9876543210")),
        ("82205018424c1dd4", lambda: trial(mask__shape="bell")),
        ("1c96df8b4210c823", lambda: trial(mask__overlap=0.1)),
        ("9eb60949c7dba1a8", lambda: trial(mask__shape="trapezoid", mask__overlap=0.1)),
        ("58ead3a1df395394", lambda: trial(training__epochs=30, training__lr_drop_epoch=20)),
        ("ae7f4f4f8daf85c8", lambda: trial(backbone__pool_after=(1, 2))),
        ("9f8a9453d59da851", lambda: trial(loss__length=1, loss__smoothing=0, training__learning_rate=1e-3)),
    ],
)
def test_golden_identities_are_unchanged(identity: str, made: Any) -> None:
    """Another identity makes all trained trials of users stale; intended only together with a new NUMERICS."""
    assert made().identity == identity


def test_golden_identities_of_evaluations_and_data_are_unchanged() -> None:
    video = VideoFacts(id="a", n_frames=7, sha256="00", transcript=("pour", "stir"), lengths=(3, 4))
    assert trial().evaluation == "5c0b2ec12275cb03"
    assert trial(decoding__length_prior="class").evaluation == "12d1a1e59dcec356"
    assert data_fingerprint([video], [], ("pour", "stir"), ()) == "d575473df4189bef"


def test_evaluation_choices_and_threads_do_not_affect_a_trials_identity() -> None:
    assert trial(decoding__length_prior="class", decoding__max_length=9).identity == trial().identity
    assert trial(training__threads=2).identity == trial().identity
    assert trial(decoding__length_prior="class").evaluation != trial().evaluation
    assert trial(mask__shape="bell").evaluation == trial().evaluation


def test_a_stored_trial_with_a_choice_that_was_ignored_keeps_its_identities() -> None:
    stored = trial().to_dict()
    stored["config"]["decoding"] |= {"method": "published", "beam": 2}
    stored |= {"differences": {"decoding.method": "published", "decoding.beam": 2}, "evaluation": "0" * 16}
    read = Trial.from_dict(stored)
    assert read.to_dict() == stored
    assert read.decoding_choices == stored["differences"]


def test_a_default_value_is_not_a_difference() -> None:
    assert trial(mask__shape="box", training__epochs=150, loss__smoothing=0.1).identity == trial().identity


def test_whole_numbers_and_floats_are_the_same_where_the_setting_is_a_float() -> None:
    assert trial(loss__length=1).identity == trial(loss__length=1.0).identity == trial(loss__length="1").identity
    assert digest({"seed": 1}) != digest({"seed": 1.0})


def test_identities_do_not_depend_on_the_path_of_the_store() -> None:
    config = TrainConfig()
    here, there = (Trial.of(config, split="1", data_fingerprint=FINGERPRINT, store=store) for store in ("/a", "/b"))
    assert here.identity == there.identity


@given(value=st.dictionaries(st.text(max_size=3), VALUES, max_size=5))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any]) -> None:
    assert digest(dict(reversed(value.items()))) == digest(value)


@given(a=VALUES, b=VALUES)
def test_different_values_have_different_canonical_forms(a: Any, b: Any) -> None:
    def typed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: typed(item) for key, item in value.items()}
        if isinstance(value, list):
            return [typed(item) for item in value]
        return type(value), value

    assert (canonical(a) == canonical(b)) == (typed(a) == typed(b))


@given(value=st.floats(allow_nan=False))
def test_floats_are_distinguished_to_the_last_bit(value: float) -> None:
    assert digest(value) != digest(math.nextafter(value, math.inf if value < 0 else -math.inf))
    assert digest(0.0) == digest(-0.0)


def test_a_nan_has_no_identity() -> None:
    with pytest.raises(ValueError, match="NaN"):
        digest({"loss": math.nan})


def test_a_fingerprint_depends_on_everything_that_the_videos_contribute() -> None:
    base = {"id": "a", "n_frames": 7, "sha256": "00", "transcript": ("pour", "stir"), "lengths": (3, 4)}
    changes = [{"id": "b"}, {"n_frames": 8}, {"sha256": "01"}, {"transcript": ("stir", "pour")}, {"lengths": None}]
    other = VideoFacts(**(base | {"id": "other"}))
    videos = [VideoFacts(**(base | change)) for change in ({}, *changes)]
    actions = ("pour", "stir")
    prints = [data_fingerprint([video, other], [other], actions, ()) for video in videos]
    prints += [data_fingerprint([other], [video], actions, ()) for video in videos]
    prints += [data_fingerprint([videos[0]], [other], actions, background) for background in ((), ("pour",))]
    prints += [data_fingerprint([videos[0]], [other], ("stir", "pour"), ())]
    assert len(set(prints)) == len(prints)
    again = data_fingerprint([other, videos[0]], [other], actions, ())
    assert again == prints[0]


def test_the_evaluated_part_affects_an_evaluations_identity() -> None:
    assert evaluation_identity({}) == evaluation_identity({}, part="test") != evaluation_identity({}, part="train")


def test_a_warm_start_counts_by_its_weights_and_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write(folder: Path, seed: int) -> Path:
        checkpoint.save(folder, small_checkpoint(seed))
        return folder

    loaded: list[Path] = []
    load = checkpoint.load
    monkeypatch.setattr(checkpoint, "load", lambda folder: (loaded.append(folder), load(folder))[1])
    first, copied, other = (write(tmp_path / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2)))
    trials = [trial(seed=seed, training__warm_start=str(first)) for seed in (1, 2, 1)]
    assert loaded == [first]
    assert trials[0].identity == trials[2].identity == trial(training__warm_start=str(copied)).identity
    assert len({trials[0].identity, trials[1].identity, trial(training__warm_start=str(other)).identity}) == 3
    write(first, 2)
    assert trial(training__warm_start=str(first)).identity == trial(training__warm_start=str(other)).identity
    assert loaded == [first, copied, other, first]


def test_a_warm_start_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        trial(training__warm_start=str(tmp_path / "gone"))
    assert str(tmp_path / "gone") in str(error.value)
