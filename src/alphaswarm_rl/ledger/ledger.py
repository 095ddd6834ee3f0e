"""The one door to the ledger."""

from __future__ import annotations

import os
from typing import Self

from alphaswarm_rl.db.database import open_ready
from alphaswarm_rl.db.engine import damage
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger.components import ComponentTables
from alphaswarm_rl.ledger.halts import HaltTables
from alphaswarm_rl.ledger.refs import RefTables
from alphaswarm_rl.ledger.results import ResultTables
from alphaswarm_rl.ledger.runs import RunTables
from alphaswarm_rl.ledger.specs import SpecTables
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.settings import Settings


class Ledger(SpecTables, RunTables, ResultTables, RefTables, HaltTables, ComponentTables):
    """Specs, versions, runs and what they brought, in one database. Safe to use from several threads.

    Every method is one transaction of its own, and an error of the database is an error here.
    """

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """The ledger of these settings; an empty database gets its tables now.

        Args:
            settings: Where it is; None reads the environment and the settings file, as `RLRuntime` does.

        Raises:
            LedgerError: The database cannot be used, or needs another version of the package.
        """
        resolved = load_settings({}, os.environ) if settings is None else settings
        return cls(open_ready(resolved.database_url, LEDGER))

    def damage(self) -> str | None:
        """What the database itself finds wrong with its file; None where it finds nothing."""
        return damage(self.engine)
