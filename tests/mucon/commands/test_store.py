"""`mucon store`: options of `synthesize` that do not fit together, and a training from imported transcripts.

The content of the stores is tested beside their writers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mucon import checkpoint as checkpoints
from mucon.cli import build_parser, main
from mucon.commands.store import config_of, feature_model
from mucon.synthetic.feature_model import FeatureModel
from mucon.synthetic.grammar_config import SyntheticConfig
from tests.helpers.commands import call, error_line, train_line
from tests.helpers.refusals import refused
from tests.storage.helpers import DataSet

LINE = ["store", "synthesize", "made_up"]


def test_without_options_the_recordings_are_the_demos():
    assert config_of(build_parser().parse(LINE)) == SyntheticConfig()
    assert feature_model(build_parser().parse([*LINE, "--like", "notes"])) == FeatureModel()


def test_options_replace_single_values():
    options = ["--videos", "9", "--actions", "4", "--dim", "6", "--longest-mean", "80", "--seed", "5"]
    config = config_of(build_parser().parse([*LINE, *options]))
    assert (config.n_videos, config.grammar.n_actions, config.features.dim) == (9, 4, 6)
    assert (config.lengths.longest_mean, config.seed) == (80, 5)
    assert (config.grammar.fewest_steps, config.grammar.most_steps) == (3, 3)
    model = feature_model(build_parser().parse([*LINE, "--dim", "6", "--set", "dim=7", "--set", "offset=0.2"]))
    assert model == FeatureModel(dim=6, offset=0.2)


@pytest.mark.parametrize(
    ("words", "name", "listed"),
    [
        (["remove", "s", "--from", "list"], "ids", []),
        (["remove", "s", "a", "--from", "list"], "ids", ["a"]),
        (["remove", "s", "--from", "list", "a", "b"], "ids", ["a", "b"]),
        (["remove", "s"], "ids", []),
        (["cache", "clear"], "uris", []),
        (["cache", "clear", "--unused-for", "30d"], "uris", []),
        (["cache", "clear", "--unused-for", "30d", "s3://a/b"], "uris", ["s3://a/b"]),
    ],
)
def test_a_list_may_be_empty_and_may_stand_on_either_side_of_options(words, name, listed):
    assert getattr(build_parser().parse(["store", *words]), name) == listed


@pytest.mark.parametrize(
    ("more", "value"),
    [
        (["--preset", "clear"], "clear"),
        (["--set", "offset=0.1"], ["offset=0.1"]),
        (["--split", "1"], "1"),
        (["--longest", "5"], 5),
        (["--background", "SIL"], ["SIL"]),
    ],
)
def test_options_for_real_transcripts_need_some(tmp_path: Path, capsys, monkeypatch, more, value):
    monkeypatch.chdir(tmp_path)
    with refused("missing", more[0], value, n=1):
        call([*LINE, *more])
    assert "--like" in error_line(capsys, [*LINE, *more])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("flag", "value"),
    [("--test-every", 3), ("--actions", 4), ("--recipes", 3), ("--separation", 1.0), ("--longest-mean", 9.0)],
)
def test_options_for_made_up_transcripts_exclude_real_ones(tmp_path: Path, monkeypatch, flag, value):
    monkeypatch.chdir(tmp_path)
    with refused("conflict", flag, value, n=1):
        call([*LINE, "--like", "notes", flag, str(value)])
    assert not list(tmp_path.iterdir())


def test_a_setting_without_a_value_is_one_line(capsys):
    with refused("type", "--set", "blur", n=1):
        call([*LINE, "--like", "notes", "--set", "blur"])
    assert "PATH=VALUE" in error_line(capsys, [*LINE, "--like", "notes", "--set", "blur"])


def test_a_model_is_trained_from_imported_transcripts_and_predicts(tmp_path: Path, capsys):
    data = DataSet.example((40, 61, 55, 52))
    data.labels = {}
    source, store, run = data.write(tmp_path / "src"), tmp_path / "store", tmp_path / "run"
    rows = "".join(f"v00{i},SIL pour stir SIL,p{i % 2}\n" for i in range(3))
    (source / "transcripts.csv").write_text("video,transcript,subject\n" + rows)
    assert main(["store", "import", str(source), str(store), "--background", "SIL"]) == 0
    assert "1 video without labels and without a transcript" in capsys.readouterr().out
    assert main(["store", "inspect", str(store)]) == 0
    weak, small, segments, memory, *warnings = capsys.readouterr().out.splitlines()[-6:]
    assert memory.startswith("memory: ")
    assert [line.partition(": ")[0] for line in warnings] == ["warning"] * 2
    assert "57062 frames" in weak
    assert "94 frames" in small
    assert segments == f"segments: mean {round((40 + 61 + 55) / 12)} frames"
    assert main(["store", "inspect", str(store), "--json"]) == 0
    assert capsys.readouterr().out.count("\n") == 1
    assert main(train_line(store, run)) == 0
    assert "warning: split 1: the parts share 1 group: p0" in capsys.readouterr().err.splitlines()
    assert checkpoints.load(run / "checkpoint").progress.finished
    assert main(["predict", str(run), str(source / "features" / "v003.npy")]) == 0
    assert capsys.readouterr().out.startswith("v003: 52 frames")


def test_predictions_are_exported_as_the_frame_labels_that_predict_writes(
    store: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    line = ["store", "export", str(store), str(tmp_path / "x"), "--predictions", str(run), "--device", "cpu"]
    assert main([*line, "--prediction", "frames"]) == 0
    predict = ["predict", str(run), "--store", str(store), "--device", "cpu", "--prediction", "frames"]
    assert main([*predict, "--out", str(tmp_path / "p")]) == 0
    exported = {path.name: path.read_text() for path in (tmp_path / "x" / "predictions").iterdir()}
    assert exported == {path.name: path.read_text() for path in (tmp_path / "p").glob("*.txt")}
    assert exported
    lengths = {name: len((tmp_path / "x" / "groundTruth" / name).read_text().splitlines()) for name in exported}
    assert lengths == {name: len(text.splitlines()) for name, text in exported.items()}
    assert not (tmp_path / "x" / "features").exists()
    assert main([*line, "--replace", "--part", "train"]) == 0
    assert main(["store", "export", str(store), str(tmp_path / "y")]) == 0
    assert (tmp_path / "y" / "features").is_dir()
    with refused("missing", "--part", "test", n=1):
        call(["store", "export", str(store), str(tmp_path / "z"), "--part", "test"])
    with refused("missing", str(tmp_path / "none")):
        call(["store", "export", str(store), str(tmp_path / "z"), "--predictions", str(tmp_path / "none")])
    assert not (tmp_path / "z").exists()
