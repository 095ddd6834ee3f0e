"""The abstract base of every kind of component. A later part adds a kind by one more such base, anywhere."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

from alphaswarm_rl.core.component import RLComponent

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import (
        AgentRequest,
        DataRequest,
        EnvRequest,
        Learner,
        PolicyRequest,
        PolicyRunner,
        State,
        Window,
    )


class EnvComponent(RLComponent):
    """An environment: builds a batched Gymnasium environment with SAME_STEP autoreset."""

    rl_kind = "env"
    #: Which parts of a spec it takes: "window", "data_pipeline", "reward", "observation", "action", "terminations".
    takes: ClassVar[frozenset[str]] = frozenset()

    @abc.abstractmethod
    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The environment itself. Arrays it hands out stay as they are: the caller may keep them."""

    def slots(self) -> frozenset[str]:
        """`takes` of this very environment, where that depends on its parameters."""
        return self.takes

    def notices(self) -> tuple[str, ...]:
        """What the user should know about how it was resolved; stored in the run row and shown."""
        return ()

    def data_fingerprint(self, window: Window) -> str | None:
        """SHA-256 of the data it reads in that window; None where it makes its own."""
        return None

    def in_sample(self, evaluated: Window, trained: tuple[Window, ...]) -> bool | None:
        """Whether an evaluation there sees data of training or validation; None where nobody can know."""
        return None


class Agent(RLComponent):
    """Something that learns in an environment and acts."""

    rl_kind = "agent"
    #: Whether it has anything to learn; one that has not can be evaluated without a checkpoint.
    trains: ClassVar[bool] = True

    @abc.abstractmethod
    def build(self, request: AgentRequest) -> Learner:
        """The learner itself."""


class Policy(RLComponent):
    """A rule from observations to actions that learns nothing."""

    rl_kind = "policy"

    @abc.abstractmethod
    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy itself."""


class SmallComponent(RLComponent):
    """A stateless, batched piece of an environment; the environment owns, resets and saves its state arrays."""

    def init(self, n: int, xp: Any) -> dict[str, Any]:
        """State arrays for `n` environments, each of leading dimension `n`."""
        return {}

    @abc.abstractmethod
    def step(self, view: Any, state: dict[str, Any], out: Any) -> None:
        """Writes this step's result for all environments into `out`."""


class RewardTerm(SmallComponent):
    """A reward, or a part of one."""

    rl_kind = "reward"


class ObservationBuilder(SmallComponent):
    """A part of what the agent sees."""

    rl_kind = "observation"


class ActionSpec(SmallComponent):
    """How the agent's output becomes something to do."""

    rl_kind = "action"


class Termination(SmallComponent):
    """A reason for an episode to end."""

    rl_kind = "termination"


class DataPipeline(RLComponent):
    """A source of market data."""

    rl_kind = "data_pipeline"

    @abc.abstractmethod
    def build(self, request: DataRequest) -> Any:
        """The panel of that window with its warm-up bars, before any scaling."""

    def fit(self, panel: Any) -> State:
        """What is learnt from the training window alone; the runtime keeps it in the checkpoint. Here: nothing."""
        from alphaswarm_rl.core.contracts import State

        return State()

    def apply(self, panel: Any, state: State) -> Any:
        """The panel of any window as the agent sees it, by what was learnt in training. Here: as it is."""
        return panel


class Ensembler(RLComponent):
    """A way to make one policy of several trained ones."""

    rl_kind = "ensembler"

    @abc.abstractmethod
    def run(self, context: Any) -> Any:
        """Trains and combines, through the context that the runtime hands in."""


class Experiment(RLComponent):
    """A study that trains or evaluates many times."""

    rl_kind = "experiment"

    @abc.abstractmethod
    def run(self, context: Any) -> Any:
        """Runs the study, through the context that the runtime hands in."""


class TrajectoryStore(RLComponent):
    """A place where every step is kept."""

    rl_kind = "trajectory_store"

    @abc.abstractmethod
    def build(self, request: Any) -> Any:
        """The open store."""


class AdvantageEstimator(RLComponent):
    """A rule from rewards and values to advantages."""

    rl_kind = "advantage_estimator"

    @abc.abstractmethod
    def build(self, request: Any) -> Any:
        """The estimator itself."""


class TimeSeriesEncoder(RLComponent):
    """A network that encodes observations for a policy."""

    rl_kind = "policy_backbone"

    @abc.abstractmethod
    def build(self, request: Any) -> Any:
        """The network itself."""


class ReplayBuffer(RLComponent):
    """A memory of transitions for off-policy learning."""

    rl_kind = "replay_buffer"

    @abc.abstractmethod
    def build(self, request: Any) -> Any:
        """The buffer itself."""


class PortfolioStage(RLComponent):
    """One stage of the pipeline from a policy's weights to target weights."""

    rl_kind = "portfolio_stage"

    @abc.abstractmethod
    def build(self, request: Any) -> Any:
        """The stage itself."""
