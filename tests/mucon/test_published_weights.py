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
from mucon.errors import InputError
from mucon.inference import predict
from mucon.model import MuConNetwork, NetworkSize, build_model
from mucon.published_weights import UNUSED, from_published, import_published
from mucon.recipes import published_program
from mucon.training import train
from tests.helpers.commands import SETTINGS, error_line
from tests.helpers.factories import SMALL, small_config, small_videos
from tests.mucon.inference.test_predictions import features
from tests.mucon.parity import golden
from tests.mucon.parity.test_network import INPUTS, outputs

SIZE = NetworkSize(dim=5, n_actions=4, max_segments=30)
NAMES = ("rest", "pour", "stir", "drink")
TELLS_NOT = {path: value for path, value in SMALL.items() if path in ("backbone.n_groups", "backbone.pool_after")}
"""What has to be set beside the file."""

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


def save(path: Path, state: object) -> Path:
    torch.save(state, path)
    return path


def config(**settings: object) -> TrainConfig:
    return published_program().with_values({**TELLS_NOT, **settings})


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
    assert torch.equal(imported.model.predict(features(30))[0], model.predict(features(30))[0])


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
    with pytest.raises(InputError, match=r"x\.trc cannot be read as saved weights \(.*\): give a \.trc file") as caught:
        import_published(path, config())
    assert not mark.exists()
    assert "\n" not in str(caught.value)
    assert "add_safe_globals" not in str(caught.value)
    assert "arbitrary code" not in str(caught.value)


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
    with pytest.raises(InputError, match=r"x\.trc cannot be read as saved weights \(.+\): give a \.trc file") as caught:
        import_published(tmp_path / "x.trc", config())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["nowhere.trc", "."])
def test_a_file_that_is_none_is_refused(tmp_path: Path, name: str):
    with pytest.raises(InputError, match="cannot be read as saved weights"):
        import_published(tmp_path / name, config())


@pytest.mark.parametrize("what", [{"state_dict": {"a": torch.zeros(1)}}, [torch.zeros(2)], {"epoch": 3}])
def test_a_file_of_more_than_the_networks_state_is_refused(tmp_path: Path, what: object):
    with pytest.raises(InputError, match=r"not tensors by name: give the network's state alone"):
        import_published(save(tmp_path / "x.trc", what), config())


def test_missing_tensors_are_named(tmp_path: Path):
    state = published_state(network())
    for name in ("ft.first_conv.weight", "fs_decoder_attention_V"):
        del state[name]
    with pytest.raises(InputError) as caught:
        import_published(save(tmp_path / "x.trc", state), config())
    assert [line.split(" is missing in ")[0] for line in caught.value.problems] == [
        "'backbone.first.weight'",
        "'segment_branch.attention_score'",
    ]
    state = published_state(network())
    del state["fs_encoder_lstm.bias_hh_l0"]
    with pytest.raises(InputError, match=r"is no network of the published program .*encoder\.bias_hh_l0") as caught:
        import_published(save(tmp_path / "x.trc", state), config())
    assert "\n" not in str(caught.value)


def test_a_layer_that_is_left_out_is_told(tmp_path: Path):
    state = {name: value for name, value in published_state(network()).items() if not name.startswith("ft.l_1.")}
    with pytest.raises(InputError, match="is no network of the published program"):
        import_published(save(tmp_path / "x.trc", state), config())


@pytest.mark.parametrize(
    ("name", "shape"),
    [("ft.first_conv.weight", (16, 5)), ("ft.l_0.dilated_conv.weight", (16, 16)), ("conv_classifier.weight", (4,))],
)
def test_a_weight_of_another_kind_is_named_with_its_shape(name: str, shape: tuple[int, ...]):
    state = {**published_state(network()), name: torch.zeros(shape), "more": torch.zeros(1)}
    with pytest.raises(InputError) as caught:
        from_published(state)
    assert len(caught.value.problems) == 2
    assert f"{name!r} is a convolution's weight [out, in, taps], not {list(shape)}" in str(caught.value)
    assert "'more' is no parameter of the published program" in str(caught.value)


def test_a_configuration_that_does_not_fit_the_file_is_refused(tmp_path: Path):
    path = save(tmp_path / "x.trc", published_state(network()))
    with pytest.raises(InputError) as caught:
        import_published(path, config(**{"backbone.n_groups": 32, "backbone.pool_after": (1, 8)}))
    assert "32 does not divide 16" in str(caught.value)
    assert "layers from 0 to 3" in str(caught.value)
    with pytest.raises(InputError, match="names 4 actions, the mapping 3: give the one of its data set"):
        import_published(path, config(), NAMES[:3])


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
    assert error_line(capsys, [*line, *settings]).startswith(f"{run}: ")

    x = features(40).numpy()
    np.save(tmp_path / "clip.npy", x)
    for prediction in ("frames", "segments", "full"):
        assert main(["predict", str(run), str(tmp_path / "clip.npy"), "--prediction", prediction, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert {segment["action"] for segment in told["segments"]} <= set(NAMES)
        assert sum(segment["frames"] for segment in told["segments"]) in (0, 40)
    loaded = checkpoints.load(run / "checkpoint")
    frames = predict(loaded, torch.from_numpy(x), predictions=("frames",)).segmentations["frames"]
    assert frames.to_frame_labels().tolist() == network().predict(features(40))[0].argmax(1).tolist()

    videos = small_videos(2)
    start = small_config(training__epochs=1, training__learning_rate=1e-6, training__warm_start=str(run))
    train(start, videos, loaded.vocabulary, folder=tmp_path / "further", device="cpu")
    further = checkpoints.load(tmp_path / "further" / "checkpoint").model
    for a, b in zip(further.parameters(), network().parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-3)


def test_the_command_line_refuses_what_is_no_published_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    text = tmp_path / "x.txt"
    text.write_text("0 SIL\n")
    out = tmp_path / "run"
    assert "cannot be read as saved weights" in error_line(capsys, ["import-weights", str(text), str(out)])
    path = save(tmp_path / "x.trc", published_state(network()))
    text.write_text("0 SIL\n1 pour\n")
    line = ["import-weights", str(path), str(out), "--mapping", str(text)]
    wanted = [word for word in SETTINGS if "n_groups" in word or "pool_after" in word]
    more = [part for word in wanted for part in ("--set", word)]
    assert "names 4 actions, the mapping 2" in error_line(capsys, [*line, *more])
    assert not out.exists()
