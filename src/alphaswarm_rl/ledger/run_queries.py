"""Choosing and ordering runs by their columns: conditions that are parsed and typed here, and never SQL of a user's.

A condition is `COLUMN OPERATOR VALUE`; several are joined by `and`. The columns are those of a run's row that hold one
value each, what its last evaluation measured, and the agent of its version.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Double,
    case,
    literal,
)

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.wording import CARRIER, PORTFOLIO_METRICS
from alphaswarm_rl.db.plain_tables import column_type
from alphaswarm_rl.db.types import Json, UtcTime
from alphaswarm_rl.ledger.tables import runs, versions

Type = Literal["number", "text", "time", "boolean"]

#: What the summary of a run holds beside the columns of its row, by name.
_MEASURES = ("episodes", "std_reward", "min_reward", "max_reward", "mean_length", *PORTFOLIO_METRICS)
#: The dates that a run was judged on, by the names that a list gives them; the row's own window may be another.
_JUDGED = {"judged_start": "window_start", "judged_end": "window_end"}

_CONDITION = re.compile(
    r"""\s*(?P<column>[A-Za-z_]\w*)\s*(?P<operator><=|>=|!=|=|<|>|~)\s*
    (?P<value>'(?:[^']|'')*'|"(?:[^"]|"")*"|[^\s'"]\S*)\s*(?P<next>and\b|$)""",
    re.VERBOSE | re.IGNORECASE,
)
_OPERATORS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": lambda column, value: column.is_distinct_from(value),
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda column, value: column.icontains(value, autoescape=True),
}
#: The operators of a type that are not the six that compare.
_ONLY: Mapping[Type, tuple[str, ...]] = {"boolean": ("=", "!="), "text": (*_OPERATORS,)}
_COMPARING = ("=", "!=", "<", "<=", ">", ">=")
_WHOLE = range(-(2**63), 2**63)


@dataclass(frozen=True)
class RunColumn:
    """One column of the list of runs: what it is called, what it is in SQL, and what it holds."""

    name: str
    expression: ColumnElement[Any]
    type: Type

    @property
    def operators(self) -> tuple[str, ...]:
        """The operators that its conditions may have."""
        return _ONLY.get(self.type, _COMPARING)


@cache
def run_columns() -> dict[str, RunColumn]:
    """Every column by name."""
    found = [RunColumn(column.name, column, _type(column)) for column in runs.c if not isinstance(column.type, Json)]
    found.append(RunColumn("agent", agent_of_version(), "text"))
    found.append(RunColumn("version", versions.c.version, "number"))
    known = {column.name for column in found}
    summary = runs.c.result_summary
    found += [RunColumn(name, summary[name].as_float(), "number") for name in _MEASURES if name not in known]
    found += [RunColumn(name, summary[key].as_string(), "text") for name, key in _JUDGED.items()]
    return {column.name: column for column in found}


def run_column(name: str) -> RunColumn:
    """The column of that name; an unknown one is an error that names them all."""
    columns = run_columns()
    if name not in columns:
        close = [f"Did you mean {word!r}? " for word in get_close_matches(name.lower(), columns, n=1)]
        remedy = f"{''.join(close)}The columns are {', '.join(columns)}."
        raise OptionError(f"the column {name!r}", "runs have no such column", remedy)
    return columns[name]


def conditions(texts: Iterable[str]) -> list[ColumnElement[bool]]:
    """The conditions that texts mean; all of them must hold."""
    return [condition for text in texts for condition in _parsed(text)]


def order(name: str) -> ColumnElement[Any]:
    """The order by a column: the largest and the newest first, text from A to Z; a leading `-` turns it round.

    Runs that have no such value are last in either order: what is undefined ranks nowhere.
    """
    column = run_column(name.removeprefix("-"))
    falling = (column.type != "text") != name.startswith("-")
    expression = column.expression.desc() if falling else column.expression.asc()
    return expression.nulls_last()


def _parsed(text: str) -> Iterable[ColumnElement[bool]]:
    place, goes_on = 0, True
    while goes_on:
        found = _CONDITION.match(text, place)
        if found is None:
            why = f"{text[place:].strip()!r} is no condition" if text[place:].strip() else "a condition is missing"
            remedy = "Write COLUMN OPERATOR VALUE, such as: sharpe > 1 and agent = 'ppo'."
            raise OptionError(f"the condition {text!r}", why, remedy)
        yield _condition(run_column(found["column"].lower()), found["operator"], found["value"])
        place, goes_on = found.end(), bool(found["next"])


def _condition(column: RunColumn, sign: str, written: str) -> ColumnElement[bool]:
    if sign not in column.operators:
        allowed = ", ".join(column.operators)
        raise OptionError(
            f"the condition on {column.name!r}", f"a {column.type} takes no {sign}", f"It takes {allowed}."
        )
    quote = written[0] if written[0] in "'\"" else None
    value = written if quote is None else written[1:-1].replace(quote * 2, quote)
    if quote is None and value.lower() == "null":
        if sign not in ("=", "!="):
            why = f"null is neither more nor less than anything: {sign}"
            raise OptionError(f"the condition on {column.name!r}", why, "Write = null or != null.")
        absent = column.expression.is_(None)
        return absent if sign == "=" else ~absent
    made: ColumnElement[bool] = _OPERATORS[sign](column.expression, _typed(column, value))
    return made


def _typed(column: RunColumn, text: str) -> Any:
    """The value that a text means for a column."""
    try:
        return _READERS[column.type](text)
    except ValueError as error:
        raise OptionError(
            f"the condition on {column.name!r}",
            f"it is a {column.type}, and {text!r} is none",
            f"Write {_EXAMPLES[column.type]}.",
        ) from error


def _number(text: str) -> Any:
    if re.fullmatch(r"[+-]?\d+", text) and int(text) in _WHOLE:
        return literal(int(text), BigInteger())
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return literal(value, Double())


def _time(text: str) -> Any:
    moment = datetime.fromisoformat(text)
    return literal(moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC), UtcTime())


def _boolean(text: str) -> Any:
    known = {"true": True, "yes": True, "false": False, "no": False}
    if text.lower() not in known:
        raise ValueError(text)
    return literal(known[text.lower()], Boolean())


_READERS: Mapping[Type, Callable[[str], Any]] = {
    "number": _number,
    "time": _time,
    "boolean": _boolean,
    "text": str,
}
_EXAMPLES: Mapping[Type, str] = {
    "number": "a number such as 1.5",
    "time": "an ISO date or time in UTC, such as 2024-01-31",
    "boolean": "true or false",
    "text": "text",
}


def _type(column: ColumnElement[Any]) -> Type:
    type_ = column_type(column.type)
    assert type_ != "document"
    return "number" if type_ == "whole" else type_


def agent_of_version() -> ColumnElement[Any]:
    """What the agent of a run's version is called: one that runs a policy has the policy's name."""
    agent = versions.c.payload[("agent", "class")].as_string()
    policy = versions.c.payload[("agent", "kwargs", CARRIER, "class")].as_string()
    return case((agent == CARRIER, policy), else_=agent)
