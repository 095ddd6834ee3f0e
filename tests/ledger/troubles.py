"""What may happen to an SQLite ledger while others have it open."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

#: What SQLite keeps beside a database.
_BESIDE = ("-wal", "-shm")


@contextmanager
def locked(ledger: Path) -> Iterator[None]:
    """Holds the write lock, as another process would."""
    with closing(sqlite3.connect(ledger, isolation_level=None, check_same_thread=False)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield
        connection.execute("ROLLBACK")


def copy_of(ledger: Path, to: Path) -> Path:
    """A whole copy of a ledger that is in use."""
    with closing(sqlite3.connect(ledger)) as source, closing(sqlite3.connect(to)) as copy:
        source.backup(copy)
    return to


def put_in_place(ledger: Path, copy: Path) -> None:
    """Puts another file in a ledger's place, as an operator restores one."""
    for end in _BESIDE:
        ledger.with_name(ledger.name + end).unlink(missing_ok=True)
    copy.replace(ledger)


def remove(ledger: Path) -> None:
    """Deletes a ledger."""
    for end in ("", *_BESIDE):
        ledger.with_name(ledger.name + end).unlink(missing_ok=True)
