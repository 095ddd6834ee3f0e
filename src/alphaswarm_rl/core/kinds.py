"""The abstract base of every kind of component. A later part adds a kind by one more such base, anywhere."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

from alphaswarm_rl.core.component import RLComponent
from alphaswarm_rl.core.errors import ComponentError

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import (
        Advantages,
        AgentRequest,
        BuiltReplayBuffer,
        DataRequest,
        EncoderRequest,
        EngineCapabilities,
        EnvRequest,
        Learner,
        NamedTerm,
        OpenStore,
        PolicyRequest,
        PolicyRunner,
        ReplayBufferRequest,
        RolloutRewards,
        State,
        StoreRequest,
        Trade,
        Window,
    )
    from alphaswarm_rl.core.refs import ComponentRef
    from alphaswarm_rl.core.risk_limits import RiskLimits
    from alphaswarm_rl.core.study_context import StudyContext
    from alphaswarm_rl.core.types import AnySpace, BackendArray, JsonMapping, NamedArrays
    from alphaswarm_rl.core.view import ArrayFunctions, Panel, View

#: What a portfolio stage does; stages stand in this order.
StageRole: TypeAlias = Literal["select", "allocate", "time", "risk"]
STAGE_ROLES: tuple[StageRole, ...] = get_args(StageRole)


class EnvComponent(RLComponent):
    """An environment: builds a batched Gymnasium environment with SAME_STEP autoreset."""

    rl_kind = "env"
    #: Gymnasium's ids with a version.
    rl_foreign_names = (r"(?:[\w:-]+/)?[\w:.-]+-v\d+", "gymnasium")
    #: Which slots of a spec it has a use for, by name; see `core.slots`.
    takes: ClassVar[frozenset[str]] = frozenset()
    #: Whether it can be in torch, on any device.
    on_device: ClassVar[bool] = False

    @abc.abstractmethod
    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The environment itself. Arrays it hands out stay as they are: the caller may keep them."""

    def warmup_bars(self, parts: JsonMapping) -> int:
        """Bars before the window's start that it and those parts look at."""
        return 0

    def own_parts(self, replaced: frozenset[str]) -> tuple[ComponentRef, ...]:
        """References to the parts it brings along, but for those in slots that are replaced."""
        return ()

    def slots(self) -> frozenset[str]:
        """`takes` of this very environment, where that depends on its parameters."""
        return self.takes

    def flat_observations(self) -> bool | None:
        """Whether an observation is one row of numbers; None where only the built environment tells."""
        return None

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
    rl_carries = "policy"
    #: Whether it has anything to learn; one that has not can be evaluated without a checkpoint.
    trains: ClassVar[bool] = True
    #: Whether it learns by whatever advantage estimator it is handed; a spec that names one is refused otherwise.
    takes_advantage: ClassVar[bool] = False
    #: Whether it can learn where the environment is in torch on its device.
    on_device: ClassVar[bool] = False

    def check_advantage(self, estimator: BaseAdvantageEstimator) -> None:
        """Raises where a parameter of its own would have no effect beside the estimator that the spec names."""

    def check_frames(self, frames: int | None) -> None:
        """Raises where it cannot see flat observations of so many stacked frames; None: of one."""

    def looks_at_market(self) -> bool:
        """Whether it answers only what its environment shows, and so cannot answer observations alone."""
        return False

    def schedules(self) -> tuple[str, ...]:
        """Its parameters that change over the whole of a training: a longer one differs from its first step on."""
        chosen = [(name, getattr(self.config, name)) for name in type(self.config).model_fields]
        return tuple(name for name, value in chosen if name.endswith("_schedule") and value != "constant")

    @abc.abstractmethod
    def build(self, request: AgentRequest) -> Learner:
        """The learner itself."""

    def warmup_bars(self) -> int:
        """Bars before a window's start that it looks at."""
        return 0


class Policy(RLComponent):
    """A rule from observations to actions that learns nothing."""

    rl_kind = "policy"
    #: Whether it reads the market and the accounts of its environment rather than observations.
    looks_at_market: ClassVar[bool] = False

    @abc.abstractmethod
    def build(self, request: PolicyRequest) -> PolicyRunner:
        """The policy itself."""

    def warmup_bars(self) -> int:
        """Bars before a window's start that it looks at."""
        return 0


class SmallComponent(RLComponent):
    """A stateless, batched piece of an environment; the environment owns, resets and saves its state arrays."""

    #: Columns of the panel that it cannot do without, such as "high" or "volume".
    needs: ClassVar[tuple[str, ...]] = ()
    #: Whether it knows the future, and so may serve training alone.
    training_only: ClassVar[bool] = False
    #: Whether it reads `view.average_cost`, which is kept only where some part does.
    tracks_cost: ClassVar[bool] = False
    #: Names of further state arrays, one number per environment and asset, (n, A) float64, 0 as an episode begins.
    asset_state: ClassVar[tuple[str, ...]] = ()

    def init(self, n: int, xp: ArrayFunctions) -> NamedArrays:
        """State arrays for `n` environments, each of leading dimension `n`, as an episode begins."""
        return {}

    def prepare(self, panel: Panel) -> NamedArrays:
        """Arrays that all environments share, by bar or by asset; in `step` they stand in `state` beside its arrays."""
        return {}

    def prepared_from(self) -> int | None:
        """Bars before a bar that its row of `prepare` is made from, when one bar after the other comes; None: all."""
        return None

    def warmup_bars(self) -> int:
        """Bars before an episode's first decision that it looks at."""
        return 0

    @abc.abstractmethod
    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes this step's result for all environments into `out`."""


class Reward(RLComponent):
    """What is rewarded: one term or several."""

    rl_kind = "reward"

    @abc.abstractmethod
    def terms(self) -> tuple[NamedTerm, ...]:
        """Its terms with their names and weights, in the order in which they are added up."""


class RewardTerm(Reward, SmallComponent):
    """A reward, or a part of one: a number for the step that the view shows, (n,) float64."""

    #: Whether it is settled after the ordinary terms, whose sum it finds in `view.reward`.
    settles: ClassVar[bool] = False

    def terms(self) -> tuple[NamedTerm, ...]:
        """Itself, under its alias."""
        from alphaswarm_rl.core.contracts import NamedTerm

        return (NamedTerm(self.rl_alias, 1.0, self),)


class Observation(RLComponent):
    """What the agent sees: one builder or several side by side."""

    rl_kind = "observation"

    @abc.abstractmethod
    def builders(self) -> tuple[ObservationBuilder, ...]:
        """Its builders, from left to right."""


class ObservationBuilder(Observation, SmallComponent):
    """A part of what the agent sees: (n, len(names)) float32."""

    def builders(self) -> tuple[ObservationBuilder, ...]:
        """Itself."""
        return (self,)

    @abc.abstractmethod
    def names(self, panel: Panel) -> tuple[str, ...]:
        """One name per value, known before the first step."""


class ActionSpec(SmallComponent):
    """How the agent's output becomes something to do: reads `view.action`, writes what `trade` says."""

    rl_kind = "action"
    #: Whether its orders have a stop: `stopped` says what that sells.
    stops_orders: ClassVar[bool] = False

    @abc.abstractmethod
    def space(self, panel: Panel) -> AnySpace:
        """The action space of one environment."""

    @abc.abstractmethod
    def trade(self, panel: Panel) -> Trade:
        """Which way of trading `out` is meant for."""

    def exits(self, view: View, state: NamedArrays) -> BackendArray:
        """For brackets: prices (n,) at which positions are closed inside the bar; NaN where they stay.

        It is asked after the fill, and before it too where orders fill at the bar's close: twice must be as once.
        """
        return view.xp.full(view.n, view.xp.nan)

    def stops(self, view: View, state: NamedArrays) -> BackendArray:
        """For brackets: which of the exits that `exits` will give next are stops, (n,) bool; the others take profit.

        It is asked before `exits`, and only where fills are recorded; it changes nothing. Here: all are.
        """
        return view.xp.ones(view.n, dtype=view.xp.bool_)

    def legs(self, view: View, state: NamedArrays) -> tuple[BackendArray, BackendArray] | None:
        """For brackets: the stop and the take-profit, (n,) each, of positions that this action opens at the last close.

        It changes nothing. None where the action has no such legs.
        """
        return None

    def stopped(self, view: View, state: NamedArrays) -> BackendArray:
        """For orders with a stop: which assets it sells whatever the agent wants, (n, A) bool.

        It is asked before the fill, and only where fills are recorded; it changes nothing.
        """
        return view.xp.zeros((view.n, view.market.assets), dtype=view.xp.bool_)

    def symbols(self, panel: Panel) -> tuple[str, ...]:
        """What each component of an action is about: an asset, or `CASH`."""
        trade = self.trade(panel)
        return (panel.assets[trade.asset],) if trade.way == "position" else panel.assets

    def mask(self, view: View, state: NamedArrays) -> BackendArray | None:
        """Which of its discrete actions are legal now, (n, actions); None where there are no masks."""
        return None

    def encode(self, view: View, weights: BackendArray) -> BackendArray | None:
        """The actions that come nearest to these target weights (n, A); None where it has no such actions."""
        return None


class Termination(SmallComponent):
    """A reason for an episode to end: writes booleans, (n,)."""

    rl_kind = "termination"
    #: Whether it terminates by failure, an improper stop; otherwise it truncates.
    improper: ClassVar[bool] = False


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


class UniverseModel(RLComponent):
    """A rule that chooses the assets of a run from what was known at one moment."""

    rl_kind = "universe_model"
    #: Whether it compares prices or money, which later splits and dividends change where prices are adjusted.
    reads_prices: ClassVar[bool] = False

    @abc.abstractmethod
    def choose(self, known: Panel) -> Sequence[str]:
        """The assets, in their order.

        Args:
            known: The bars that were over at that moment, of all assets that can be chosen; an asset that had no bar
                yet has no price in any.
        """


class Ensembler(RLComponent):
    """A way to make one policy of several trained ones."""

    rl_kind = "ensembler"

    @abc.abstractmethod
    def run(self, context: StudyContext) -> object:
        """Trains and combines; every run is asked of the context. Returns what came of it, as plain data."""


class Experiment(RLComponent):
    """A study that trains or evaluates many times."""

    rl_kind = "experiment"

    @abc.abstractmethod
    def run(self, context: StudyContext) -> object:
        """Runs the study; every run is asked of the context. Returns what it found, as plain data."""


class TrajectoryStore(RLComponent):
    """A place where every step is kept."""

    rl_kind = "trajectory_store"

    @abc.abstractmethod
    def build(self, request: StoreRequest) -> OpenStore:
        """The open store of one run."""


class BaseAdvantageEstimator(RLComponent):
    """A rule from rewards and values to advantages."""

    rl_kind = "advantage_estimator"
    #: Whether it needs the values of a critic.
    uses_values: ClassVar[bool]

    @abc.abstractmethod
    def compute(self, rollout: RolloutRewards) -> Advantages:
        """The advantages of a rollout, in arrays of the library and on the device of its rewards."""


class TimeSeriesEncoder(RLComponent):
    """A network that encodes windows of a time series for a policy.

    It knows nothing of reinforcement learning: it can be trained for anything that has windows.
    """

    rl_kind = "policy_backbone"

    def check_length(self, length: int) -> None:
        """Raises where it cannot encode windows of so many steps. Here: it can encode any."""

    @abc.abstractmethod
    def build(self, request: EncoderRequest) -> Any:
        """The network: a torch module from (B, length, features), the oldest step first, to (B, features_dim).

        It says its output's width as `features_dim`, and may have a loss of its own, `auxiliary_loss(x)`. A recurrent
        one also has `initial_state(n, device)` and `forward_sequence(x, state, starts)` from (T, B, features) to
        (T, B, features_dim) and the state afterwards; it forgets where `starts`, (T, B), is true.
        """


class BaseBacktestEngine(RLComponent):
    """A backtest engine: plays decisions on bars, one account at a time."""

    rl_kind = "backtest_engine"
    #: What it can play; a request for anything else is refused.
    capabilities: ClassVar[EngineCapabilities]

    @abc.abstractmethod
    def open(self, request: Any, account: View) -> Any:
        """An account that is stepped bar by bar; see `execution.engine.EngineSession`.

        Args:
            request: Bars, costs and rules: `execution.engine.BacktestRequest`.
            account: The account, of one row, at its first bar; steps change it in place.
        """

    @abc.abstractmethod
    def run(self, request: Any, strategy: Any = None, *, agent: Any = None) -> Any:
        """Plays a strategy from the first bar to the last; see `execution.engine.SteppedEngine.run`."""


class ReplayBuffer(RLComponent):
    """A memory of transitions for off-policy learning."""

    rl_kind = "replay_buffer"

    @abc.abstractmethod
    def build(self, request: ReplayBufferRequest) -> BuiltReplayBuffer:
        """The buffer itself, empty."""


class PortfolioStage(SmallComponent):
    """One stage of the pipeline from a policy's weights to target weights: changes the weights in `out`, (n, A).

    Its role says what it may do, and where it stands: what selects, what allocates, what times, what limits risk.

    - `select` keeps assets and is a function of the bars alone, `selects`;
    - `allocate`, of which there is one at most, spreads weights over the selected assets; where it makes them of the
      bars alone, `allocations` does, and `step` finds them in `state["allocation"]`;
    - `time` multiplies all weights by one number from 0 to 1;
    - `risk` makes weights smaller, never larger.

    What is removed is cash. From the first selecting stage on `state["selected"]` is (T, A) bool.
    """

    rl_kind = "portfolio_stage"
    #: What it does: a class that does not say it cannot be registered.
    role: ClassVar[StageRole]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "rl_alias" in cls.__dict__ and getattr(cls, "role", None) not in STAGE_ROLES:
            raise ComponentError(
                f"portfolio stage {cls.rl_alias!r} ({cls.__module__}.{cls.__qualname__})",
                f"its role is {getattr(cls, 'role', None)!r}",
                f"Set role to one of {', '.join(STAGE_ROLES)}.",
            )

    def chooses(self, panel: Panel) -> BackendArray:
        """The bars at which it selects or allocates anew, (T,) bool; on others what it chose last holds. Here: all."""
        import numpy as np

        return np.ones(panel.num_bars, np.bool_)

    def selects(self, panel: Panel, bars: BackendArray) -> BackendArray | None:
        """Which assets it selects at these bars, (len(bars), A) bool, from rows up to each; None: it selects none."""
        return None

    def allocations(self, panel: Panel, bars: BackendArray, selected: BackendArray) -> BackendArray | None:
        """The weights at these bars, (len(bars), A), from rows up to each; None: it makes them of the action's.

        Args:
            panel: The bars.
            bars: The bars at which it allocates.
            selected: What is selected at them, (len(bars), A).
        """
        return None

    def limits(self) -> RiskLimits | None:
        """What it limits; None where it limits nothing."""
        return None

    def after(self, earlier: Sequence[PortfolioStage]) -> PortfolioStage:
        """The stage as it works behind these. Here: as it is."""
        return self

    def measured(self, view: View, state: NamedArrays, weights: BackendArray) -> BackendArray:
        """What its limits are compared with, (n, limits), in the order of `RiskLimits.set_limits`; changes nothing.

        It is asked before `step`, and only where trades are recorded. Where a limit does not apply it is 0.
        """
        return view.xp.zeros((view.n, 0), dtype=view.xp.float64)
