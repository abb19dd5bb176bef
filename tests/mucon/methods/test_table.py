"""The table of methods, and what every method promises."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import mucon
from mucon.checkpoint_files import read
from mucon.configuration import Config, field_types
from mucon.decoding.config import DecodingConfig
from mucon.errors import Diverged, Interrupted
from mucon.evaluation import evaluate
from mucon.inference import TASKS
from mucon.method import Method, Predictor
from mucon.methods import METHODS, method_named
from mucon.training import EpochReport
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video, small_videos
from tests.helpers.refusals import refused
from tests.helpers.small_methods import SETTINGS
from tests.mucon.training.test_loop import StopAfter

LABELLED = [name for name in METHODS if "training.labelled" in field_types(method_named(name).config)]
"""The methods that use frame labels."""
WIDTHS = ("network.maps", "network.hidden", "network.channels", "backbone.channels")
"""Settings that widen a network; a method has one of them, or the first one widens it most."""
N_VIDEOS, N_STEPS = 3, 6


def small(name: str, **settings: object) -> Config:
    """A small configuration; settings are spelt with two underscores for a dot."""
    values = {path.replace("__", "."): value for path, value in settings.items()}
    labels = {"training.labelled": 1.0} if name in LABELLED else {}
    return method_named(name).config().with_values({**SETTINGS[name], **labels, **values})


def train(name: str, folder: Path, config: Config | None = None, videos: list[Video] | None = None, **options) -> None:
    """Trains a small run."""
    chosen = small_videos(N_VIDEOS) if videos is None else videos
    method_named(name).train(config or small(name), chosen, VOCABULARY, folder=folder, device="cpu", **options)


def digest(name: str, folder: Path) -> str:
    predictor = method_named(name).load(folder / "checkpoint")
    assert predictor.progress.finished
    return predictor.weights_sha256()


@pytest.fixture(scope="module", params=METHODS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def method(name: str) -> Method:
    return method_named(name)


@pytest.fixture(scope="module")
def run(name: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[EpochReport]]:
    """The folder and the reports of an uninterrupted run."""
    folder, reports = tmp_path_factory.mktemp(name), []
    train(name, folder, report=reports.append)
    return folder, reports


@pytest.fixture(scope="module")
def predictor(method: Method, run: tuple[Path, list[EpochReport]]) -> Predictor:
    return method.load(run[0] / "checkpoint")


def test_every_method_of_the_table_has_its_name():
    assert list(METHODS) == list(SETTINGS)
    assert [method_named(name).name for name in METHODS] == list(METHODS)


def test_an_unknown_method_is_refused_and_the_nearest_are_named():
    with refused("unknown", "method", "ms_tnc", n=1) as refusal:
        method_named("ms_tnc")
    assert "'ms_tcn'" in str(refusal.problems[0])


def test_a_method_is_imported_when_it_is_looked_up():
    code = "import sys, mucon.methods; sys.exit(any('ms_tcn' in name for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_numerics_of_mucon_are_those_of_the_package():
    assert method_named("mucon").numerics == mucon.NUMERICS


def test_recipes_are_configurations_of_the_method_and_the_default_comes_first(method: Method):
    assert "demo" in method.recipes
    configs = [recipe() for recipe in method.recipes.values()]
    assert {type(config) for config in configs} == {method.config}
    assert configs[0] == method.config()
    for config in configs:
        assert method.config.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_the_main_prediction_is_one_of_the_predictions(method: Method, predictor: Predictor):
    assert method.main in method.predictions
    assert set(method.tasks) <= set(TASKS)
    ours = (method.name, method.predictions, method.main, method.tasks)
    assert (predictor.method, predictor.predictions, predictor.main, predictor.tasks) == ours


def test_a_predictor_knows_its_data_and_configuration(name: str, predictor: Predictor):
    assert (predictor.vocabulary, predictor.dim, predictor.config) == (VOCABULARY, 5, small(name))
    assert predictor.device == torch.device("cpu")


@pytest.mark.parametrize("k", range(N_STEPS))
def test_a_run_stopped_before_any_step_and_resumed_gives_the_same_bits(tmp_path: Path, name: str, run, k: int):
    with pytest.raises(Interrupted):
        train(name, tmp_path, should_stop=StopAfter(k))
    progress = read(tmp_path / "checkpoint").progress
    assert (progress.epoch, progress.step_in_epoch, progress.finished) == (k // N_VIDEOS, k % N_VIDEOS, False)
    reports: list[EpochReport] = []
    train(name, tmp_path, report=reports.append)
    folder, expected = run
    assert digest(name, tmp_path) == digest(name, folder)
    assert [(r.losses, r.gradient_norms) for r in reports] == [
        (r.losses, r.gradient_norms) for r in expected[k // N_VIDEOS :]
    ]


def test_a_run_that_ends_early_goes_on_to_the_same_bits(tmp_path: Path, name: str, run):
    for stop_after in (1, 2):
        train(name, tmp_path, small(name, training__stop_after=stop_after))
    assert digest(name, tmp_path) == digest(name, run[0])


def test_neither_the_order_of_the_videos_nor_the_random_generators_matter(tmp_path: Path, name: str, run):
    torch.manual_seed(99)
    train(name, tmp_path, videos=small_videos(N_VIDEOS)[::-1])
    assert digest(name, tmp_path) == digest(name, run[0])


def test_another_seed_gives_other_weights(tmp_path: Path, name: str, run):
    train(name, tmp_path, small(name, seed=2))
    assert digest(name, tmp_path) != digest(name, run[0])


@pytest.mark.parametrize("name", [name for name in METHODS if name not in LABELLED])
def test_lengths_change_nothing_where_no_label_is_used(tmp_path: Path, name: str):
    videos = small_videos(N_VIDEOS)
    other = [dataclasses.replace(video, lengths=None) for video in videos]
    for folder, chosen in (("a", videos), ("b", other)):
        train(name, tmp_path / folder, videos=chosen)
    assert digest(name, tmp_path / "a") == digest(name, tmp_path / "b")


@pytest.mark.parametrize("name", LABELLED)
def test_lengths_of_unlabelled_videos_change_nothing(tmp_path: Path, name: str):
    config = small(name, training__labelled=0.3)
    videos = small_videos(4)
    train(name, tmp_path / "a", config, videos)
    labelled = json.loads((tmp_path / "a" / "labelled.json").read_text())["videos"]
    assert len(labelled) == 2
    other = [v if v.id in labelled else dataclasses.replace(v, lengths=v.lengths[::-1]) for v in videos]
    train(name, tmp_path / "b", config, other)
    assert digest(name, tmp_path / "a") == digest(name, tmp_path / "b")


def test_all_methods_label_the_same_videos(tmp_path: Path):
    labelled = {}
    for name in LABELLED:
        train(name, tmp_path / name, small(name, training__labelled=0.4, training__epochs=1), small_videos(7))
        labelled[name] = (tmp_path / name / "labelled.json").read_text()
    assert len(set(labelled.values())) == 1


def test_the_folder_of_another_method_is_refused(run: tuple[Path, list[EpochReport]], name: str):
    folder, other = run[0], "frame_mlp" if name != "frame_mlp" else "mucon"
    with refused("conflict", str(folder), ("method",)):
        train(other, folder)
    with refused("mismatch", str(folder / "checkpoint"), name, n=1):
        method_named(other).load(folder / "checkpoint")


def test_the_folder_of_another_configuration_is_refused(tmp_path: Path, name: str):
    train(name, tmp_path)
    with refused("conflict", str(tmp_path), ("training.learning_rate", "seed"), n=1):
        train(name, tmp_path, small(name, training__learning_rate=0.2, seed=2))


@pytest.mark.parametrize("name", LABELLED)
def test_a_labelled_video_without_lengths_is_refused(tmp_path: Path, name: str):
    silent = dataclasses.replace(make_video("silent", (0, 1), (4, 5)), lengths=None, labelled=True)
    with refused("missing", "silent", n=1):
        train(name, tmp_path, small(name, training__labelled=0.5), [*small_videos(2), silent])
    assert not (tmp_path / "checkpoint").exists()


def test_a_run_that_diverges_keeps_no_weights_that_are_nan(tmp_path: Path, name: str):
    config = small(name, training__learning_rate=1e37, training__epochs=9)
    with pytest.raises(Diverged, match=r"epoch \d"):
        train(name, tmp_path, config)


@pytest.mark.parametrize("T", [1, 2, 3, 17])
def test_short_recordings_are_trained_on_and_predicted(tmp_path: Path, name: str, T: int):
    lengths = (T,) if T < 3 else (1, T - 1)
    video = make_video("short", (1, 2)[: len(lengths)], lengths)
    reports: list[EpochReport] = []
    train(name, tmp_path, videos=[video], report=reports.append)
    assert all(np.isfinite(list(report.metrics().values())).all() for report in reports)
    predictor = method_named(name).load(tmp_path / "checkpoint")
    segmentations = predictor.begin(video.features())().segmentations
    assert tuple(segmentations) == predictor.predictions
    assert all(segmentation.n_frames in (T, 0) for segmentation in segmentations.values())


def test_evaluation_scores_the_predictions_of_the_method(predictor: Predictor):
    found = evaluate(predictor, small_videos(4))
    assert tuple(found.scores) == tuple(found.seconds) == predictor.predictions
    assert all(seconds > 0 for seconds in found.seconds.values())
    before = predictor.weights_sha256()
    assert evaluate(predictor, small_videos(4), threads=3).scores == found.scores
    assert predictor.weights_sha256() == before


def test_alignment_works_or_is_refused(method: Method, predictor: Predictor):
    video = small_videos(1)[0]
    if "alignment" in method.tasks:
        found = evaluate(predictor, [video], task="alignment")
        assert tuple(found.segmentations[method.main][video.id].transcript) == video.transcript
        return
    with refused("unsupported", "task", "alignment", n=1) as refusal:
        evaluate(predictor, [video], task="alignment")
    assert method.name in str(refusal.problems[0])
    with refused("unsupported", "task", "alignment", n=1):
        predictor.align(video.features(), video.transcript)


def test_decoding_choices_are_used_or_refused(method: Method, predictor: Predictor, name: str):
    features = small_videos(1)[0].features()
    if method.decoding(small(name)) is not None:
        assert predictor.begin(features, decoding=DecodingConfig(beam=2))().segmentations
        return
    with refused("unsupported", "decoding", n=1):
        predictor.begin(features, decoding=DecodingConfig())


def test_requests_are_checked_alike(predictor: Predictor):
    features = small_videos(1)[0].features()
    with refused("unknown", "prediction", "viterbi", n=1):
        predictor.begin(features, predictions=("viterbi",))
    with refused("shape", "features", [9, 4], n=1):
        predictor.begin(torch.zeros(9, 4))


def test_a_copy_on_a_device_is_independent(predictor: Predictor):
    copy = predictor.to(torch.device("cpu"))
    assert copy.weights_sha256() == predictor.weights_sha256()
    assert copy.begin(small_videos(1)[0].features())().segmentations
    assert predictor.prepared(small_videos(2)).weights_sha256() == predictor.weights_sha256()


def test_an_epoch_has_a_step_for_each_visited_video(tmp_path: Path, method: Method, name: str):
    share = {"training__labelled": 0.3} if name in LABELLED else {}
    config = small(name, training__epochs=1, **share)
    reports: list[EpochReport] = []
    train(name, tmp_path, config, small_videos(5), report=reports.append)
    expected = 2 if name in LABELLED and name != "mucon" else 5
    assert reports[0].step == len(method.visited(config, small_videos(5))) == expected


def test_weights_are_counted_without_memory_for_them(method: Method, name: str):
    path = next(path for path in WIDTHS if path in field_types(method.config))
    n_weights = method.n_parameters(small(name).override(path, 2**20), small_videos(N_VIDEOS), VOCABULARY)
    assert n_weights > 2**20
    if name != "frame_mlp":
        assert n_weights > 2**40, "more than any machine has"


@pytest.mark.parametrize("labelled", [True, False])
def test_a_quick_configuration_trains_one_epoch_without_scores(
    tmp_path: Path, method: Method, name: str, labelled: bool
):
    config = method.quick(small(name), labelled=labelled)
    reports: list[EpochReport] = []
    train(name, tmp_path, config, report=reports.append)
    assert [(report.epoch, report.epochs, report.step, report.progress) for report in reports] == [(1, 1, N_VIDEOS, {})]
    assert method.step_shape(config) == method.step_shape(config.override("seed", 5))
    assert method.step_shape(config) != method.step_shape(config.override("training.threads", 2))


def test_a_setting_that_is_not_trained_does_not_identify(method: Method, name: str):
    config = small(name)
    settings = {"training.threads": 3, "training.progress_every": 7, "training.device_resident": "on", "seed": 9}
    machine = config.with_values(settings)
    assert method.identifying(machine) == method.identifying(config) == config.trained_differences()
    assert method.identifying(config.override("training.learning_rate", 0.3)) != method.identifying(config)
    assert method.pooling(config) >= 1


def test_scores_during_training_are_reported_and_change_no_bit(tmp_path: Path, name: str, method: Method, run):
    reports: list[EpochReport] = []
    train(name, tmp_path, small(name, training__progress_every=1), report=reports.append)
    assert all("progress.frames.mof" in report.metrics() for report in reports)
    assert digest(name, tmp_path) == digest(name, run[0])
    shown = evaluate(method.load(tmp_path / "checkpoint"), small_videos(N_VIDEOS)).scores["frames"]["mof"]
    assert reports[-1].progress["frames.mof"] == shown
