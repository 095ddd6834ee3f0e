"""The ledger's database: its revision, and bringing it to the newest one.

A database is `current`, `empty` (it gets its tables on first use), `older` (it must be upgraded) or `newer` than this
version of the package. Looking at it makes nothing, neither a folder nor a file.
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy.engine import make_url

from alphaswarm_rl.db.engine import open_engine
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NO_ARGUMENTS, NoArguments, operation
from alphaswarm_rl.settings import Settings


class DatabaseState(Data):
    """Where a database stands.

    Attributes:
        url: Its address, without secrets.
        revision: The revision of its tables; None while it has none.
        head: The revision that this version of the package needs.
        state: current, empty, older or newer.
    """

    url: str
    revision: str | None
    head: str
    state: str

    @property
    def usable(self) -> bool:
        """Whether commands can work with it."""
        return self.state in ("current", "empty")


class Upgrade(Data):
    """What an upgrade did: the state before, and the revision that was reached."""

    before: DatabaseState
    revision: str


@operation("db.status")
def database_status(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> DatabaseState:
    """The database's revision and the one this version needs."""
    return database_state(settings)


@operation("db.upgrade", changes=True)
def upgrade_database(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> Upgrade:
    """Brings the database to the newest revision, and the model registry with it where there is one."""
    # Imported here: nobody else who asks for the state needs the models.
    from alphaswarm_rl.models.registry import upgrade_registry

    before = database_state(settings)
    engine = open_engine(settings.database_url)
    try:
        reached = LEDGER.upgrade(engine)
    finally:
        engine.dispose()
    upgrade_registry(settings)
    return Upgrade(before, reached)


def database_state(settings: Settings) -> DatabaseState:
    """The state of the ledger's database.

    Raises:
        LedgerError: The database cannot be opened.
    """
    revision = _revision(settings)
    if revision is None:
        state = "empty"
    elif revision not in LEDGER.revisions:
        state = "newer"
    else:
        state = "current" if revision == LEDGER.head else "older"
    return DatabaseState(redact(settings.database_url), revision, LEDGER.head, state)


def _revision(settings: Settings) -> str | None:
    # Opening an engine makes the folder, and connecting the file; a look must make neither.
    if settings.ledger.url is None and not settings.home.exists():
        return None
    engine = open_engine(settings.database_url)
    try:
        return None if _is_missing(settings.database_url) else LEDGER.revision(engine)
    finally:
        engine.dispose()


def _is_missing(url: str) -> bool:
    parsed = make_url(url)
    return parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").expanduser().exists()
