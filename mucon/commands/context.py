"""The frames that a backbone sees at once, beside the lengths of the segments, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from mucon.config import BackboneConfig
from mucon.configuration import Config
from mucon.videos import Video


def backbones_of(configs: Iterable[Config]) -> dict[str, BackboneConfig]:
    """The backbones of configurations that have one, by layers and pooling."""
    found = (getattr(config, name, None) for config in configs for name in ("backbone", "network"))
    return {f"{one.n_layers} layers, pooled by {one.pooling}": one for one in found if isinstance(one, BackboneConfig)}


def context_lines(backbones: Mapping[str, BackboneConfig], videos: Sequence[Video], fps: float | None) -> Iterator[str]:
    """A line for each backbone with its receptive field, and one with the lengths of the segments.

    Args:
        backbones: by name; without any there is no line.
        videos: recordings with transcripts. Without any length of segments, the mean T/M stands for them.
        fps: frames per second; None if unknown.
    """
    for name, backbone in backbones.items():
        yield f"context of {name}: {_frames(backbone.receptive_field, fps)}"
    lengths = [length for video in videos for length in video.lengths or ()]
    n_segments = sum(len(video.transcript) for video in videos)
    if backbones and lengths:
        median, most = np.quantile(lengths, (0.5, 0.9)).tolist()
        yield f"segments: median {_frames(median, fps)}, 90 % at most {_frames(most, fps)}"
    elif backbones and n_segments:
        mean = sum(video.n_frames for video in videos if video.transcript) / n_segments
        yield f"segments: mean {_frames(mean, fps)}"


def _frames(frames: float, fps: float | None) -> str:
    """A number of frames, and its seconds if known.

    >>> _frames(94, 20.0), _frames(94, None)
    ('94 frames (4.7 s)', '94 frames')
    """
    seconds = f" ({round(frames / fps, 1):g} s)" if fps else ""
    return f"{frames:.0f} frames{seconds}"
