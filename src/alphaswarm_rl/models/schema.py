"""Makes the registry's tables, and adds what an older file lacks: in one transaction, one process at a time."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Column, Connection, Engine, Index, Table, inspect, select, text
from sqlalchemy.schema import CreateColumn

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.models.tables import APPEND_ONLY, ORIGINAL, metadata, models, validations

# Any number that no other program on the server is likely to lock: "asmodels" in ASCII.
_POSTGRES_LOCK = 0x61736D6F64656C73


@dataclass(frozen=True)
class Missing:
    """What a database lacks: whole tables, and columns and indexes of the tables that are there."""

    tables: tuple[Table, ...]
    columns: tuple[Column[object], ...]
    indexes: tuple[Index, ...]

    def __bool__(self) -> bool:
        return bool(self.tables or self.columns or self.indexes)


def ensure_ready(engine: Engine) -> None:
    """Makes what is missing; does nothing, and takes no lock, where all is there.

    Raises:
        ModelError: There is a table `models` that is somebody else's.
    """
    with read(engine) as connection:
        missing = _missing(connection)
    if not missing:
        return
    with write(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        # Another process may have been quicker: what is missing is decided below the lock.
        _make(connection, _missing(connection))


def _missing(connection: Connection) -> Missing:
    found = inspect(connection)
    there = set(found.get_table_names())
    tables = tuple(table for table in metadata.sorted_tables if table.name not in there)
    columns: list[Column[object]] = []
    indexes: list[Index] = []
    for table in metadata.sorted_tables:
        if table.name not in there:
            continue
        names = {column["name"] for column in found.get_columns(table.name)}
        if table is models:
            _refuse_foreign(connection, names)
        columns += [column for column in table.columns if column.name not in names]
        known = {index["name"] for index in found.get_indexes(table.name)}
        indexes += [index for index in table.indexes if index.name not in known]
    return Missing(tables, tuple(columns), tuple(indexes))


def _refuse_foreign(connection: Connection, names: set[str]) -> None:
    absent = [name for name in ORIGINAL if name not in names]
    if absent:
        raise ModelError(
            f"the database {redact(connection.engine.url.render_as_string(hide_password=True))}",
            f"its table 'models' has no column {', '.join(absent)}: it is not a model registry's",
            "Point the registry at another file with --registry-db.",
        )


def _make(connection: Connection, missing: Missing) -> None:
    # Plain ADD COLUMN: SQLite would have to build the table anew for anything else.
    for column in missing.columns:
        definition = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f'ALTER TABLE "{column.table.name}" ADD COLUMN {definition}'))
    metadata.create_all(connection, tables=list(missing.tables), checkfirst=False)
    for index in missing.indexes:
        index.create(connection)
    made = {table.name for table in missing.tables}
    for name, why in APPEND_ONLY.items():
        if name in made:
            _protect(connection, name, why)
    if validations in missing.tables and models not in missing.tables:
        _remember_validated(connection)


def _protect(connection: Connection, table: str, why: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(
            text(
                "CREATE OR REPLACE FUNCTION rl_model_refuse_change() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RAISE EXCEPTION '%: %', TG_TABLE_NAME, TG_ARGV[0]; END $$"
            )
        )
        for when, each in (("UPDATE OR DELETE", "ROW"), ("TRUNCATE", "STATEMENT")):
            name = f"{table}_refuses_{'change' if each == 'ROW' else 'truncate'}"
            connection.execute(
                text(
                    f"CREATE TRIGGER {name} BEFORE {when} ON {table} "
                    f"FOR EACH {each} EXECUTE FUNCTION rl_model_refuse_change('{why}')"
                )
            )
        return
    for change in ("UPDATE", "DELETE"):
        connection.execute(
            text(
                f"CREATE TRIGGER {table}_refuses_{change.lower()} BEFORE {change} ON {table} "
                f"BEGIN SELECT RAISE(ABORT, '{table}: {why}'); END"
            )
        )
    # INSERT OR REPLACE deletes the row in its way without waking the trigger on DELETE.
    connection.execute(
        text(
            f"CREATE TRIGGER {table}_refuses_replace BEFORE INSERT ON {table} "  # noqa: S608
            f"WHEN EXISTS (SELECT 1 FROM {table} WHERE id = NEW.id) "
            f"BEGIN SELECT RAISE(ABORT, '{table}: {why}'); END"
        )
    )


def _remember_validated(connection: Connection) -> None:
    """Gives rows that were validated before there was a history their entry in it: `validated` is derived from it."""
    validated = connection.execute(select(models.c.id).where(models.c.validated.is_(True)).order_by(models.c.id))
    reason = "the file said so before it was upgraded"
    entries = [
        {
            "model_id": model_id,
            "at": utc_now(),
            "profile": "seed-legacy",
            "passed": True,
            "checks": [{"gate": "upgraded", "passed": True, "reason": reason, "value": None, "limit": None}],
            "evidence": {"source": reason},
            "limits": {},
        }
        for model_id in validated.scalars()
    ]
    if entries:
        connection.execute(validations.insert(), entries)
