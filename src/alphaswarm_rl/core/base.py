"""What components are made of, in one place: the base, its metaclass, the base of every kind, and the list of them all.

Everything is defined elsewhere: `core.component`, `core.kinds`, `core.catalogue`.
"""

from __future__ import annotations

from alphaswarm_rl.core.catalogue import Description, describe, kinds, listing
from alphaswarm_rl.core.component import ComponentConfig, RLComponent, RLComponentMeta
from alphaswarm_rl.core.kinds import (
    ActionSpec,
    Agent,
    BaseAdvantageEstimator,
    BaseBacktestEngine,
    DataPipeline,
    Ensembler,
    EnvComponent,
    Experiment,
    Observation,
    ObservationBuilder,
    Policy,
    PortfolioStage,
    ReplayBuffer,
    Reward,
    RewardTerm,
    SmallComponent,
    Termination,
    TimeSeriesEncoder,
    TrajectoryStore,
    UniverseModel,
)

__all__ = [
    "ActionSpec",
    "Agent",
    "BaseAdvantageEstimator",
    "BaseBacktestEngine",
    "ComponentConfig",
    "DataPipeline",
    "Description",
    "Ensembler",
    "EnvComponent",
    "Experiment",
    "Observation",
    "ObservationBuilder",
    "Policy",
    "PortfolioStage",
    "RLComponent",
    "RLComponentMeta",
    "ReplayBuffer",
    "Reward",
    "RewardTerm",
    "SmallComponent",
    "Termination",
    "TimeSeriesEncoder",
    "TrajectoryStore",
    "UniverseModel",
    "describe",
    "kinds",
    "list_rl_components",
]


def list_rl_components(kind: str | None = None) -> list[Description]:
    """What every component is, of one kind or of all: alias, class, module, description, schema of its parameters."""
    return [describe(cls) for cls in listing(kind)]
