"""A store at a glance, as data and as text."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storage.reader import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What `inspect` shows.

    Attributes:
        path: of the store.
        format_version: of the store.
        videos: how many clips.
        frames: of all clips.
        shortest: fewest frames of a clip.
        median: median frames of a clip.
        longest: most frames of a clip.
        dim: D.
        dtype: of the features.
        fps: frames per second, None where not known.
        actions: names, in the order of their ids.
        background: names among them.
        splits: clips in each part, such as `1:train`.
        groups: distinct groups, clips without one not counted.
        activities: distinct activities, likewise.
        with_transcript: clips whose transcript is known.
        with_lengths: clips whose lengths are known as well.
        distinct_transcripts: how many.
        segments_median: median segments of a clip with a transcript, None where there is none.
        segments_longest: most segments of a clip, likewise.
        action_frames: share of the frames with known labels, by action, the commonest first.
        shards: files of features.
        bytes: of all files.
        simulated: from what the features were simulated, None where they were not.
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
        """For JSON."""
        return asdict(self)


def overview(store: Store) -> Overview:
    """Of an open store; reads its records, no features."""
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
    """The overview as aligned lines."""
    seconds = f", {view.frames / view.fps / 3600:.2f} h at {view.fps:g} frames per second" if view.fps else ""
    rows = [
        ("store", f"{view.path} (format {view.format_version})"),
        ("videos", f"{view.videos}"),
        ("frames", f"{view.frames} in all; {view.shortest} / {view.median:g} / {view.longest} min/median/max{seconds}"),
        ("features", f"D = {view.dim}, {view.dtype}{', simulated: ' + view.simulated if view.simulated else ''}"),
        ("actions", f"{len(view.actions)}: {', '.join(view.actions)}"),
        ("background", ", ".join(view.background) or "none"),
    ]
    if view.groups or view.activities:
        rows.append(("groups", f"{view.groups} groups, {view.activities} activities"))
    if view.splits:
        rows.append(("splits", ", ".join(f"{part} {count}" for part, count in view.splits.items())))
    else:
        rows.append(("splits", "none"))
    rows.append(("annotation", f"{view.with_transcript} videos have a transcript, {view.with_lengths} lengths too"))
    if view.segments_longest is not None:
        rows.append(
            (
                "transcripts",
                f"{view.distinct_transcripts} distinct; {view.segments_median:g} / {view.segments_longest} segments "
                "median/max",
            )
        )
    if view.action_frames:
        commonest, share = next(iter(view.action_frames.items()))
        rows.append(("commonest", f"{commonest} has {100 * share:.1f} % of the labelled frames"))
    rows.append(
        ("on disk", f"{size_text(view.bytes)} in {view.shards} file{'s' if view.shards > 1 else ''} of features")
    )
    width = max(len(name) for name, _ in rows)
    return [f"{name:<{width}}  {text}" for name, text in rows]


def _simulated(facts: Any) -> str | None:
    """The store's metadata about simulation in a few words."""
    if facts is None:
        return None
    if not isinstance(facts, dict):
        return str(facts)
    names = ("like", "preset", "seed")
    return ", ".join(f"{name} {facts[name]}" for name in names if name in facts) or "by unnamed means"


def size_text(n_bytes: int) -> str:
    """Bytes for people.

    >>> size_text(999), size_text(8_600_000)
    ('999 B', '8.6 MB')
    """
    size = float(n_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
