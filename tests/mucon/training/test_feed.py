"""Features of a step: kept in memory, read on request, or read ahead."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.overrides import TorchFunctionMode

from mucon import checkpoint
from mucon.training import feed as feeding
from mucon.training import loop, train
from mucon.training.feed import Feed, residence_lines
from mucon.training_config import TrainingConfig
from mucon.videos import Video
from tests.helpers.factories import VOCABULARY, small_config, small_videos
from tests.helpers.refusals import refused

CPU = torch.device("cpu")
WAYS = {
    "resident": {"resident": True},
    "when asked for": {"resident": False, "ahead": False},
    "ahead": {"resident": False, "ahead": True},
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_features(way: str) -> None:
    videos = small_videos(6)
    order = [3, 0, 0, 5, 1, 2]
    with Feed(videos, CPU, torch.float32, **WAYS[way]) as feed:
        for index, then in zip(order, [*order[1:], None], strict=True):
            assert torch.equal(feed.get(index, then), videos[index].features())


def test_few_features_are_kept_and_given_without_a_copy() -> None:
    with Feed(small_videos(2), CPU, torch.float32) as feed:
        assert feed.get(1) is feed.get(1)


def test_the_next_video_is_read_in_another_thread_while_this_one_is_used() -> None:
    readers: dict[str, str] = {}

    def video(name: str) -> Video:
        def read() -> np.ndarray:
            readers[name] = threading.current_thread().name
            return np.zeros((3, 2), dtype=np.float32)

        return Video(name, 3, 2, (0,), None, read)

    with Feed([video("a"), video("b")], CPU, torch.float32, resident=False, ahead=True) as feed:
        feed.get(0, then=1)
        feed.get(1)
    assert readers["a"] == threading.main_thread().name
    assert readers["b"] != threading.main_thread().name


def test_an_error_of_reading_ahead_is_raised_where_the_video_is_asked_for() -> None:
    def broken() -> np.ndarray:
        raise OSError("gone")

    good = small_videos(1)[0]
    bad = Video("bad", 3, good.dim, (0,), None, broken)
    with Feed([good, bad], CPU, torch.float32, resident=False, ahead=True) as feed:
        assert len(feed.get(0, then=1)) == good.n_frames
        with pytest.raises(OSError, match="gone"):
            feed.get(1)


def test_features_come_in_the_precision_that_is_asked_for() -> None:
    with Feed(small_videos(1), CPU, torch.bfloat16) as feed:
        assert feed.get(0).dtype == torch.bfloat16


META = torch.device("meta")
"""Stands in for a GPU: every device but a CPU is fed in the same way."""


def stored_as(dtype: str) -> Video:
    return Video("v", 7, 2, (0,), None, lambda: np.arange(14, dtype=dtype).reshape(7, 2))


@pytest.mark.parametrize(
    ("stored", "wanted", "kept"),
    [
        ("float16", torch.float32, torch.float16),
        ("float16", torch.bfloat16, torch.bfloat16),
        ("float32", torch.bfloat16, torch.bfloat16),
        ("float64", torch.float32, torch.float32),
    ],
)
def test_a_gpu_keeps_the_smaller_of_the_stored_and_the_requested_type(
    monkeypatch: pytest.MonkeyPatch, stored: str, wanted: torch.dtype, kept: torch.dtype
) -> None:
    monkeypatch.setattr(feeding, "room", lambda *_: 7 * 2 * kept.itemsize)
    with Feed([stored_as(stored)], META, wanted) as feed:
        assert feed.resident is not None
        assert feed.resident[0].dtype == kept
        assert feed.get(0).dtype == wanted
    monkeypatch.setattr(feeding, "room", lambda *_: 7 * 2 * kept.itemsize - 1)
    with Feed([stored_as(stored)], META, wanted) as feed:
        assert feed.resident is None
        assert feed.get(0).dtype == wanted


def test_a_choice_decides_whether_features_stay_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 7 * 2 * 2
    monkeypatch.setattr(feeding, "room", lambda _, choice: {"auto": size - 1, "on": size}[choice])
    for choice, is_resident in (("auto", False), ("on", True), ("off", False)):
        with Feed([stored_as("float16")], META, torch.float32, choice=choice) as feed:
            assert (feed.resident is not None) == is_resident
    monkeypatch.setattr(feeding, "room", lambda *_: size - 1)
    with refused("unsupported", "training.device_resident", "on", n=1):
        Feed([stored_as("float16")], META, torch.float32, choice="on")


def test_the_memory_of_the_features_is_printed_for_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeding, "room", lambda *_: 3e9)
    video = Video("v", 1_000_000, 1000, (0,), None, lambda: np.zeros((1, 1), np.float16))
    for choice in ("auto", "off"):
        (line,) = residence_lines([video], META, TrainingConfig(device_resident=choice))
        assert "2 GB" in line
        assert ("6 GB" in line, "50%" in line) == (choice == "auto", choice == "auto")
    with refused("unsupported", "training.device_resident", "on"):
        residence_lines([video] * 2, META, TrainingConfig(device_resident="on"))
    assert residence_lines([video], CPU, TrainingConfig(device_resident="on")) == []


@pytest.mark.parametrize(("fraction", "auto", "on"), [(1.0, 30e9, 54e9), (0.25, 10e9, 18e9)])
def test_the_room_on_a_gpu_is_what_is_free_or_what_the_trial_may_use(
    monkeypatch: pytest.MonkeyPatch, fraction: float, auto: float, on: float
) -> None:
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (60e9, 80e9))
    monkeypatch.setattr(torch.cuda, "get_per_process_memory_fraction", lambda _: fraction)
    gpu = torch.device("cuda:0")
    assert (feeding.room(gpu), feeding.room(gpu, "on")) == (auto, pytest.approx(on))


def test_kept_features_and_features_read_each_time_train_the_same_bits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    weights, reads = {}, {}
    for way in ("resident", "when asked for", "ahead"):
        count: Counter[str] = Counter()
        monkeypatch.setattr(loop, "Feed", lambda *given, choice, way=way: Feed(*given, choice=choice, **WAYS[way]))
        videos = [counted(video, count) for video in small_videos(4)]
        config = small_config(training__progress_videos=0, training__epochs=3)
        train(config, videos, VOCABULARY, folder=tmp_path / way, device="cpu")
        weights[way] = checkpoint.weights_sha256(checkpoint.load(tmp_path / way / "checkpoint").model)
        reads[way] = set(count.values())
    assert len(set(weights.values())) == 1
    assert max(reads["resident"]) < min(reads["when asked for"])


def counted(video: Video, count: Counter[str]) -> Video:
    """A video that counts how often its features are read."""

    def read() -> np.ndarray:
        count[video.id] += 1
        return video.read()

    return replace(video, read=read)


class Uploads(TorchFunctionMode):
    """Imitates pinned memory and transfers to a GPU, and records them."""

    def __init__(self) -> None:
        super().__init__()
        self.pinned: list[torch.Tensor] = []
        self.calls: list[str] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if func is torch.empty and kwargs.pop("pin_memory", False):
            self.pinned.append(func(*args, **kwargs))
            return self.pinned[-1]
        if func is torch.Tensor.to and len(args) > 1 and isinstance(args[1], torch.device) and args[1].type == "cuda":
            self.calls.append(f"transfer of {args[0].dtype}")
            assert kwargs == {"non_blocking": True}
            assert any(args[0] is one for one in self.pinned), "not from pinned memory"
            return args[0]
        self.calls += [func.__name__] if func in (torch.Tensor.clone, torch.Tensor.pin_memory) else []
        return func(*args, **kwargs)


@pytest.mark.parametrize("is_writeable", [True, False])
def test_features_are_copied_once_into_pinned_memory_and_travel_as_stored(
    monkeypatch: pytest.MonkeyPatch, is_writeable: bool
) -> None:
    array = np.arange(14, dtype=np.float16).reshape(7, 2)
    array.flags.writeable = is_writeable
    copies: list[int] = []
    copyto = np.copyto
    monkeypatch.setattr(np, "copyto", lambda target, source: [copies.append(target.nbytes), copyto(target, source)])
    video = Video("v", 7, 2, (0,), None, lambda: array)
    with Uploads() as uploads:
        features = [video.features("cuda:0", torch.float32) for _ in range(2)]
    assert uploads.calls == ["transfer of torch.float16"] * 2
    assert copies == [array.nbytes] * 2
    assert uploads.pinned[0].data_ptr() != uploads.pinned[1].data_ptr(), "torch decides when memory is used again"
    assert all(torch.equal(one, torch.from_numpy(array.astype(np.float32))) for one in features)
