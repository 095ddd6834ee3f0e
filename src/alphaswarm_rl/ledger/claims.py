"""Writing for a run: refused, in the same transaction, to a process whose claim is not the newest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import copy
from typing import Self

from sqlalchemy import Connection, select

from alphaswarm_rl.core.claims import Claim, UnknownClaim
from alphaswarm_rl.db.database import Database
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger.identity import ledger_id
from alphaswarm_rl.ledger.tables import runs


class ClaimedDatabase(Database):
    """A ledger that may write for one run alone, as long as its claim is the newest; without one, for any."""

    _claim: Claim | None = None
    _ledger_id: str | None = None

    def holding(self, claim: Claim) -> Self:
        """This ledger in the hands of the process that has this claim; it shares the connections."""
        held = copy(self)
        held._claim = claim
        held._ledger_id = self._read(ledger_id)
        return held

    def refuse_stale(self) -> None:
        """Refuses to go on where another process has taken the run over: before anything that no transaction fences.

        Raises:
            StaleClaim: Another process has taken the run over.
        """
        with self._write():
            pass

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        """A transaction that writes.

        Raises:
            StaleClaim: Another process has taken the run over, or removed it.
            UnknownClaim: Another ledger is in the place of this one, or a copy that does not know of the claim.
        """
        with write(self.engine) as connection:
            if self._claim is not None:
                self._refuse_another_ledger(connection)
                _refuse_stale(connection, self._claim)
            yield connection

    def _refuse_another_ledger(self, connection: Connection) -> None:
        found = ledger_id(connection)
        if found != self._ledger_id:
            raise UnknownClaim(
                f"the ledger {found}",
                f"it is in the place of the one that this process began with ({self._ledger_id})",
                "Put the right database back; what was saved until then is on disk.",
            )


def _refuse_stale(connection: Connection, claim: Claim) -> None:
    # PostgreSQL: whoever wants to claim the run waits until this transaction is over.
    statement = (
        select(runs.c.resumed, runs.c.removed_at).where(runs.c.id == claim.run_id).with_for_update(key_share=True)
    )
    row = connection.execute(statement).one_or_none()
    newest = 0 if row is None else row.resumed + 1
    if row is None or newest < claim.number:
        # Nobody took the run over: what this process wrote last may be all that there is of it.
        known = "it does not know the run" if row is None else f"it knows the run by its claim {newest} alone"
        raise UnknownClaim(
            f"the ledger of the run {claim.run_id}",
            f"{known}, and this process has claim {claim.number}: it was put back from a copy of an earlier time",
            "Put a newer copy back, or bring back what files tell of the run: rl db rebuild.",
        )
    if row.removed_at is not None:
        raise claim.stale(None)
    if newest > claim.number:
        raise claim.stale(newest)
