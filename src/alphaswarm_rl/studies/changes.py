"""Changes of a spec: other values at dotted paths, such as `agent.kwargs.gamma` or `reward.kwargs.terms.0.weight`."""

from __future__ import annotations

import json
from copy import deepcopy

from pydantic import JsonValue

from alphaswarm_rl.core.errors import SpecError, nearest
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.spec import RLExperimentSpec, refuse_absent


def changed_spec(base: RLExperimentSpec, changes: JsonMapping, *, kind: str = "path") -> RLExperimentSpec:
    """The base spec with other values at existing paths; it keeps its slug, so that its runs are of one family.

    Args:
        base: The spec.
        changes: The values by path: names of fields and numbers of list entries, joined by dots.
        kind: What an error calls a path.

    Raises:
        SpecError: There is no such path, or the spec does not take the value.
    """
    data = base.as_data()
    for path, value in changes.items():
        data = with_value(data, path, value, kind=kind)
    shown = ", ".join(f"{path} = {json.dumps(value)}" for path, value in changes.items())
    spec = RLExperimentSpec.from_data(data, source=f"base spec {base.name!r} with {shown}")
    refuse_absent(spec)
    return spec


def with_value(data: JsonObject, path: str, value: JsonValue, *, kind: str = "path") -> JsonObject:
    """A copy of a spec's data, as `RLExperimentSpec.as_data` gives it, with another value at an existing path."""
    changed = deepcopy(data)
    *parents, last = path.split(".")
    holder = _follow(changed, parents, path, kind)
    holder[_key(holder, last, path, parents, kind)] = deepcopy(value)  # type: ignore[index]
    return changed


def value_at(data: JsonObject, path: str, *, kind: str = "path") -> JsonValue:
    """The value of a spec's data at an existing path."""
    return _follow(data, path.split("."), path, kind)


def overlap(first: str, second: str) -> bool:
    """Whether one of two paths is the other or leads through it."""
    return f"{first}.".startswith(f"{second}.") or f"{second}.".startswith(f"{first}.")


def _follow(data: JsonObject, keys: list[str], path: str, kind: str) -> JsonValue:
    holder: JsonValue = data
    for depth, key in enumerate(keys):
        holder = holder[_key(holder, key, path, keys[:depth], kind)]  # type: ignore[index]
    return holder


def _key(holder: JsonValue, key: str, path: str, above: list[str], kind: str) -> str | int:
    """The key as the holder has it; one that it does not have is an error that names what it has."""
    what, place = f"{kind} {path!r}", ".".join(above)
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
