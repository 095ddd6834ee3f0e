"""The state of the ledger's database, without making one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy.engine import make_url

from alphaswarm_rl.db import schema
from alphaswarm_rl.db.engine import open_engine
from alphaswarm_rl.db.redaction import redact

if TYPE_CHECKING:
    from alphaswarm_rl.settings import Settings

#: States in which commands can work: an empty database gets its tables by itself.
USABLE = ("current", "empty")


@dataclass(frozen=True)
class DatabaseState:
    """Where a database stands."""

    url: str
    revision: str | None
    head: str
    state: str


def database_state(settings: Settings) -> DatabaseState:
    """The revision of the database; `state` is current, empty, older or newer.

    Raises:
        LedgerError: The database cannot be opened.
    """
    revision = _revision(settings)
    if revision is None:
        state = "empty"
    elif revision not in schema.revisions():
        state = "newer"
    else:
        state = "current" if revision == schema.head() else "older"
    return DatabaseState(redact(settings.database_url), revision, schema.head(), state)


def _revision(settings: Settings) -> str | None:
    # Opening makes the folder, and connecting the file: neither is a look's business.
    if settings.ledger.url is None and not settings.home.exists():
        return None
    engine = open_engine(settings.database_url)
    try:
        return None if _is_missing(settings.database_url) else schema.revision(engine)
    finally:
        engine.dispose()


def _is_missing(url: str) -> bool:
    parsed = make_url(url)
    return parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").expanduser().exists()
