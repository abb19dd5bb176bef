"""What the parts of a split share, and what a training part lacks."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storage.errors import Problem, counted, some

if TYPE_CHECKING:
    from storage.reader import Store

TRAIN = "train"


@dataclass(frozen=True, slots=True, kw_only=True)
class PartFacts:
    """A part of a split beside the training part of this split.

    Attributes:
        transcripts: number of its clips with a transcript.
        seen_transcripts: of these, the number whose transcript a training clip has too.
        unseen_actions: actions that no transcript of the training part contains, with the number of clips of this part
            that contain them.
    """

    transcripts: int
    seen_transcripts: int
    unseen_actions: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitFacts:
    """A split.

    Attributes:
        shared_groups: groups with clips in several parts.
        unlearned_actions: actions that no transcript of the training part contains.
        parts: the other parts by name, such as `test`; empty without transcripts in the training part.
    """

    shared_groups: tuple[str, ...]
    unlearned_actions: tuple[str, ...]
    parts: dict[str, PartFacts]

    def warnings(self, name: str) -> list[Problem]:
        """Returns what is suspicious about the split of this name."""
        found = []
        if self.shared_groups:
            message = f"the parts share {counted(len(self.shared_groups), 'group')}: {some(self.shared_groups)}"
            hint = "scores say little about new groups; split by groups"
            place = f"split {name}"
            value = list(self.shared_groups)
            found.append(Problem(rule="conflict", place=place, value=value, message=message, hint=hint))
        for part, facts in self.parts.items():
            if unseen := facts.unseen_actions:
                words = some(f"{action} ({counted(n, 'video')})" for action, n in unseen.items())
                message = f"contains {counted(len(unseen), 'action')} without a training video: {words}"
                hint = "no method can learn them; move a video with each into the training part"
                place = f"split {name}, {part}"
                found.append(Problem(rule="missing", place=place, value=list(unseen), message=message, hint=hint))
        return found


def shared_groups(store: Store, split: str) -> tuple[str, ...]:
    """Returns the groups, such as subjects, with clips in several parts of a split."""
    parts: dict[str, set[str]] = {}
    for group, splits in zip(store.catalogue.column("group"), store.catalogue.column("splits"), strict=True):
        if group is not None:
            parts.setdefault(group, set()).update(part for part in splits if part.split(":")[0] == split)
    return tuple(sorted(group for group, found in parts.items() if len(found) > 1))


def split_facts(store: Store, split: str) -> SplitFacts:
    """Compares the parts of a split; reads their records."""
    names, parts = store.manifest.vocabulary, {}
    known = {part.split(":")[1]: ids for part, ids in store.parts.items() if part.split(":")[0] == split}
    transcripts = {
        part: [tuple(one) for one in store.catalogue.column("transcript", ids) if one is not None]
        for part, ids in known.items()
    }
    training = set(transcripts.pop(TRAIN, ()))
    learned = set[int]().union(*training)
    for part, of_part in transcripts.items() if training else ():
        unseen = Counter(action for one in of_part for action in set(one) - learned)
        parts[part] = PartFacts(
            transcripts=len(of_part),
            seen_transcripts=sum(one in training for one in of_part),
            unseen_actions={names[action]: n for action, n in sorted(unseen.items())},
        )
    return SplitFacts(
        shared_groups=shared_groups(store, split),
        unlearned_actions=tuple(name for action, name in enumerate(names) if training and action not in learned),
        parts=parts,
    )


def split_rows(splits: dict[str, SplitFacts]) -> list[tuple[str, str]]:
    """Formats what the splits share as rows of the overview: a fact, which is usual where transcripts repeat."""
    rows = []
    for name, facts in splits.items():
        texts = [
            f"{one.seen_transcripts} of {counted(one.transcripts, f'{part} video')} "
            f"({100 * one.seen_transcripts / one.transcripts:.0f} %) {'has' if one.transcripts == 1 else 'have'} "
            "a transcript of the training part"
            for part, one in facts.parts.items()
            if one.transcripts
        ]
        if facts.unlearned_actions:
            texts.append(f"not in training: {some(facts.unlearned_actions, 10)}")
        if texts:
            rows.append((f"split {name}", "; ".join(texts)))
    return rows
