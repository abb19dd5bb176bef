"""Features of a step: kept in memory, read on request, or read ahead."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from mucon.training.feed import Feed
from mucon.videos import Video
from tests.helpers.factories import small_videos

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
