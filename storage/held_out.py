"""The validation part of a split: recordings of its training part that a training leaves out, by whole groups."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from storage.errors import Problem, StoreError

if TYPE_CHECKING:
    from storage.reader import Store

PART = "validation"
ONE_OF = 5
"""The validation part has one of so many recordings of the training part."""


class Clip(NamedTuple):
    """What of a clip decides whether it is held out.

    Attributes:
        id: its name.
        group: its group, such as a subject; None: it is a group of its own.
        actions: ids of its actions, in any order.
    """

    id: str
    group: str | None
    actions: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """The training part of a split in two.

    Attributes:
        validation: sorted ids of the clips that are held out.
        rest: sorted ids of the others.
        groups: sorted groups of the held-out clips; none where the store does not know them.
        only_here: sorted ids of the actions that no clip of the rest contains.
    """

    validation: tuple[str, ...]
    rest: tuple[str, ...]
    groups: tuple[str, ...]
    only_here: tuple[int, ...]

    @classmethod
    def of(cls, clips: Sequence[Clip], chosen: set[str]) -> HeldOut:
        """The two parts, of which the first contains the chosen clips."""
        held = sorted(clip for clip in clips if clip.id in chosen)
        rest = sorted(clip for clip in clips if clip.id not in chosen)
        learned = frozenset[int]().union(*(clip.actions for clip in rest))
        return cls(
            validation=tuple(clip.id for clip in held),
            rest=tuple(clip.id for clip in rest),
            groups=tuple(sorted({clip.group for clip in held if clip.group is not None})),
            only_here=tuple(sorted(frozenset[int]().union(*(clip.actions for clip in held)) - learned)),
        )


def hold_out(clips: Iterable[Clip]) -> HeldOut | None:
    """Takes about a fifth of some clips out, in whole groups.

    Groups are visited in the order of a digest of their names, so that neither the order of the clips nor a seed
    matters. A group is taken if this brings the number of clips closer to a fifth; those whose actions all remain in
    the rest come first. If every group is too large, the smallest one is taken.

    Returns:
        The two parts; None if there are fewer than two groups.

    >>> clips = [Clip(f"{who}{take}", who, frozenset({0, 1})) for who in "abcde" for take in (1, 2)]
    >>> hold_out(clips).groups == hold_out(reversed(clips)).groups, len(hold_out(clips).validation)
    (True, 2)
    """
    clips = list(clips)
    groups: dict[tuple[bool, str], list[Clip]] = {}
    for clip in clips:
        groups.setdefault((clip.group is None, clip.id if clip.group is None else clip.group), []).append(clip)
    if len(groups) < 2:
        return None
    left = Counter(action for clip in clips for action in clip.actions)
    counts = {name: Counter(action for clip in members for action in clip.actions) for name, members in groups.items()}
    chosen: dict[tuple[bool, str], int] = {}

    def loses_action(name: tuple[bool, str]) -> bool:
        return any(left[action] == count for action, count in counts[name].items())

    def is_closer(name: tuple[bool, str]) -> bool:
        return ONE_OF * len(groups[name]) < 2 * (len(clips) - ONE_OF * sum(chosen.values()))

    order = sorted(groups, key=_digest)
    for may_lose in (False, True):
        for name in order:
            if name not in chosen and is_closer(name) and (may_lose or not loses_action(name)):
                chosen[name] = len(groups[name])
                left -= counts[name]
    if not chosen:
        smallest = min(order, key=lambda name: (len(groups[name]), loses_action(name)))
        chosen[smallest] = len(groups[smallest])
    return HeldOut.of(clips, {clip.id for name in chosen for clip in groups[name]})


def _digest(name: tuple[bool, str]) -> tuple[str, tuple[bool, str]]:
    return hashlib.sha256(f"{PART}:{name[1]}".encode()).hexdigest(), name


def held_out(store: Store, split: str) -> HeldOut:
    """The validation part of a split, and the rest of its training part; reads no record of another part.

    A part `validation` that the store has itself is used as it is, with the whole training part as the rest.

    Raises:
        StoreError: no such split, or a training part of fewer than two groups.
    """
    own = store.parts.get(f"{split}:{PART}", ())
    ids = (*store.split(split, "train"), *own)
    known = zip(ids, store.catalogue.column("group", ids), store.catalogue.column("transcript", ids), strict=True)
    clips = [Clip(id, group, frozenset(transcript or ())) for id, group, transcript in known]
    found = HeldOut.of(clips, set(own)) if own else hold_out(clips)
    if found is None:
        group = clips[0].group
        only = "one video" if group is None else f"videos of the group {group!r} only"
        raise StoreError(
            Problem(
                rule="missing",
                place=f"{store.address}: split {split}",
                value=group,
                message=f"no validation part can be held out, the training part has {only}",
                hint=f"a store can also have a part {split}:{PART} of its own",
            )
        )
    return found
