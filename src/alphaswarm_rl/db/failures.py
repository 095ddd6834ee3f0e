"""What a database says when it cannot work, in words a user can act on."""

from __future__ import annotations

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import LedgerBusy, LedgerError
from alphaswarm_rl.db.redaction import redact

# By the start of SQLite's error name: the reason and the remedy.
_SQLITE = {
    "SQLITE_NOTADB": ("it is not an SQLite database", "Name another file, or move this one away."),
    "SQLITE_CORRUPT": ("the file is damaged", "Restore it from a backup; `sqlite3 FILE .recover` saves what it can."),
    "SQLITE_CANTOPEN": ("it cannot be opened", "Check that the path is a file in a folder that you may write to."),
    "SQLITE_PERM": ("access is denied", "Make the file and its folder writable, or choose another home folder."),
    "SQLITE_AUTH": ("access is denied", "Make the file and its folder writable, or choose another home folder."),
    "SQLITE_READONLY": ("it is read-only", "Make the file and its folder writable, or choose another home folder."),
    "SQLITE_FULL": ("the disk is full", "Free some space, or choose a home folder on another disk."),
    "SQLITE_IOERR": ("the disk cannot be read or written", "Check its free space and its health."),
    "SQLITE_BUSY": ("another process holds it", "Wait for that process to finish, or use PostgreSQL for many writers."),
    "SQLITE_PROTOCOL": ("its lock could not be taken", "Wait for other processes, or use PostgreSQL for many writers."),
}

# By the start of PostgreSQL's SQLSTATE.
_POSTGRES = {
    "28": ("the server refuses this user", "Check the user name and the password in the URL."),
    "3D000": ("the server has no such database", "Create it with `createdb`, or correct the name in the URL."),
    "53100": ("the server's disk is full", "Free some space on the server."),
    "53300": ("the server takes no more connections", "Raise its max_connections, or run fewer processes."),
    "42501": ("the user may not do that", "Grant the user CREATE and USAGE on the schema, and its tables."),
    "25006": ("the server is read-only", "Connect to the primary server."),
    "25P03": ("this process stood still inside of a transaction, which the server ended", "Look, and try again."),
    "57P": ("the server is shutting down or starting", "Try again when it is up."),
    "08": ("the connection to the server is broken", "Check that the server is up and can be reached."),
}
# A refused connection has no SQLSTATE, only the server's words for it.
_REFUSALS = {
    "authentication failed": "28",
    "no password supplied": "28",
    "no pg_hba.conf entry": "28",
    'role "': "28",
    'database "': "3D000",
    "too many clients": "53300",
    "too many connections": "53300",
}
_NO_CONNECTION = ("the server cannot be reached", "Check that it is up, and the host and the port in the URL.")


def explained(error: DBAPIError, url: URL) -> LedgerError | None:
    """The error as one of ours, or None when it is not the user's to mend (then it is a mistake of ours)."""
    known = _reason(error)
    if known is None:
        return None
    why, remedy = known
    message = redact(" ".join(str(error.orig).split()))
    kind = LedgerBusy if known == _SQLITE["SQLITE_BUSY"] else LedgerError
    return kind(f"the database {redact(url.render_as_string(hide_password=True))}", f"{why} ({message})", remedy)


def _reason(error: DBAPIError) -> tuple[str, str] | None:
    orig = error.orig
    name = getattr(orig, "sqlite_errorname", None)
    if name is not None:
        return _by_prefix(_SQLITE, name)
    state = getattr(orig, "sqlstate", None)
    if state is not None:
        return _by_prefix(_POSTGRES, state)
    message = str(orig)
    state = next((state for words, state in _REFUSALS.items() if "FATAL:" in message and words in message), None)
    if state is not None:
        return _by_prefix(_POSTGRES, state)
    # psycopg knows no state when the server was never reached, or went away without a word.
    return _NO_CONNECTION if type(orig).__name__ == "OperationalError" or error.connection_invalidated else None


def _by_prefix(reasons: dict[str, tuple[str, str]], code: str) -> tuple[str, str] | None:
    return next((reason for start, reason in reasons.items() if code.startswith(start)), None)
