"""A store as a figure: how often its actions occur, how long they last, and some recordings."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from mucon.baselines import equal_lengths
from mucon.errors import InputError, Problem
from mucon.plots import action_looks, draw_bar, save, suffixes
from mucon.segments import Segmentation
from mucon.videos import Video, vocabulary_of
from storage import Store

TIMELINES = 6
BINS = 40
"""Of the histogram of lengths, on a logarithmic scale."""


def draw_store(store: Store, every: list[Video], path: Path) -> None:
    """Writes a figure of the annotation of a store.

    Three parts: labelled frames (without labels: segments) of each action, the lengths of its segments, and recordings
    as timelines, the ones at equal steps of the sorted ids. A recording without labels has segments of equal lengths.

    Args:
        store: an open store.
        every: all of its recordings.
        path: a file that ends in one of `suffixes`.

    Raises:
        InputError: no recording has a transcript, or the file cannot be written.

    Warns:
        DataWarning: names contain signs that no installed font has.
    """
    from matplotlib.figure import Figure

    if path.suffix.lower().removeprefix(".") not in suffixes():
        expected = f"a name that ends in one of .{', .'.join(suffixes())}"
        raise InputError(Problem(rule="type", place="--plot", value=str(path), expected=expected))
    videos = [video for video in every if video.transcript]
    if not videos:
        message = "no recording has a transcript, there is nothing to draw"
        raise InputError(Problem(rule="missing", place="--plot", value=store.address, message=message))
    vocabulary, fps = vocabulary_of(store), store.manifest.fps
    looks = action_looks(range(vocabulary.n_actions), vocabulary.background_ids)
    shown = _spread(videos)
    height = 0.24 * vocabulary.n_actions + 1.2
    figure = Figure(figsize=(11, height + 0.5 * len(shown) + 0.8), layout="constrained")
    subfigures: Any = figure.subfigures(2, 1, height_ratios=[height, 0.5 * len(shown) + 0.8])
    upper, lower = subfigures
    counts_axis, lengths_axis = upper.subplots(1, 2, sharey=True)
    _draw_counts(counts_axis, videos, vocabulary.actions, looks)
    _draw_lengths(lengths_axis, videos, vocabulary.n_actions, fps)
    axis = lower.subplots()
    for position, video in enumerate(shown):
        draw_bar(axis, position, _timeline(video), looks, fps or 1.0)
    without = " (without labels: equal lengths)" if any(video.lengths is None for video in shown) else ""
    axis.set_title(f"Recordings{without}", loc="left", fontsize=9)
    axis.set_yticks(range(len(shown)), [video.id for video in shown])
    axis.set_ylim(len(shown) - 0.5, -0.5)
    axis.set_xlabel("seconds" if fps else "frames", fontsize=8)
    for one in (counts_axis, lengths_axis, axis):
        one.spines[["top", "right", "left"]].set_visible(False)
        one.tick_params(length=0, labelsize=8)
    save(figure, path, "--plot")


def _spread(videos: list[Video]) -> list[Video]:
    """Up to `TIMELINES` recordings at equal steps."""
    step = max(len(videos) / TIMELINES, 1.0)
    return [videos[int(i * step)] for i in range(min(TIMELINES, len(videos)))]


def _timeline(video: Video) -> Segmentation:
    return video.segmentation or equal_lengths(video.transcript, video.n_frames)


def _draw_counts(axis: Any, videos: list[Video], actions: tuple[str, ...], looks: dict[int, dict[str, Any]]) -> None:
    """Draws the number of labelled frames of each action; of segments where no lengths are known."""
    counts: Counter[int] = Counter()
    labelled = [video for video in videos if video.lengths is not None]
    for video in labelled or videos:
        for action, length in zip(video.transcript, video.lengths or (1,) * len(video.transcript), strict=True):
            counts[action] += length
    total = counts.total()
    for action in range(len(actions)):
        axis.barh(action, counts[action], height=0.8, lw=0, **looks[action])
        axis.text(counts[action], action, f" {100 * counts[action] / total:.1f} %", va="center", fontsize=7)
    axis.set_yticks(range(len(actions)), actions)
    axis.set_ylim(len(actions) - 0.5, -0.5)
    axis.margins(x=0.12)
    axis.set_title("Labelled frames" if labelled else "Segments (no lengths are known)", loc="left", fontsize=9)


def _draw_lengths(axis: Any, videos: list[Video], n_actions: int, fps: float | None) -> None:
    """Draws a histogram of the lengths of the segments for each action: one row of shades, and the median."""
    lengths: list[list[int]] = [[] for _ in range(n_actions)]
    for video in videos:
        for action, length in zip(video.transcript, video.lengths or (), strict=False):
            lengths[action].append(length)
    every = [length for of_action in lengths for length in of_action]
    axis.set_title("Lengths of segments (the mark is the median)", loc="left", fontsize=9)
    if not every:
        axis.text(0.5, 0.5, "no lengths are known", transform=axis.transAxes, ha="center", style="italic", fontsize=8)
        axis.set_xticks([])
        return
    edges = np.geomspace(min(every), max(every) + 1, BINS + 1) / (fps or 1.0)
    shades = np.zeros((n_actions, BINS))
    for action, of_action in enumerate(lengths):
        if of_action:
            found, _ = np.histogram(np.array(of_action) / (fps or 1.0), edges)
            shades[action] = found / found.max()
            median = float(np.median(of_action)) / (fps or 1.0)
            axis.plot([median, median], [action - 0.4, action + 0.4], color="#D55E00", lw=1.5)
    axis.pcolormesh(edges, np.arange(n_actions + 1) - 0.5, shades, cmap="Greys", vmin=0, vmax=1, rasterized=True)
    axis.set_xscale("log")
    axis.xaxis.set_major_formatter("{x:g}")
    axis.xaxis.set_minor_formatter("")
    axis.set_xlabel("seconds" if fps else "frames", fontsize=8)
