"""Summary of a store as data and as text."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from storage.errors import counted

if TYPE_CHECKING:
    from storage.reader import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Summary of a store.

    Attributes:
        path: folder or URI of the store.
        store_format: version of its format.
        videos: number of clips.
        frames: number of frames of all clips.
        shortest: frames of the shortest clip.
        median: median number of frames.
        longest: frames of the longest clip.
        dim: D.
        dtype: dtype of the features.
        fps: frames per second, None if not known.
        actions: names in the order of their ids.
        background: names of the background actions.
        splits: number of clips by split part, such as `1:train`.
        groups: number of distinct groups.
        activities: number of distinct activities.
        with_transcript: number of clips with a transcript.
        with_lengths: number of clips with a transcript and lengths.
        distinct_transcripts: number of distinct transcripts.
        segments_median: median number of segments of the clips with a transcript, None without such clips.
        segments_longest: largest number of segments, likewise.
        action_frames: share of the labelled frames by action, most frequent first.
        part_annotation: number of clips with labels, with a transcript only and with neither, by split part.
        part_action_frames: labelled frames by split part and action, most frequent first.
        shards: number of files of features.
        bytes: size of all files.
        simulated: origin of simulated features, None for real ones.
    """

    path: str
    store_format: int
    videos: int
    frames: int
    shortest: int
    median: float
    longest: int
    dim: int
    dtype: str
    fps: float | None
    actions: tuple[str, ...]
    background: tuple[str, ...]
    splits: dict[str, int]
    groups: int
    activities: int
    with_transcript: int
    with_lengths: int
    distinct_transcripts: int
    segments_median: float | None
    segments_longest: int | None
    action_frames: dict[str, float]
    part_annotation: dict[str, dict[str, int]]
    part_action_frames: dict[str, dict[str, int]]
    shards: int
    bytes: int
    simulated: str | None


def overview(store: Store) -> Overview:
    """Summarises an open store; reads its records, but no features."""
    manifest, records = store.manifest, store.catalogue
    frames = records.frames.tolist()
    annotations = list(zip(store.ids, records.column("transcript"), records.column("lengths"), strict=True))
    transcripts = [tuple(transcript) for _, transcript, _ in annotations if transcript is not None]
    segments = [len(transcript) for transcript in transcripts]
    labelled = {video: _frames_by_action(manifest.vocabulary, *annotation) for video, *annotation in annotations}
    kinds = {video: _kind(*annotation) for video, *annotation in annotations}
    total = sum(labelled.values(), Counter())
    return Overview(
        path=store.address,
        store_format=manifest.format_version,
        videos=len(store),
        frames=sum(frames),
        shortest=min(frames),
        median=statistics.median(frames),
        longest=max(frames),
        dim=manifest.dim,
        dtype=manifest.dtype,
        fps=manifest.fps,
        actions=manifest.vocabulary,
        background=manifest.background,
        splits={part: len(videos) for part, videos in store.parts.items()},
        groups=len(set(records.column("group")) - {None}),
        activities=len(set(records.column("activity")) - {None}),
        with_transcript=len(transcripts),
        with_lengths=list(kinds.values()).count("labels"),
        distinct_transcripts=len(set(transcripts)),
        segments_median=statistics.median(segments) if segments else None,
        segments_longest=max(segments, default=None),
        action_frames={name: n / total.total() for name, n in total.most_common()},
        part_annotation={
            part: {kind: [kinds[video] for video in videos].count(kind) for kind in _KINDS}
            for part, videos in store.parts.items()
        },
        part_action_frames={
            part: dict(sum((labelled[video] for video in videos), Counter()).most_common())
            for part, videos in store.parts.items()
        },
        shards=len(manifest.shards),
        bytes=manifest.n_bytes,
        simulated=_simulated(manifest.metadata.get("simulated")),
    )


_KINDS = {"labels": "with labels", "transcript": "with a transcript only", "none": "with neither"}
"""What is known of the actions in a clip, and its words in the text."""


def _kind(transcript: list[int] | None, lengths: list[int] | None) -> str:
    return "none" if transcript is None else "transcript" if lengths is None else "labels"


def _frames_by_action(
    vocabulary: tuple[str, ...], transcript: list[int] | None, lengths: list[int] | None
) -> Counter[str]:
    frames: Counter[str] = Counter()
    for action, length in zip(transcript or (), lengths or (), strict=False):
        frames[vocabulary[action]] += length
    return frames


def overview_rows(view: Overview) -> list[tuple[str, str]]:
    """Formats the overview as rows of a name and a text."""
    seconds = f", {view.frames / view.fps / 3600:.2f} h at {view.fps:g} frames per second" if view.fps else ""
    rows = [
        ("store", f"{view.path} (format {view.store_format})"),
        ("videos", f"{view.videos}"),
        (
            "frames",
            f"{view.frames} in total; {view.shortest} / {view.median:g} / {view.longest} min/median/max{seconds}",
        ),
        ("features", f"D = {view.dim}, {view.dtype}{', simulated: ' + view.simulated if view.simulated else ''}"),
        ("actions", f"{len(view.actions)}: {', '.join(view.actions)}"),
        ("background", ", ".join(view.background) or "none"),
    ]
    if view.groups or view.activities:
        rows.append(
            ("groups", f"{counted(view.groups, 'group')}, {counted(view.activities, 'activity', 'activities')}")
        )
    if view.splits:
        rows.append(("splits", ", ".join(f"{part} {count}" for part, count in view.splits.items())))
    else:
        rows.append(("splits", "none"))
    rows.append(
        (
            "annotation",
            f"{counted(view.with_transcript, 'video')} with a transcript, {view.with_lengths} also with lengths",
        )
    )
    if view.with_lengths < view.videos:
        rows += [
            (part, ", ".join(f"{n} {_KINDS[kind]}" for kind, n in counts.items()))
            for part, counts in view.part_annotation.items()
        ]
    if view.segments_longest is not None:
        rows.append(
            (
                "transcripts",
                f"{view.distinct_transcripts} distinct; {view.segments_median:g} / {view.segments_longest} segments "
                "median/max",
            )
        )
    if view.action_frames:
        action, share = next(iter(view.action_frames.items()))
        rows.append(("top action", f"{action}, {100 * share:.1f} % of the labelled frames"))
    rows.append(("on disk", f"{size_text(view.bytes)}, {counted(view.shards, 'file')} of features"))
    return rows


def _simulated(facts: Any) -> str | None:
    """Summarises the metadata about simulation."""
    if facts is None:
        return None
    if not isinstance(facts, dict):
        return str(facts)
    names = ("like", "preset", "seed")
    return ", ".join(f"{name} {facts[name]}" for name in names if name in facts) or "yes"


def size_text(n_bytes: int) -> str:
    """Formats a number of bytes.

    >>> size_text(999), size_text(8_600_000)
    ('999 B', '8.6 MB')
    """
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
