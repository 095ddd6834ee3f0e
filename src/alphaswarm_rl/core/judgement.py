"""Judgements: what a score was judged on. Scores are compared only where their judgements are alike.

The seed is no part of it: another seed draws other episodes of the same task, and how far they spread is what lower
bounds are for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from alphaswarm_rl.core.hashing import canonical_json, sha256_text
from alphaswarm_rl.core.types import JsonMapping, JsonObject

#: The name under which the metrics of a stored evaluation, and its event, have its judgement.
JUDGEMENT = "judgement"
_KEY_DIGITS = 12
#: What a reader calls each respect in which two judgements may differ.
_RESPECTS = {
    "data": "data",
    "start": "first bar",
    "end": "last bar",
    "episodes": "episodes",
    "deterministic": "deterministic",
}


@dataclass(frozen=True)
class Judgement:
    """What a score was judged on.

    Attributes:
        data: SHA-256 of the bars that were traded, without features and warm-up; None where there are no bars.
        start: The first bar that was traded, or the first date that was given; None where there are no dates.
        end: The last one.
        episodes: How many episodes were played; 1 where all of them were the same one.
        deterministic: Whether the policy acted without drawing.
        costs: What trading costs and how it is done, by name; empty where nothing is traded.
    """

    data: str | None
    start: str | None
    end: str | None
    episodes: int
    deterministic: bool
    costs: JsonMapping = field(default_factory=dict)

    @property
    def dated(self) -> bool:
        """Whether it is about dates or bars; otherwise the environment makes its own episodes."""
        return (self.data, self.start, self.end) != (None, None, None)

    @cached_property
    def key(self) -> str:
        """Twelve hex digits: equal exactly where judgements are alike."""
        return sha256_text("alphaswarm-rl/judgement/1\n" + canonical_json(self.as_dict()))[:_KEY_DIGITS]

    @property
    def window(self) -> str:
        """The dates, as people read them."""
        return f"{self.start or 'the first bar'} to {self.end or 'the last bar'}" if self.dated else "no dates"

    def as_dict(self) -> JsonObject:
        """The judgement as JSON."""
        plain: JsonObject = {each.name: getattr(self, each.name) for each in dataclasses.fields(self)}
        return {**plain, "costs": dict(self.costs)}

    @classmethod
    def of(cls, document: JsonMapping) -> Self:
        """The judgement of a document that `as_dict` gave."""
        return cls(**{each.name: document[each.name] for each in dataclasses.fields(cls)})


def judgement_differences(first: Judgement | None, second: Judgement | None) -> list[str]:
    """In which respects two scores were judged differently, in words; none where they may be compared.

    Args:
        first: What one score was judged on; None where that was not kept, as before judgements were.
        second: What the other was judged on.
    """
    if first is None or second is None:
        return ["what one of them was judged on is not known: it was not kept then"]
    found = [
        f"{name}: {_shown(getattr(first, respect))} and {_shown(getattr(second, respect))}"
        for respect, name in _RESPECTS.items()
        if getattr(first, respect) != getattr(second, respect)
    ]
    ours, theirs = _flat(first.costs), _flat(second.costs)
    found += [
        f"{name}: {_shown(ours.get(name))} and {_shown(theirs.get(name))}"
        for name in sorted({*ours, *theirs})
        if ours.get(name) != theirs.get(name)
    ]
    return found


def _shown(value: object) -> str:
    text = "none" if value is None else str(value)
    return f"{text[:_KEY_DIGITS]}..." if len(text) == 64 else text


def _flat(costs: JsonMapping, before: str = "") -> JsonObject:
    """Values of nested mappings by their joined names."""
    found: JsonObject = {}
    for name, value in costs.items():
        found |= _flat(value, f"{before}{name}.") if isinstance(value, Mapping) else {f"{before}{name}": value}
    return found
