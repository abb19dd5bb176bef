"""Imports of real recordings, if `MUCON_DATA_DIR` names a folder with them."""

import os
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from storage import open_store
from storage.importing import import_data
from storage.inspection.overview import overview
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn
from storage.verify import verify_store

DATA = os.environ.get("MUCON_DATA_DIR", "")
pytestmark = pytest.mark.skipif(not DATA, reason="needs MUCON_DATA_DIR, a folder with recordings")


def imported(name, target, **options):
    result = import_data(MsTcn(Path(DATA) / name, ImportOptions(**options)), target / name)
    return open_store(target / name), result.survey


def test_tug_is_imported(tmp_path):
    store, survey = imported("tug", tmp_path, group_regex=r"^s\d+")
    view = overview(store)
    assert (view.videos, view.frames, view.dim, view.dtype) == (223, 50218, 60, "float16")
    assert (view.shortest, view.median, view.longest) == (171, 224, 295)
    assert view.splits == {"1:test": 56, "1:train": 167}
    assert (view.distinct_transcripts, view.segments_median, view.segments_longest, view.groups) == (6, 8, 9, 23)
    assert survey.notes == ()
    for video in store.ids:
        assert np.array_equal(store.features(video), np.load(Path(DATA) / "tug" / "features" / f"{video}.npy"))
    assert verify_store(store.path).problems == ()


def test_tug_is_imported_without_its_labels(tmp_path):
    source = tmp_path / "src"
    (source / "transcripts").mkdir(parents=True)
    for name in ("features", "splits", "mapping.txt"):
        (source / name).symlink_to(Path(DATA) / "tug" / name)
    for path in (Path(DATA) / "tug" / "groundTruth").iterdir():
        names = [name for name, _ in groupby(path.read_text().splitlines())]
        (source / "transcripts" / path.name).write_text("\n".join(names))
    import_data(MsTcn(source), tmp_path / "weak")
    labelled, weak = imported("tug", tmp_path)[0], open_store(tmp_path / "weak")
    assert weak.ids == labelled.ids
    assert weak.catalogue.column("transcript") == labelled.catalogue.column("transcript")
    assert set(weak.catalogue.column("lengths")) == {None}
    assert weak.catalogue.column("sha256") == labelled.catalogue.column("sha256")


def test_hapt_is_imported(tmp_path):
    store, _ = imported("hapt", tmp_path, background=("UNLABELLED",))
    view = overview(store)
    assert (view.videos, view.frames, view.dim, len(view.actions)) == (61, 200579, 30, 13)
    assert view.splits == {"1:test": 19, "1:train": 42}
    assert (view.distinct_transcripts, view.segments_median) == (20, 28)


def test_the_breakfast_sample_is_imported_with_its_silent_beginnings(tmp_path):
    store, survey = imported("breakfast_fv_sample", tmp_path, background=("SIL",), activity_regex=r"([a-z]+)$")
    assert (len(store), store.manifest.n_frames, store.manifest.dim, store.manifest.dtype) == (5, 3350, 64, "float32")
    assert {store.record(video).activity for video in store.ids} == {"coffee"}
    assert all(4 <= (store.record(video).statistics.first_active or 0) <= 52 for video in store.ids)
    assert "(43)" in survey.notes[0]
