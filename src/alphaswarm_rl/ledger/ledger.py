"""The one door to the ledger."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Self

from sqlalchemy import Select, select

from alphaswarm_rl.db.database import open_ready
from alphaswarm_rl.db.engine import damage, read
from alphaswarm_rl.db.plain_tables import PlainTable, plain_table
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger.components import ComponentTables
from alphaswarm_rl.ledger.halts import HaltTables
from alphaswarm_rl.ledger.identity import ledger_id, recognise, refuse_absent
from alphaswarm_rl.ledger.refs import RefTables
from alphaswarm_rl.ledger.restoring import RestoreTables
from alphaswarm_rl.ledger.results import ResultTables
from alphaswarm_rl.ledger.run_queries import agent_of_version
from alphaswarm_rl.ledger.runs import RunTables
from alphaswarm_rl.ledger.specs import SpecTables
from alphaswarm_rl.ledger.tables import evaluations, events, runs, specs, versions
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.settings import Settings


def _runs() -> Select[Any]:
    return select(runs, agent_of_version().label("agent")).join(versions, versions.c.id == runs.c.version_id)


def _versions() -> Select[Any]:
    return select(versions, specs.c.slug).join(specs, specs.c.id == versions.c.spec_id)


_PLAIN: Mapping[str, Callable[[], Select[Any]]] = {
    "runs": _runs,
    "versions": _versions,
    "evaluations": lambda: select(evaluations),
    "events": lambda: select(events),
}


class Ledger(SpecTables, RunTables, ResultTables, RefTables, HaltTables, ComponentTables, RestoreTables):
    """Specs, versions, runs and what they brought, in one database. Safe to use from several threads.

    Every method is one transaction of its own, and an error of the database is an error here.
    """

    @classmethod
    def open(cls, settings: Settings | None = None) -> Self:
        """The ledger of these settings; an empty database gets its tables now, and the home its ledger.

        Args:
            settings: Where it is; None reads the environment and the settings file, as `RLRuntime` does.

        Raises:
            LedgerError: The database cannot be used, needs another version of the package, or is not the home's.
        """
        resolved = load_settings({}, os.environ) if settings is None else settings
        refuse_absent(resolved)
        ledger = cls.open_any(resolved)
        try:
            recognise(ledger.engine, resolved)
        except BaseException:
            ledger.close()
            raise
        return ledger

    @classmethod
    def open_any(cls, settings: Settings) -> Self:
        """The same, whether or not it is the ledger that the home works with: for those who mend that."""
        ledger = cls(open_ready(settings.database_url, LEDGER))
        ledger.silence = timedelta(seconds=settings.ledger.silence_seconds)
        return ledger

    def plain_tables(self, names: Iterable[str]) -> dict[str, PlainTable]:
        """Whole tables as one transaction sees them, without secrets: `runs`, `versions`, `evaluations`, `events`.

        Runs have the name of their agent beside their own columns, and versions the slug of their spec.
        """
        with read(self.engine) as connection:
            return {name: plain_table(connection, _PLAIN[name]()) for name in names}

    @property
    def id(self) -> str:
        """The id of this very ledger, the same in every copy of its database."""
        return self._read(ledger_id)

    def damage(self) -> str | None:
        """What the database itself finds wrong with its file; None where it finds nothing."""
        return damage(self.engine)
