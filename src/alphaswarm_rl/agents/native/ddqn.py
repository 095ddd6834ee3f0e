"""Double DQN of our own: its parameters; `ddqn_learner` is the learner, `q_function` its networks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

from alphaswarm_rl.agents.encoders import EncodedConfig, Layers, check_window
from alphaswarm_rl.core.kinds import Agent
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.replay_buffers.components import BufferRef

if TYPE_CHECKING:
    from alphaswarm_rl.core.contracts import AgentRequest, Learner

_PRIORITIZED: Any = {"class": "prioritized"}


class DdqnInhouse(Agent):
    """Double DQN of our own: dueling networks, several steps at once, prioritised replay, resumed bit for bit.

    The target of a transition is its discounted rewards and, unless it terminated, what the target network says of the
    action that the online network takes to be the best legal one. Masked actions are neither explored nor believed in.
    van Hasselt et al. (2015), Wang et al. (2015), Schaul et al. (2015).
    """

    rl_alias = "ddqn_inhouse"
    rl_category = "native"
    rl_tags = ("off-policy", "discrete", "masked", "exact-resume")
    #: Kinds of action spaces that it can act in.
    action_spaces = ("Discrete",)

    class Config(EncodedConfig):
        """Parameters of the agent."""

        activation: Literal["tanh", "relu"] = Field("relu", description="Activation between the layers.")
        net_arch: Layers = Field((64, 64), description="Widths of the hidden layers.")
        learning_rate: PositiveFloat = Field(1e-3, description="Learning rate.")
        gamma: float = Field(0.99, ge=0, le=1, description="Discount per step.")
        max_grad_norm: PositiveFloat = Field(10.0, description="Largest norm of the gradient.")
        adam_eps: PositiveFloat = Field(1e-5, description="Adam's epsilon.")
        double: bool = Field(True, description="Whether the online network chooses the action whose value is taken.")
        dueling: bool = Field(True, description="Whether the value of a state and of its actions are learnt apart.")
        n_steps: int = Field(3, ge=1, le=1000, description="Steps of one transition, fewer at an episode's end.")
        replay: BufferRef = Field(_PRIORITIZED, description="The memory of transitions.")
        batch_size: PositiveInt = Field(64, description="Transitions per gradient step.")
        learning_starts: NonNegativeInt = Field(1000, description="Transitions before the first gradient step.")
        train_freq: PositiveInt = Field(1, description="Vector steps between updates.")
        gradient_steps: PositiveInt = Field(1, description="Gradient steps per update.")
        target_update_interval: PositiveInt = Field(
            1, description="Gradient steps between updates of the target network."
        )
        tau: float = Field(
            0.005, gt=0, le=1, description="Share of the new weights in an update of the target network."
        )
        exploration_steps: PositiveInt = Field(10_000, description="Transitions over which exploration falls.")
        exploration_initial_eps: float = Field(1.0, ge=0, le=1, description="Chance of a random action at the start.")
        exploration_final_eps: float = Field(
            0.05, ge=0, le=1, description="Chance of a random action after that, and in predictions that may draw."
        )

        @field_validator("replay")
        @classmethod
        def _says_the_steps_once(cls, replay: ComponentRef) -> ComponentRef:
            if replay.name == "nstep_info":
                raise ValueError("the agent makes the steps itself: set its n_steps, and name general or prioritized")
            return replay

        @model_validator(mode="after")
        def _batches_fit_the_memory(self) -> Self:
            capacity = getattr(self.replay.build().config, "capacity", None)
            if capacity is not None and capacity < self.batch_size:
                raise ValueError(f"batch_size {self.batch_size} is more than the replay's capacity of {capacity}")
            return self

    def check_frames(self, frames: int | None) -> None:
        """Raises where its encoder needs more of them."""
        check_window(self.config.encoder, frames)

    def build(self, request: AgentRequest) -> Learner:
        """The learner itself."""
        from alphaswarm_rl.agents.native.ddqn_learner import DdqnLearner

        return DdqnLearner(self.rl_alias, self.config, request)
