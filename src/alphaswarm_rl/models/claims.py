"""Claims in the registry: writing for a run is refused, in the same transaction, to a process whose claim is stale.

A run without a row has its first claim. Who resumes it writes the next number before anything else, and who removes it
leaves a row without one.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, delete, insert, select

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.db.engine import lock_table, write
from alphaswarm_rl.models.tables import claims, models


def announce(engine: Engine, claim: Claim) -> None:
    """Lets the registry know of a claim: from here on nothing is written for the run with an earlier one.

    Raises:
        StaleClaim: It knows of a later one, or the run was removed.
    """
    with write(engine) as connection:
        lock_for(connection, claim)
        _put(connection, claim.run_id, claim.number)


def lock_for(connection: Connection, claim: Claim | None) -> None:
    """Lets nobody else write models until this transaction ends; refuses a process whose claim is not the newest.

    Args:
        connection: A transaction that writes.
        claim: The claim of the process that writes for a run; None for whoever writes for none.

    Raises:
        StaleClaim: Another process has taken the run over, or it was removed.
    """
    lock_table(connection, models.name)
    if claim is None:
        return
    # After the lock: whoever announces a claim has it too.
    row = connection.execute(select(claims.c.number).where(claims.c.run_id == claim.run_id)).one_or_none()
    if row is not None and (row.number is None or row.number > claim.number):
        raise claim.stale(row.number)


def newest(connection: Connection, run_id: str) -> int:
    """The number of a run's newest claim that the registry knows of."""
    return connection.execute(select(claims.c.number).where(claims.c.run_id == run_id)).scalar_one_or_none() or 1


def withdraw(connection: Connection, run_id: str) -> None:
    """Lets nobody write for a run any more: it is removed."""
    lock_table(connection, models.name)
    _put(connection, run_id, None)


def _put(connection: Connection, run_id: str, number: int | None) -> None:
    connection.execute(delete(claims).where(claims.c.run_id == run_id))
    connection.execute(insert(claims).values(run_id=run_id, number=number))
