"""In what recorded trainings differ: settings, recordings, and facts that can change bits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from mucon.configuration import flatten
from mucon.errors import InputError
from mucon.identity.trained_on import some_ids
from mucon.methods import method_named

NOTHING = "nothing"
"""Stands for the value of a fact or setting that a training does not have."""
ENVIRONMENT_FACTS = (
    *("python", "platform", "device", "device_name", "threads", "precision", "numerics"),
    *("cuda", "cudnn", "driver", "tf32", "cublas_workspace"),
    *("git_commit", "git_diff_sha256", "git_untracked"),
)
"""Recorded facts that can change bits, besides the versions of packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recordings:
    """How recordings differ from earlier or other ones.

    Attributes:
        added: ids that the earlier ones lack.
        removed: ids that only the earlier ones contain.
        changed: ids of other features or another length.
    """

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    @classmethod
    def between(cls, pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> Self:
        """The differences of several lists together.

        Args:
            pairs: id -> content of the present and of the earlier recordings of each list.
        """

        def ids(chosen: Iterable[set[str]]) -> tuple[str, ...]:
            return tuple(sorted(set().union(*chosen)))

        return cls(
            added=ids(now.keys() - then.keys() for now, then in pairs),
            removed=ids(then.keys() - now.keys() for now, then in pairs),
            changed=ids({id for id in now.keys() & then.keys() if now[id] != then[id]} for now, then in pairs),
        )

    @property
    def are_same(self) -> bool:
        """Whether ids and contents are the same."""
        return not (self.added or self.removed or self.changed)

    def __str__(self) -> str:
        kinds = {"added": self.added, "removed": self.removed, "changed": self.changed}
        texts = [f"{len(ids)} {kind}: {some_ids(ids)}" for kind, ids in kinds.items() if ids]
        return "; ".join(texts) or "the same ids and features; transcripts, lengths, labels or actions differ"


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Key -> (before, after) of each value that differs; `NOTHING` for an absent one.

    >>> changed({"a": 1, "b": 2}, {"a": 1, "c": 3})
    {'b': (2, 'nothing'), 'c': ('nothing', 3)}
    """
    return {
        key: (before.get(key, NOTHING), after.get(key, NOTHING))
        for key in dict.fromkeys((*before, *after))
        if before.get(key) != after.get(key)
    }


def changed_settings(trainings: Sequence[tuple[str, Mapping[str, Any]]]) -> dict[str, tuple[Any, ...]]:
    """The settings that decide the weights and differ, by path, sorted; one value per training.

    Args:
        trainings: method and configuration of each; the seed does not count.

    Raises:
        InputError: an unknown method.
    """
    own = [_identifying(method, config) for method, config in trainings]
    defaults = [flatten(method_named(method).config().to_dict()) for method, _ in trainings]
    values = {
        path: tuple(of.get(path, default.get(path, NOTHING)) for of, default in zip(own, defaults, strict=True))
        for path in sorted(set().union(*own))
    }
    return {path: of_all for path, of_all in values.items() if any(value != of_all[0] for value in of_all)}


def _identifying(method: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that decide the weights and differ from the defaults; all settings if a model of them is gone."""
    named = method_named(method)
    try:
        return named.identifying(named.config.from_dict(config).canonical())
    except InputError:
        return {path: value for path, value in flatten(config).items() if path != "seed"}
