"""The ledger: what was run, by whom, from which immutable version of which spec."""

from alphaswarm_rl.ledger.ledger import Ledger
from alphaswarm_rl.ledger.rows import (
    EpisodeRow,
    EvaluationRow,
    EventRow,
    FamilyCount,
    HaltLogRow,
    HaltRow,
    RunRow,
    SpecRow,
    VersionRow,
)

__all__ = [
    "EpisodeRow",
    "EvaluationRow",
    "EventRow",
    "FamilyCount",
    "HaltLogRow",
    "HaltRow",
    "Ledger",
    "RunRow",
    "SpecRow",
    "VersionRow",
]
