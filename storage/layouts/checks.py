"""Checks of the options of an import, alone and against its dataset."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import fields

from storage.constants import DTYPES
from storage.errors import Problem, counted, some
from storage.layouts import ImportOptions
from storage.layouts.annotations import Annotations
from storage.layouts.labels import Labels

_MOST_NAMES = 20
OF_SOME = {
    "length_policy": "--length-policy",
    "length_tolerance": "--length-tolerance",
    "fill": "--fill",
    "unit": "--unit",
}
"""Options that only some layouts use."""


def option_problems(options: ImportOptions, layout: str, uses: Collection[str]) -> list[Problem]:
    """Reports options that are invalid or that the layout does not use.

    Args:
        options: options of the import.
        layout: name of the layout.
        uses: names of the options in `OF_SOME` that it uses.
    """
    problems = []
    for option, regex in _regexes(options):
        try:
            re.compile(regex or "")
        except re.error as error:
            message = f"invalid regular expression {regex!r} ({error})"
            problems.append(Problem(rule="type", place=option, value=regex, message=message))
    if options.dtype not in (None, *DTYPES):
        expected = f"one of {', '.join(DTYPES)}"
        problems.append(Problem(rule="unknown", place="--dtype", value=options.dtype, expected=expected))
    tolerance, rate = options.length_tolerance, options.sample_rate
    if tolerance < 0:
        problems.append(Problem(rule="range", place="--length-tolerance", value=tolerance, expected="at least 0"))
    if rate < 1:
        problems.append(Problem(rule="range", place="--sample-rate", value=rate, expected="at least 1"))
    problems += without_effect(options, OF_SOME.keys() - uses, f"the layout {layout}")
    return problems


def without_effect(options: ImportOptions, names: Iterable[str], what: str) -> list[Problem]:
    """Reports those options of `OF_SOME` that the user has set although they have no effect on something."""
    defaults = {field.name: field.default for field in fields(ImportOptions)}
    return [
        Problem(
            rule="conflict", place=OF_SOME[name], value=value, message=f"has no effect on {what}", hint="leave it out"
        )
        for name in sorted(names)
        if (value := getattr(options, name)) != defaults[name]
    ]


def _regexes(options: ImportOptions) -> tuple[tuple[str, str | None], ...]:
    return ("--group-regex", options.group_regex), ("--activity-regex", options.activity_regex)


def sampling_problems(
    rate: int, kept: Mapping[str, tuple[int, Labels | None]], annotations: Annotations
) -> list[Problem]:
    """Reports segments of which a sample rate keeps no frame: the transcript would be another one."""

    def lost(rate: int) -> Iterator[tuple[str, int]]:
        for video, (frames, labels) in kept.items():
            if labels is not None:
                n_lost = labels.sampled(rate).count(0)
            else:
                n_lost = min(frames, len(annotations.names(video))) - -(-frames // rate)
            if n_lost > 0:
                yield video, n_lost

    n_lost = dict(lost(rate))
    if not n_lost:
        return []
    longest = max(kept[video][0] for video in n_lost)
    largest = next(smaller for smaller in range(min(rate, longest) - 1, 0, -1) if not any(lost(smaller)))
    message = f"loses all frames of {counted(sum(n_lost.values()), 'segment')} in {counted(len(n_lost), 'video')}: "
    message += some((f"{video} ({n})" for video, n in n_lost.items()), _MOST_NAMES)
    hint = f"{largest} is the largest smaller rate that keeps a frame of every segment"
    return [Problem(rule="range", place="--sample-rate", value=rate, message=message, hint=hint)]


def extracted(regex: str | None, video: str) -> str | None:
    """Returns the part of a name that a regular expression extracts."""
    match = re.search(regex, video) if regex else None
    return (match[1] if match.re.groups else match[0]) if match else None


def unmatched_problems(options: ImportOptions, videos: Iterable[str]) -> list[Problem]:
    """Reports the names in which a regular expression finds nothing."""
    problems = []
    names = list(videos)
    for option, regex in _regexes(options):
        unmatched = [video for video in names if regex and not extracted(regex, video)]
        if unmatched:
            message = f"{regex!r} does not match these videos ({len(unmatched)}): {some(unmatched, _MOST_NAMES)}"
            problems.append(Problem(rule="mismatch", place=option, value=unmatched, message=message))
    return problems
