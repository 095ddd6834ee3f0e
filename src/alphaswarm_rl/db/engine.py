"""Engines for SQLite and PostgreSQL, and the two ways to use one: `read` and `write`."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from alphaswarm_rl.core.errors import LedgerError, require
from alphaswarm_rl.db.failures import explained
from alphaswarm_rl.db.mounts import network_file_system
from alphaswarm_rl.db.redaction import redact

BUSY_SECONDS = 30
CONNECT_SECONDS = 10

_BEGIN = "alphaswarm_begin"
_OPEN: WeakSet[Engine] = WeakSet()


def open_engine(url: str) -> Engine:
    """An engine for `url`; the first connection is made when the engine is first used.

    Args:
        url: `sqlite:///path/to/file` or `postgresql://user:password@host/name`.

    Raises:
        LedgerError: The URL cannot be used, or its file is on a network disk.
        MissingExtra: PostgreSQL's driver is not installed.
    """
    parsed = _parsed(url)
    engine = _sqlite_engine(parsed) if parsed.get_backend_name() == "sqlite" else _postgres_engine(parsed)
    _OPEN.add(engine)
    return engine


@contextmanager
def read(engine: Engine) -> Iterator[Connection]:
    """A transaction that only reads; on SQLite it sees one state of the database and blocks nobody."""
    with _transaction(engine, "DEFERRED") as connection:
        yield connection


@contextmanager
def write(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes; on SQLite it holds the one write lock from its first moment."""
    # A deferred transaction that turns into a writer fails at once when somebody else wrote meanwhile; an immediate
    # one waits its turn.
    with _transaction(engine, "IMMEDIATE") as connection:
        yield connection


def lock_table(connection: Connection, table: str) -> None:
    """Lets no other `write` into `table` until this transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'))


@contextmanager
def _transaction(engine: Engine, begin: str) -> Iterator[Connection]:
    try:
        with engine.connect().execution_options(**{_BEGIN: begin}) as connection, connection.begin():
            yield connection
    except DBAPIError as error:
        ours = explained(error, engine.url)
        if ours is None:
            raise
        raise ours from error


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        raise LedgerError(
            f"the database URL {redact(url)!r}",
            "it cannot be read",
            "Write sqlite:///path/to/file or postgresql://user:password@host/name.",
        ) from error
    if parsed.drivername in ("sqlite", "sqlite+pysqlite"):
        return parsed.set(drivername="sqlite")
    if parsed.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        require("psycopg", extra="postgres")
        return parsed.set(drivername="postgresql+psycopg")
    raise LedgerError(
        f"the database URL {redact(url)!r}",
        f"{parsed.drivername!r} is not a database we keep a ledger in",
        "Write sqlite:///path/to/file or postgresql://user:password@host/name.",
    )


def _postgres_engine(url: URL) -> Engine:
    timeout = {} if "connect_timeout" in url.query else {"connect_timeout": CONNECT_SECONDS}
    return create_engine(url, pool_pre_ping=True, connect_args=timeout)


def _sqlite_engine(url: URL) -> Engine:
    path = _usable_file(url)
    engine = create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _record: object) -> None:
        # pysqlite opens transactions behind our back unless told not to; `begin` below does it.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000}")
        _switch_to_wal(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(f"BEGIN {connection.get_execution_options().get(_BEGIN, 'DEFERRED')}")

    return engine


def _usable_file(url: URL) -> Path:
    name = url.database
    if not name or name == ":memory:" or name.startswith("file:") or url.query:
        raise LedgerError(
            f"the database URL {redact(url.render_as_string())!r}",
            "the ledger is shared by processes and needs a plain file without parameters",
            "Write sqlite:///path/to/file.",
        )
    path = Path(name).expanduser().absolute()
    kind = network_file_system(path)
    if kind is not None:
        raise LedgerError(
            f"the SQLite file {path}",
            f"it lies on a network disk ({kind}), where SQLite's locks do not hold and the ledger would be damaged",
            "Use a home folder on a local disk, or keep the ledger in PostgreSQL (postgresql://user:password@host/name).",
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise LedgerError(
            f"the folder {path.parent}",
            f"it cannot be made ({error.strerror})",
            "Choose a home folder that you may write to.",
        ) from error
    return path


def _switch_to_wal(connection: sqlite3.Connection, path: Path) -> None:
    # The switch itself ignores the busy timeout, so processes that start together on a new file must take turns here.
    deadline = time.monotonic() + BUSY_SECONDS
    while connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            mode = connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
            continue
        if mode != "wal":
            raise LedgerError(
                f"the SQLite file {path}",
                f"its disk does not allow a write-ahead log (journal mode {mode!r})",
                "Use a home folder on a local disk, or keep the ledger in PostgreSQL.",
            )


def _forget_connections_of_the_parent() -> None:
    # A forked child inherits open connections; two processes that speak through one socket or file handle break both.
    # The pool cannot find out by itself in time: its ping already speaks.
    for engine in list(_OPEN):
        engine.dispose(close=False)


os.register_at_fork(after_in_child=_forget_connections_of_the_parent)


def damage(engine: Engine) -> str | None:
    """What SQLite finds wrong with its file; None for nothing, and for a server, which looks after itself."""
    if engine.dialect.name != "sqlite":
        return None
    with read(engine) as connection:
        found = [str(row[0]) for row in connection.exec_driver_sql("PRAGMA quick_check(5)")]
    return None if found == ["ok"] else "; ".join(found)
