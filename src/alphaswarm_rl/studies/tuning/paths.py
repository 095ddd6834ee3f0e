"""Dotted paths into a spec: looking a value up, and putting another in its place."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from alphaswarm_rl.core.errors import SpecError, nearest


def with_value(data: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A copy of a spec's data with another value at a path that is there.

    Args:
        data: Every field of a spec with its value, as `RLExperimentSpec.as_data` gives it.
        path: Names of fields and numbers of list entries, joined by dots.
        value: What is put there.
    """
    changed = deepcopy(data)
    *parents, last = path.split(".")
    holder: Any = changed
    for depth, key in enumerate(parents):
        holder = holder[_key(holder, key, path, parents[:depth])]
    holder[_key(holder, last, path, parents)] = deepcopy(value)
    return changed


def value_at(data: dict[str, Any], path: str) -> Any:
    """What a spec's data has at a path that is there."""
    keys = path.split(".")
    holder: Any = data
    for depth, key in enumerate(keys):
        holder = holder[_key(holder, key, path, keys[:depth])]
    return holder


def overlap(first: str, second: str) -> bool:
    """Whether one of two paths is the other or leads through it."""
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")


def _key(holder: Any, key: str, path: str, above: list[str]) -> str | int:
    """The key as the holder has it; one that it has not is an error that names what is there."""
    what, place = f"space path {path!r}", ".".join(above)
    if isinstance(holder, dict):
        if key in holder:
            return key
        owner = f"{place!r} of the base spec" if place else "a spec"
        raise SpecError(what, f"{owner} has no {key!r}", nearest(key, holder))
    if isinstance(holder, list):
        if key.isdigit() and int(key) < len(holder):
            return int(key)
        raise SpecError(
            what,
            f"{place!r} of the base spec is a list of {len(holder)}, and {key!r} is none of them",
            "Count its entries from 0.",
        )
    shown = "null" if holder is None else repr(holder)
    raise SpecError(
        what, f"{place!r} of the base spec is {shown} and has no {key!r}", "Write that part in the base spec first."
    )
