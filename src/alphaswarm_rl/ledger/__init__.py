"""The ledger: what was run, by whom, from which immutable version of which spec."""

from alphaswarm_rl.core.types import EvaluationPhase
from alphaswarm_rl.ledger.ledger import Ledger
from alphaswarm_rl.ledger.rows import (
    ComponentRow,
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
    "ComponentRow",
    "EpisodeRow",
    "EvaluationPhase",
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
