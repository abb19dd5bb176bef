"""Summary of a store as data and as text."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from storage.errors import counted

if TYPE_CHECKING:
    from storage.reader import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Output of `inspect`.

    Attributes:
        path: folder of the store.
        format_version: version of its format.
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
        shards: number of files of features.
        bytes: size of all files.
        simulated: origin of simulated features, None for real ones.
    """

    path: str
    format_version: int
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
    shards: int
    bytes: int
    simulated: str | None

    def to_dict(self) -> dict[str, Any]:
        """Returns the fields for JSON."""
        return asdict(self)


def overview(store: Store) -> Overview:
    """Summarises an open store; reads its records, but no features."""
    manifest, records = store.manifest, store.catalogue
    frames = records.frames.tolist()
    transcripts = [tuple(transcript) for transcript in records.column("transcript") if transcript is not None]
    segments = [len(transcript) for transcript in transcripts]
    share: Counter[str] = Counter()
    labelled = 0
    for transcript, lengths in zip(records.column("transcript"), records.column("lengths"), strict=True):
        if transcript is not None and lengths is not None:
            labelled += 1
            for action, length in zip(transcript, lengths, strict=True):
                share[manifest.vocabulary[action]] += length
    total = share.total()
    names = [manifest.vocabulary[action] for action in range(len(manifest.vocabulary))]
    ordered = sorted((name for name in names if share[name]), key=lambda name: -share[name])
    return Overview(
        path=str(store.path),
        format_version=manifest.format_version,
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
        with_lengths=labelled,
        distinct_transcripts=len(set(transcripts)),
        segments_median=statistics.median(segments) if segments else None,
        segments_longest=max(segments, default=None),
        action_frames={name: share[name] / total for name in ordered},
        shards=len(manifest.shards),
        bytes=manifest.n_bytes,
        simulated=_simulated(manifest.metadata.get("simulated")),
    )


def overview_lines(view: Overview) -> list[str]:
    """Formats the overview as aligned lines."""
    seconds = f", {view.frames / view.fps / 3600:.2f} h at {view.fps:g} frames per second" if view.fps else ""
    rows = [
        ("store", f"{view.path} (format {view.format_version})"),
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
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


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
