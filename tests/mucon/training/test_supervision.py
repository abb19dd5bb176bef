"""Which videos are labelled, their losses, and that training reads no other labels."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from mucon.checkpoint_files import DATA
from mucon.config import LossConfig, MaskConfig, TrainConfig
from mucon.errors import DataWarning, Interrupted
from mucon.identity.fingerprint import VideoFacts
from mucon.training import EpochReport
from mucon.training.loop import epoch_order
from mucon.training.step import SUPERVISED_TERMS, TERMS, FrameLabels, loss_vector, video_losses
from mucon.training.supervision import labelled_of, with_labels
from mucon.videos import Video
from sweeps.service.plan.recordings import SplitFacts
from sweeps.service.trials.trial import Trial
from tests.helpers.factories import small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.training.test_loop import CONFIG, StopAfter, digest, train_small
from tests.mucon.training.test_step import TRANSCRIPT, outputs

NAMES = st.sets(st.text(min_size=1, max_size=4), min_size=1, max_size=30)
LABELS = FrameLabels(torch.tensor([0] * 4 + [2] * 5 + [1] * 2), torch.tensor([4, 5, 2]))


def without_lengths(video: Video) -> Video:
    return dataclasses.replace(video, lengths=None)


@given(NAMES, st.floats(0, 1), st.floats(0, 1), st.integers(0, 1000))
def test_a_larger_share_holds_all_of_a_smaller_one(names: set[str], a: float, b: float, seed: int):
    few, many = (labelled_of(names, len(names), share, seed) for share in sorted((a, b)))
    assert many[: len(few)] == few
    assert set(many) <= names
    assert len(set(many)) == len(many)


@given(NAMES, st.floats(0, 1), st.integers(0, 1000), st.randoms())
def test_the_labelled_videos_depend_on_nothing_but_names_and_seed(names: set[str], share: float, seed: int, random):
    order = list(names)
    random.shuffle(order)
    torch.manual_seed(random.randrange(100))
    assert labelled_of(order, len(names), share, seed) == labelled_of(sorted(names), len(names), share, seed)


@given(st.integers(1, 2000), st.integers(0, 100))
def test_the_number_of_labelled_videos_is_the_share_rounded_up(n: int, percent: int):
    names = [f"v{i}" for i in range(n)]
    assert len(labelled_of(names, n, percent / 100, seed=1)) == -(-n * percent // 100)


def test_seeds_choose_different_videos():
    names = [f"v{i}" for i in range(40)]
    chosen = {labelled_of(names, 40, 0.25, seed) for seed in range(20)}
    assert len(chosen) == 20
    assert len({name for names in chosen for name in names}) > 35


def test_a_share_that_more_videos_would_have_to_know_is_refused_with_the_numbers():
    videos = [video if i < 2 else without_lengths(video) for i, video in enumerate(small_videos(5))]
    assert {v.id for v in with_labels(videos, 0.4, 3) if v.labelled} == {"v00", "v01"}
    with refused("range", "training.labelled", 0.5, n=1) as refusal:
        with_labels(videos, 0.5, 3)
    assert [word for word in str(refusal.problems[0]).replace(",", "").split() if word.isdigit()] == ["5", "3", "2"]


def test_videos_that_are_labelled_already_stay_so_and_the_given_ones_do_not_change():
    videos = small_videos(5)
    marked = [dataclasses.replace(videos[0], labelled=True), *videos[1:]]
    found = with_labels(marked, 0.2, 4)
    assert found[0].labelled
    assert sum(v.labelled for v in found) == len({"v00", *labelled_of([v.id for v in videos], 5, 0.2, 4)})
    assert not any(video.labelled for video in videos)


def test_a_labelled_video_has_two_more_terms_and_no_length_regulariser():
    config = LossConfig(length_width=0.1, length=0.7, frame=0.3, supervised_length=0.6)
    terms = video_losses(outputs(), TRANSCRIPT, MaskConfig(), config, labels=LABELS)
    assert list(terms) == [*TERMS, *SUPERVISED_TERMS]
    assert terms["length"] > 0
    counted = [name for name in terms if name not in ("total", "length")]
    expected = sum(getattr(config, name) * terms[name] for name in counted)
    torch.testing.assert_close(terms["total"], expected)
    both = dataclasses.replace(config, length_on_labelled=True)
    with_length = video_losses(outputs(), TRANSCRIPT, MaskConfig(), both, labels=LABELS)
    torch.testing.assert_close(with_length["total"], expected + 0.7 * terms["length"])


def test_a_term_that_a_video_does_not_have_is_zero_in_the_vector():
    terms = video_losses(outputs(), TRANSCRIPT, MaskConfig(), LossConfig())
    assert loss_vector(terms, (*TERMS, *SUPERVISED_TERMS)).tolist()[-2:] == [0.0, 0.0]


@pytest.mark.parametrize("rule", ["log", "share"])
@pytest.mark.parametrize("mutual", [0.0, 1.0])
def test_the_gradient_of_a_labelled_videos_total_is_that_of_finite_differences(rule: str, mutual: float):
    config = LossConfig(smoothing=0, supervised_length_rule=rule, mutual_consistency=mutual)
    start = outputs()

    def total(logits: torch.Tensor, transcript_logits: torch.Tensor, log_lengths: torch.Tensor) -> torch.Tensor:
        given = start._replace(latent_logits=logits, transcript_logits=transcript_logits, log_lengths=log_lengths)
        return video_losses(given, TRANSCRIPT, MaskConfig(shape="bell"), config, labels=LABELS)["total"]

    assert torch.autograd.gradcheck(total, (start.latent_logits, start.transcript_logits, start.log_lengths))


@pytest.fixture(scope="module")
def digests(tmp_path_factory: pytest.TempPathFactory) -> dict[float, str]:
    """Share of labelled videos -> the weights of the small run."""
    found = {}
    for share in (0.0, 0.5, 1.0):
        folder = tmp_path_factory.mktemp("run")
        train_small(folder, CONFIG.override("training.labelled", share))
        found[share] = digest(folder)
    return found


def test_a_share_of_zero_is_the_weak_run_and_sees_no_length(tmp_path: Path, digests: dict[float, str]):
    train_small(tmp_path, videos=[without_lengths(video) for video in small_videos(3)])
    assert digest(tmp_path) == digests[0.0]
    assert not (tmp_path / "labelled.json").exists()


def test_labels_change_the_weights(digests: dict[float, str]):
    assert len(set(digests.values())) == 3


def test_lengths_of_videos_that_are_not_labelled_change_nothing(tmp_path: Path, digests: dict[float, str]):
    videos = small_videos(3)
    chosen = labelled_of([video.id for video in videos], 3, 0.5, CONFIG.seed)
    assert len(chosen) == 2
    other = [v if v.id in chosen else dataclasses.replace(v, lengths=v.lengths[::-1]) for v in videos]
    assert [v.lengths for v in other] != [v.lengths for v in videos]
    train_small(tmp_path, CONFIG.override("training.labelled", 0.5), other)
    assert digest(tmp_path) == digests[0.5]
    recorded = json.loads((tmp_path / "labelled.json").read_text())
    assert recorded == {"n": 2, "videos": sorted(chosen)}


@pytest.mark.parametrize("k", [1, 4])
def test_a_run_of_labelled_and_other_videos_resumes_to_the_same_bits(tmp_path: Path, digests: dict[float, str], k: int):
    config = CONFIG.override("training.labelled", 0.5)
    with pytest.raises(Interrupted):
        train_small(tmp_path, config, should_stop=StopAfter(k))
    train_small(tmp_path, config)
    assert digest(tmp_path) == digests[0.5]


def test_supervised_losses_are_means_over_the_labelled_videos(tmp_path: Path):
    reports: list[EpochReport] = []
    config = small_config(training__epochs=1, training__learning_rate=1e-12, backbone__dropout=0.0)
    config = config.override("segment_branch.dropout", 0.0)
    for share in (0.2, 1.0):
        train_small(
            tmp_path / str(share), config.override("training.labelled", share), small_videos(4), report=reports.append
        )
    alone: list[EpochReport] = []
    (chosen,) = labelled_of([f"v{i:02}" for i in range(4)], 4, 0.2, config.seed)
    for video in small_videos(4):
        train_small(tmp_path / video.id, config.override("training.labelled", 1.0), [video], report=alone.append)
    frames = {video.id: one.losses["frame"] for video, one in zip(small_videos(4), alone, strict=True)}
    assert reports[0].losses["frame"] == pytest.approx(frames[chosen], rel=1e-5)
    assert reports[1].losses["frame"] == pytest.approx(math.fsum(frames.values()) / 4, rel=1e-5)
    assert "loss.supervised_length" in reports[0].metrics()
    assert reports[0].losses["transcript"] == pytest.approx(
        math.fsum(one.losses["transcript"] for one in alone) / 4, rel=1e-5
    )


def test_a_weak_run_reports_no_supervised_loss(tmp_path: Path):
    reports: list[EpochReport] = []
    train_small(tmp_path, report=reports.append)
    assert list(reports[0].losses) == list(TERMS)


def facts(**lengths: tuple[int, ...] | None) -> SplitFacts:
    train = tuple(
        VideoFacts(id=name, n_frames=9, sha256="00", transcript=("pour", "stir"), lengths=known)
        for name, known in lengths.items()
    )
    return SplitFacts(train=train, test=(), actions=("pour", "stir"), background=())


def identity(split: SplitFacts, config: TrainConfig) -> str:
    return Trial.of(
        config, split="1", data_fingerprint=split.fingerprint(config.training.labelled, config.seed), store="/a"
    ).identity


def test_the_identity_of_a_trial_depends_on_the_lengths_that_it_sees():
    names = "abcd"
    same = facts(**dict.fromkeys(names, (4, 5)))
    weak, half = TrainConfig(), TrainConfig().override("training.labelled", 0.5)
    chosen = labelled_of(names, 4, 0.5, half.seed)
    assert (
        same.fingerprint(weak.training.labelled, weak.seed)
        == same.fingerprint()
        == facts(**dict.fromkeys(names)).fingerprint()
    )
    assert identity(same, weak) != identity(same, half) != identity(same, half.override("training.labelled", 1.0))
    for name in names:
        changed = facts(**{one: (4, 5) if one != name else (3, 6) for one in names})
        assert identity(changed, weak) == identity(same, weak)
        assert (identity(changed, half) == identity(same, half)) == (name not in chosen)


def test_the_same_share_of_another_seed_has_the_fingerprint_of_its_own_videos():
    names = [f"v{i}" for i in range(9)]
    split = facts(**{name: (i % 8 + 1, 8 - i % 8) for i, name in enumerate(names)})
    half = TrainConfig().override("training.labelled", 0.5)
    prints = {split.fingerprint(half.training.labelled, seed) for seed in range(6)}
    assert len(prints) == len({frozenset(labelled_of(names, 9, 0.5, seed)) for seed in range(6)}) > 1


def test_a_run_whose_labelled_videos_changed_is_not_resumed(tmp_path: Path):
    config = CONFIG.override("training.labelled", 0.5)
    with pytest.raises(Interrupted):
        train_small(tmp_path, config, should_stop=StopAfter(2))
    recorded = json.loads((tmp_path / "labelled.json").read_text())["videos"]
    other = [without_lengths(video) if video.id == recorded[0] else video for video in small_videos(3)]
    with refused("conflict", str(tmp_path), n=1):
        train_small(tmp_path, config, videos=other)
    (tmp_path / "checkpoint" / DATA).unlink()
    with pytest.warns(DataWarning), refused("mismatch", str(tmp_path / "labelled.json"), n=1) as refusal:
        train_small(tmp_path, config, videos=other)
    assert recorded[0] in refusal.values[0]


def test_the_order_of_the_labelled_videos_is_not_that_of_an_epoch() -> None:
    names = [f"v{i:02}" for i in range(12)]
    for seed in (0, 1, 7):
        labelled = labelled_of(names, 12, 1.0, seed)
        epochs = {tuple(names[i] for i in epoch_order(12, seed, epoch)) for epoch in range(2000)}
        assert labelled not in epochs
