"""The features of the training videos on the device: all of them at once, or the next one read ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Self

import torch
from torch import Tensor

from mucon.device import usable_precision
from mucon.errors import InputError, Problem
from mucon.method import TrainingSettings
from mucon.training_config import DeviceResident
from mucon.videos import Video

RESIDENT_BYTES = 1 << 30
"""Features up to this size stay converted in the memory of a CPU; a mapped store is read again quickly."""
MARGINS: Mapping[DeviceResident, float] = {"auto": 0.5, "on": 0.1}
"""Share of a GPU's memory that features leave free: for the steps, and by default for other trials."""


class Feed:
    """Returns the features of videos by index; a context manager.

    Args:
        videos: all videos that may be requested.
        device: device of the features.
        dtype: type of the features there.
        choice: whether the features stay on a GPU, where they are kept in the type in which they are stored if that is
            smaller than `dtype`, and each is converted when it is requested.
        resident: keep all features on the device, whatever their size; by default see `stays`.
        ahead: read the next video in a thread; by default on a GPU only (on a CPU it would cost a core).

    Raises:
        InputError: the features must stay on the device and do not fit.
    """

    def __init__(
        self,
        videos: Sequence[Video],
        device: torch.device,
        dtype: torch.dtype,
        *,
        choice: DeviceResident = "auto",
        resident: bool | None = None,
        ahead: bool | None = None,
    ) -> None:
        self.videos, self.device, self.dtype = videos, device, dtype
        is_gpu = device.type != "cpu"
        if resident is None:
            resident = stays(_size(videos, device, dtype), device, choice)
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


def stays(size: int, device: torch.device, choice: DeviceResident = "auto") -> bool:
    """Whether features of so many bytes stay on a device.

    Raises:
        InputError: they must stay there (`on`) and do not fit.
    """
    if device.type == "cpu":
        return size <= RESIDENT_BYTES
    if choice == "off":
        return False
    fits = size <= room(device, choice)
    if choice == "on" and not fits:
        message = (
            f"the features of the training videos take {_gb(size)}, {device} has room for {_gb(room(device, choice))}"
        )
        hint = "auto and off read them from the store instead"
        place = "training.device_resident"
        raise InputError(Problem(rule="unsupported", place=place, value=choice, message=message, hint=hint))
    return fits


def residence_lines(videos: Sequence[Video], device: torch.device, training: TrainingSettings) -> list[str]:
    """One line about the memory of the features on a GPU and where they stay; none on a CPU.

    Raises:
        InputError: see `stays`.
    """
    if device.type == "cpu" or not videos:
        return []
    choice = training.device_resident
    size = _size(videos, device, getattr(torch, usable_precision(training.precision, device)))
    place = f"kept on {device}" if stays(size, device, choice) else f"read ahead to {device}"
    line = f"features of the training videos: {_gb(size)}, {place}"
    if choice == "off":
        return [line]
    free = room(device, choice) / (1 - MARGINS[choice])
    return [f"{line}; {_gb(free)} are free there, and {MARGINS[choice]:.0%} of it must stay free"]


def _size(videos: Sequence[Video], device: torch.device, dtype: torch.dtype) -> int:
    """Bytes of the features of videos on a device."""
    itemsize = dtype.itemsize
    if device.type != "cpu":
        itemsize = min(itemsize, videos[0].read().dtype.itemsize)
    return sum(video.n_frames * video.dim for video in videos) * itemsize


def _gb(size: float) -> str:
    return f"{size / 1e9:.3g} GB"


def room(device: torch.device, choice: DeviceResident = "auto") -> float:
    """Bytes that resident features may take on a device."""
    if device.type == "cuda":
        free, total = torch.cuda.mem_get_info(device)
        allowed = torch.cuda.get_per_process_memory_fraction(device) * total  # a trial may share the GPU
        return (1 - MARGINS[choice]) * min(free, allowed)
    return RESIDENT_BYTES
