"""Labels and transcripts of a dataset by clip; each clip may have both, one or neither."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from storage.errors import Problem, StoreError, counted, some
from storage.feature_files import PICKLES, SUFFIXES
from storage.layouts.findings import Findings
from storage.layouts.labels import Labels, Occurrence, Segment, labels_of_segments, other_form, read_labels
from storage.layouts.text import Names, find_files, matching_notes, other_files
from storage.layouts.transcripts import FOLDER, TABLE, Transcript, read_transcripts
from storage.names import normal

LABELS = "groundTruth"
_MOST_NAMES = 20
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Annotations:
    """What a dataset says about the actions in its clips.

    Attributes:
        labels: labels of the frames by clip.
        transcripts: transcripts by clip.
        occurrences: names in all files, with their places.
        named: clips with labels or a transcript, also those that cannot be read.
        unpaired: names of labels and transcripts without features.
        filled: frames by clip that lie before or between its segments and have the action of `--fill`.
        groups: groups of clips, such as subjects, if the annotation gives them.
        activities: activities of clips, likewise.
    """

    labels: Mapping[str, Labels] = field(default_factory=dict)
    transcripts: Mapping[str, Transcript] = field(default_factory=dict)
    occurrences: tuple[Occurrence, ...] = ()
    named: frozenset[str] = frozenset()
    unpaired: tuple[str, ...] = ()
    filled: Mapping[str, int] = field(default_factory=dict)
    groups: Mapping[str, str] = field(default_factory=dict)
    activities: Mapping[str, str] = field(default_factory=dict)

    def names(self, video: str) -> tuple[str, ...]:
        """Returns the actions of a clip in order, an empty tuple if they are not known."""
        known = self.labels.get(video) or self.transcripts.get(video)
        return known.names if known else ()


def paired(
    found: Mapping[str, Value], features: Path, videos: Iterable[str], kind: str, findings: Findings
) -> tuple[dict[str, Value], tuple[str, ...]]:
    """Assigns annotations to clips.

    Args:
        found: annotations by the names that they give their clips.
        features: folder of the features.
        videos: names of the clips with features.
        kind: what is assigned, such as `labels`.
        findings: receives a problem for annotations without features, and notes about names that differ.

    Returns:
        The annotations by clip, and the names of those that belong to no clip or to one that has another.
    """
    names = Names(videos)
    by_clip: dict[str, Value] = {}
    matches: dict[str, str] = {}
    unpaired = []
    for name, value in found.items():
        videos_of_name = names.find(name)
        if len(videos_of_name) == 1 and videos_of_name[0] not in by_clip:
            matches[name] = videos_of_name[0]
            by_clip[videos_of_name[0]] = value
        else:
            unpaired.append(name)
    findings.notes += matching_notes(kind, matches)
    if unpaired:
        message = f"videos with {kind} but without features ({len(unpaired)}): {some(unpaired, _MOST_NAMES)}"
        if others := other_files(features, (*SUFFIXES, *PICKLES)):
            message += f" (not read in {features.name}: {others})"
        hint = "add the features, or remove what belongs to them"
        findings.problems.append(
            Problem(rule="missing", place=str(features), value=unpaired, message=message, hint=hint)
        )
    return by_clip, tuple(unpaired)


def read_annotations(
    source: Path,
    videos: Collection[str],
    actions: frozenset[str],
    findings: Findings,
    *,
    frame_labels: bool = True,
    omitted: Collection[str] = (),
) -> Annotations:
    """Reads all labels and transcripts.

    Args:
        source: folder of the dataset.
        videos: names of the clips with features.
        actions: names in the mapping; empty if there is none.
        findings: receives the problems.
        frame_labels: whether to read the folder of frame labels.
        omitted: actions that a transcript may omit although the labels have them.
    """
    folder, features = source / LABELS, source / "features"
    texts = find_files(folder, ".txt", findings.problems) if frame_labels and folder.is_dir() else {}
    files, unlabelled = paired(texts, features, videos, "labels", findings)
    listed, untranscribed = paired(read_transcripts(source, findings), features, videos, "a transcript", findings)
    labels = findings.read_all(files, read_labels)
    transcripts = {video: transcript for video, transcript in listed.items() if transcript}
    lines = {video: runs.names for video, runs in labels.items() if runs.n_frames == len(runs.names)}
    for video in _in_another_form(lines, files, "the name of an action for each frame", actions, findings):
        del labels[video]
    lines = {video: transcript.names for video, transcript in transcripts.items() if not transcript.row}
    places = {video: transcript.path for video, transcript in transcripts.items()}
    for video in _in_another_form(lines, places, "the name of an action per line", actions, findings):
        del transcripts[video]
    for video in _single_lines(transcripts, labels, actions, findings):
        del transcripts[video]
    problems = []
    for video, runs in labels.items():
        if video not in transcripts:
            continue
        left_out = set(omitted) - set(transcripts[video].names)
        kept = [index for index, name in enumerate(runs.names) if name not in left_out]
        shown = Labels(tuple(runs.names[index] for index in kept), tuple(runs.lengths[index] for index in kept))
        problems += [transcripts[video].contradiction(shown, files[video])]
    findings.report(problem for problem in problems if problem)
    given = {video: transcript.labels for video, transcript in transcripts.items() if transcript.labels}
    return Annotations(
        labels={**given, **labels},
        transcripts=transcripts,
        occurrences=(
            *(found for video, runs in labels.items() for found in runs.occurrences(files[video])),
            *(found for transcript in transcripts.values() for found in transcript.occurrences()),
        ),
        named=frozenset({*files, *listed}),
        unpaired=(*unlabelled, *untranscribed),
        groups={video: transcript.group for video, transcript in transcripts.items() if transcript.group},
        activities={video: transcript.activity for video, transcript in transcripts.items() if transcript.activity},
    )


def of_segments(
    segments: Mapping[str, Sequence[Segment]],
    paths: Mapping[str, Path],
    unpaired: tuple[str, ...],
    fill: str | None,
    findings: Findings,
    *,
    first: int = 0,
) -> Annotations:
    """Joins the segments of each clip to labels.

    Args:
        segments: segments by clip.
        paths: their files, also those that cannot be read.
        unpaired: names of segments without features.
        fill: action of the frames without a segment; None refuses such gaps.
        findings: receives the problems.
        first: see `labels_of_segments`.
    """
    labels: dict[str, Labels] = {}
    problems: list[Problem] = []
    for video, listed in segments.items():
        try:
            labels[video] = labels_of_segments(listed, normal(fill) if fill else None, first=first)
        except StoreError as error:
            problems += error.problems
    findings.report(problems)
    own = {video: sum(one.stop - one.start for one in segments[video]) for video in labels}
    return Annotations(
        labels=labels,
        filled={video: runs.n_frames - own[video] for video, runs in labels.items()},
        occurrences=tuple(
            Occurrence(segment.name, paths[video], segment.place, 1)
            for video, listed in segments.items()
            for segment in listed
        ),
        named=frozenset(paths),
        unpaired=unpaired,
    )


def _in_another_form(
    lines: Mapping[str, tuple[str, ...]],
    paths: Mapping[str, Path],
    expected: str,
    actions: frozenset[str],
    findings: Findings,
) -> list[str]:
    """Returns the clips whose files contain more than names, after one problem for all of each form.

    Args:
        lines: lines of each file.
        paths: the files.
        expected: what the lines should be.
        actions: names in the mapping, which may look like anything.
        findings: receives the problems.
    """
    forms: dict[str, list[str]] = {}
    for video, names in lines.items():
        if (form := other_form(names)) and not actions.issuperset(names):
            forms.setdefault(form, []).append(video)
    for form, videos in forms.items():
        place, example = f"{paths[videos[0]]}:1", lines[videos[0]][0]
        message = f"{counted(len(videos), 'file')} of {form}, such as {example!r}, expected {expected}"
        hint = (
            f"repeat each name for all its frames in {LABELS}/NAME.txt or list the names in {FOLDER}/NAME.txt; "
            "files of lines such as `1-30 SIL` belong in segmentation_coarse/; if these lines are names, add them to "
            "mapping.txt"
        )
        findings.report([Problem(rule="type", place=place, value=example, message=message, hint=hint)])
    return [video for videos in forms.values() for video in videos]


def _single_lines(
    transcripts: Mapping[str, Transcript], labels: Mapping[str, Labels], actions: frozenset[str], findings: Findings
) -> list[str]:
    """Returns the clips whose transcript is a line that seems to list several actions, and reports them.

    A name may contain blanks if the mapping, the labels or another transcript show that it is one name.
    """
    known = set(actions)
    if not known:
        known.update(*(runs.names for runs in labels.values()))
        known.update(*(transcript.names for transcript in transcripts.values() if len(transcript.names) > 1))
    found = {
        video: transcript
        for video, transcript in transcripts.items()
        if not transcript.row
        and len(transcript.names) == 1
        and re.search(r"[\s,;]", transcript.names[0])
        and transcript.names[0] not in known
    }
    hint = f"list names that contain blanks in mapping.txt; {TABLE} has a transcript per row"
    findings.report(
        Problem(rule="type", place=item.place(0), value=item.names[0], expected="one action per line", hint=hint)
        for item in found.values()
    )
    return list(found)
