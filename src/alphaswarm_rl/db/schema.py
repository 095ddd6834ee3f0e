"""Schemas: sets of tables that migrations make and change. There are two, the ledger's and the model registry's.

A schema has a folder of Alembic migrations and a table in the database that holds the revision it is at, so that both
can share one database or have one each. A database is empty, current, older, newer, or somebody else's.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from sqlalchemy import Connection, Engine, inspect, text

from alphaswarm_rl.core.errors import LedgerError, ModelError
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.db.redaction import redact

_MIGRATIONS = Path(__file__).parent / "migrations"
# Alembic hands its context to the migrations through a global variable.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Schema:
    """One set of tables.

    Attributes:
        name: The folder of its migrations.
        version_table: Where a database keeps its revision.
        lock_key: The number of its advisory lock in PostgreSQL.
        upgrades_when_opened: Whether opening an older database upgrades it; otherwise `rl db upgrade` must.
        refuse_foreign: Raises where a database without a revision has tables that the migrations must not touch.
    """

    name: str
    version_table: str
    lock_key: int
    upgrades_when_opened: bool
    refuse_foreign: Callable[[Connection], None]

    @cached_property
    def revisions(self) -> tuple[str, ...]:
        """Every revision this version of the package knows, the oldest first."""
        # From the names of the files: Alembic takes longer to load than the ledger to open.
        return tuple(sorted(path.name[:4] for path in (_MIGRATIONS / self.name).glob("[0-9]*.py")))

    @property
    def head(self) -> str:
        """The newest revision this version of the package knows."""
        return self.revisions[-1]

    def revision(self, engine: Engine) -> str | None:
        """The revision the database is at, or None when it was never migrated."""
        with read(engine) as connection:
            return self._revision(connection)

    def upgrade(self, engine: Engine, to: str = "head") -> str:
        """Brings the database to a revision and returns it; does nothing when it is there already.

        All of it is one transaction below one lock: processes that start together on an empty database take turns, and
        a migration that fails leaves nothing behind.

        Args:
            engine: The database.
            to: The revision to stop at.

        Raises:
            AlphaSwarmError: The database is newer than the package, or has tables that are not ours to change.
        """
        from alembic import command
        from alembic.config import Config

        with _ONE_AT_A_TIME, write(engine) as connection:
            if connection.dialect.name == "postgresql":
                connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": self.lock_key})
            found = self._revision(connection)
            if found is None:
                self.refuse_foreign(connection)
            elif found not in self.revisions:
                raise self._newer(found, engine)
            config = Config()  # there is no alembic.ini
            config.set_main_option("script_location", _escaped(_MIGRATIONS))
            config.set_main_option("version_locations", _escaped(_MIGRATIONS / self.name))
            config.set_main_option("path_separator", "newline")
            config.attributes.update(connection=connection, version_table=self.version_table)
            command.upgrade(config, to)
            reached = self._revision(connection)
        assert reached is not None
        return reached

    def ensure_ready(self, engine: Engine) -> None:
        """Upgrades an empty database, and refuses one that this version of the package cannot use.

        Raises:
            AlphaSwarmError: The database is older or newer than the package, or has tables that no migration made.
        """
        found = self.revision(engine)
        if found == self.head:
            return
        if found is not None and found not in self.revisions:
            raise self._newer(found, engine)
        if found is not None and not self.upgrades_when_opened:
            raise LedgerError(
                f"the database {shown_url(engine)}",
                f"its tables are at revision {found} and this version of alphaswarm-rl needs {self.head}",
                "Make a backup and run: rl db upgrade.",
            )
        # Whether it is really empty is decided below the lock: another process may be making the tables right now.
        self.upgrade(engine)

    def _revision(self, connection: Connection) -> str | None:
        if not inspect(connection).has_table(self.version_table):
            return None
        statement = text(f"SELECT version_num FROM {self.version_table}")  # noqa: S608
        found = connection.execute(statement).scalar_one_or_none()
        return None if found is None else str(found)

    def _newer(self, found: str, engine: Engine) -> LedgerError:
        return LedgerError(
            f"the database {shown_url(engine)}",
            f"it was written by a newer version of alphaswarm-rl (revision {found}, this version knows up to "
            f"{self.head})",
            "Run: pip install --upgrade alphaswarm-rl.",
        )


def shown_url(engine: Engine) -> str:
    """A database's URL without its secrets."""
    return redact(engine.url.render_as_string(hide_password=True))


def _escaped(path: Path) -> str:
    return str(path).replace("%", "%%")


def _refuse_unversioned(connection: Connection) -> None:
    """Refuses tables named like ours in a database that does not say which version made them."""
    version_table = LEDGER.version_table
    names = set(inspect(connection).get_table_names()) - {version_table}
    ours = sorted(name for name in names if name.startswith("rl_"))
    if ours:
        raise LedgerError(
            f"the database {shown_url(connection.engine)}",
            f"it has tables named {', '.join(ours[:5])} but {version_table} does not say which version made them",
            "Name an empty database, or restore this one from a backup.",
        )


def _refuse_other_models(connection: Connection) -> None:
    """Refuses a table `models` of another program; that of the original SQL is upgraded in place."""
    tables = inspect(connection)
    if not tables.has_table("models"):
        return
    existing = {column["name"] for column in tables.get_columns("models")}
    missing = [name for name in ORIGINAL_MODEL_COLUMNS if name not in existing]
    if missing:
        raise ModelError(
            f"the database {shown_url(connection.engine)}",
            f"its table 'models' has no column {', '.join(missing)}: it is not a model registry's",
            "Point the registry at another file with --registry-db.",
        )


#: Columns of the original table of models; a table of this name that lacks one is somebody else's.
ORIGINAL_MODEL_COLUMNS = (
    "id",
    "model_path",
    "algorithm",
    "env_id",
    "timestamp",
    "total_timesteps",
    "mean_reward",
    "std_reward",
    "mean_episode_length",
    "hyperparams",
    "git_commit",
    "validated",
)

# The version tables do not have Alembic's default name: trackers that people keep in the same PostgreSQL database use
# that one. The lock keys are numbers that no other program is likely to lock: "alphaswm" and "asmodels" in ASCII.
LEDGER = Schema("ledger", "rl_alembic_version", 0x616C70686173776D, False, _refuse_unversioned)
REGISTRY = Schema("registry", "rl_model_alembic_version", 0x61736D6F64656C73, True, _refuse_other_models)
