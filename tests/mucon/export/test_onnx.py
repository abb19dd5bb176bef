"""ONNX files: the same labels as torch for recordings of all lengths, methods, backbones and ensembles."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mucon
from mucon.checkpoint import Checkpoint, saved_of
from mucon.checkpoint_files import Progress, Saved
from mucon.decoding.config import DecodingConfig
from mucon.errors import DataWarning
from mucon.export.folder import write
from mucon.export.onnx_files import write_onnx
from mucon.export.runner import load_runner
from mucon.identity.contract import Contract, Statistics
from mucon.library import Model
from mucon.methods import method_named
from mucon.methods.frames.networks import FrameClassifier, build_network
from tests.helpers.exported import DIM, N, export, features, frame_log_probs, network
from tests.helpers.factories import VOCABULARY
from tests.helpers.refusals import refused

onnxruntime = pytest.importorskip("onnxruntime")

SHORT = (1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33)
LENGTHS = (*SHORT, 63, 64, 65, 127, 129, 1000, 2100, 9_999, 10_000)
"""Around multiples of the pooling, and the longest."""
MUCON: dict[str, Callable[[], list[Checkpoint]]] = {
    "one": lambda: [network(3)],
    "stride": lambda: [network(4, backbone__upsampling="stride")],
    "dual": lambda: [network(5, backbone__kind="dual_dilated", backbone__dilation="linear")],
    "single": lambda: [network(6, backbone__kind="single")],
    "no pooling": lambda: [network(7, backbone__pool_after=())],
    "deep": lambda: [network(8, backbone__n_layers=11, backbone__pool_after=(1, 2, 4, 8))],
    "ensemble": lambda: [network(seed) for seed in (1, 2, 3)],
}


def check(folder: Path, lengths: tuple[int, ...], decodings: tuple[DecodingConfig | None, ...] = (None,)) -> None:
    """Labels and log probabilities of onnxruntime and torch are the same."""
    runner, model = load_runner(folder), mucon.load(folder, "cpu")
    for T in lengths:
        given = features(T, seed=T)
        ours, theirs = runner.log_probs(given.numpy()), frame_log_probs(model.predictor, given).numpy()
        np.testing.assert_allclose(ours, theirs, atol=1e-4, rtol=0)
        for name in model.predictions:
            for decoding in decodings if name == "full" else (None,):
                assert runner.predict(given.numpy(), name, decoding=decoding).labels == labels(model, T, name, decoding)


def labels(model: Model, T: int, name: str, decoding: DecodingConfig | None) -> list[str]:
    found = model.predictor.begin(features(T, seed=T), predictions=(name,), decoding=decoding)().whole()
    return list(model.vocabulary.names(found.segmentations[name].to_frame_labels()))


@pytest.mark.parametrize("name", MUCON)
def test_mucon_in_onnxruntime_has_the_labels_of_torch_at_every_length(name: str, tmp_path: Path):
    folder = export(tmp_path / "model", MUCON[name](), more=[write_onnx])
    check(folder, LENGTHS if name in ("one", "deep") else SHORT)


def test_choices_of_decoding_apply_in_onnxruntime(tmp_path: Path):
    folder = export(tmp_path / "model", [network(seed, end=-1.0) for seed in (1, 2)], more=[write_onnx])
    decodings = (
        DecodingConfig(beam=4),
        DecodingConfig(beam=30),
        DecodingConfig(transcripts="training"),
        DecodingConfig(class_prior="training", length_prior="gaussian"),
        DecodingConfig(transcripts="bigram", background_offset=0.5),
        DecodingConfig(length_prior="fitted"),
        DecodingConfig(method="published", step=1),
    )
    check(folder, (4, 8, 30, 131), decodings)


def frame_model(target: Path, method: str, settings: dict[str, object], seeds: tuple[int, ...] = (0,)) -> Path:
    config = method_named(method).config().with_values(settings)
    trainings = {
        f"run_{seed}": Saved(
            method=method,
            config=config.override("seed", seed).to_dict(),
            vocabulary=VOCABULARY,
            size={"dim": DIM, "n_actions": N},
            progress=Progress(finished=True),
            weights=build_network(config.network, DIM, N, seed=seed).state_dict(),
        )
        for seed in seeds
    }
    write(target, trainings, name="frames", scores=lambda _: [], more=[write_onnx])
    return target


SMALL = {"network.maps": 8, "network.layers": 4}


@pytest.mark.parametrize(
    ("method", "settings", "seeds"),
    [
        ("frame_mlp", {"network.maps": 8}, (0,)),
        ("frame_mlp", {"network.hidden": 0}, (0, 1)),
        ("ms_tcn", SMALL, (0,)),
        ("ms_tcn", SMALL, (0, 1)),
        ("ms_tcn_pp", {**SMALL, "network.prediction_layers": 3, "network.shared": True}, (0,)),
    ],
)
def test_frame_classifiers_in_onnxruntime_have_the_labels_of_torch(
    method: str, settings: dict[str, object], seeds: tuple[int, ...], tmp_path: Path
):
    check(frame_model(tmp_path / "model", method, settings, seeds), (*SHORT, 1000))


def test_onnxruntime_alone_runs_the_files(tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)], more=[write_onnx])
    session = onnxruntime.InferenceSession(folder / "onnx" / "frames.onnx")
    for T in (1, 2, 333):
        given = features(T).numpy()
        log_probs = session.run(["log_probs"], {"features": given})[0]
        expected = load_runner(folder).predict(given, "frames").segmentation.to_frame_labels()
        assert log_probs.argmax(axis=1).tolist() == expected.tolist()


def test_the_runner_imports_no_torch(tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)], more=[write_onnx])
    code = (
        "import sys, numpy; from mucon.export.runner import load_runner\n"
        f"runner = load_runner({str(folder)!r})\n"
        f"print(len(runner.predict(numpy.ones((50, {DIM}))).labels))\n"
        "print([name for name in ('torch', 'pyarrow', 'matplotlib', 'onnx') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["50", "[]"]


@pytest.mark.parametrize(
    ("given", "name", "rule", "place"),
    [
        (np.zeros((DIM, 7)), "full", "shape", "features"),
        (np.zeros((0, DIM)), "full", "shape", "features"),
        (np.full((3, DIM), np.nan), "full", "range", "features"),
        (np.ones((3, DIM), dtype=complex), "full", "type", "features"),
        (np.full((3, DIM), "a"), "full", "type", "features"),
        (np.zeros((3, DIM)), "words", "unknown", "prediction"),
    ],
)
def test_requests_that_do_not_fit_are_refused(given: Any, name: str, rule: str, place: str, tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)], more=[write_onnx])
    with refused(rule, place):
        load_runner(folder).predict(given, name)


def test_a_network_that_computes_nan_is_refused_as_by_torch(tmp_path: Path):
    one = network(3)
    with torch.no_grad():
        one.model.backbone.last.weight.mul_(float("inf"))
    folder = export(tmp_path / "model", [one], more=[write_onnx])
    model = mucon.load(folder, "cpu")
    for name in model.predictions:
        for predict in (load_runner(folder).predict, model.predict):
            with refused("range", "frame_log_probs", 9, n=1):
                predict(features(9).numpy(), name)
        with refused("range", "frame_log_probs", 9, n=1):
            model.align(features(9), model.actions[:1], name)


def test_features_unlike_those_of_training_raise_a_warning(tmp_path: Path):
    given = features(30).numpy()
    contract = Contract(dim=DIM, vocabulary=VOCABULARY, statistics=Statistics.of([given]))
    trainings = {"run": replace(saved_of(network(3)), contract=contract)}
    write(tmp_path / "model", trainings, name="a model", scores=lambda _: [], more=[write_onnx])
    runner = load_runner(tmp_path / "model")
    runner.predict(given)
    with pytest.warns(DataWarning, match="features"):
        runner.predict(1000 * given)


def test_a_folder_without_onnx_files_and_a_damaged_one_are_refused(tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)])
    with refused("missing", str(folder)):
        load_runner(folder)
    (folder / "vocabulary.json").write_text("{}")
    with refused("damaged", "vocabulary.json"):
        load_runner(folder)


def test_a_network_without_onnx_form_is_refused_and_leaves_nothing(tmp_path: Path, monkeypatch):
    class Strange(FrameClassifier):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(1000))

    config = method_named("ms_tcn").config()
    monkeypatch.setattr(type(config.network), "build", lambda *_: Strange())
    with refused("unsupported", "--onnx", "ms_tcn"):
        frame_model(tmp_path / "model", "ms_tcn", {})
    assert not list(tmp_path.iterdir())


def test_the_opset_is_recorded(tmp_path: Path):
    folder = export(tmp_path / "model", [network(3)], more=[write_onnx])
    assert json.loads((folder / "onnx" / "runner.json").read_text())["opset"] == 17
