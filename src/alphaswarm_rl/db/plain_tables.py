"""Rows of a database as plain columns, for whoever reads them elsewhere: documents as JSON text, and no secrets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Boolean, Connection, DateTime, Float, Integer, Select
from sqlalchemy.types import TypeEngine

from alphaswarm_rl.db.redaction import redact_document, redact_text
from alphaswarm_rl.db.types import Json

ColumnType = Literal["boolean", "document", "number", "text", "time", "whole"]


@dataclass(frozen=True)
class PlainTable:
    """A table in memory.

    Attributes:
        types: What each column holds, by name: a `document` is JSON as text, and a `time` knows its zone.
        columns: The values of each, in the same order.
    """

    types: Mapping[str, ColumnType]
    columns: Mapping[str, list[Any]]


def plain_table(connection: Connection | None, statement: Select[Any]) -> PlainTable:
    """What a statement finds; without a connection, a table of its columns without rows."""
    types = {column.name: column_type(column.type) for column in statement.selected_columns}
    found = [] if connection is None else connection.execute(statement).all()
    values = list(zip(*found, strict=True)) if found else [()] * len(types)
    return PlainTable(
        types,
        {
            name: [_plain(value, type_) for value in column]
            for (name, type_), column in zip(types.items(), values, strict=True)
        },
    )


def column_type(type_: TypeEngine[Any]) -> ColumnType:
    """What a column of that type holds."""
    if isinstance(type_, Json):
        return "document"
    # Our own types are decorators of these.
    inner = getattr(type_, "impl_instance", type_)
    if isinstance(inner, Boolean):
        return "boolean"
    if isinstance(inner, Integer):
        return "whole"
    if isinstance(inner, Float):
        return "number"
    return "time" if isinstance(inner, DateTime) else "text"


def _plain(value: Any, type_: ColumnType) -> Any:
    if value is None:
        return None
    if type_ == "document":
        return json.dumps(redact_document(value), ensure_ascii=False, allow_nan=False)
    return redact_text(value) if isinstance(value, str) else value
