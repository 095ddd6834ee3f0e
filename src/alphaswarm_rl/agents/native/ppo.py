"""PPO and A2C of our own: their parameters and the two agents.

What they build lives beside this file: `ppo_learner` has the update and the saved state, `host_learner` collects
rollouts in NumPy, `device_learner` in tensors on the environment's device; the networks are `numpy_actor_critic` and
`torch_actor_critic`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.agents.encoders import EncodedConfig, Layers, check_window
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.core.kinds import Agent, BaseAdvantageEstimator
from alphaswarm_rl.core.model import FrozenModel

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner


class TwoNetworks(FrozenModel):
    """Hidden layers of policy and value function."""

    pi: Layers = Field((64, 64), description="Widths of the policy's layers.")
    vf: Layers = Field((64, 64), description="Widths of the value function's layers.")


class NativeOnPolicyConfig(EncodedConfig):
    """Parameters of native agents that learn from fresh rollouts."""

    activation: Literal["tanh", "relu"] = Field("tanh", description="Activation between the layers.")
    learning_rate: PositiveFloat = Field(3e-4, description="Learning rate at the start.")
    lr_schedule: Literal["constant", "linear"] = Field(
        "constant", description="Whether the learning rate stays, or falls in a line to 0 at the end of training."
    )
    gamma: float = Field(0.99, ge=0, le=1, description="Discount per step.")
    max_grad_norm: PositiveFloat = Field(0.5, description="Largest norm of the gradient.")
    adam_eps: PositiveFloat = Field(1e-5, description="Adam's epsilon.")
    normalize_observation: bool = Field(
        True,
        description="Whether observations are standardised by running statistics of training; never before `cnn` nor "
        "before an encoder with weights of its own, which know their scale.",
    )

    net_arch: Layers | TwoNetworks = Field(
        (64, 64), description="Widths of the hidden layers: one list for both networks, or {pi: [...], vf: [...]}."
    )
    path: Literal["auto", "torch"] = Field(
        "auto",
        description="auto computes plain MLPs on a CPU by hand, several times as fast as torch; torch never does.",
    )
    precision: Literal["float32", "tf32"] = Field(
        "tf32",
        description="Products of matrices on a GPU: in full, or with 10 bits behind the point, several times as fast.",
    )
    gae_lambda: float = Field(
        0.95, ge=0, le=1, description="Trade-off of bias and variance in the advantage; 1 is no bias."
    )
    normalize_advantage: bool = Field(True, description="Whether advantages are standardised over each rollout.")
    normalize_reward: bool = Field(
        True, description="Whether rewards are divided by the spread of their discounted sums."
    )
    vf_coef: NonNegativeFloat = Field(0.5, description="Weight of the value loss.")

    def check_advantage(self, estimator: BaseAdvantageEstimator) -> None:
        """Raises where a parameter would have no effect beside that estimator, or contradict it."""
        overruled = ["gae_lambda", "normalize_advantage"]
        if not estimator.uses_values:
            overruled += ["vf_coef", "clip_range_vf"]  # without values to learn there is no critic
        for name in overruled:
            if name in type(self).model_fields and getattr(self, name) != type(self).model_fields[name].default:
                raise ComponentError(
                    f"agent parameter {name!r}",
                    "the spec names training.advantage, beside which it has no effect",
                    "Leave it out; what the estimator takes stands in training.advantage.kwargs.",
                )
        gamma = getattr(estimator.config, "gamma", self.gamma)
        if gamma != self.gamma:
            raise ComponentError(
                "agent parameter 'gamma'",
                f"it is {self.gamma}, and that of training.advantage is {gamma}",
                "Give both the same.",
            )

    @property
    def layers(self) -> tuple[Layers, Layers]:
        """Widths of the policy's and of the value function's hidden layers."""
        arch = self.net_arch
        return (arch.pi, arch.vf) if isinstance(arch, TwoNetworks) else (arch, arch)


class _OnPolicyAgent(Agent):
    """The base of both agents."""

    rl_category = "native"
    rl_tags = ("on-policy", "discrete", "continuous", "masked", "exact-resume")
    #: Kinds of action spaces that it can act in.
    action_spaces = ("Box", "Discrete", "MultiDiscrete", "MultiBinary")
    takes_advantage = True
    on_device = True

    class Config(NativeOnPolicyConfig):
        """Parameters of the agent."""

    def check_advantage(self, estimator: BaseAdvantageEstimator) -> None:
        """Raises where a parameter would have no effect beside that estimator."""
        self.config.check_advantage(estimator)

    def check_frames(self, frames: int | None) -> None:
        """Raises where its encoder needs more of them."""
        check_window(self.config.encoder, frames)

    def build(self, request: AgentRequest) -> Learner:
        """The learner, on a device where the environment is."""
        from alphaswarm_rl.agents.native.ppo_learner import build_learner

        return build_learner(self.rl_alias, self.config, request)


class PpoInhouse(_OnPolicyAgent):
    """Proximal policy optimisation of our own: batched, resumed bit for bit, several times as fast as the usual one.

    Observations and rewards are standardised by running statistics, truncated episodes are bootstrapped from what they
    showed last, and any advantage estimator of the catalogue can be named in `training.advantage`.
    """

    rl_alias = "ppo_inhouse"

    class Config(NativeOnPolicyConfig):
        """Parameters of the agent."""

        n_steps: PositiveInt = Field(256, description="Steps per environment in one rollout.")
        batch_size: PositiveInt = Field(64, description="Transitions per gradient step.")
        n_epochs: PositiveInt = Field(10, description="Passes over each rollout.")
        clip_range: PositiveFloat = Field(0.2, description="Largest change of the probability ratio.")
        clip_schedule: Literal["constant", "linear"] = Field(
            "constant", description="Whether the clip range stays, or falls in a line to 0 at the end of training."
        )
        clip_range_vf: PositiveFloat | None = Field(
            None, description="Largest change of the value, by clip_vf_form; null is no limit."
        )
        clip_vf_form: Literal["max", "sb3"] = Field(
            "max",
            description="What clip_range_vf makes the value loss. max: the larger of the errors of the new and of the "
            "clipped value; sb3: the error of the clipped value alone, as in Stable-Baselines3.",
            json_schema_extra=added_field(since=2, born="max"),
        )
        target_kl: PositiveFloat | None = Field(
            None, description="An update stops early beyond 1.5 times this; null is never."
        )
        ent_coef: NonNegativeFloat = Field(0.0, description="Weight of the entropy in the loss.")

        @model_validator(mode="after")
        def _form_is_used(self) -> PpoInhouse.Config:
            if self.clip_vf_form != "max" and self.clip_range_vf is None:
                raise PydanticCustomError("no_effect", "clip_vf_form has no effect without clip_range_vf", {})
            return self


class A2cInhouse(_OnPolicyAgent):
    """Advantage actor-critic of our own: one plain gradient step per short rollout, resumed bit for bit.

    It is PPO with one pass over one batch and nothing clipped, and shares all of its parts.
    """

    rl_alias = "a2c_inhouse"

    class Config(NativeOnPolicyConfig):
        """Parameters of the agent."""

        n_steps: PositiveInt = Field(16, description="Steps per environment in one rollout.")
        learning_rate: PositiveFloat = Field(7e-4, description="Learning rate at the start.")
        ent_coef: NonNegativeFloat = Field(0.0, description="Weight of the entropy in the loss.")
