"""SQLite files that this process may read and not write to: somebody else's home, an archive, a read-only disk.

A reader of a write-ahead log needs two more files beside the database, and cannot make them in such a folder. Where the
log is empty or not there, the database is opened as one that does not change (`immutable=1`): SQLite takes no lock then
and looks for no changes, so whoever opens it must compare `content_state` before and after. Where the log has changes,
they are read with it, which needs its index.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

from alphaswarm_rl.core.errors import LedgerError


def is_only_readable(path: Path) -> bool:
    """Whether there is such a database, and this process may not write to it or make what writing needs beside it."""
    if not path.exists():
        return False
    beside = _log(path), _index(path)
    needs = [path, *(beside if all(file.exists() for file in beside) else [path.parent])]
    return not all(os.access(file, os.W_OK) for file in needs)


def content_state(path: Path) -> tuple[int, ...]:
    """What differs once somebody wrote to the database or to its log; zeros for a file that is not there."""
    return tuple(part for file in (path, _log(path)) for part in _state(file))


def uri(path: Path) -> str:
    """How SQLite opens such a database."""
    fixed = "" if _has_changes(path) else "&immutable=1"
    return f"file:{quote(str(path))}?mode=ro{fixed}"


def refuse_unread_log(path: Path) -> None:
    """Refuses a database whose newest changes are in a log that cannot be read without writing.

    Raises:
        LedgerError: The log has changes, and its index is not there.
    """
    if _has_changes(path) and not _index(path).exists():
        raise LedgerError(
            f"the SQLite file {path}",
            f"its newest changes are in {_log(path).name}, and to read them {_index(path).name} must be made "
            "beside it, where this user may not write",
            "Let a user who may write there run: rl db status.",
        )


def _has_changes(path: Path) -> bool:
    return _state(_log(path))[0] > 0


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _index(path: Path) -> Path:
    return path.with_name(f"{path.name}-shm")


def _state(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_mtime_ns
