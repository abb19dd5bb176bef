"""Imports of real recordings, if `MUCON_DATA_DIR` names a folder with them."""

import os
from pathlib import Path

import numpy as np
import pytest

from storage import open_store
from storage.importing import import_data
from storage.layouts.ms_tcn import MsTcn, MsTcnOptions
from storage.overview import overview
from storage.verify import verify_store

DATA = os.environ.get("MUCON_DATA_DIR", "")
pytestmark = pytest.mark.skipif(not DATA, reason="needs MUCON_DATA_DIR, a folder with recordings")


def imported(name, target, **options):
    result = import_data(MsTcn(Path(DATA) / name, MsTcnOptions(**options)), target / name)
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
