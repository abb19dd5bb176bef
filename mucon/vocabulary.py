"""Action names, their ids, and which actions are background."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from mucon.errors import InputError, Problem, nearest
from storage.names import normal


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The actions of a dataset; id `n` is `actions[n]`.

    Args:
        actions: distinct names, none empty.
        background: names of the actions that mean "nothing of interest"; may be empty.

    Raises:
        InputError: no action, an empty or duplicate name, or a background name that is not an action.

    >>> v = Vocabulary(("SIL", "pour", "stir"), background=("SIL",))
    >>> v.ids(["stir", "SIL"]), v.background_ids
    ((2, 0), (0,))
    """

    actions: tuple[str, ...]
    background: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        problems: list[Problem] = []
        if not self.actions:
            problems.append(Problem(rule="missing", place="actions", expected="at least one action"))
        seen: set[str] = set()
        for index, name in enumerate(self.actions):
            place = f"action {index}"
            if not name:
                problems.append(Problem(rule="missing", place=place, value=name, message="empty name"))
            elif name in seen:
                message = f"duplicate action name {name!r}"
                problems.append(Problem(rule="duplicate", place=place, value=name, message=message))
            seen.add(name)
        for name in self.background:
            if name not in seen:
                message = f"unknown action {name!r}{nearest(name, self.actions)}"
                problems.append(Problem(rule="unknown", place="background", value=name, message=message))
        if problems:
            raise InputError(problems)

    @property
    def n_actions(self) -> int:
        """N."""
        return len(self.actions)

    @property
    def background_ids(self) -> tuple[int, ...]:
        """Ids of the background actions, in the order of `background`."""
        return tuple(self.actions.index(name) for name in self.background)

    def ids(self, names: Iterable[str]) -> tuple[int, ...]:
        """Ids of names, which may be in another Unicode normal form than the actions.

        Raises:
            InputError: one problem per unknown name, or a text instead of several names.
        """
        if isinstance(names, str):
            expected = "a list of names"
            raise InputError(Problem(rule="type", place="actions", value=names, expected=expected))
        index = {name: i for i, name in enumerate(self.actions)}
        names = [name if name in index else normal(name) for name in names]
        unknown = sorted({name for name in names if name not in index})
        if unknown:
            raise InputError(
                Problem(
                    rule="unknown",
                    place="action",
                    value=name,
                    message=f"unknown action {name!r}{nearest(name, self.actions)}",
                )
                for name in unknown
            )
        return tuple(index[name] for name in names)

    def names(self, ids: Iterable[int]) -> tuple[str, ...]:
        """Names of ids."""
        return tuple(self.actions[i] for i in ids)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, for JSON."""
        return {"actions": list(self.actions), "background": list(self.background)}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Vocabulary:
        """The inverse of `to_dict`."""
        return cls(tuple(value["actions"]), tuple(value["background"]))
