"""A real sweep on the validation part of a store whose test labels nobody can read without an error."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage import open_store
from storage.format.shards import file_digest
from sweeps.service.plan.plan import read_plan
from sweeps.service.plan.recordings import split_data
from sweeps.service.trials.results_folder import ResultsFolder
from tests.storage.helpers import change_manifest
from tests.sweeps import small

pytestmark = pytest.mark.service

NO_ACTION = 99
"""The only action of the test recordings; the vocabulary has no such id."""


def spoil_test_labels(store: Path) -> None:
    """Replaces the annotations of the test recordings by one that cannot be used, with new checksums."""
    path = store / "videos.parquet"
    table = pq.read_table(path)
    rows = [
        {**row, "transcript": [NO_ACTION], "lengths": [row["frames"]]} if "1:test" in row["splits"] else row
        for row in table.to_pylist()
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    digest, size = file_digest(path)
    entry = {"file": path.name, "bytes": size, "sha256": digest}
    change_manifest(store, lambda manifest: manifest.update(videos=entry))


def test_driver_workers_and_tracking_do_without_the_labels_of_test_recordings(tmp_path: Path) -> None:
    store = small.make_store(tmp_path / "store", n_train=10, groups=5)
    spoil_test_labels(store)
    with pytest.raises(IndexError):
        split_data(open_store(store), "1")
    script = small.own_script(tmp_path, "spoiled", {"one": {}, "other": {"loss.smoothing": 0.3}})
    line = small.command(script, store, tmp_path / "results", "--part", "validation", "--set", "training.epochs=1")
    ran = small.run([*line, "--max-concurrent", "1"])
    assert ran.returncode == 0, ran.stdout + ran.stderr
    plan = read_plan(ResultsFolder.at(tmp_path / "results"), "spoiled")
    assert plan.part == "validation"
    assert all(result.is_finished for result in plan.read_results().values())
