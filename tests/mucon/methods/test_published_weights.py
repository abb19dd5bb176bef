"""Reading the authors' checkpoints: what comes in comes out, and nothing in a file is executed."""

from __future__ import annotations

import json
import pickle
import re
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from mucon import checkpoint as checkpoints
from mucon.checkpoint import weights_sha256
from mucon.cli import main
from mucon.config import TrainConfig
from mucon.inference import predict
from mucon.methods.published_weights import UNUSED, from_published, import_published
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.recipes import published_program
from mucon.training import train
from tests.helpers.factories import SMALL, network_output, small_config, small_videos
from tests.helpers.refusals import matching, refused
from tests.mucon.inference.test_predictions import features
from tests.mucon.parity import golden
from tests.mucon.parity.test_network import INPUTS, outputs

SIZE = NetworkSize(dim=5, n_actions=4, max_segments=30)
NAMES = ("rest", "pour", "stir", "drink")
NOT_IN_THE_FILE = {path: value for path, value in SMALL.items() if path in ("backbone.n_groups", "backbone.pool_after")}
"""Settings that the file does not contain."""

SEGMENT = {
    "encoder": "fs_encoder_lstm",
    "initial_hidden": "fs_encoder_hidden_out",
    "initial_cell": "fs_encoder_cn_out",
    "attention_keys": "fs_decoder_attention_W1",
    "attention_query": "fs_decoder_attention_l2",
    "attention_score": "fs_decoder_attention_V",
    "embedding": "fs_decoder_embedding",
    "combine": "fs_decoder_attn_combine",
    "decoder": "fs_decoder_lstm",
    "transcript_head": "fs_decoder_transcript",
    "length_head": "fs_decoder_length",
}


def published_name(name: str, value: Tensor) -> tuple[str, Tensor]:
    """The published program's name and shape of one of our parameters."""
    room, _, rest = name.partition(".")
    if room == "segment_branch":
        part, _, rest = rest.partition(".")
        theirs = SEGMENT[part] + ("." + rest if rest else "")
        if part == "length_head":  # ours begins with the ReLU
            theirs = re.sub(r"\.(\d)\.", lambda found: f".{int(found[1]) - 1}.", theirs)
        return theirs + ("_l0" if part == "decoder" else ""), value
    if room == "frame_branch":
        return f"conv_classifier.{rest}", value[:, :, None] if rest == "weight" else value
    if rest.startswith("norm"):
        return rest.replace("norm", "ft_last_gn"), value
    if rest.startswith("layers"):
        _, number, parameter = rest.split(".")
        convolution, _, kind = parameter.partition("_")
        if kind == "weight":
            value = value.permute(2, 1, 0) if convolution == "dilated" else value.t()[:, :, None]
        return f"ft.l_{number}.{'dilated_conv' if convolution == 'dilated' else 'conv_1x1'}.{kind}", value
    layer, kind = rest.split(".")
    return f"ft.{layer}_conv.{kind}", value[:, :, None] if kind == "weight" else value


def network(seed: int = 3) -> MuConNetwork:
    config = small_config()
    return build_model(SIZE, config.backbone, config.segment_branch, seed=seed).eval()


def published_state(model: MuConNetwork) -> dict[str, Tensor]:
    state = dict(published_name(name, value.clone()) for name, value in model.state_dict().items())
    assert len(state) == len(model.state_dict())
    return {**state, UNUSED[0]: torch.zeros(8, 16), UNUSED[1]: torch.zeros(8)}


def error_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """The one line that a command with exit status 2 prints."""
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    (line,) = captured.err.splitlines()
    return line


def save(path: Path, state: object) -> Path:
    torch.save(state, path)
    return path


def config(**settings: object) -> TrainConfig:
    return published_program().with_values({**NOT_IN_THE_FILE, **settings})


def test_a_saved_state_becomes_the_network_that_it_was(tmp_path: Path):
    model = network()
    imported = import_published(save(tmp_path / "x.trc", published_state(model)), config(), NAMES)
    assert weights_sha256(imported.model) == weights_sha256(model)
    assert imported.model.size == SIZE
    assert imported.vocabulary.actions == NAMES
    assert imported.progress.finished
    assert not imported.model.training
    backbone = imported.config.backbone
    assert (backbone.channels, backbone.n_layers, imported.config.segment_branch.hidden) == (16, 4, 8)
    assert torch.equal(network_output(imported.model, features(30))[0], network_output(model, features(30))[0])


def test_actions_have_numbers_for_names_where_none_are_given(tmp_path: Path):
    imported = import_published(save(tmp_path / "x.trc", published_state(network())), config())
    assert imported.vocabulary.actions == ("action_0", "action_1", "action_2", "action_3")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
def test_weights_of_another_precision_are_read_as_float32(tmp_path: Path, dtype: torch.dtype):
    state = {name: value.to(dtype) for name, value in published_state(network()).items()}
    imported = import_published(save(tmp_path / "x.trc", state), config())
    assert {p.dtype for p in imported.model.parameters()} == {torch.float32}


def test_an_older_format_of_torch_is_read_too(tmp_path: Path):
    state = OrderedDict(published_state(network()))
    torch.save(state, tmp_path / "x.trc", _use_new_zipfile_serialization=False)
    assert weights_sha256(import_published(tmp_path / "x.trc", config()).model) == weights_sha256(network())


class Harmful:
    """What a pickle can hold: a call that is made when it is read."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.mark,)


@pytest.mark.parametrize("how", ["torch", "pickle"])
def test_code_in_a_file_is_refused_and_never_run(tmp_path: Path, how: str):
    path, mark = tmp_path / "x.trc", tmp_path / "executed"
    if how == "torch":
        torch.save({**published_state(network()), "more": Harmful(mark)}, path)
    else:
        path.write_bytes(pickle.dumps(Harmful(mark)))
    with refused("unreadable", "x.trc", n=1) as refusal:
        import_published(path, config())
    assert not mark.exists()
    message = refusal.problems[0].message
    assert "\n" not in message
    assert "add_safe_globals" not in message
    assert "arbitrary code" not in message


FILES = {
    "a text": b"0 SIL\n1 pour_milk\n",
    "a byte order mark": "\ufeff0 SIL\n".encode(),
    "nothing": b"",
    "a NumPy array": b"\x93NUMPY\x01\x00v\x00{'descr': '<f4'",
    "a zip of something else": b"PK\x05\x06" + bytes(18),
    "half a pickle": pickle.dumps({"a": 1})[:6],
    "words that are opcodes": b"h\x07 j s t a u e d",
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_something_else_is_refused_in_one_line(tmp_path: Path, name: str):
    (tmp_path / "x.trc").write_bytes(FILES[name])
    with refused("unreadable", "x.trc", n=1) as refusal:
        import_published(tmp_path / "x.trc", config())
    assert "\n" not in refusal.problems[0].message


@pytest.mark.parametrize("name", ["nowhere.trc", "."])
def test_a_missing_file_and_a_folder_are_refused(tmp_path: Path, name: str):
    with refused("unreadable", str(tmp_path / name), n=1):
        import_published(tmp_path / name, config())


@pytest.mark.parametrize("what", [{"state_dict": {"a": torch.zeros(1)}}, [torch.zeros(2)], {"epoch": 3}])
def test_a_file_of_more_than_the_networks_state_is_refused(tmp_path: Path, what: object):
    with refused("type", "x.trc", type(what).__name__, n=1):
        import_published(save(tmp_path / "x.trc", what), config())


def test_missing_tensors_are_named(tmp_path: Path):
    state = published_state(network())
    for name in ("ft.first_conv.weight", "fs_decoder_attention_V"):
        del state[name]
    path = tmp_path / "x.trc"
    with refused("missing", n=2) as refusal:
        import_published(save(path, state), config())
    assert refusal.places == [f"{path}: backbone.first.weight", f"{path}: segment_branch.attention_score"]
    state = published_state(network())
    del state["fs_encoder_lstm.bias_hh_l0"]
    with refused("mismatch", "x.trc", n=1) as refusal:
        import_published(save(path, state), config())
    assert "encoder.bias_hh_l0" in refusal.problems[0].message
    assert "\n" not in refusal.problems[0].message


def test_a_missing_layer_is_refused(tmp_path: Path):
    state = {name: value for name, value in published_state(network()).items() if not name.startswith("ft.l_1.")}
    with refused("mismatch", "x.trc", n=1):
        import_published(save(tmp_path / "x.trc", state), config())


@pytest.mark.parametrize(
    ("name", "shape"),
    [("ft.first_conv.weight", (16, 5)), ("ft.l_0.dilated_conv.weight", (16, 16)), ("conv_classifier.weight", (4,))],
)
def test_a_weight_of_another_kind_is_named_with_its_shape(tmp_path: Path, name: str, shape: tuple[int, ...]):
    state = {**published_state(network()), name: torch.zeros(shape), "more": torch.zeros(1)}
    with refused("shape", name, list(shape), n=2) as refusal:
        from_published(state)
    assert matching(refusal.problems, "unknown", "more", "more")
    path = tmp_path / "x.trc"
    with refused("shape", f"{path}: {name}", list(shape), n=2):
        import_published(save(path, state), config())


def test_a_configuration_that_does_not_fit_the_file_is_refused(tmp_path: Path):
    path = save(tmp_path / "x.trc", published_state(network()))
    with refused("range", "backbone.n_groups", 32, n=2) as refusal:
        import_published(path, config(**{"backbone.n_groups": 32, "backbone.pool_after": (1, 8)}))
    assert matching(refusal.problems, "range", "backbone.pool_after", [1, 8])
    with refused("mismatch", "mapping", 3, n=1) as refusal:
        import_published(path, config(), NAMES[:3])
    assert "4" in refusal.problems[0].expected


@pytest.mark.parity
@pytest.mark.parametrize("name", ["network.npz", "network_end.npz"])
def test_an_imported_model_gives_the_published_outputs(tmp_path: Path, name: str):
    groups = golden.read(name)
    weights = {key: torch.tensor(value) for key, value in groups["weights"].items()}
    imported = import_published(save(tmp_path / "x.trc", weights), published_program().override("backbone.n_groups", 8))
    checkpoints.save(tmp_path / "checkpoint", imported)
    model = checkpoints.load(tmp_path / "checkpoint").model
    compared = 0
    for place, case in golden.cases(groups).items():
        for key, ours in outputs(model, case):
            tolerance = 0.0 if "transcript_with_end" in key else golden.LOSS if "loss" in key else golden.NETWORK
            golden.assert_close(ours, case[key], tolerance, f"{name} {place}/{key}")
            compared += 1
    assert compared == golden.count_outputs(name, INPUTS) > 0


def test_published_weights_are_imported_predict_and_are_trained_further(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path, run = save(tmp_path / "x.trc", published_state(network())), tmp_path / "run"
    mapping = tmp_path / "mapping.txt"
    mapping.write_text("".join(f"{i} {name}\n" for i, name in enumerate(NAMES)))
    line = ["import-weights", str(path), str(run), "--mapping", str(mapping)]
    settings = ["--set", "backbone.n_groups=4", "--set", "backbone.pool_after=1,2", "--set", "decoding.step=1"]
    assert main([*line, *settings]) == 0
    assert capsys.readouterr().out == f"imported: {run / 'checkpoint'} (5 features, 4 actions)\n"
    assert str(run) in error_line(capsys, [*line, *settings])

    x = features(40).numpy()
    np.save(tmp_path / "clip.npy", x)
    for prediction in ("frames", "segments", "full"):
        assert main(["predict", str(run), str(tmp_path / "clip.npy"), "--prediction", prediction, "--json"]) == 0
        result = json.loads(capsys.readouterr().out)
        assert {segment["action"] for segment in result["segments"]} <= set(NAMES)
        assert sum(segment["frames"] for segment in result["segments"]) in (0, 40)
    loaded = checkpoints.load(run / "checkpoint")
    frames = predict(loaded, torch.from_numpy(x), predictions=("frames",)).segmentations["frames"]
    assert frames.to_frame_labels().tolist() == network_output(network(), features(40))[0].argmax(1).tolist()

    videos = small_videos(2)
    start = small_config(training__epochs=1, training__learning_rate=1e-6, training__warm_start=str(run))
    train(start, videos, loaded.vocabulary, folder=tmp_path / "further", device="cpu")
    further = checkpoints.load(tmp_path / "further" / "checkpoint").model
    for a, b in zip(further.parameters(), network().parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-3)


def test_the_command_line_refuses_other_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = tmp_path / "x.txt"
    text.write_text("0 SIL\n")
    out = tmp_path / "run"
    assert "x.txt" in error_line(capsys, ["import-weights", str(text), str(out)])
    path = save(tmp_path / "x.trc", published_state(network()))
    text.write_text("0 SIL\n1 pour\n")
    line = ["import-weights", str(path), str(out), "--mapping", str(text)]
    settings = ["--set", "backbone.n_groups=4", "--set", "backbone.pool_after=1,2"]
    assert {"4", "2"} <= set(error_line(capsys, [*line, *settings]).replace(",", " ").split())
    assert not out.exists()
