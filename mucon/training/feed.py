"""The features of the training videos on the device: all of them at once, or the next one while this one is used."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from mucon.videos import Video

RESIDENT_BYTES = 1 << 30
"""A processor keeps the features converted where all of them take at most this; a mapped store is read again fast."""
RESIDENT_SHARE = 0.15
"""A GPU keeps them where all of them take at most this share of its free memory, since trials share it."""


class Feed:
    """Gives the features of videos by their index; a context manager.

    Args:
        videos: all that may be asked for.
        device: where the features go.
        dtype: of the features there.
        resident: all at once; decided by their size where it is None.
        ahead: read the next video in a thread; decided by the device where it is None (a processor would compute
            with one core less).
    """

    def __init__(
        self,
        videos: Sequence[Video],
        device: torch.device,
        dtype: torch.dtype,
        *,
        resident: bool | None = None,
        ahead: bool | None = None,
    ) -> None:
        self.videos, self.device, self.dtype = videos, device, dtype
        if resident is None:
            size = sum(video.n_frames * video.dim for video in videos) * dtype.itemsize
            resident = size <= _room(device)
        self.resident = [self._read(index) for index in range(len(videos))] if resident else None
        is_gpu = device.type == "cuda"
        self.pool = ThreadPoolExecutor(1) if not resident and (is_gpu if ahead is None else ahead) else None
        self.coming: dict[int, Future[Tensor]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def get(self, index: int, then: int | None = None) -> Tensor:
        """Features `[T, D]` of a video on the device.

        Args:
            index: of the video.
            then: index of the one that will be asked for next, which may be read meanwhile.
        """
        if self.resident is not None:
            return self.resident[index]
        if self.pool is None:
            return self._read(index)
        there = self.coming.pop(index, None)
        features = self._read(index) if there is None else there.result()
        if then is not None and then not in self.coming:
            self.coming[then] = self.pool.submit(self._read, then)
        return features

    def _read(self, index: int) -> Tensor:
        return self.videos[index].features(self.device, self.dtype)


def _room(device: torch.device) -> float:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        return RESIDENT_SHARE * free
    return RESIDENT_BYTES
