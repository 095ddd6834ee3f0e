"""Trouble at the n-th thing that a process does to a disk or a database: it is killed, the disk is full, a call fails.

The functions below are those through which everything that lasts comes to be: files are synced, renamed, linked and
deleted, transactions committed. A rehearsal counts how often a command calls them, so that `nth` can be any of them.
"""

import errno
import importlib
import os
import signal
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from tests.lake.killing import send

EVENTS = (
    "os:fsync",
    "os:rename",
    "os:replace",
    "os:link",
    "os:unlink",
    "os:mkdir",
    "os:rmdir",
    "os:utime",
    "sqlalchemy.engine.default:DefaultDialect.do_commit",
    "pyiceberg.catalog.sql:SqlCatalog.commit_table",
)
#: Deleting needs no room on a disk.
ROOMLESS = ("os:unlink", "os:rmdir", "os:utime")
_counted: list[dict[str, int]] = []
_ERRORS = {"full": errno.ENOSPC, "io": errno.EIO}
_SQLITE = {"full": ("SQLITE_FULL", "database or disk is full"), "io": ("SQLITE_IOERR_WRITE", "disk I/O error")}


@dataclass(frozen=True)
class Trouble:
    """What happens, and when.

    Attributes:
        what: `kill`; `full`: there is no room on the disk from then on; `io`: that one call fails; `count`: nothing,
            the calls are counted.
        nth: The call before which it happens, from 1.
        count_in: The file that the number of calls is written to at the end.
    """

    what: str
    nth: int = 0
    count_in: Path | None = None

    def arm(self) -> None:
        """Lets it happen in this process."""
        state = {"count": 0}
        owner = os.getpid()
        for event in EVENTS:
            module, _, name = event.partition(":")
            place = importlib.import_module(module)
            *path, last = name.split(".")
            for part in path:
                place = getattr(place, part)
            setattr(place, last, self._watched(event, getattr(place, last), state, owner))
        _counted.append(state)

    def disarm(self) -> None:
        """The command is over: what was counted is written down."""
        if self.count_in is not None:
            self.count_in.write_text(str(_counted[-1]["count"]))

    def _watched(self, event, wrapped, state, owner):
        def call(*args, **kwargs):
            if os.getpid() != owner or (self.what == "full" and event in ROOMLESS):
                return wrapped(*args, **kwargs)
            state["count"] += 1
            hit = state["count"] == self.nth or (self.what == "full" and 0 < self.nth < state["count"])
            if not hit:
                return wrapped(*args, **kwargs)
            if self.what == "kill":
                send(signal.SIGKILL)
            if event.startswith("sqlalchemy"):
                name, text = _SQLITE[self.what]
                error = sqlite3.OperationalError(text)
                error.sqlite_errorname = name
                raise error
            number = _ERRORS[self.what]
            raise OSError(number, os.strerror(number))

        return call
