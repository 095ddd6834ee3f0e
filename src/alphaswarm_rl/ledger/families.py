"""Families: all that was trained under one slug. Whoever picks the best must know of how many."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, func, select

from alphaswarm_rl.db.engine import read
from alphaswarm_rl.ledger.tables import runs


@dataclass(frozen=True)
class FamilyCount:
    """How often a family was trained.

    Attributes:
        family: The slug.
        runs: Its training runs, however they ended; those whose files were removed too.
        specs: How many different things they computed: an `exec_hash` counts once.
    """

    family: str
    runs: int
    specs: int


def count(engine: Engine, family: str) -> FamilyCount:
    """The training runs of a family; an unknown one has none."""
    statement = select(func.count(), func.count(runs.c.exec_hash.distinct())).where(
        runs.c.family == family, runs.c.target == "train"
    )
    with read(engine) as connection:
        total, different = connection.execute(statement).one()
    return FamilyCount(family, total, different)
