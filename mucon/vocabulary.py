"""Action names and their ids, which of them are background, and the transcript's start and end symbols."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mucon.errors import InputError, nearest


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The actions of a data set: id `n` is `actions[n]`.

    The end symbol of a transcript has id `n_actions` and the start symbol `n_actions + 1`; neither is an action.

    Args:
        actions: distinct names, none empty.
        background: names of the actions that stand for "nothing of interest"; may be empty.

    Raises:
        InputError: no action, an empty or repeated name, or a background name that is no action.

    >>> v = Vocabulary(("SIL", "pour", "stir"), background=("SIL",))
    >>> v.ids(["stir", "SIL"]), v.background_ids, v.end_symbol
    ((2, 0), (0,), 3)
    """

    actions: tuple[str, ...]
    background: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems = []
        if not self.actions:
            problems.append("a vocabulary has at least one action, this one has none: name the actions")
        seen: set[str] = set()
        for index, name in enumerate(self.actions):
            if not name:
                problems.append(f"an action has a name, that of id {index} is empty: name it")
            elif name in seen:
                problems.append(f"action names are distinct, {name!r} stands twice (id {index}): rename one")
            seen.add(name)
        for name in self.background:
            if name not in seen:
                problems.append(
                    f"background {name!r} is not among the actions{nearest(name, self.actions)}: name an action"
                )
        if problems:
            raise InputError(problems)

    @property
    def n_actions(self) -> int:
        """N, without start and end symbol."""
        return len(self.actions)

    @property
    def end_symbol(self) -> int:
        """The id that ends a transcript, N."""
        return len(self.actions)

    @property
    def start_symbol(self) -> int:
        """The id from which decoding starts, N + 1."""
        return len(self.actions) + 1

    @property
    def background_ids(self) -> tuple[int, ...]:
        """Ids of the background actions, in the order in which they were named."""
        return tuple(self.actions.index(name) for name in self.background)

    def ids(self, names: Iterable[str]) -> tuple[int, ...]:
        """Ids of names.

        Raises:
            InputError: names that are no action, all told at once.
        """
        index = {name: i for i, name in enumerate(self.actions)}
        names = list(names)
        unknown = sorted({name for name in names if name not in index})
        if unknown:
            raise InputError(
                f"{name!r} is not an action of the vocabulary{nearest(name, self.actions)}: add it or correct it"
                for name in unknown
            )
        return tuple(index[name] for name in names)

    def names(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Names of ids."""
        return tuple(self.actions[i] for i in ids)

    def to_dict(self) -> dict[str, Any]:
        """As plain lists, for JSON."""
        return {"actions": list(self.actions), "background": list(self.background)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Vocabulary:
        """The inverse of `to_dict`."""
        return cls(tuple(value["actions"]), tuple(value["background"]))
