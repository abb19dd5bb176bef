"""Additional losses and changed features in MuCon's steps."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from mucon.checkpoint_files import LEARNER
from mucon.errors import Interrupted
from mucon.training import EpochReport
from mucon.training.extras import KNOWN, PROTOTYPES
from mucon.training.loop import Loop
from mucon.training.mucon_learner import MuConLearner
from mucon.training.step import TERMS
from tests.helpers.factories import TRANSCRIPTS, VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import refused
from tests.mucon.training.test_loop import StopAfter, digest, train_small

EPOCHS, N_VIDEOS = 3, 3
OPTIONS = {
    "video level": {"video_level.weight": 1.0, "video_level.alone": 0.3},
    "prototypes": {"prototypes.weight": 0.1, "prototypes.decay": 0.5},
    "stretch": {"augmentation.stretch": 1.25},
    "noise": {"augmentation.noise": 0.2},
}
OFF = small_config(training__epochs=EPOCHS)
ALL = OFF.with_values({path: value for settings in OPTIONS.values() for path, value in settings.items()})


def learner_of(config, folder: Path, videos=None) -> MuConLearner:
    videos = videos or small_videos(N_VIDEOS)
    return MuConLearner(config, videos, VOCABULARY, folder, torch.device("cpu"), videos[0].dim)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[EpochReport]]:
    """Digest and reports of an uninterrupted run with all options."""
    folder, reports = tmp_path_factory.mktemp("whole"), []
    train_small(folder, ALL, report=reports.append)
    return digest(folder), reports


@pytest.mark.parametrize("k", range(EPOCHS * N_VIDEOS))
def test_a_run_with_all_options_stopped_before_any_step_gives_the_same_bits(tmp_path: Path, whole, k: int):
    with pytest.raises(Interrupted):
        train_small(tmp_path, ALL, should_stop=StopAfter(k))
    reports: list[EpochReport] = []
    train_small(tmp_path, ALL, report=reports.append)
    assert digest(tmp_path) == whole[0]
    assert [report.losses for report in reports] == [report.losses for report in whole[1][k // N_VIDEOS :]]


@pytest.mark.parametrize("option", OPTIONS)
def test_each_option_is_another_training_and_in_the_identity(tmp_path: Path, whole, option: str):
    config = OFF.with_values(OPTIONS[option])
    for name, one in (("off", OFF), ("on", config)):
        train_small(tmp_path / name, one)
    assert digest(tmp_path / "off") != digest(tmp_path / "on") != whole[0]
    assert set(config.canonical().trained_differences()) - set(OFF.canonical().trained_differences())


@pytest.mark.parametrize(
    "change",
    [{"video_level.alone": 0.7, "video_level.top": 0.5}, {"prototypes.decay": 0.3, "prototypes.temperature": 1.0}],
)
def test_settings_of_a_loss_that_is_off_have_no_effect(change: dict[str, float]):
    assert OFF.with_values(change).canonical() == OFF.canonical()


def test_the_masks_count_where_prototypes_use_them():
    base = OFF.override("loss.mutual_consistency", 0.0)
    assert base.canonical() == base.override("mask.shape", "bell").canonical()
    base = base.with_values(OPTIONS["prototypes"])
    assert base.canonical() != base.override("mask.shape", "bell").canonical()


def test_the_share_of_epochs_alone_counts_in_whole_epochs():
    on = OFF.with_values(OPTIONS["video level"])
    assert on.canonical() == on.override("video_level.alone", 0.4).canonical()
    assert on.canonical() != on.override("video_level.alone", 0.7).canonical()


def test_the_loss_of_the_video_is_alone_at_first_and_then_added(tmp_path: Path):
    config = OFF.with_values({"video_level.weight": 3.0, "video_level.alone": 0.3, "training.weight_decay": 0.0})
    learner = learner_of(config, tmp_path)
    branch = {name: p.detach().clone() for name, p in learner.model.segment_branch.named_parameters()}
    totals, reports = [], []

    def report(one: EpochReport) -> None:
        reports.append(one)
        totals.append({name: p.detach().clone() for name, p in learner.model.segment_branch.named_parameters()})

    Loop(learner, tmp_path).run(report)
    assert all(torch.equal(totals[0][name], value) for name, value in branch.items())
    assert not all(torch.equal(totals[1][name], value) for name, value in branch.items())
    weights = {"mutual_consistency": 1.0, "transcript": 1.0, "length": 0.1, "smoothing": 0.1, "presence": 3.0}
    assert [list(one.losses) for one in reports] == [[*TERMS, "presence"]] * EPOCHS
    first, later = (one.losses for one in reports[:2])
    assert first["total"] == pytest.approx(3.0 * first["presence"])
    assert later["total"] == pytest.approx(sum(weight * later[name] for name, weight in weights.items()))


def test_the_loss_of_the_video_teaches_the_frames_which_actions_occur(tmp_path: Path):
    videos = [make_video(f"v{i}", TRANSCRIPTS[i % 5], [12] * len(TRANSCRIPTS[i % 5])) for i in range(10)]
    config = OFF.with_values(
        {"training.epochs": 12, "training.learning_rate": 0.1, "video_level.weight": 1.0, "video_level.alone": 1.0}
    )
    learner = learner_of(config, tmp_path, videos)
    Loop(learner, tmp_path).run()
    learner.model.eval()
    hits = []
    for video in videos:
        logits = learner.model(video.features(), torch.tensor(video.transcript)).latent_logits
        present = logits.max(dim=0).values > 0
        hits += [bool(present[n]) == (n in video.transcript) for n in range(VOCABULARY.n_actions)]
    assert sum(hits) >= 0.9 * len(hits)


def test_a_prototype_is_the_running_mean_of_its_actions_latent_frames(tmp_path: Path):
    config = OFF.with_values(OPTIONS["prototypes"])
    learner = learner_of(config, tmp_path, [make_video("one", (1,), (16,))])
    features, means = learner.videos[0].features(), []
    for step in range(3):
        torch.manual_seed(step)
        learner.step(0, features, epoch=0, step=step, rate=0.0)
        torch.manual_seed(step)
        means.append(learner.model(features, torch.tensor([1])).latent.mean(dim=0))
    expected = 0.5 * (0.5 * means[0] + 0.5 * means[1]) + 0.5 * means[2]
    torch.testing.assert_close(learner.extras.prototypes[1], expected)
    assert learner.extras.known.tolist() == [False, True, False, False]


def test_stretched_features_are_compared_with_the_labels_of_the_recordings_own_frames(tmp_path: Path):
    videos = [make_video("one", (1, 2), (120, 40), noise=0.0)]
    learner = learner_of(OFF.override("augmentation.stretch", 1.5), tmp_path, videos)
    features = videos[0].features()
    sizes = set()
    for seed in range(5):
        torch.manual_seed(seed)
        changed = learner.extras.features(features)
        sizes.add(len(changed))
        outputs = learner.extras.outputs(learner.model(changed, torch.tensor([1, 2])), 160)
        assert len(outputs.latent_of_frame) == 160
        share = (outputs.latent_of_frame < 0.75 * len(outputs.latent_logits)).float().mean()
        assert share == pytest.approx(0.75, abs=0.03)
    assert len(sizes) > 3


@pytest.mark.parametrize("name", [PROTOTYPES, KNOWN])
def test_prototypes_that_do_not_fit_the_model_are_refused(tmp_path: Path, name: str):
    with pytest.raises(Interrupted):
        train_small(tmp_path, ALL, should_stop=StopAfter(2))
    path = tmp_path / "checkpoint" / LEARNER
    save_file({**load_file(path), name: torch.zeros(1)}, path)
    with refused("damaged", name, n=1):
        train_small(tmp_path, ALL)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("video_level.weight", -1.0), ("video_level.alone", 2.0), ("video_level.top", 0.0), ("prototypes.weight", -1.0),
        ("prototypes.decay", 1.0), ("prototypes.temperature", 0.0), ("augmentation.stretch", 0.5),
        ("augmentation.noise", -0.1),
    ],
)  # fmt: skip
def test_values_outside_their_range_are_refused(path: str, value: float):
    with refused("range", path, value, n=1):
        OFF.override(path, value)
