"""Which layout a folder has."""

from dataclasses import replace

import pytest

from storage import StoreError, open_store
from storage.cli import main
from storage.layouts import ImportOptions
from storage.layouts.table import LAYOUTS, layout_of
from tests.helpers.refusals import refused
from tests.storage.helpers import DataSet
from tests.storage.layouts.helpers import noted
from tests.storage.layouts.test_layouts import TestMuCon as Release
from tests.storage.layouts.test_layouts import TestTranscripts as Transcripts

DATA = DataSet.example()


def test_a_folder_of_no_layout_is_refused_with_what_each_layout_needs(tmp_path):
    (tmp_path / "features").mkdir()
    (tmp_path / "notes.txt").write_text("x")
    with refused("unknown", str(tmp_path), ["features/", "notes.txt"], n=1, error=StoreError) as refusal:
        layout_of(tmp_path, None, ImportOptions())
    assert all(row.name in refusal.problems[0].message for row in LAYOUTS)


def test_a_dataset_in_a_folder_of_the_given_one_is_named(tmp_path):
    DATA.write(tmp_path / "gtea")
    with refused("unknown", str(tmp_path), ["gtea/"], n=1, error=StoreError) as refusal:
        layout_of(tmp_path, None, ImportOptions())
    assert refusal.problems[0].hint.endswith(str(tmp_path / "gtea"))


def test_a_folder_of_two_layouts_is_refused_and_either_can_be_chosen(tmp_path):
    DATA.write(tmp_path / "src")
    Release().write(replace(DATA, splits={}), tmp_path / "src")
    with refused("conflict", str(tmp_path / "src"), ["ms-tcn", "mucon"], n=1, error=StoreError) as refusal:
        layout_of(tmp_path / "src", None, ImportOptions())
    assert "--layout" in refusal.problems[0].hint
    for name in ("ms-tcn", "mucon"):
        assert layout_of(tmp_path / "src", name, ImportOptions())[0].name == name


def test_a_missing_folder_and_an_unknown_layout_are_refused(tmp_path):
    with refused("missing", str(tmp_path / "x"), n=1, error=StoreError):
        layout_of(tmp_path / "x", None, ImportOptions())
    with refused("unknown", "--layout", "mstcn", n=1, error=StoreError):
        layout_of(tmp_path, "mstcn", ImportOptions())


def test_the_layout_and_its_sign_are_printed_and_an_unverified_one_is_called_so(tmp_path, capsys):
    Release().write(DATA, tmp_path / "src")
    assert main(["import", str(tmp_path / "src"), str(tmp_path / "store")]) == 0
    note = capsys.readouterr().out.splitlines()[0]
    assert note.startswith("note: layout mucon, ")
    assert "labels/*.npy; " in note
    assert main(["import", str(tmp_path / "src"), str(tmp_path / "again"), "--layout", "mucon"]) == 0
    assert "as chosen" in capsys.readouterr().out.splitlines()[0]


def test_frame_labels_can_be_withheld_by_choosing_transcripts(tmp_path):
    DATA.write(tmp_path / "src")
    Transcripts().write(DATA, tmp_path / "src")
    dataset, _ = layout_of(tmp_path / "src", None, ImportOptions())
    assert dataset.name == "ms-tcn"
    arguments = ["import", str(tmp_path / "src"), str(tmp_path / "store"), "--layout", "transcripts"]
    assert main(arguments) == 0
    store = open_store(tmp_path / "store")
    assert {store.record(video).lengths for video in store.ids} == {None}
    dataset, _ = layout_of(tmp_path / "src", "transcripts", ImportOptions())
    assert noted(dataset.survey().notes, "groundTruth", "not read")


def test_hidden_files_are_no_sign(tmp_path):
    for name in ("features", "transcripts", "labels"):
        (tmp_path / name).mkdir()
    (tmp_path / "transcripts" / "._v000.txt").write_text("x")
    (tmp_path / "labels" / "._v000.npy").write_text("x")
    with refused("unknown", str(tmp_path), n=1, error=StoreError):
        layout_of(tmp_path, None, ImportOptions())


@pytest.mark.parametrize(("given", "stored"), [(["--fps", "15"], (5, None)), (["--stride", "0.2"], (None, 0.6))])
def test_the_times_of_a_sampled_store_are_those_of_its_frames(tmp_path, given, stored):
    source = DATA.write(tmp_path / "src")
    arguments = ["import", str(source), str(tmp_path / "s"), "--sample-rate", "3", "--window", "0.5", *given]
    assert main(arguments) == 0
    manifest = open_store(tmp_path / "s").manifest
    assert (manifest.fps, manifest.stride) == pytest.approx(stored)
    assert manifest.window == 0.5
    assert open_store(tmp_path / "s").record("v000").frames == 10


@pytest.mark.parametrize("rate", ["0", "-2"])
def test_a_sample_rate_below_one_is_refused(tmp_path, rate, capsys):
    source = DATA.write(tmp_path / "src")
    assert main(["import", str(source), str(tmp_path / "s"), "--sample-rate", rate]) == 2
    assert capsys.readouterr().err.startswith("error: --sample-rate: ")


def test_a_chosen_dtype_prints_its_rounding_errors_even_if_there_are_none(tmp_path, capsys):
    source = DATA.write(tmp_path / "src")
    assert main(["import", str(source), str(tmp_path / "s"), "--dtype", "float64"]) == 0
    assert "float64: largest relative error 0;" in capsys.readouterr().out
    assert main(["import", str(source), str(tmp_path / "t")]) == 0
    assert "converted" not in capsys.readouterr().out
