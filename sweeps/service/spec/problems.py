"""Problems that several parts of a specification have in common."""

from __future__ import annotations

from collections.abc import Collection

from mucon.errors import Problem, nearest, some

_LISTED = 12


def unknown(place: str, what: str, name: object, known: Collection[str]) -> Problem:
    """The problem of a name that does not exist, with the nearest names, or else the existing ones.

    >>> print(unknown("recipe", "recipe", "demmo", ["breakfast", "demo"]))
    recipe: unknown recipe 'demmo' (did you mean 'demo'?)
    >>> print(unknown("gird", "key", "gird", ["set", "zip"]))
    gird: unknown key; expected one of set, zip
    """
    likely = nearest(str(name), list(known))
    listed = some((repr(one) if "," in one else one for one in known), _LISTED)
    quoted = "" if place == name or place.endswith(f".{name}") else f" {name!r}"
    return Problem(
        rule="unknown",
        place=place,
        value=name,
        message=f"unknown {what}{quoted}{likely}",
        hint="" if likely else f"expected one of {listed}",
    )
