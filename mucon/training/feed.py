"""The features of the training videos on the device: all of them at once, or the next one read ahead."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import torch
from torch import Tensor

from mucon.videos import Video

RESIDENT_BYTES = 1 << 30
"""Features up to this size stay converted in the memory of a CPU; a mapped store is read again quickly."""
RESIDENT_SHARE = 0.15
"""Features up to this share of a GPU's free memory stay there, since trials share the GPU."""


class Feed:
    """Returns the features of videos by index; a context manager.

    Args:
        videos: all videos that may be requested.
        device: device of the features.
        dtype: type of the features there.
        resident: keep all features on the device; by default decided by their size. On a GPU they are kept in the
            type in which they are stored if that is smaller than `dtype`, and each is converted when it is requested.
        ahead: read the next video in a thread; by default on a GPU only (on a CPU it would cost a core).
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
        is_gpu = device.type != "cpu"
        if resident is None:
            itemsize = min(dtype.itemsize, videos[0].read().dtype.itemsize) if is_gpu else dtype.itemsize
            resident = sum(video.n_frames * video.dim for video in videos) * itemsize <= room(device)
        self.resident = [self._kept(index) for index in range(len(videos))] if resident else None
        self.pool = ThreadPoolExecutor(1) if not resident and (is_gpu if ahead is None else ahead) else None
        self.pending: dict[int, Future[Tensor]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def get(self, index: int, then: int | None = None) -> Tensor:
        """Features `[T, D]` of a video on the device.

        Args:
            index: index of the video.
            then: index of the video that is requested next, which may be read meanwhile.
        """
        if self.resident is not None:
            return self.resident[index].to(self.dtype)
        if self.pool is None:
            return self._read(index)
        pending = self.pending.pop(index, None)
        features = self._read(index) if pending is None else pending.result()
        if then is not None and then not in self.pending:
            self.pending[then] = self.pool.submit(self._read, then)
        return features

    def _read(self, index: int) -> Tensor:
        return self.videos[index].features(self.device, self.dtype)

    def _kept(self, index: int) -> Tensor:
        stored = self.videos[index].stored_features(self.device)
        is_smaller = self.device.type != "cpu" and stored.dtype.itemsize < self.dtype.itemsize
        return stored if is_smaller else stored.to(self.dtype)


def room(device: torch.device) -> float:
    """Bytes that resident features may take on a device."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allowed = torch.cuda.get_per_process_memory_fraction(device) * total  # a trial may share the GPU
        return min(RESIDENT_SHARE * free, allowed / 2)
    return RESIDENT_BYTES
