"""Small pieces of SQL that several modules of the ledger share."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import TYPE_CHECKING
from uuid import uuid4

from sqlalchemy import Connection, Table, func, select

from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.types import utc_now

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def new_id() -> str:
    """A fresh id for a row."""
    return str(uuid4())


def checked(table: Table, columns: JsonMapping, *, fixed: Collection[str] = ()) -> JsonObject:
    """`columns` as a dictionary, after a look that each is one of the table's and not one of the `fixed`.

    Raises:
        TypeError: A column does not exist, or is not the caller's to set.
    """
    unknown = sorted(set(columns) - set(table.c.keys()))
    if unknown:
        raise TypeError(f"{table.name} has no column {', '.join(unknown)}")
    refused = sorted(set(columns) & set(fixed))
    if refused:
        raise TypeError(f"{', '.join(refused)} of {table.name} cannot be set here")
    return dict(columns)


def nearest_id(ref: str, newest_first: Sequence[str]) -> str:
    """A sentence that proposes the id most like `ref`, or names the newest ones."""
    if not newest_first:
        return "There are none yet."
    # A list of forty ids helps nobody; a typing mistake is told apart from an id of another ledger.
    close = get_close_matches(ref.lower(), newest_first[:1000], n=1, cutoff=0.8)
    return f"Did you mean {close[0]!r}?" if close else f"The newest are {', '.join(newest_first[:3])}."


def insert_for(connection: Connection, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An INSERT that can say what to do on a conflict; a dialect is imported where it is used."""
    if connection.dialect.name == "postgresql":
        from sqlalchemy.dialects import postgresql

        return postgresql.insert(table)
    from sqlalchemy.dialects import sqlite

    return sqlite.insert(table)


def database_now(connection: Connection) -> datetime:
    """This moment by the clock that every process which uses this database shares."""
    if connection.dialect.name == "postgresql":
        moment: datetime = connection.execute(select(func.clock_timestamp())).scalar_one()
        return moment.astimezone(UTC)
    # An SQLite file is on a local disk, so its users share this machine's clock.
    return utc_now()
