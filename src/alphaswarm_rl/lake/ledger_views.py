"""The ledger and the model registry beside the recorded steps, in SQL: tables of this moment, handed over in memory.

The engine that runs a statement opens neither database: their rows are read here, and only those of tables whose name
stands in the statement. What could be a secret is masked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from alphaswarm_rl.db.plain_tables import PlainTable
    from alphaswarm_rl.settings import Settings

OF_THE_LEDGER = ("runs", "versions", "evaluations", "events")
OF_THE_REGISTRY = ("models", "promotions")

_TYPES = {
    "boolean": pa.bool_(),
    "document": pa.string(),
    "number": pa.float64(),
    "text": pa.string(),
    "time": pa.timestamp("us", tz="UTC"),
    "whole": pa.int64(),
}
_WORDS = re.compile(r"\w+")
#: Words of statements that list tables without naming them.
_LISTS = re.compile(r"show|information_schema|duckdb_\w+|pragma_\w+|pg_catalog")


def create_ledger_views(settings: Settings, connection: DuckDBPyConnection, statement: str) -> None:
    """Makes the tables that a statement names, or all of them for one that lists tables.

    Args:
        settings: Whose ledger and registry.
        connection: Where they are made.
        statement: What will be asked. A name that only looks like one of theirs costs a look at that table.
    """
    words = {word.lower() for word in _WORDS.findall(statement)}
    if any(_LISTS.fullmatch(word) for word in words):
        words.update(OF_THE_LEDGER, OF_THE_REGISTRY)
    found: dict[str, PlainTable] = {}
    if named := [name for name in OF_THE_LEDGER if name in words]:
        with Ledger.open(settings) as ledger:
            ledger.reconcile()
            found |= ledger.plain_tables(named)
    if named := [name for name in OF_THE_REGISTRY if name in words]:
        found |= ModelRegistry.plain_tables(settings, named)
    for name, table in found.items():
        connection.register(name, _arrow(table))


def _arrow(table: PlainTable) -> pa.Table:
    schema = pa.schema([(name, _TYPES[type_]) for name, type_ in table.types.items()])
    return pa.table(dict(table.columns), schema=schema)
