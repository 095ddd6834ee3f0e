"""Parameters of the on-policy algorithms. Names and defaults are Stable-Baselines3's."""

from __future__ import annotations

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.agents.sb3.configs import Layers, NetworkConfig, learning_rate_field, refuse_without
from alphaswarm_rl.core.model import FrozenModel


class ActorCriticLayers(FrozenModel):
    """Hidden layers of the two networks of an actor-critic."""

    pi: Layers = Field((), description="Widths of the policy's layers.")
    vf: Layers = Field((), description="Widths of the value function's layers.")


class OnPolicyConfig(NetworkConfig):
    """Parameters of every algorithm that learns from its own fresh rollouts."""

    net_arch: Layers | ActorCriticLayers | None = Field(
        None, description="Widths of the hidden layers: one list for both, or {pi: [...], vf: [...]}; null is default."
    )
    n_steps: PositiveInt = Field(2048, description="Steps per environment in one rollout.")
    gae_lambda: float = Field(
        0.95, ge=0, le=1, description="Trade-off of bias and variance in the advantage; 1 is no bias."
    )
    normalize_advantage: bool = Field(True, description="Whether advantages are normalised in each batch.")


class ExploringConfig(OnPolicyConfig):
    """On-policy parameters of algorithms that can explore by state-dependent noise."""

    use_sde: bool = Field(False, description="Generalised state-dependent exploration; continuous actions only.")
    sde_sample_freq: int = Field(-1, ge=-1, description="Steps between new noise with use_sde; -1 is once per rollout.")

    @model_validator(mode="after")
    def _noise_is_used(self) -> ExploringConfig:
        refuse_without(self.sde_sample_freq != -1 and not self.use_sde, "sde_sample_freq", "use_sde")
        return self


class LossConfig(NetworkConfig):
    """Weights of the parts of an actor-critic's loss."""

    ent_coef: float = Field(0.0, description="Weight of the entropy in the loss.")
    vf_coef: NonNegativeFloat = Field(0.5, description="Weight of the value loss.")
    max_grad_norm: PositiveFloat = Field(0.5, description="Largest norm of the gradient.")


class ClippedConfig(OnPolicyConfig, LossConfig):
    """Parameters of the PPO family."""

    batch_size: PositiveInt = Field(64, description="Transitions per gradient step.")
    n_epochs: PositiveInt = Field(10, description="Passes over each rollout.")
    clip_range: PositiveFloat = Field(0.2, description="Largest change of the probability ratio.")
    clip_range_vf: PositiveFloat | None = Field(
        None,
        description="Largest change of the value; the loss is the error of the clipped value alone. null is no limit. "
        "The larger of both errors is clip_vf_form: max of ppo_inhouse.",
    )
    target_kl: PositiveFloat | None = Field(
        None, description="An update stops early beyond 1.5 times this; null is never."
    )

    @model_validator(mode="after")
    def _batch_has_a_spread(self) -> ClippedConfig:
        if self.normalize_advantage and self.batch_size == 1:
            raise PydanticCustomError("batch_size", "batch_size must be at least 2 where advantages are normalised", {})
        return self


class PPOConfig(ClippedConfig, ExploringConfig):
    """Parameters of PPO."""


class MaskablePPOConfig(ClippedConfig):
    """Parameters of MaskablePPO."""


class RecurrentPPOConfig(ClippedConfig, ExploringConfig):
    """Parameters of RecurrentPPO."""

    n_steps: PositiveInt = Field(128, description="Steps per environment in one rollout.")
    batch_size: PositiveInt = Field(128, description="Transitions per gradient step.")
    lstm_hidden_size: PositiveInt = Field(256, description="Width of the LSTM.")
    n_lstm_layers: PositiveInt = Field(1, description="Layers of the LSTM.")
    shared_lstm: bool = Field(False, description="Whether policy and value function share one LSTM.")
    enable_critic_lstm: bool = Field(True, description="Whether the value function has an LSTM of its own.")

    @model_validator(mode="after")
    def _one_lstm_for_the_critic(self) -> RecurrentPPOConfig:
        if self.shared_lstm and self.enable_critic_lstm:
            raise PydanticCustomError("lstm", "shared_lstm needs enable_critic_lstm: false", {})
        return self


class A2CConfig(ExploringConfig, LossConfig):
    """Parameters of A2C."""

    learning_rate: float = learning_rate_field(7e-4)
    n_steps: PositiveInt = Field(5, description="Steps per environment in one rollout.")
    gae_lambda: float = Field(
        1.0, ge=0, le=1, description="Trade-off of bias and variance in the advantage; 1 is no bias."
    )
    normalize_advantage: bool = Field(False, description="Whether advantages are normalised in each batch.")
    use_rms_prop: bool = Field(True, description="RMSprop instead of Adam.")
    rms_prop_eps: PositiveFloat = Field(1e-5, description="Epsilon of RMSprop.")

    @model_validator(mode="after")
    def _epsilon_is_used(self) -> A2CConfig:
        refuse_without(self.rms_prop_eps != 1e-5 and not self.use_rms_prop, "rms_prop_eps", "use_rms_prop")
        return self


class TRPOConfig(ExploringConfig):
    """Parameters of TRPO."""

    learning_rate: float = learning_rate_field(1e-3)
    batch_size: PositiveInt = Field(128, description="Transitions per gradient step of the value function.")
    cg_max_steps: PositiveInt = Field(15, description="Steps of conjugate gradient.")
    cg_damping: NonNegativeFloat = Field(0.1, description="Damping of the Hessian.")
    line_search_shrinking_factor: float = Field(
        0.8, gt=0, lt=1, description="Factor between two tries of the line search."
    )
    line_search_max_iter: PositiveInt = Field(10, description="Tries of the line search.")
    n_critic_updates: PositiveInt = Field(10, description="Updates of the value function per update of the policy.")
    target_kl: PositiveFloat = Field(0.01, description="Largest KL divergence of an update.")
    sub_sampling_factor: PositiveInt = Field(1, description="Every n-th transition is used for the policy's update.")
