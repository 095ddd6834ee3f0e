"""Engines for SQLite and PostgreSQL, and the two ways to use one: `read` and `write`."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from weakref import WeakSet

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
from sqlalchemy.pool import ConnectionPoolEntry

from alphaswarm_rl.core.errors import LedgerBusy, LedgerError, require
from alphaswarm_rl.core.files import UnfitFile, refuse_irregular
from alphaswarm_rl.db.failures import explained
from alphaswarm_rl.db.mounts import network_file_system
from alphaswarm_rl.db.read_only import content_state, is_only_readable, refuse_unread_log, uri
from alphaswarm_rl.db.redaction import redact

BUSY_SECONDS = 30
CONNECT_SECONDS = 10
#: PostgreSQL ends a transaction whose process stands still for a minute: its locks would stop everybody else.
END_IDLE_TRANSACTIONS = "-cidle_in_transaction_session_timeout=60s"

_BEGIN = "alphaswarm_begin"
_PATIENCE = "alphaswarm_patience"
#: Which file a connection was opened on, by device and inode.
_FILE = "alphaswarm_file"
#: What that file held then, where this process may only read it; see `read_only`.
_ONLY_READ = "alphaswarm_only_read"
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
def write(engine: Engine, *, patience: float | None = None) -> Iterator[Connection]:
    """A transaction that writes; on SQLite it holds the one write lock from its first moment.

    Args:
        engine: The database.
        patience: Seconds to wait for SQLite's write lock; None: as long as everybody.
    """
    # A deferred transaction that turns into a writer fails at once when somebody else wrote meanwhile; an immediate
    # one waits its turn.
    with _transaction(engine, "IMMEDIATE", patience) as connection:
        yield connection


def sqlite_file(engine: Engine) -> Path | None:
    """The file of an SQLite database; None for a server."""
    return Path(engine.url.database or "") if engine.dialect.name == "sqlite" else None


def lock_table(connection: Connection, table: str) -> None:
    """Lets no other `write` into `table` until this transaction ends."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f'LOCK TABLE "{table}" IN SHARE ROW EXCLUSIVE MODE'))


@contextmanager
def _transaction(engine: Engine, begin: str, patience: float | None = None) -> Iterator[Connection]:
    try:
        options = {_BEGIN: begin, _PATIENCE: patience}
        with engine.connect().execution_options(**options) as connection, connection.begin():
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
    defaults = {"connect_timeout": CONNECT_SECONDS, "options": END_IDLE_TRANSACTIONS}
    missing = {name: value for name, value in defaults.items() if name not in url.query}
    return create_engine(url, pool_pre_ping=True, connect_args=missing)


def _sqlite_engine(url: URL) -> Engine:
    path = _usable_file(url)
    engine = create_engine(url.set(database=str(path)), connect_args={"timeout": BUSY_SECONDS})

    opened = threading.Event()

    @event.listens_for(engine, "do_connect")
    def look_at_the_file(
        _dialect: object, record: ConnectionPoolEntry, arguments: list[object], options: dict[str, object]
    ) -> None:
        # Before it is opened: one that is put in its place meanwhile is noticed at the next checkout.
        record.info[_FILE] = found = _identity(path)
        if found is None and opened.is_set():
            raise _gone(path)
        try:
            refuse_irregular(path)
        except UnfitFile as error:
            remedy = "Move it away, or name another file."
            raise LedgerError(f"the SQLite file {path}", str(error), remedy) from error
        record.info[_ONLY_READ] = None
        if is_only_readable(path):
            record.info[_ONLY_READ] = content_state(path)
            refuse_unread_log(path)
            arguments[0], options["uri"] = uri(path), True

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, record: ConnectionPoolEntry) -> None:
        # pysqlite opens transactions behind our back unless told not to; `begin` below does it.
        connection.isolation_level = None
        connection.execute(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")
        if record.info[_ONLY_READ] is None:
            _switch_to_wal(connection, path)
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        record.info[_FILE] = record.info[_FILE] or _identity(path)
        opened.set()

    @event.listens_for(engine, "checkout")
    def reopen_another_file(_connection: object, record: ConnectionPoolEntry, _proxy: object) -> None:
        # A connection goes on reading a file that was deleted or replaced, and would never see a halt in the new one.
        found = _identity(path)
        if found is None:
            raise _gone(path)
        if found != record.info[_FILE]:
            raise DisconnectionError(f"{path} is another file now")
        if record.info[_ONLY_READ] not in (None, content_state(path)):
            raise DisconnectionError(f"{path} has changed, and this connection does not look for changes")

    _watch_transactions(engine, path)
    return engine


def _watch_transactions(engine: Engine, path: Path) -> None:
    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        options = connection.get_execution_options()
        if options.get(_BEGIN) == "IMMEDIATE" and connection.info[_ONLY_READ] is not None:
            # SQLite itself would begin a transaction that reads, and fail at its first change.
            raise LedgerError(
                f"the SQLite file {path}",
                "this user may only read it",
                "Make the file and its folder writable, or choose another home folder.",
            )
        patience = options.get(_PATIENCE)
        if patience is not None:
            connection.exec_driver_sql(f"PRAGMA busy_timeout = {patience * 1000:.0f}")
        try:
            connection.exec_driver_sql(f"BEGIN {options.get(_BEGIN, 'DEFERRED')}")
        finally:
            if patience is not None:
                connection.exec_driver_sql(f"PRAGMA busy_timeout = {BUSY_SECONDS * 1000:.0f}")

    @event.listens_for(engine, "commit")
    def refuse_torn_reads(connection: Connection) -> None:
        if connection.info[_ONLY_READ] not in (None, content_state(path)):
            raise LedgerBusy(f"the SQLite file {path}", "somebody else wrote to it as it was read", "Try again.")


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file this is, whatever its content; None where none can be reached."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _gone(path: Path) -> LedgerError:
    return LedgerError(
        f"the SQLite file {path}",
        "this process had it open, and it is gone",
        "Put it back from a copy, without files named -wal and -shm of another time.",
    )


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
        # Whatever is there instead, at its place or above.
        is_none = isinstance(error, FileExistsError | NotADirectoryError)
        raise LedgerError(
            f"the folder {path.parent}",
            f"it cannot be made ({'what is there is no folder' if is_none else error.strerror})",
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
