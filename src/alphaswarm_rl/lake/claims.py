"""Claims in the tables: a commit for a run is refused to a process whose claim is not the newest.

Each table has the number of a run's newest claim as a property, from the second claim on. Whoever commits for a run
looks at it in the table that the commit is based on, and the catalogue refuses the commit where that has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.tables import KINDS, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

_PROPERTY = "alphaswarm.claim."


def newest_claim(table: Table, run_id: str) -> int:
    """The number of a run's newest claim that the table knows of."""
    return int(table.properties.get(f"{_PROPERTY}{run_id}", 1))


def newest_in_tables(lake: Lake, run_id: str) -> int:
    """The number of a run's newest claim that any table knows of; 1 where there are no tables."""
    if not lake.exists:
        return 1
    with explained(f"the claims of run {run_id}", "Try again once the catalogue answers."):
        tables = [lake.find(lake.identifier(kind)) for kind in KINDS]
    return max((newest_claim(table, run_id) for table in tables if table is not None), default=1)


def refuse_stale(table: Table, claim: Claim) -> None:
    """Refuses a commit that is based on this table to a process whose claim is not the newest.

    Raises:
        StaleClaim: The table knows of a later one.
    """
    newest = newest_claim(table, claim.run_id)
    if newest > claim.number:
        raise claim.stale(newest)


def announce(lake: Lake, claim: Claim) -> None:
    """Lets every table know of a claim: from here on nothing is committed for the run with an earlier one."""
    for kind in KINDS:
        _set(lake, kind, claim, str(claim.number))


def withdraw(lake: Lake, run_id: str) -> None:
    """Forgets the claims of a run that is removed.

    Every table gets a snapshot even so: a process that looked at it before the run was marked removed in the ledger
    has to look again, and is refused then.
    """
    for kind in KINDS:
        if lake.find(lake.identifier(kind)) is not None:
            _set(lake, kind, Claim(run_id), None)


def _set(lake: Lake, kind: Kind, claim: Claim, value: str | None) -> None:
    from alphaswarm_rl.lake import producers

    name = f"{_PROPERTY}{claim.run_id}"

    def change() -> None:
        table = lake.table(kind)
        if value is not None:
            refuse_stale(table, claim)
        if value is None or table.properties.get(name) != value:
            producers.set_property(table, name, value)

    what = f"the claim of run {claim.run_id} in the table {lake.identifier(kind)}"
    with explained(what, "Try again once the catalogue answers."):
        lake.commit(what, change)
