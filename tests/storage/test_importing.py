"""Imports in several threads: order, problems and bytes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from storage import StoreError, open_store
from storage.importing import import_data
from storage.layouts import ImportOptions
from storage.layouts.ms_tcn import MsTcn
from storage.verify import verify_store
from tests.helpers.refusals import refused
from tests.storage.helpers import SMALL, DataSet, files_of

RECORDED = "6fb962a6a26198a97f7b39456b7cb9d0efc6475b861bb0f6291b2401fb34bef7"
"""Checksum of the manifest of the store below, which a writer in one thread and two passes wrote with pyarrow 24."""


def whole_numbers():
    """A dataset whose statistics are exact on every processor."""
    data = DataSet.example((30, 41, 25, 52), dim=6)
    data.features = {
        video: np.resize(np.arange(-8.0, 9.0, dtype=np.float32), values.shape)
        for video, values in data.features.items()
    }
    return data


@pytest.mark.parametrize("threads", [2, 4])
def test_the_bytes_of_a_store_do_not_depend_on_the_threads(tmp_path, threads):
    source = DataSet.example([9 + 7 * n % 40 for n in range(20)]).write(tmp_path / "data")
    one = import_data(MsTcn(source), tmp_path / "one", limits=SMALL, threads=1)
    more = import_data(MsTcn(source), tmp_path / "more", limits=SMALL, threads=threads)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "more")
    assert (one.survey, one.conversion) == (more.survey, more.conversion)
    assert verify_store(tmp_path / "more").problems == ()


@pytest.mark.skipif(pa.__version__ != "25.0.1", reason="another pyarrow writes other bytes")
def test_the_bytes_of_a_store_are_those_of_earlier_versions(tmp_path):
    import_data(MsTcn(whole_numbers().write(tmp_path / "data")), tmp_path / "s", limits=SMALL)
    assert open_store(tmp_path / "s").manifest.sha256 == RECORDED


def test_all_values_that_a_store_cannot_contain_are_reported_and_nothing_is_published(tmp_path):
    data = DataSet.example((30, 41, 25, 52))
    data.features["v001"][3, 2] = np.nan
    data.features["v003"][5:7] = np.inf
    source = data.write(tmp_path / "data")
    with refused("range", "v001, row 3", 1, n=2, error=StoreError) as refusal:
        import_data(MsTcn(source), tmp_path / "s")
    assert refusal.places == ["v001, row 3", "v003, rows 5-6"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    (source / "splits" / "train.split1.bundle").write_text("v000.txt\nnone.txt\n")
    with refused("unknown", n=3, error=StoreError):
        import_data(MsTcn(source), tmp_path / "s")


def test_a_file_that_changes_behind_the_survey_is_the_only_problem(tmp_path):
    data = DataSet.example((30, 41, 25, 52))
    source = data.write(tmp_path / "data")

    class Changing(MsTcn):
        def clips(self):
            np.save(source / "features" / "v002.npy", data.features["v002"][:-3])
            return super().clips()

    with refused(
        "state", str(source / "features" / "v002.npy"), [22, *data.features["v002"].shape[1:]], n=1, error=StoreError
    ):
        import_data(Changing(source), tmp_path / "s")


def test_values_above_the_range_of_float16_are_refused_by_name(tmp_path):
    data = DataSet.example((30, 41, 25, 52))
    data.features["v002"][4, 1] = 65_521
    with refused("range", "v002, row 4", 65_521, n=1, error=StoreError):
        import_data(MsTcn(data.write(tmp_path / "data"), ImportOptions(dtype="float16")), tmp_path / "s")


def test_progress_is_reported_for_each_clip(tmp_path):
    seen = []
    source = DataSet.example((30, 41, 25, 52)).write(tmp_path / "data")
    import_data(MsTcn(source), tmp_path / "s", progress=lambda *state: seen.append(state))
    assert seen == [("writing", n, 4) for n in range(1, 5)]
