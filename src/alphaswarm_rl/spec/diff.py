"""What differs between two specs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.spec.experiment import RLExperimentSpec

ABSENT = "(absent)"


@dataclass(frozen=True)
class Difference:
    """One field with its two values; a side that has no such field says `ABSENT`."""

    path: str
    left: Any
    right: Any


def diff_specs(left: RLExperimentSpec, right: RLExperimentSpec) -> list[Difference]:
    """Every field that differs, in canonical form, by path."""
    ours, theirs = flatten(left.canonical()), flatten(right.canonical())
    return [
        Difference(path, ours.get(path, ABSENT), theirs.get(path, ABSENT))
        for path in sorted({*ours, *theirs})
        if path not in ours or path not in theirs or ours[path] != theirs[path]
    ]


def flatten(data: object, prefix: str = "") -> JsonObject:
    """Nested mappings as one mapping of dotted paths; lists and empty mappings are values."""
    if not isinstance(data, dict) or not data:
        return {prefix: data}
    result: JsonObject = {}
    for key, value in data.items():
        result.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return result
