"""What the native agents' parameters have in common."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.agents.encoder_field import DEFAULT_EMBED_DIM, Encoder
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.kinds import BaseAdvantageEstimator
from alphaswarm_rl.core.model import FrozenModel

Layers = tuple[PositiveInt, ...]


class TwoNetworks(FrozenModel):
    """Hidden layers of policy and value function."""

    pi: Layers = Field((64, 64), description="Widths of the policy's layers.")
    vf: Layers = Field((64, 64), description="Widths of the value function's layers.")


class EncodedConfig(ComponentConfig):
    """Parameters of native agents that may have an encoder before their layers."""

    encoder: Encoder = Field(
        None,
        description="Network before the layers: null is none, `mlp` flattens and embeds, `cnn` is the Nature CNN for "
        "images; any other name or reference is a policy_backbone of the catalogue.",
    )
    embed_dim: PositiveInt = Field(DEFAULT_EMBED_DIM, description="Output width of the encoder.")

    @model_validator(mode="after")
    def _width_has_an_encoder(self) -> EncodedConfig:
        if self.encoder is None and self.embed_dim != DEFAULT_EMBED_DIM:
            raise PydanticCustomError("no_effect", "embed_dim has no effect without an encoder", {})
        return self


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
