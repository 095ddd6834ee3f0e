"""What differs between two specs."""

from __future__ import annotations

from collections.abc import Sequence
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
    return [Difference(item.path, *item.values) for item in diff_many((left, right))]


@dataclass(frozen=True)
class ManyDifference:
    """One field in which specs differ, with the value of each; one that has no such field says `ABSENT`."""

    path: str
    values: tuple[Any, ...]


def diff_many(specs: Sequence[RLExperimentSpec]) -> list[ManyDifference]:
    """Every field that is not the same in all of these specs, in canonical form, by path."""
    flat = [flatten(spec.canonical()) for spec in specs]
    found = [
        ManyDifference(path, tuple(data.get(path, ABSENT) for data in flat))
        for path in sorted({path for data in flat for path in data})
    ]
    return [item for item in found if any(value != item.values[0] for value in item.values[1:])]


def flatten(data: object, prefix: str = "") -> JsonObject:
    """Nested mappings as one mapping of dotted paths; lists and empty mappings are values."""
    if not isinstance(data, dict) or not data:
        return {prefix: data}
    result: JsonObject = {}
    for key, value in data.items():
        result.update(flatten(value, f"{prefix}.{key}" if prefix else key))
    return result
