"""Parameters of the off-policy algorithms. Names and defaults are Stable-Baselines3's."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    StringConstraints,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alphaswarm_rl.agents.sb3.configs import Layers, NetworkConfig, learning_rate_field, refuse_without
from alphaswarm_rl.core.model import FrozenModel

AutoCoefficient = Annotated[str, StringConstraints(pattern=r"^auto(_\d*\.?\d+)?$")]


class ActorQLayers(FrozenModel):
    """Hidden layers of an actor and its Q-functions."""

    pi: Layers = Field((), description="Widths of the policy's layers.")
    qf: Layers = Field((), description="Widths of the Q-functions' layers.")


class OffPolicyConfig(NetworkConfig):
    """Parameters of every algorithm that learns from a replay buffer."""

    buffer_size: PositiveInt = Field(1_000_000, description="Transitions the replay buffer holds.")
    learning_starts: NonNegativeInt = Field(100, description="Transitions collected at random before learning starts.")
    batch_size: PositiveInt = Field(256, description="Transitions per gradient step.")
    tau: float = Field(0.005, gt=0, le=1, description="Share of the new weights in an update of the target network.")
    train_freq: PositiveInt = Field(1, description="Vector steps between updates.")
    gradient_steps: int = Field(
        1, ge=-1, description="Gradient steps per update; -1 is as many as transitions were collected, 0 is none."
    )
    n_steps: PositiveInt = Field(1, description="Steps of the n-step return.")


class QConfig(OffPolicyConfig):
    """Parameters of algorithms that act greedily on a Q-function."""

    net_arch: Layers | None = Field(
        None, description="Widths of the hidden layers; null is Stable-Baselines3's default."
    )
    batch_size: PositiveInt = Field(32, description="Transitions per gradient step.")
    tau: float = Field(1.0, gt=0, le=1, description="Share of the new weights in an update of the target network.")
    train_freq: PositiveInt = Field(4, description="Vector steps between updates.")
    target_update_interval: PositiveInt = Field(
        10_000, description="Transitions between updates of the target network."
    )
    exploration_fraction: float = Field(0.1, gt=0, le=1, description="Share of training over which exploration falls.")
    exploration_initial_eps: float = Field(1.0, ge=0, le=1, description="Chance of a random action at the start.")
    exploration_final_eps: float = Field(0.05, ge=0, le=1, description="Chance of a random action in the end.")


class DQNConfig(QConfig):
    """Parameters of DQN."""

    learning_rate: float = learning_rate_field(1e-4)
    max_grad_norm: PositiveFloat = Field(10.0, description="Largest norm of the gradient.")


class QRDQNConfig(QConfig):
    """Parameters of QR-DQN."""

    learning_rate: float = learning_rate_field(5e-5)
    exploration_fraction: float = Field(
        0.005, gt=0, le=1, description="Share of training over which exploration falls."
    )
    exploration_final_eps: float = Field(0.01, ge=0, le=1, description="Chance of a random action in the end.")
    max_grad_norm: PositiveFloat | None = Field(None, description="Largest norm of the gradient; null is no limit.")
    n_quantiles: PositiveInt = Field(200, description="Quantiles of the return.")


class ActorQConfig(OffPolicyConfig):
    """Parameters of algorithms with an actor and Q-functions, for continuous actions."""

    net_arch: Layers | ActorQLayers | None = Field(
        None, description="Widths of the hidden layers: one list for all, or {pi: [...], qf: [...]}; null is default."
    )
    action_noise: Literal["none", "normal", "ornstein_uhlenbeck"] = Field(
        "none", description="Noise added to the actions, in the scale of actions between -1 and 1."
    )
    action_noise_std: PositiveFloat = Field(0.1, description="Standard deviation of the action noise.")

    @model_validator(mode="after")
    def _noise_is_used(self) -> ActorQConfig:
        refuse_without(self.action_noise == "none" and self.action_noise_std != 0.1, "action_noise_std", "action_noise")
        return self


class SoftConfig(ActorQConfig):
    """Parameters of the SAC family."""

    ent_coef: NonNegativeFloat | AutoCoefficient = Field(
        "auto", description="Weight of the entropy; `auto` learns it, `auto_0.1` learns it from 0.1 on."
    )
    target_update_interval: PositiveInt = Field(1, description="Gradient steps between updates of the target network.")
    target_entropy: float | Literal["auto"] = Field("auto", description="Entropy that a learnt ent_coef aims at.")
    use_sde: bool = Field(False, description="Generalised state-dependent exploration.")
    sde_sample_freq: int = Field(-1, ge=-1, description="Steps between new noise with use_sde; -1 is once per rollout.")
    use_sde_at_warmup: bool = Field(False, description="Whether use_sde also explores before learning starts.")
    n_critics: PositiveInt = Field(2, description="Q-functions.")

    @model_validator(mode="after")
    def _exploration_is_used(self) -> SoftConfig:
        refuse_without(self.sde_sample_freq != -1 and not self.use_sde, "sde_sample_freq", "use_sde")
        refuse_without(self.use_sde_at_warmup and not self.use_sde, "use_sde_at_warmup", "use_sde")
        learnt = isinstance(self.ent_coef, str)
        refuse_without(self.target_entropy != "auto" and not learnt, "target_entropy", "a learnt ent_coef")
        return self


class SACConfig(SoftConfig):
    """Parameters of SAC."""


class TQCConfig(SoftConfig):
    """Parameters of TQC."""

    n_quantiles: PositiveInt = Field(25, description="Quantiles per Q-function.")
    top_quantiles_to_drop_per_net: NonNegativeInt = Field(2, description="Highest quantiles dropped per Q-function.")

    @model_validator(mode="after")
    def _quantiles_remain(self) -> TQCConfig:
        if self.top_quantiles_to_drop_per_net >= self.n_quantiles:
            raise PydanticCustomError("quantiles", "top_quantiles_to_drop_per_net must be below n_quantiles", {})
        return self


class DDPGConfig(ActorQConfig):
    """Parameters of DDPG."""

    learning_rate: float = learning_rate_field(1e-3)


class TD3Config(DDPGConfig):
    """Parameters of TD3."""

    policy_delay: PositiveInt = Field(2, description="Updates of the Q-functions per update of the policy.")
    target_policy_noise: NonNegativeFloat = Field(
        0.2, description="Standard deviation of the noise on the target policy."
    )
    target_noise_clip: NonNegativeFloat = Field(0.5, description="Largest size of that noise.")
    n_critics: PositiveInt = Field(2, description="Q-functions.")
