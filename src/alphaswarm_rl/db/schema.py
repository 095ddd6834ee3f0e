"""The state of a database's tables: empty, ours and current, older, newer, or somebody else's."""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.redaction import redact

# Not Alembic's default name: trackers that people keep in the same PostgreSQL database use that one.
VERSION_TABLE = "rl_alembic_version"
TABLE_PREFIX = "rl_"

_MIGRATIONS = Path(__file__).parent / "migrations"
# Any number that no other program on the server is likely to lock: "alphaswm" in ASCII.
_POSTGRES_LOCK = 0x616C70686173776D
# Alembic hands its context to the migrations through a global variable.
_ONE_AT_A_TIME = threading.Lock()


def config() -> Config:
    """Alembic's configuration; there is no alembic.ini."""
    made = Config()
    made.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
    made.set_main_option("path_separator", "os")
    return made


@cache
def revisions() -> tuple[str, ...]:
    """Every revision this version of the package knows, the oldest first."""
    return tuple(reversed([script.revision for script in ScriptDirectory.from_config(config()).walk_revisions()]))


def head() -> str:
    """The newest revision this version of the package knows."""
    return revisions()[-1]


def revision(engine: Engine) -> str | None:
    """The revision the database is at, or None when it was never migrated."""
    with read(engine) as connection:
        return _revision(connection)


def upgrade(engine: Engine, to: str = "head") -> str:
    """Brings the database to a revision and returns it; does nothing when it is there already.

    All of it is one transaction below one lock: processes that start together on an empty database take turns, and a
    migration that fails leaves nothing behind.

    Args:
        engine: The database.
        to: The revision to stop at.

    Raises:
        LedgerError: The database is newer than the package, or has tables of this name that no migration made.
    """
    with _ONE_AT_A_TIME, write(engine) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _POSTGRES_LOCK})
        _refuse_foreign(connection)
        alembic = config()
        alembic.attributes["connection"] = connection
        command.upgrade(alembic, to)
        reached = _revision(connection)
    assert reached is not None
    return reached


def ensure_ready(engine: Engine) -> None:
    """Upgrades an empty database, and refuses one that this version of the package cannot use.

    Raises:
        LedgerError: The database is older or newer than the package, or has tables that no migration made.
    """
    found = revision(engine)
    if found is None:
        # Whether it is really empty is decided below the lock: another process may be making the tables right now.
        upgrade(engine)
    elif found not in revisions():
        raise _newer(found, engine)
    elif found != head():
        raise LedgerError(
            f"the database {_shown(engine)}",
            f"its tables are at revision {found} and this version of alphaswarm-rl needs {head()}",
            "Make a backup and run: rl db upgrade.",
        )


def _refuse_foreign(connection: Connection) -> None:
    found = _revision(connection)
    if found is not None:
        if found not in revisions():
            raise _newer(found, connection.engine)
        return
    names = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
    ours = sorted(name for name in names if name.startswith(TABLE_PREFIX))
    if ours:
        raise LedgerError(
            f"the database {_shown(connection.engine)}",
            f"it has tables named {', '.join(ours[:5])} but {VERSION_TABLE} does not say which version made them",
            "Name an empty database, or restore this one from a backup.",
        )


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found = connection.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar_one_or_none()  # noqa: S608
    return None if found is None else str(found)


def _newer(found: str, engine: Engine) -> LedgerError:
    return LedgerError(
        f"the database {_shown(engine)}",
        f"it was written by a newer version of alphaswarm-rl (revision {found}, this version knows up to {head()})",
        "Run: pip install --upgrade alphaswarm-rl.",
    )


def _shown(engine: Engine) -> str:
    return redact(engine.url.render_as_string(hide_password=True))
