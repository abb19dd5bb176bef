"""Windows of chosen frames of many recordings, from the memory of the device or from their files."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from mucon.arrays import Ints
from mucon.training.feed import stays
from mucon.training_config import DeviceResident
from mucon.videos import Video


class Windows:
    """The windows around the frames of recordings; frames outside a recording are zeros.

    Args:
        videos: the recordings.
        window: W frames, odd.
        device: device of the windows.
        dtype: their type.
        choice: whether the features stay on a GPU.
        resident: keep all features on the device, in the type in which they are stored; by default see
            `mucon.training.feed.stays`. Otherwise the frames of each request are read from the recordings.

    Raises:
        InputError: the features must stay on the device and do not fit.
    """

    def __init__(
        self,
        videos: Sequence[Video],
        window: int,
        device: torch.device,
        dtype: torch.dtype = torch.float32,
        *,
        choice: DeviceResident = "auto",
        resident: bool | None = None,
    ) -> None:
        self.videos, self.window, self.device, self.dtype = videos, window, device, dtype
        around = window // 2
        padded = np.array([video.n_frames + 2 * around for video in videos])
        if resident is None:
            size = int(padded.sum()) * videos[0].dim * videos[0].read().dtype.itemsize
            resident = stays(size, device, choice)
        self.first = np.cumsum(padded) - padded
        self.around = torch.arange(window, device=device)[:, None]
        self.features: Tensor | None = None
        if resident:
            stored = (functional.pad(video.stored_features(device), (0, 0, around, around)) for video in videos)
            self.features = torch.cat(list(stored))

    def get(self, videos: Ints, places: Ints) -> Tensor:
        """Windows `[W, n, D]` around frames.

        Args:
            videos: `[n]`, the index of each frame's recording.
            places: `[n]`, its place in the recording.
        """
        if self.features is not None:
            rows = torch.from_numpy(self.first[videos] + places).to(self.device, non_blocking=True)
            return self.features[rows + self.around].to(self.dtype)
        around = np.arange(self.window)[:, None] - self.window // 2
        read = torch.zeros(self.window, len(videos), self.videos[0].dim, dtype=self.dtype)
        for video in np.unique(videos):
            chosen = np.flatnonzero(videos == video)
            frames = places[chosen] + around
            inside = (frames >= 0) & (frames < self.videos[video].n_frames)
            steps, columns = np.nonzero(inside)
            rows = self.videos[video].read()[frames[inside]]
            read[torch.from_numpy(steps), torch.from_numpy(chosen[columns])] = torch.from_numpy(rows).to(self.dtype)
        return read.to(self.device)
