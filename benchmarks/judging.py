"""Figures with their bounds, as a table or as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Line:
    """One figure and its bound.

    Attributes:
        name: What was measured.
        figure: The figure that is judged.
        bound: What it may be.
        passed: Whether it is.
        details: What it comes from.
    """

    name: str
    figure: float
    bound: str
    passed: bool
    details: str


def at_most(name: str, figure: float, bound: float, details: str) -> Line:
    """A figure that may not be higher."""
    return Line(name, figure, f"<= {bound:,}", figure <= bound, details)


def at_least(name: str, figure: float, bound: float, details: str) -> Line:
    """A figure that may not be lower."""
    return Line(name, figure, f">= {bound:,}", figure >= bound, details)


def tell(machine: str, lines: Sequence[Line], *, as_json: bool) -> int:
    """Prints the figures; gives the exit status, which is 0 when all are within their bounds."""
    passed = all(line.passed for line in lines)
    if as_json:
        print(json.dumps({"machine": machine, "lines": [asdict(line) for line in lines], "passed": passed}))
        return 0 if passed else 1
    print(machine)
    for line in lines:
        word = "pass" if line.passed else "FAIL"
        print(f"{word}  {line.name:38} {line.figure:12,.3f}  {line.bound:12}  {line.details}")
    return 0 if passed else 1
