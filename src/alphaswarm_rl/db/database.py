"""What the ledger and the model registry share: an open database, and rows that are frozen dataclasses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from sqlalchemy import Column, Connection, Engine, MetaData, RowMapping, Select
from sqlalchemy.types import TypeEngine

from alphaswarm_rl.core.errors import LedgerBusy, LedgerError
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import Schema

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R", bound="Row")


class Database:
    """An open database; closed by `close`, or at the end of a `with` block.

    Args:
        engine: Its engine; the tables exist.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def close(self) -> None:
        """Gives the connections back."""
        self.engine.dispose()

    def wait_for_lock(self) -> None:
        """Waits while another process holds SQLite's write lock, however long; the log says so.

        Whatever else is wrong with the database is the next call's to say.
        """
        waiting = False
        while True:
            try:
                with write(self.engine, patience=1.0):
                    return
            except LedgerBusy as error:
                if not waiting:
                    _log.warning("waiting for the database: %s", error)
                waiting = True
            except LedgerError:
                return

    def takes_writes(self) -> bool:
        """Whether it can be written to at once: it answers, and no other process holds SQLite's write lock."""
        try:
            with write(self.engine, patience=0.0):
                return True
        except LedgerError:
            return False

    def _read(self, query: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """What a query answers in a transaction of its own."""
        with read(self.engine) as connection:
            return query(connection, *args, **kwargs)

    def _rows(self, kind: type[R], statement: Select[Any]) -> list[R]:
        """What a statement finds in a transaction of its own, as rows of that kind."""
        with read(self.engine) as connection:
            return [kind.of(row) for row in connection.execute(statement).mappings()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_ready(url: str, *schemas: Schema) -> Engine:
    """The engine of a database whose schemas are ready to be used; see `Schema.ensure_ready`."""
    engine = open_engine(url)
    try:
        for schema in schemas:
            schema.ensure_ready(engine)
    except BaseException:
        engine.dispose()
        raise
    return engine


def new_metadata() -> MetaData:
    """Tables whose constraints and indexes are named by one rule, as the migrations name them."""
    return MetaData(
        naming_convention={
            "pk": "pk_%(table_name)s",
            "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ix": "ix_%(table_name)s_%(column_0_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
        }
    )


def columns(kind: type[TypeEngine[T]] | TypeEngine[T], *names: str, nullable: bool = True) -> list[Column[T]]:
    """Columns of one type, in this order."""
    return [Column(name, kind, nullable=nullable) for name in names]


@dataclass(frozen=True)
class Row:
    """The base of every row: a dataclass with its table's columns."""

    @classmethod
    def of(cls, mapping: RowMapping | JsonMapping) -> Self:
        """The row from a database answer that has (at least) its columns."""
        return cls(**{field.name: mapping[field.name] for field in fields(cls)})

    def as_dict(self) -> JsonObject:
        """The row ready for JSON: times as ISO 8601 in UTC."""
        return {name: _plain(value) for name, value in vars(self).items()}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value):
        return dict(vars(value))
    return [_plain(item) for item in value] if isinstance(value, tuple) else value
