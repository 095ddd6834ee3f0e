from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import Engine, text
from sqlalchemy.exc import OperationalError, ProgrammingError

from alphaswarm_rl.core.errors import LedgerBusy, LedgerError, MissingExtra
from alphaswarm_rl.db import engine as engines
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import open_engine, read, sqlite_file, write
from tests.ledger.troubles import copy_of, locked, put_in_place, remove


def _sqlite(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'deep' / 'er' / 'x.db'}"


def _insert_and_fail(engine: Engine) -> None:
    with write(engine) as connection:
        connection.execute(text("INSERT INTO t VALUES (1)"))
        connection.execute(text("INSERT INTO no_such_table VALUES (1)"))


def _fill(engine: Engine, pragma: str) -> None:
    with write(engine) as connection:
        connection.exec_driver_sql(pragma)
        connection.execute(text("INSERT INTO t VALUES (zeroblob(1000000))"))


def test_sqlite_is_opened_with_the_settings_a_shared_file_needs(tmp_path: Path) -> None:
    with read(open_engine(_sqlite(tmp_path))) as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "busy_timeout", "foreign_keys", "synchronous")
        }
    assert found == {"journal_mode": "wal", "busy_timeout": 30_000, "foreign_keys": 1, "synchronous": 1}


def test_a_reader_does_not_wait_for_a_writer_and_sees_one_state(tmp_path: Path) -> None:
    engine = open_engine(_sqlite(tmp_path))
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    with read(engine) as reader:
        assert reader.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
        with write(engine) as writer:
            writer.execute(text("INSERT INTO t VALUES (1)"))
        assert reader.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
    with read(engine) as reader:
        assert reader.execute(text("SELECT count(*) FROM t")).scalar_one() == 1


def test_a_writer_holds_the_lock_before_its_first_statement(tmp_path: Path) -> None:
    engine = open_engine(_sqlite(tmp_path))
    order: list[str] = []

    def second() -> None:
        with write(engine):
            order.append("second")

    with write(engine):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.3)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_failed_transaction_leaves_nothing_behind(database_url: str) -> None:
    engine = open_engine(database_url)
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
    with pytest.raises(ProgrammingError if database_url.startswith("postgres") else OperationalError):
        _insert_and_fail(engine)
    with read(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 0
    engine.dispose()


@pytest.mark.parametrize("prefix", ["postgres://", "postgresql://", "postgresql+psycopg://"])
def test_every_spelling_of_a_postgresql_url_uses_the_same_driver(prefix: str) -> None:
    assert open_engine(f"{prefix}ann@db.example/x").url.drivername == "postgresql+psycopg"


def test_a_missing_driver_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[postgres\]"):
        open_engine("postgresql://db.example/x")


@pytest.mark.parametrize(
    "url",
    [
        "nonsense",
        "mysql://ann:hunter2@h/x",
        "sqlite://",
        "sqlite:///:memory:",
        "sqlite:///x.db?mode=ro",
        "://:hunter2@",
    ],
)
def test_a_url_that_cannot_hold_a_ledger_is_an_error_that_shows_no_password(url: str) -> None:
    with pytest.raises(LedgerError, match="sqlite:///path/to/file") as caught:
        open_engine(url)
    assert "hunter2" not in str(caught.value)


def test_a_text_file_is_not_taken_for_a_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.db"
    path.write_text("these are my notes\n" * 100)
    engine = open_engine(f"sqlite:///{path}")
    with pytest.raises(LedgerError, match="not an SQLite database") as caught, read(engine):
        pass
    assert str(path) in caught.value.what
    assert path.read_text().startswith("these are my notes")


def test_a_folder_is_not_taken_for_a_database(tmp_path: Path) -> None:
    with (
        pytest.raises(LedgerError, match="is a folder, not a regular file"),
        read(open_engine(f"sqlite:///{tmp_path}")),
    ):
        pass


def test_what_is_no_file_is_not_taken_for_a_database(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo.db")
    (tmp_path / "device.db").symlink_to("/dev/null")
    for name, kind in (("fifo.db", "a FIFO"), ("device.db", "a device")):
        refused = pytest.raises(LedgerError, match=f"{name} is {kind}, not a regular file")
        with refused, read(open_engine(f"sqlite:///{tmp_path / name}")):
            pass


def test_a_file_in_the_place_of_the_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(LedgerError, match="what is there is no folder"):
        open_engine(f"sqlite:///{tmp_path / 'home' / 'x.db'}")


def test_a_server_that_is_not_there_is_an_error_without_the_password() -> None:
    engine = open_engine("postgresql://ann:hunter2@127.0.0.1:1/x")
    with pytest.raises(LedgerError, match="cannot be reached") as caught, read(engine):
        pass
    assert "hunter2" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)


def test_a_database_that_is_not_there_is_an_error(postgres_server: str) -> None:
    engine = open_engine(postgres_server.replace("/postgres?", "/no_such?"))
    with pytest.raises(LedgerError, match="no such database") as caught, read(engine):
        pass
    assert "createdb" in caught.value.remedy


def test_a_user_that_is_not_there_is_an_error(postgres_server: str) -> None:
    engine = open_engine(postgres_server.replace("//postgres:", "//nobody:"))
    with pytest.raises(LedgerError, match="refuses this user"), read(engine):
        pass


def test_a_full_disk_is_an_error_that_says_so(tmp_path: Path) -> None:
    engine = open_engine(_sqlite(tmp_path))
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x BLOB)"))
    with pytest.raises(LedgerError, match="disk is full"):
        _fill(engine, "PRAGMA max_page_count = 3")


def test_a_disk_that_takes_no_more_bytes_is_an_error_that_says_so(tmp_path: Path) -> None:
    engine = open_engine(_sqlite(tmp_path))
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x BLOB)"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(LedgerError, match=r"disk cannot be read or written|disk is full"):
            _fill(engine, "PRAGMA cache_size = 1")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    with read(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 0


def test_a_mistake_of_ours_stays_what_it_is(postgres_server: str) -> None:
    with pytest.raises(ProgrammingError), read(open_engine(postgres_server)) as connection:
        connection.execute(text("SELECT * FROM no_such_table"))


def test_a_forked_child_does_not_use_the_connections_of_its_parent(database_url: str) -> None:
    engine = open_engine(database_url)
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))

    def child() -> None:
        for _ in range(20):
            with write(engine) as connection:
                connection.execute(text("INSERT INTO t VALUES (1)"))

    processes = [multiprocessing.get_context("fork").Process(target=child) for _ in range(2)]
    for process in processes:
        process.start()
    child()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0]
    with read(engine) as connection:
        assert connection.execute(text("SELECT count(*) FROM t")).scalar_one() == 60
    engine.dispose()


def _count(engine: Engine) -> int:
    with read(engine) as connection:
        return int(connection.execute(text("SELECT count(*) FROM t")).scalar_one())


def _with_table(path: Path, rows: int) -> Engine:
    engine = open_engine(f"sqlite:///{path}")
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))
        for row in range(rows):
            connection.execute(text("INSERT INTO t VALUES (:x)"), {"x": row})
    return engine


def test_a_file_that_is_put_in_its_place_is_opened_by_whoever_had_the_old_one(tmp_path: Path) -> None:
    path, other = tmp_path / "x.db", tmp_path / "y.db"
    engine = _with_table(path, rows=1)
    _with_table(other, rows=3).dispose()
    assert _count(engine) == 1
    put_in_place(path, copy_of(other, tmp_path / "copy.db"))
    assert _count(engine) == 3
    with write(engine) as connection:
        connection.execute(text("INSERT INTO t VALUES (9)"))
    assert _count(open_engine(f"sqlite:///{path}")) == 4


def test_a_file_that_is_gone_is_an_error_and_never_made_anew(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    engine = _with_table(path, rows=1)
    remove(path)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"x\.db: this process had it open, and it is gone"):
            _count(engine)
    engine.dispose()  # no connection is left either
    with pytest.raises(LedgerError, match="gone"):
        _count(engine)
    assert not path.exists()


def test_a_writer_waits_for_a_lock_as_long_as_it_has_patience(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    engine = _with_table(path, rows=0)
    with locked(path):
        began = time.monotonic()
        with pytest.raises(LedgerBusy, match="another process holds it"), write(engine, patience=0.2):
            pass
        assert 0.15 < time.monotonic() - began < 5
    with write(engine, patience=0.2) as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 30_000
    with read(engine) as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar_one() == 30_000


def test_waiting_for_a_lock_ends_with_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    database = Database(_with_table(path, rows=0))
    done = threading.Event()
    waiter = threading.Thread(target=lambda: (database.wait_for_lock(), done.set()))
    with locked(path):
        waiter.start()
        assert not done.wait(1.5)
    assert done.wait(5)
    waiter.join()
    remove(path)
    database.wait_for_lock()  # what else is wrong is not its business


def test_a_database_takes_writes_unless_it_is_locked_or_gone(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    database = Database(_with_table(path, rows=0))
    assert database.takes_writes()
    with locked(path):
        began = time.monotonic()
        assert not database.takes_writes()
        assert time.monotonic() - began < 5
    assert database.takes_writes()
    remove(path)
    assert not database.takes_writes()


def test_only_sqlite_has_a_file(tmp_path: Path, new_postgres) -> None:
    assert sqlite_file(open_engine(f"sqlite:///{tmp_path / 'x.db'}")) == tmp_path / "x.db"
    assert sqlite_file(open_engine(new_postgres())) is None


def test_postgresql_ends_the_transaction_of_a_process_that_stands_still(
    new_postgres: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = new_postgres()
    with read(open_engine(url)) as connection:
        assert connection.exec_driver_sql("SHOW idle_in_transaction_session_timeout").scalar_one() == "1min"
    monkeypatch.setattr(engines, "END_IDLE_TRANSACTIONS", "-cidle_in_transaction_session_timeout=300ms")
    stale, other = open_engine(url), open_engine(url)
    with write(other) as connection:
        connection.execute(text("CREATE TABLE t (x INTEGER)"))

    def stand_still() -> None:
        with write(stale) as connection:
            connection.execute(text("LOCK TABLE t"))
            with write(other) as unhindered:
                unhindered.execute(text("INSERT INTO t VALUES (1)"))
            connection.execute(text("INSERT INTO t VALUES (2)"))

    with pytest.raises(LedgerError, match="stood still"):
        stand_still()
    with read(other) as connection:
        assert connection.execute(text("SELECT x FROM t")).scalars().all() == [1]
