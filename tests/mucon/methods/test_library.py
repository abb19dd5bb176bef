"""`mucon.load(RUN).predict(features)`."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch

import mucon
from mucon import library
from mucon.checkpoint_files import write
from mucon.errors import DataWarning
from mucon.methods import METHODS, method_named
from mucon.outputs.results import FRAMES
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, make_video
from tests.helpers.refusals import refused
from tests.helpers.services import need
from tests.mucon.methods.test_table import train

VIDEO = make_video("v", (0, 1, 2), (9, 12, 7))


@pytest.fixture(scope="module", params=METHODS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trial") / "run"
    train(request.param, folder)
    return folder


@pytest.fixture(scope="module")
def model(run: Path) -> mucon.Model:
    return mucon.load(run, device="cpu")


def test_importing_the_package_imports_neither_torch_nor_numpy():
    code = (
        "import sys, mucon; assert mucon.NUMERICS; assert not {'torch', 'numpy'} & set(sys.modules); "
        "mucon.load; assert 'torch' in sys.modules; assert 'load' in dir(mucon)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_has_no_other_attributes():
    assert not hasattr(mucon, "predict")
    assert {"load", "Model", "Segments", "Segment"} <= set(dir(mucon))


@pytest.mark.parametrize("inner", [".", "checkpoint", ".."])
def test_a_run_its_checkpoint_and_a_trial_are_loaded(run: Path, inner: str):
    place = run / inner
    loaded = mucon.load(str(place), device="cpu")
    assert loaded.predictor.weights_sha256() == mucon.load(run, device="cpu").predictor.weights_sha256()


def test_a_model_knows_its_method_and_data(run: Path, model: mucon.Model):
    method = method_named(model.method)
    assert (model.vocabulary, model.actions, model.dim) == (VOCABULARY, VOCABULARY.actions, 5)
    assert model.predictions == method.predictions
    assert model.method in repr(model)


def test_segments_are_those_of_the_predictor(model: mucon.Model):
    for name in model.predictions:
        segments = model.predict(VIDEO.read(), name)
        found = model.predictor.begin(VIDEO.features(), predictions=(name,))()
        expected = found.segmentations[name]
        assert (segments.prediction, segments.n_frames) == (name, VIDEO.n_frames)
        assert [segment[:3] for segment in segments.segments] == [
            (model.actions[action], *span) for action, *span in expected.spans() if span[1] > span[0]
        ]
        assert segments.confidences == [one for one in found.confidences[name] if one is not None]
        assert segments.labels == [model.actions[action] for action in expected.to_frame_labels()]
        assert segments.transcript == [segment.action for segment in segments.segments]
        assert len(segments.labels) in (VIDEO.n_frames, 0)


def test_the_default_is_the_main_prediction(model: mucon.Model):
    assert model.predict(VIDEO.read()).prediction == method_named(model.method).main


def test_arrays_tensors_and_files_give_the_same_segments(tmp_path: Path, model: mucon.Model):
    array = VIDEO.read()
    np.save(tmp_path / "v.npy", array)
    np.save(tmp_path / "big.npy", array.astype(">f4"))
    expected = model.predict(array)
    for features in (torch.from_numpy(array), tmp_path / "v.npy", str(tmp_path / "v.npy"), tmp_path / "big.npy"):
        assert model.predict(features) == expected


def test_a_known_transcript_is_aligned_or_refused(model: mucon.Model):
    if "alignment" not in method_named(model.method).tasks:
        with refused("unsupported", "task", "alignment", n=1):
            model.align(VIDEO.read(), ["rest", "pour"])
        return
    aligned = model.align(VIDEO.read(), ["rest", "pour", "stir"])
    assert aligned.transcript == ["rest", "pour", "stir"]
    assert aligned.segments[0].start == 0
    assert aligned.segments[-1].stop == VIDEO.n_frames
    assert len(aligned.labels) == VIDEO.n_frames


def test_what_cannot_be_aligned_is_refused(model: mucon.Model):
    if "alignment" not in method_named(model.method).tasks:
        return
    with refused("missing", "transcript", n=1):
        model.align(VIDEO.read(), [])
    with refused("range", "transcript", 2, n=1):
        model.align(np.zeros((1, 5)), ["rest", "pour"])
    with pytest.raises(ValueError, match="'prou'"):
        model.align(VIDEO.read(), ["prou"])
    with refused("type", "actions", "pour", n=1):
        model.align(VIDEO.read(), "pour")


def test_features_that_do_not_fit_are_refused(tmp_path: Path, model: mucon.Model):
    with refused("shape", "features", [4, 6], n=1):
        model.predict(np.zeros((4, 6)))
    with refused("unknown", "prediction", "viterbi", n=1):
        model.predict(VIDEO.read(), "viterbi")
    with refused("missing", str(tmp_path / "none.npy"), n=1):
        model.predict(tmp_path / "none.npy")
    (tmp_path / "text.npy").write_text("no array")
    with refused("unreadable", str(tmp_path / "text.npy"), n=1):
        model.predict(tmp_path / "text.npy")
    with pytest.raises(ValueError, match="features"):
        model.predict(np.full((3, 5), np.nan))
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros(5))


def test_a_folder_without_a_checkpoint_is_refused(tmp_path: Path):
    with refused("missing", str(tmp_path), n=1):
        mucon.load(tmp_path)


def test_a_checkpoint_of_an_unknown_method_is_refused(tmp_path: Path, run: Path):
    shutil.copytree(run, tmp_path / "run")
    path = tmp_path / "run" / "checkpoint" / "state.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"method": "ms_tnc"}))
    with refused("unknown", str(tmp_path / "run"), "ms_tnc", n=1):
        mucon.load(tmp_path / "run")


def test_an_empty_prediction_has_no_segments(tmp_path: Path):
    from mucon.checkpoint import saved_of
    from tests.mucon.inference.test_predictions import checkpoint

    write(tmp_path / "checkpoint", saved_of(checkpoint(end=1e4)))
    segments = mucon.load(tmp_path, "cpu").predict(Video.from_arrays("v", np.zeros((6, 5))).read())
    assert (segments.segments, segments.labels, segments.transcript) == ([], [], [])


def test_the_recordings_of_many_are_read_in_turn_and_keep_their_names(tmp_path: Path, model: mucon.Model):
    read: list[str] = []

    def recordings():
        for name, features in (("named", VIDEO.read()), ("", np.full((3, 5), np.nan)), ("", tmp_path / "v.npy")):
            read.append(name)
            yield (name, features) if name else features

    np.save(tmp_path / "v.npy", VIDEO.read())
    outcomes = model.predict_many(recordings(), jobs=1)
    first = next(outcomes)
    assert (read, first.name, first.problems) == (["named"], "named", ())
    assert first.segments == model.predict(VIDEO.read())
    broken, last = outcomes
    assert (broken.name, broken.segments, [one.rule for one in broken.problems]) == ("1", None, ["range"])
    assert (last.name, last.segments) == (str(tmp_path / "v.npy"), first.segments)
    threads = torch.get_num_threads()
    assert [one.segments for one in model.predict_many([VIDEO.read()] * 5, jobs=3)] == [first.segments] * 5
    assert torch.get_num_threads() == threads


def test_features_unlike_those_of_training_raise_a_warning_with_their_name(model: mucon.Model):
    with pytest.warns(DataWarning) as warned:
        model.predict(VIDEO.read() * 1000)
    assert [one.message.problem.place for one in warned] == ["recording: features"]
    (outcome,) = model.predict_many([("clip", VIDEO.read() * 1000)])
    assert [one.place for one in outcome.doubts] == ["clip: features"]


def test_segments_know_their_seconds_where_the_frame_rate_is_known(run: Path, model: mucon.Model):
    assert (model.fps, model.predict(VIDEO.read()).seconds) == (None, None)
    timed = mucon.Model(model.predictor, dataclasses.replace(model.contract, fps=4.0)).predict(VIDEO.read())
    assert timed.seconds == [(one.start / 4, one.stop / 4) for one in timed.segments]


def test_segments_become_a_data_frame(model: mucon.Model):
    need(find_spec("pandas"), "pandas")
    import pandas

    segments = model.predict(VIDEO.read())
    frame = segments.to_dataframe()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.to_dict("records") == segments.rows()
    assert list(dataclasses.replace(segments, segments=[]).to_dataframe().columns) == list(frame.columns)
    with refused("unknown", "library", "excel", n=1):
        segments.to_dataframe("excel")


def test_a_data_frame_without_its_library_is_refused(model: mucon.Model, monkeypatch: pytest.MonkeyPatch):
    for name in FRAMES:
        monkeypatch.setitem(sys.modules, name, None)
    with refused("unsupported", "to_dataframe", n=1):
        model.predict(VIDEO.read()).to_dataframe()


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """A distribution whose entry point fetches registered models."""
    (folder / "lab-1.dist-info").mkdir(parents=True)
    (folder / "lab-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: lab\nVersion: 1\n")
    (folder / "lab-1.dist-info" / "entry_points.txt").write_text(
        f"[{library.ADDRESSES}]\nmodels = lab_registry:fetch\n"
    )
    (folder / "lab_registry.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "lab_registry", raising=False)


def test_a_registered_model_is_fetched_by_an_entry_point(
    run: Path, model: mucon.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    address = "models:/mucon@champion"
    install(
        tmp_path / "a", monkeypatch, f"def fetch(address):\n    assert address == {address!r}\n    return {str(run)!r}"
    )
    for path in (address, Path(address)):
        assert mucon.load(path, "cpu").predictor.weights_sha256() == model.predictor.weights_sha256()


@pytest.mark.parametrize("code", ["import mlflow_absent\n", "def fetch(address):\n    import mlflow_absent\n"])
def test_a_registered_model_where_the_registry_is_not_installed_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str
):
    monkeypatch.setattr(library, "ADDRESSES", "mucon.addresses of a test")
    with refused("unsupported", "models:/mucon@champion", None, n=1):
        mucon.load("models:/mucon@champion")
    install(tmp_path / "b", monkeypatch, code)
    with refused("unsupported", "models:/mucon@champion", "mlflow_absent", n=1):
        mucon.load("models:/mucon@champion")
