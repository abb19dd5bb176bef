"""Teacher forcing, warm start, precision, scores during training, and reports of divergence."""

from __future__ import annotations

import dataclasses
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.config import TrainConfig
from mucon.device import cpu_has_bfloat16, usable_precision
from mucon.errors import DataWarning, Diverged, Interrupted
from mucon.evaluation import evaluate
from mucon.inference import MuConPredictor
from mucon.model import NetworkSize, build_model
from mucon.training import EpochReport, train
from mucon.training.loop import epoch_order
from mucon.training.progress import videos_to_score
from mucon.training.step import FrameLabels, video_losses
from mucon.training.warm_start import warm_start
from mucon.training_config import TrainingConfig
from mucon.videos import Video
from mucon.vocabulary import Vocabulary
from sweeps.service.trials.trial import Trial
from tests.helpers.factories import VOCABULARY, make_video, small_config, small_videos
from tests.helpers.refusals import matching, refused
from tests.mucon.training.test_loop import CONFIG, StopAfter, digest, train_small

FOUR = CONFIG.override("training.epochs", 4)
CPU = torch.device("cpu")


def reports_of(folder: Path, config: TrainConfig, videos: list[Video] | None = None) -> list[EpochReport]:
    found: list[EpochReport] = []
    train_small(folder, config, videos, report=found.append)
    return found


@pytest.fixture(scope="module")
def forced(tmp_path_factory: pytest.TempPathFactory) -> dict[float, tuple[str, list[EpochReport]]]:
    """Share of the run with teacher forcing -> weights and reports."""
    found = {}
    for share in (0.0, 0.5, 1.0):
        folder = tmp_path_factory.mktemp("run")
        reports = reports_of(folder, FOUR.override("training.teacher_forcing", share))
        found[share] = digest(folder), reports
    return found


def test_teacher_forcing_ends_after_its_share_of_the_run(forced: dict[float, tuple[str, list[EpochReport]]]):
    never, half, always = ([report.losses for report in forced[share][1]] for share in (0.0, 0.5, 1.0))
    assert half[:2] == always[:2]
    assert half[2] != always[2]
    assert never[0] != always[0]
    assert len({weights for weights, _ in forced.values()}) == 3
    assert all(np.isfinite(list(losses.values())).all() for losses in never + half)


def test_epochs_of_teacher_forcing_are_a_rounded_share():
    counts = [TrainingConfig(epochs=10, teacher_forcing=share).forced_epochs for share in (0.0, 0.04, 0.5, 0.96, 1.0)]
    assert counts == [0, 0, 5, 10, 10]


@pytest.mark.parametrize("k", [5, 6, 8])
def test_a_run_stopped_where_teacher_forcing_ends_resumes_to_the_same_bits(tmp_path: Path, forced, k: int):
    config = FOUR.override("training.teacher_forcing", 0.5)
    with pytest.raises(Interrupted):
        train_small(tmp_path, config, should_stop=StopAfter(k))
    rest = reports_of(tmp_path, config)
    assert digest(tmp_path) == forced[0.5][0]
    assert [report.losses for report in rest] == [report.losses for report in forced[0.5][1]][k // 3 :]


@pytest.mark.parametrize(
    "settings",
    [
        {"backbone.kind": "dual_dilated", "training.teacher_forcing": 0.0, "training.labelled": 0.5},
        {"backbone.kind": "single", "mask.min_ramp_frames": 4.0, "loss.smoothing_detached": False},
        {"backbone.upsampling": "stride", "backbone.dilation": "linear", "loss.length_on_labelled": True},
    ],
)
def test_options_together_resume_to_the_same_bits(tmp_path: Path, settings: dict[str, object]):
    config = CONFIG.with_values(settings)
    train_small(tmp_path / "whole", config)
    with pytest.raises(Interrupted):
        train_small(tmp_path / "stopped", config, should_stop=StopAfter(4))
    train_small(tmp_path / "stopped", config)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "whole")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    train_small(folder, CONFIG.with_values({"training.epochs": 8, "training.learning_rate": 0.05, "seed": 5}))
    return folder


def fresh(config: TrainConfig = CONFIG, *, dim: int = 5, n_actions: int = 4):
    size = NetworkSize(dim=dim, n_actions=n_actions, max_segments=7)
    return build_model(size, config.backbone, config.segment_branch, seed=1)


@pytest.mark.parametrize("inner", ["", "checkpoint"])
def test_a_warm_start_takes_over_the_weights_of_a_run_or_of_its_checkpoint(trained: Path, inner: str):
    model = fresh()
    warm_start(model, VOCABULARY, trained / inner)
    assert weights_sha256(model) == digest(trained)
    assert model.size.max_segments == 7


def test_training_starts_from_a_warm_start_and_resumes_to_the_same_bits_without_it(tmp_path: Path, trained: Path):
    here = tmp_path / "model"
    shutil.copytree(trained, here)
    config = CONFIG.override("training.warm_start", str(here))
    warm, cold = reports_of(tmp_path / "warm", config), reports_of(tmp_path / "cold", CONFIG)
    assert warm[0].losses["transcript"] < cold[0].losses["transcript"]
    with pytest.raises(Interrupted):
        train_small(tmp_path / "stopped", config, should_stop=StopAfter(2))
    shutil.rmtree(here)
    train_small(tmp_path / "stopped", config)
    assert digest(tmp_path / "stopped") == digest(tmp_path / "warm")


def test_a_warm_start_of_another_shape_is_refused_with_every_difference(trained: Path):
    config = CONFIG.with_values({"segment_branch.hidden": 6, "backbone.n_layers": 5})
    with refused("shape", "training.warm_start") as refusal:
        warm_start(fresh(config), VOCABULARY, trained)
    assert set(refusal.rules) == {"shape"}
    named = {place.split()[-1]: problem for place, problem in zip(refusal.places, refusal.problems, strict=True)}
    assert {"backbone.layers.4.dilated_weight", "segment_branch.attention_keys"} <= set(named)
    assert all(str(trained) in place for place in refusal.places)
    assert len(named) == len(refusal.problems) > 10
    new = named["backbone.layers.4.dilated_weight"]
    assert new.value is None
    assert "[3, 16, 16]" in str(new)
    assert named["segment_branch.attention_keys"].value == (16, 8)


def test_a_warm_start_for_other_actions_or_features_is_refused(trained: Path):
    other = Vocabulary(("rest", "pour", "stir", "eat"), ("rest",))
    with refused("mismatch", "features", 6, n=2) as refusal:
        warm_start(fresh(dim=6), other, trained)
    assert "5" in refusal.problems[0].expected
    assert refusal.places[1] == "vocabulary"
    assert {"drink", "eat"} <= set(refusal.problems[1].value)


def test_a_missing_warm_start_is_refused_before_anything_is_written(tmp_path: Path):
    config = CONFIG.override("training.warm_start", str(tmp_path / "nowhere"))
    with refused("missing", "nowhere", n=1):
        train_small(tmp_path / "run", config)
    assert not (tmp_path / "run").exists()
    with refused("missing", "nowhere", n=1):
        Trial.of(config, split="1", data_fingerprint="00", store="/a")


def test_a_trials_identity_depends_on_the_weights_that_it_starts_from_and_not_on_their_path(
    tmp_path: Path, trained: Path
):
    def identity(start: Path | None) -> str:
        config = CONFIG if start is None else CONFIG.override("training.warm_start", str(start))
        return Trial.of(config, split="1", data_fingerprint="00", store="/a").identity

    shutil.copytree(trained, tmp_path / "copy")
    assert identity(trained) == identity(tmp_path / "copy") == identity(tmp_path / "copy" / "checkpoint")
    train_small(tmp_path / "other", CONFIG)
    assert len({identity(trained), identity(tmp_path / "other"), identity(None)}) == 3


def test_bfloat16_is_used_if_the_processor_has_it_and_otherwise_a_warning_names_float32(tmp_path: Path):
    assert usable_precision("float32", CPU) == "float32"
    usable = usable_precision("bfloat16", CPU)
    assert usable == ("bfloat16" if cpu_has_bfloat16() else "float32")
    train_small(tmp_path / "exact")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        reports = reports_of(tmp_path / "rough", CONFIG.override("training.precision", "bfloat16"))
    problems = [one.message.problem for one in caught if issubclass(one.category, DataWarning)]
    warned = matching(problems, "unsupported", "training.precision", "bfloat16")
    assert len(warned) == (usable == "float32")
    assert (digest(tmp_path / "rough") == digest(tmp_path / "exact")) == (usable == "float32")
    assert np.isfinite([value for report in reports for value in report.losses.values()]).all()


@pytest.mark.parametrize("kind", ["dilated", "dual_dilated", "single"])
def test_a_step_in_bfloat16_is_about_that_in_float32_with_losses_and_gradients_in_float32(kind: str):
    config = small_config(backbone__kind=kind, mask__shape="bell")
    video = make_video("a", (0, 2, 1), (20, 25, 15))
    labels = FrameLabels(torch.from_numpy(video.frame_labels()), torch.tensor(video.lengths))
    transcript = torch.tensor(video.transcript)
    found = []
    for dtype in (torch.float32, torch.bfloat16):
        model = fresh(config).eval()
        outputs = model(video.features(dtype=dtype), transcript)
        terms = video_losses(outputs, transcript, config.mask, config.loss, labels=labels)
        terms["total"].backward()
        found.append((terms, {name: p.grad for name, p in model.named_parameters()}))
    (exact, gradients), (rough, rough_gradients) = found
    assert {term.dtype for term in rough.values()} == {torch.float32}
    for name in ("total", "mutual_consistency", "transcript", "frame"):
        assert rough[name].item() == pytest.approx(exact[name].item(), rel=0.03), name
    assert rough["total"].item() != exact["total"].item()
    flat, rough_flat = (torch.cat([g.flatten() for g in one.values()]) for one in (gradients, rough_gradients))
    assert {gradient.dtype for gradient in rough_gradients.values()} == {torch.float32}
    assert torch.isfinite(rough_flat).all()
    assert torch.linalg.vector_norm(rough_flat - flat) < 0.1 * torch.linalg.vector_norm(flat)


def test_scores_of_a_few_training_videos_are_reported_at_their_epochs_and_change_no_bit(tmp_path: Path):
    config = CONFIG.with_values({"training.epochs": 5, "training.progress_videos": 2})
    often, seldom = (
        reports_of(tmp_path / str(every), config.override("training.progress_every", every)) for every in (2, 1000)
    )
    assert [report.epoch for report in often if report.progress] == [2, 4, 5]
    assert [report.epoch for report in seldom if report.progress] == [5]
    assert digest(tmp_path / "2") == digest(tmp_path / "1000")
    assert [report.losses for report in often] == [report.losses for report in seldom]
    last = often[-1].metrics()
    assert {name for name in last if name.startswith("progress.")} == {
        "progress.frames.mof",
        "progress.full.mof",
        "progress.full.matching_score",
    }
    shown = videos_to_score(small_videos(3), 2, config.seed)
    scores = evaluate(MuConPredictor(checkpoints.load(tmp_path / "2" / "checkpoint")), shown).scores
    assert last["progress.frames.mof"] == scores["frames"]["mof"]
    assert last["progress.full.mof"] == scores["full"]["mof"]
    assert all(report.memory > 2**20 for report in often)
    assert last["memory_mib"] == often[-1].memory / 2**20
    assert last["steps_per_second"] > 0


def test_at_most_the_given_number_of_videos_with_lengths_is_scored_and_always_the_same_ones():
    videos = [v if i % 3 else dataclasses.replace(v, lengths=None) for i, v in enumerate(small_videos(12))]
    for at_most in (0, 1, 5, 8, 100):
        chosen = videos_to_score(videos, at_most, seed=3)
        assert len(chosen) == min(at_most, 8)
        assert all(video.lengths is not None for video in chosen)
        assert [v.id for v in chosen] == [v.id for v in videos_to_score(videos, at_most, seed=3)]
    choices = {tuple(v.id for v in videos_to_score(videos, 3, seed)) for seed in range(10)}
    assert len(choices) > 3


def test_a_run_without_lengths_or_without_videos_to_score_has_no_score(tmp_path: Path):
    transcripts_only = [dataclasses.replace(video, lengths=None) for video in small_videos(3)]
    assert not any(report.progress for report in reports_of(tmp_path / "a", CONFIG, transcripts_only))
    assert not any(
        report.progress for report in reports_of(tmp_path / "b", CONFIG.override("training.progress_videos", 0))
    )
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


@pytest.mark.parametrize(
    "settings",
    [
        {"decoding.transcripts": "training"},
        {"decoding.class_prior": "training", "decoding.beam": 3},
        {"decoding.method": "published", "decoding.step": 1},
        {"decoding.max_length": 2},
    ],
)
def test_a_choice_of_decoding_never_ends_or_changes_a_training(tmp_path: Path, settings: dict[str, object]):
    plain, other = reports_of(tmp_path / "plain", CONFIG), reports_of(tmp_path / "other", CONFIG.with_values(settings))
    assert digest(tmp_path / "other") == digest(tmp_path / "plain")
    assert plain[-1].progress == other[-1].progress != {}


def test_a_decoding_that_would_fail_after_the_training_is_refused_before_it(tmp_path: Path):
    with refused("range", "decoding.step", 30, n=1) as refusal:
        train_small(tmp_path / "run", CONFIG.override("decoding.method", "published"))
    assert "'v00'" in str(refusal.problems[0])
    assert not (tmp_path / "run").exists()


def planted(values: float) -> list[Video]:
    """Four videos, of which `v02` has features of such a size."""
    videos = small_videos(4)
    bad = Video.from_arrays("v02", np.sign(videos[2].read()) * values, videos[2].transcript, videos[2].lengths)
    return [*videos[:2], bad, videos[3]]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_divergence_names_the_video_and_the_terms_at_which_it_happened(tmp_path: Path, seed: int):
    config = CONFIG.override("seed", seed)
    with pytest.raises(Diverged) as caught:
        train_small(tmp_path, config, planted(3e38))
    said = str(caught.value)
    assert "epoch 1" in said
    assert "'v02': loss.total" in said
    assert "loss.mutual_consistency" in said
    assert "gradient_norm.encoder" in said
    assert not checkpoints.exists(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("weight", "terms"),
    [(1e38, ("loss.total",)), (1e30, ("gradient_norm.encoder", "gradient_norm.decoder"))],
)
def test_a_divergence_names_only_what_became_infinite(tmp_path: Path, weight: float, terms: tuple[str, ...]):
    first = epoch_order(3, CONFIG.seed, 0)[0]
    config = CONFIG.override("loss.transcript", weight)
    with pytest.raises(Diverged, match=rf"epoch 1 at video 'v{first:02}': {', '.join(terms)}") as caught:
        train_small(tmp_path, config)
    assert "loss.transcript" not in str(caught.value)


def test_a_divergence_is_found_before_a_checkpoint_when_training_is_stopped_after_it(tmp_path: Path):
    order = epoch_order(4, CONFIG.seed, 0)
    with pytest.raises(Diverged, match="at video 'v02'"):
        train_small(tmp_path, CONFIG, planted(3e38), should_stop=StopAfter(order.index(2) + 1))
    assert not checkpoints.exists(tmp_path / "checkpoint")


def test_a_labelled_video_without_lengths_is_refused_by_name(tmp_path: Path):
    silent = dataclasses.replace(small_videos(1)[0], lengths=None, labelled=True)
    with refused("missing", "v00", n=1):
        train(CONFIG, [silent], VOCABULARY, folder=tmp_path, device="cpu")


def test_compiled_losses_train_to_the_same_weights_up_to_rounding(tmp_path: Path):
    config = CONFIG.with_values({"training.labelled": 1.0, "training.epochs": 2})
    plain = reports_of(tmp_path / "plain", config)
    torch._dynamo.utils.counters.clear()  # of other tests in this process
    compiled = reports_of(tmp_path / "compiled", config.override("training.compile", True))
    for report, other in zip(plain, compiled, strict=True):
        assert report.losses == pytest.approx(other.losses, rel=1e-4)
        assert report.gradient_norms == pytest.approx(other.gradient_norms, rel=1e-3)
    ours, theirs = (checkpoints.load(tmp_path / run / "checkpoint").model.state_dict() for run in ("plain", "compiled"))
    for name, weight in ours.items():
        torch.testing.assert_close(weight, theirs[name], rtol=1e-3, atol=1e-5)
    graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
    assert 1 <= graphs <= 2, "one graph serves recordings of all lengths"


def test_training_without_the_compiler_does_not_wait_for_its_import():
    code = "import sys, mucon.cli, mucon.training; sys.exit('torch._dynamo' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compiling_without_a_compiler_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
):
    torch._dynamo.reset()
    request.addfinalizer(torch._dynamo.reset)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(torch._inductor.config.cpp, "cxx", (None, str(tmp_path / "no-compiler")))
    with refused("unsupported", "training.compile", n=1) as refusal:
        train_small(tmp_path / "run", CONFIG.override("training.compile", True))
    assert "\n" not in str(refusal.problems[0])
