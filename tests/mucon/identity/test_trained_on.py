"""A run knows its data: what it records, and what it refuses and warns about."""

from __future__ import annotations

import dataclasses
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from mucon.checkpoint_files import DATA, trained_on
from mucon.errors import DataWarning, Interrupted
from mucon.evaluation import evaluate
from mucon.identity.trained_on import TrainedOn
from mucon.library import load_predictor
from mucon.methods import METHODS, method_named
from mucon.videos import Source, Video, source_of, videos_of, vocabulary_of
from storage import open_store
from tests.helpers.factories import VOCABULARY, make_video, small_videos, write_store
from tests.helpers.refusals import matching, refused
from tests.helpers.small_methods import SETTINGS


def train(folder: Path, videos: list[Video], *, method: str = "mucon", source: Source | None = None, **options) -> None:
    named = method_named(method)
    one_epoch = {**SETTINGS[method], "training.epochs": 1}
    config = named.config().with_values({**one_epoch, **options.pop("settings", {})})
    named.train(config, videos, VOCABULARY, folder=folder, device="cpu", source=source, **options)


def other_features(videos: list[Video]) -> list[Video]:
    return [make_video(v.id, v.transcript, v.lengths or (), seed=9) for v in videos]


def other_transcript(videos: list[Video]) -> list[Video]:
    return [dataclasses.replace(videos[0], transcript=(*videos[0].transcript[:-1], 1)), *videos[1:]]


def other_lengths(videos: list[Video]) -> list[Video]:
    lengths = videos[0].lengths or ()
    return [dataclasses.replace(videos[0], lengths=(lengths[0] + 1, lengths[1] - 1, *lengths[2:])), *videos[1:]]


def renamed(videos: list[Video]) -> list[Video]:
    return [*videos[:-1], dataclasses.replace(videos[-1], id="v99")]


def fewer(videos: list[Video]) -> list[Video]:
    return videos[:-1]


@pytest.mark.parametrize("method", [name for name in METHODS if name != "ms_tcn_pp"])
def test_every_method_records_its_data_and_refuses_other_data(tmp_path: Path, method: str):
    videos, source = small_videos(3), Source(store="/stores/a", split="1", fps=15.0, window=0.5)
    train(tmp_path, videos, method=method, source=source)
    recorded = load_predictor(tmp_path).trained_on
    assert recorded is not None
    assert recorded.source == source
    assert list(recorded.recordings) == ["v00", "v01", "v02"]
    assert recorded == trained_on(tmp_path / "checkpoint")
    train(tmp_path, videos[::-1], method=method, source=source)
    with refused("conflict", str(tmp_path), n=1):
        train(tmp_path, other_features(videos), method=method, source=source)


@pytest.mark.parametrize("change", [other_features, other_transcript, renamed, fewer])
@pytest.mark.parametrize("interrupted", [False, True])
def test_a_run_on_other_recordings_or_annotation_is_refused(
    tmp_path: Path, change: Callable[[list[Video]], list[Video]], interrupted: bool
):
    videos = small_videos(3)
    if interrupted:
        with pytest.raises(Interrupted):
            train(tmp_path, videos, should_stop=iter([False, True]).__next__)
    else:
        train(tmp_path, videos)
    before = {path.name: path.read_bytes() for path in (tmp_path / "checkpoint").iterdir()}
    now = TrainedOn.of(change(videos), VOCABULARY, Source()).fingerprint
    with refused("conflict", str(tmp_path), now, n=1) as refusal:
        train(tmp_path, change(videos))
    recorded = trained_on(tmp_path / "checkpoint")
    assert recorded is not None
    assert recorded.fingerprint in refusal.problems[0].message
    assert {path.name: path.read_bytes() for path in (tmp_path / "checkpoint").iterdir()} == before


def test_lengths_count_where_they_are_used(tmp_path: Path):
    videos = small_videos(3)
    train(tmp_path / "weak", videos)
    train(tmp_path / "weak", other_lengths(videos))
    full = {"training.labelled": 1.0}
    train(tmp_path / "full", videos, settings=full)
    with refused("conflict", str(tmp_path / "full"), n=1):
        train(tmp_path / "full", other_lengths(videos), settings=full)


def test_another_split_is_refused_and_a_moved_store_is_not(tmp_path: Path):
    videos = small_videos(3)
    train(tmp_path, videos, source=Source(store="/a", split="1"))
    train(tmp_path, videos, source=Source(store="/b", split="1"))
    train(tmp_path, videos)
    with refused("conflict", str(tmp_path), "2", n=1):
        train(tmp_path, videos, source=Source(store="/a", split="2"))


def test_a_run_without_a_record_resumes_with_a_warning(tmp_path: Path):
    train(tmp_path, small_videos(3))
    (tmp_path / "checkpoint" / DATA).unlink()
    assert load_predictor(tmp_path).trained_on is None
    with pytest.warns(DataWarning) as caught:
        train(tmp_path, small_videos(3))
    assert matching([one.message.problem for one in caught], "missing", str(tmp_path))


def test_recordings_of_a_store_and_from_arrays_are_the_same_if_their_features_are(tmp_path: Path):
    store = open_store(write_store(tmp_path / "store"))
    copy = open_store(shutil.copytree(tmp_path / "store", tmp_path / "copy"))
    records = [
        TrainedOn.of(videos, VOCABULARY, Source())
        for videos in (videos_of(store, "1", "train"), videos_of(copy, "1", "train"), small_videos(8)[:5])
    ]
    assert records[0] == records[1] == records[2]
    assert vocabulary_of(store) == VOCABULARY
    assert source_of(store, "1") == Source(store=str(tmp_path / "store"), split="1")


def test_big_endian_features_have_the_checksum_of_the_same_numbers():
    array = np.arange(6, dtype=np.float32).reshape(3, 2)
    one, other = (Video.from_arrays("a", array.astype(dtype)) for dtype in ("<f4", ">f4"))
    assert one.checksum is not None
    assert other.checksum is not None
    assert one.checksum() == other.checksum()


def test_an_evaluation_on_recordings_that_were_trained_on_warns(tmp_path: Path):
    videos = small_videos(5)
    train(tmp_path, videos[:3])
    predictor = load_predictor(tmp_path)
    with pytest.warns(DataWarning) as caught:
        evaluate(predictor, videos[2:])
    assert [one.message.problem.value for one in caught] == [("v02",)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(predictor, videos[3:])
        evaluate(predictor, other_features(videos[2:]))


def test_ids_decide_where_features_are_unknown():
    videos = [dataclasses.replace(video, checksum=None) for video in small_videos(3)]
    record = TrainedOn.of(videos, VOCABULARY, Source())
    assert record.among(small_videos(4)) == ["v00", "v01", "v02"]
    known = TrainedOn.of(small_videos(3), VOCABULARY, Source())
    assert known.among(videos) == ["v00", "v01", "v02"]
    assert known.among(renamed(small_videos(3))) == ["v00", "v01", "v99"]


def test_a_warm_started_run_has_seen_the_recordings_of_its_start(tmp_path: Path):
    videos = small_videos(5)
    train(tmp_path / "a", videos[:2])
    train(tmp_path / "b", videos[2:4], settings={"training.warm_start": str(tmp_path / "a")})
    shutil.rmtree(tmp_path / "a")
    train(tmp_path / "b", videos[2:4], settings={"training.warm_start": str(tmp_path / "a")})
    record = trained_on(tmp_path / "b" / "checkpoint")
    assert record is not None
    assert record.among(videos) == ["v00", "v01", "v02", "v03"]
    assert list(record.recordings) == ["v02", "v03"]
