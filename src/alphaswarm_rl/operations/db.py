"""The ledger's database and the model registry's: their revisions, bringing them to the newest ones, and which is ours.

A database is `current`, `empty` (it gets its tables on first use), `older` (it must be upgraded; a registry is when it
is opened) or `newer` than this version of the package. Looking at it makes nothing, neither a folder nor a file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from sqlalchemy import inspect
from sqlalchemy.engine import make_url

from alphaswarm_rl.db.engine import open_engine
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.db.schema import LEDGER, REGISTRY, Schema
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import Adoption, adopt, adoption, recognise, refuse_absent
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NO_ARGUMENTS, NoArguments, operation
from alphaswarm_rl.settings import Settings

#: Every registry has this table, also one that was made before there were revisions.
_MODELS = "models"


class SchemaState(Data):
    """Where the tables of the ledger, or of the registry, stand.

    Attributes:
        url: The address of their database, without secrets.
        revision: Their revision; None while there is none.
        head: The revision that this version of the package needs.
        state: current, empty, older or newer.
    """

    url: str
    revision: str | None
    head: str
    state: Literal["current", "empty", "older", "newer"]

    @property
    def usable(self) -> bool:
        """Whether commands can work with it."""
        return self.state in ("current", "empty")


class DatabaseState(SchemaState):
    """Where the ledger stands, and the registry.

    Attributes:
        registry: The same of the registry; null where there is none yet.
        ledger_id: The id of the ledger; null where it has none yet.
        adopted: The ledger that the home works with; null before the first contact.
    """

    registry: SchemaState | None
    ledger_id: str | None
    adopted: Adoption | None

    @property
    def usable(self) -> bool:
        """Whether commands can work with it, and it is the home's."""
        return super().usable and (self.adopted is None or self.adopted.id == self.ledger_id)


class SchemaUpgrade(Data, keys={"before": "from"}):
    """What an upgrade did: the revision before, the one that was reached, and the newest."""

    url: str
    before: str | None
    revision: str
    head: str


class Upgrade(SchemaUpgrade):
    """What an upgrade of the ledger did, and of the registry; null where there is none yet."""

    registry: SchemaUpgrade | None


class AdoptRequest(Data):
    """Why the ledger of these settings is right for this home; kept for good."""

    reason: str
    actor: str | None = None


@operation("db.status")
def database_status(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> DatabaseState:
    """The revisions of the database and of the model registry, those that this version needs, and whose it is."""
    state, found = database_state(settings), None
    if state.state == "current":
        with Ledger.open_any(settings) as ledger:
            found = ledger.id
    registry = _registry_state(settings)
    return DatabaseState(**vars(state), registry=registry, ledger_id=found, adopted=adoption(settings))


@operation("db.adopt", changes=True)
def adopt_ledger(settings: Settings, request: AdoptRequest) -> Adoption:
    """Makes the ledger of these settings the home's, whichever it had before and even where it has no runs.

    Raises:
        LedgerError: There is none, where the home had one.
    """
    refuse_absent(settings)
    with Ledger.open_any(settings) as ledger:
        return adopt(ledger.engine, settings, request.reason, request.actor)


@operation("db.upgrade", changes=True)
def upgrade_database(settings: Settings, request: NoArguments = NO_ARGUMENTS) -> Upgrade:
    """Brings the database to the newest revision, and the model registry with it where there is one."""
    # Imported here: nobody else who asks for the state needs the models.
    from alphaswarm_rl.models.registry import upgrade_registry

    refuse_absent(settings)
    before, registry = database_state(settings), _registry_state(settings)
    engine = open_engine(settings.database_url)
    try:
        reached = LEDGER.upgrade(engine)
        recognise(engine, settings)
    finally:
        engine.dispose()
    of_models = upgrade_registry(settings)
    upgraded = None
    if registry is not None and of_models is not None:
        upgraded = SchemaUpgrade(registry.url, registry.revision, of_models, registry.head)
    return Upgrade(before.url, before.revision, reached, before.head, upgraded)


def database_state(settings: Settings) -> SchemaState:
    """The state of the ledger's database.

    Raises:
        LedgerError: The database cannot be opened.
    """
    # Opening an engine makes the folder, and connecting the file; a look must make neither.
    if settings.ledger.url is None and not settings.home.exists():
        return SchemaState(redact(settings.database_url), None, LEDGER.head, "empty")
    return _look(settings.database_url, LEDGER)


def _registry_state(settings: Settings) -> SchemaState | None:
    file = settings.registry_file
    return None if file is not None and not file.exists() else _look(settings.registry_url, REGISTRY)


def _look(url: str, schema: Schema) -> SchemaState:
    engine = open_engine(url)
    try:
        is_missing = _is_missing(url)
        revision = None if is_missing else schema.revision(engine)
        has_models = schema is REGISTRY and not is_missing and inspect(engine).has_table(_MODELS)
    finally:
        engine.dispose()
    if revision is None:
        return SchemaState(redact(url), None, schema.head, "older" if has_models else "empty")
    if revision not in schema.revisions:
        return SchemaState(redact(url), revision, schema.head, "newer")
    return SchemaState(redact(url), revision, schema.head, "current" if revision == schema.head else "older")


def _is_missing(url: str) -> bool:
    parsed = make_url(url)
    return parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").expanduser().exists()
