"""The kinds of reference a spec holds, by name: to a type checker they are all a `ComponentRef`."""

from typing import TYPE_CHECKING

from alphaswarm_rl.core.refs import ComponentRef, ref_to

if TYPE_CHECKING:
    ActionRef = ComponentRef
    AdvantageRef = ComponentRef
    AgentRef = ComponentRef
    DataPipelineRef = ComponentRef
    EnsemblerRef = ComponentRef
    EnvRef = ComponentRef
    ObservationRef = ComponentRef
    RewardRef = ComponentRef
    TerminationRef = ComponentRef
    TrajectoryStoreRef = ComponentRef
    UniverseModelRef = ComponentRef
else:
    ActionRef = ref_to("action")
    AdvantageRef = ref_to("advantage_estimator", bare=True)
    AgentRef = ref_to("agent")
    DataPipelineRef = ref_to("data_pipeline")
    EnsemblerRef = ref_to("ensembler")
    EnvRef = ref_to("env")
    ObservationRef = ref_to("observation")
    RewardRef = ref_to("reward")
    TerminationRef = ref_to("termination")
    TrajectoryStoreRef = ref_to("trajectory_store")
    UniverseModelRef = ref_to("universe_model")
