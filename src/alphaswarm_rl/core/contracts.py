"""What the runtime hands to components, and what it gets back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, TypedDict, Unpack

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.types import AnyObservation, AnySpace, Array, BackendArray, JsonMapping, JsonObject
from alphaswarm_rl.core.window import Window as Window

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.kinds import BaseAdvantageEstimator

AnyVectorEnv: TypeAlias = "VectorEnv[Any, Any, Any]"
Phase = Literal["train", "evaluate"]


@dataclass(frozen=True)
class EnvRequest:
    """How an environment is wanted.

    Attributes:
        num_envs: How many are stepped together.
        seed: Seed of all their randomness.
        phase: In `train`, episode k of environment i has the key (i, k). In `evaluate` it has the key
            (i + k * num_envs, 0), so that the set of the first E episodes does not depend on num_envs.
        window: The dates it may show.
        parts: What a composed environment is made of, by slot: the `panel` (cut to the window and scaled), and built
            components `reward`, `observation`, `action` and a tuple of `terminations`, where they replace its own.
        render: Whether `render()` must give pictures.
        stop_properly: The share of an improperly stopped episode's return that is kept; None: all of it.
        backend: Whether arrays are NumPy's or torch's.
        device: Device of torch's.
    """

    num_envs: int
    seed: int
    phase: Phase = "train"
    window: Window = field(default_factory=Window)
    parts: JsonMapping = field(default_factory=dict)
    render: bool = False
    stop_properly: float | None = None
    backend: Literal["numpy", "torch"] = "numpy"
    device: str = "cpu"


def episode_key(phase: Phase, num_envs: int, env_idx: int, episode: int) -> tuple[int, int]:
    """The key of one environment's episode, which with the seed determines all its randomness."""
    return (env_idx, episode) if phase == "train" else (env_idx + episode * num_envs, 0)


#: What an account's money is called where assets have their symbols.
CASH = "CASH"


@dataclass(frozen=True)
class Trade:
    """How an action's numbers are traded.

    Attributes:
        way: `shares`: units to buy, negative to sell, (n, A). `weights`: parts of the equity, (n, A). `position`: short
            (-1), flat (0) or long (1) in one asset, (n,), NaN to leave it as it is; multiples where it is by units.
        whole: shares: whether only whole units trade.
        asset: position: index of the asset.
        size: position: part of the equity, or units.
        by_units: position: whether `size` is in units.
        bracket: position: whether the action closes positions inside the bar, by its `exits`.
    """

    way: Literal["shares", "weights", "position"]
    whole: bool = True
    asset: int = 0
    size: float = 1.0
    by_units: bool = False
    bracket: bool = False


@dataclass(frozen=True)
class EngineCapabilities:
    """What a backtest engine can play.

    Attributes:
        supports_rl_injection: Whether a strategy finds the agent in its context, as `rl_agent`.
        fills: Names of the fill policies.
        trades: Ways in which targets may be traded: those of `Trade.way`.
        sizings: When units are made of weights: `at_fill`, `at_decision`.
        margin: Whether an account may owe.
        corporate_actions: Whether dividends, splits and assets that end are played.
        impact: Whether costs may depend on volume.
        restores: Whether a session goes on from whatever its account is put back to.
        exact: Whether it is the decision step of the environments itself, equal to the last bit.
    """

    supports_rl_injection: bool
    fills: frozenset[str]
    trades: frozenset[str]
    sizings: frozenset[str]
    margin: bool = False
    corporate_actions: bool = False
    impact: bool = False
    restores: bool = False
    exact: bool = False


@dataclass(frozen=True)
class NamedTerm:
    """One term of a reward: what it is called in `info["reward_terms"]`, and what it is multiplied by."""

    name: str
    weight: float
    term: Any


class TableQuery(TypedDict, total=False):
    """What is read of a table.

    Attributes:
        snapshot_id: The snapshot; None: the newest one, or the one of `as_of`.
        as_of: The snapshot that was current then, ISO; without a zone it is UTC.
        columns: Which columns; None: all.
        where: The values that a column may have.
    """

    snapshot_id: int | None
    as_of: str | None
    columns: Sequence[str] | None
    where: Mapping[str, Sequence[object]] | None


class TableReader(Protocol):
    """Whoever reads tables of the lake for data pipelines."""

    def read(self, identifier: str, **query: Unpack[TableQuery]) -> tuple[Any, int]:
        """The rows of a table as they are in one snapshot, in no particular order.

        Args:
            identifier: The table as `namespace.name`; or `trajectories`, whatever that table is called.
            query: Which snapshot, columns and rows; without any: the newest one whole.

        Returns:
            An Arrow table, and the id of the snapshot.
        """


@dataclass(frozen=True)
class DataRequest:
    """Which market data is wanted.

    Attributes:
        window: The dates that may be traded.
        warmup_bars: How many bars before `window.start` come along to be looked at; fewer where there are fewer.
        seed: Seed of data that is made rather than read.
        root: Folder that paths in a spec are relative to.
        frames: Data frames that the caller handed in, by name.
        symbols: The assets that are wanted, in this order; empty means all that the source has.
        lake: Gives the reader of the lake's tables; it is asked by pipelines that read there alone.
    """

    window: Window = field(default_factory=Window)
    warmup_bars: int = 0
    seed: int = 0
    root: Path = field(default_factory=Path)
    frames: JsonMapping = field(default_factory=dict)
    symbols: tuple[str, ...] = ()
    lake: Callable[[], TableReader] | None = None


@dataclass(frozen=True)
class State:
    """Something's whole state: arrays, and plain JSON data beside them. Never a pickle."""

    arrays: dict[str, Array] = field(default_factory=dict)
    data: JsonObject = field(default_factory=dict)

    def prefixed(self, prefix: str) -> dict[str, Array]:
        """The arrays under `prefix/`, for saving several states in one file."""
        return {f"{prefix}/{name}": array for name, array in self.arrays.items()}

    def under(self, prefix: str) -> dict[str, Array]:
        """The arrays that were saved under `prefix/`."""
        begin = f"{prefix}/"
        return {name.removeprefix(begin): array for name, array in self.arrays.items() if name.startswith(begin)}

    def part(self, name: str) -> State:
        """One of several states that were saved as one."""
        return State(self.under(name), dict(self.data[name]))


class Stateful(Protocol):
    """Whoever can say its whole state and be put back into it."""

    def get_state(self) -> State:
        """The whole state."""

    def set_state(self, state: State) -> None:
        """Continues from there, bit for bit."""


class HaltToken(Protocol):
    """The kill switch as components see it: asked on every vector step on the CPU, on every rollout on the GPU."""

    def should_halt(self) -> bool:
        """Whether the loop must stop now. Cheap: one flag, no look at any store."""


class TrainingHooks(HaltToken, Protocol):
    """What a learner tells the runtime while it trains."""

    def boundary(self, metrics: Mapping[str, float]) -> None:
        """Called whenever the learner's state is whole (after each rollout and its update): it may be saved now."""

    def decided(self, values: BackendArray, log_probs: BackendArray) -> None:
        """Called after each vector step by learners that know the value of what they saw and how likely they acted so.

        Both are arrays or tensors with one number per environment, and stay as they are.
        """


@dataclass(frozen=True)
class AgentRequest:
    """What an agent is built for: spaces and numbers, and the environment where it is to act in one.

    An agent that only answers observations needs no environment; `for_env` asks one for everything else.

    Attributes:
        observation_space: Space of one observation, as the agent sees it.
        action_space: Space of one action.
        num_envs: How many environments it acts in at once.
        seed: Seed of all it draws.
        device: Device of its tensors.
        training: Whether it will be trained, or only asked for actions.
        advantage: The built advantage estimator that the spec names, for agents with `takes_advantage`; None: the
            agent's own.
        load_policy: Gives the policy of a trained run or model, for policies that name one.
        stacked_frames: How many frames stand one after another in a flat observation; None: one.
        masks: Whether the environment says which actions are legal.
        env: The environment; None: the agent only answers observations, and must not be trained.
    """

    observation_space: AnySpace
    action_space: AnySpace
    num_envs: int
    seed: int
    device: str = "cpu"
    training: bool = True
    advantage: BaseAdvantageEstimator | None = None
    load_policy: Callable[[FrozenRef], TrainedPolicy] | None = None
    stacked_frames: int | None = None
    masks: bool = False
    env: AnyVectorEnv | None = None

    @classmethod
    def for_env(cls, env: AnyVectorEnv, seed: int, *, device: str = "cpu", training: bool = True) -> AgentRequest:
        """A request for an agent that acts in that environment."""
        return cls(
            observation_space=env.single_observation_space,
            action_space=env.single_action_space,
            num_envs=env.num_envs,
            seed=seed,
            device=device,
            training=training,
            stacked_frames=getattr(env, "stacked_frames", None),
            masks=hasattr(env, "action_masks"),
            env=env,
        )


class Learner(Stateful, Protocol):
    """A built agent."""

    #: "exact" when set_state continues bit for bit, given an environment that can too.
    resume: Literal["exact", "approximate"]
    #: Transitions in one rollout; None when it updates step by step.
    rollout_transitions: int | None
    #: Transitions trained so far.
    timesteps: int
    #: What it saw last and goes on from; None where training begins with a reset.
    observation: Any

    @property
    def updates(self) -> int | None:
        """Updates that made its policy; None where it does not count them."""

    def begin_with(self, state: State) -> None:
        """Takes over what another training learnt, weights and normaliser, before its own begins; nothing else.

        Optimiser, counters, schedules, replay buffer and random streams are its own. A state that does not fit is a
        CheckpointError that says what does not.
        """

    def train(self, env: AnyVectorEnv, total_timesteps: int, hooks: TrainingHooks) -> None:
        """Trains until `timesteps` reaches `total_timesteps` or a halt, asking `should_halt` on every vector step."""

    def seed_predictions(self, seed: int, env: AnyVectorEnv | None = None) -> None:
        """Starts the random stream of predictions anew, for predictions in that environment; training has another.

        Without an environment it answers observations from anywhere, as many at a time as it was built for.
        """

    def predict(
        self,
        observation: AnyObservation,
        memory: object,
        episode_start: Array,
        *,
        deterministic: bool,
        masks: Array | None = None,
    ) -> tuple[Array, Any]:
        """Actions for a batch of observations, and the memory for the next call (None for most)."""


@dataclass(frozen=True)
class RolloutRewards:
    """What advantages are made of: T steps of N environments, arrays of shape (T, N), NumPy's or torch's.

    Environments reset in the step that ends an episode, so that the step after an end is the next episode's first.

    Attributes:
        rewards: Rewards.
        terminated: Whether the episode terminated in that step: nothing is worth anything afterwards.
        truncated: Whether it was only cut off there.
        values: The value of what was seen at each step; None where there is no critic.
        next_values: The value of what followed each step: of `final_obs` where the episode was truncated there, of the
            next observation otherwise. Where it terminated anything may stand: it counts as 0.
        valid: Which steps count; None: all.
        group_ids: Whole numbers that say which cohort an environment (N,) or an episode (T, N) belongs to; None: all
            are one cohort. Of (T, N) the one at the episode's last step counts.
    """

    rewards: Any
    terminated: Any
    truncated: Any
    values: Any = None
    next_values: Any = None
    valid: Any = None
    group_ids: Any = None

    def __post_init__(self) -> None:
        # One wrong shape would be broadcast silently.
        shape = tuple(self.rewards.shape)
        for name in ("rewards", "terminated", "truncated", "values", "next_values", "valid", "group_ids"):
            array = getattr(self, name)
            fits = (shape, shape[1:]) if name == "group_ids" else (shape,)
            if array is not None and (len(shape) != 2 or tuple(array.shape) not in fits):
                raise ComponentError(
                    f"the {name} of a rollout",
                    f"their shape is {tuple(array.shape)}, that of the rewards is {shape}",
                    "Give every array as (steps, environments).",
                )


@dataclass(frozen=True)
class Advantages:
    """What an advantage estimator answers; arrays (T, N) of the rollout's own library and device.

    Attributes:
        advantages: How much better each step was than expected.
        returns: What a critic should have said; None where there is no critic.
        baselines: What was expected.
        std: What advantages were divided by before any normalisation over the whole rollout; None: by nothing.
        extras: Numbers to report, which may be arrays of no dimension.
    """

    advantages: Any
    returns: Any = None
    baselines: Any = None
    std: Any = None
    extras: JsonObject = field(default_factory=dict)


@dataclass(frozen=True)
class EncoderRequest:
    """What a time series encoder is built for: batches of windows (B, length, features), the oldest step first.

    Attributes:
        features: Numbers per step.
        length: Steps per window.
        features_dim: Width of the output that is wanted; None, or a width that the encoder itself names: its own.
        seed: Seed of its first weights.
        pretrained: Whether weights that it names are read; False where all its weights will be loaded afterwards.
    """

    features: int
    length: int
    features_dim: int | None = None
    seed: int = 0
    pretrained: bool = True


@dataclass(frozen=True)
class ReplayBufferField:
    """What a replay buffer keeps under one name of each transition: an array of that shape and type."""

    shape: tuple[int, ...] = ()
    dtype: Any = "float32"


@dataclass(frozen=True)
class ReplayBufferRequest:
    """What a replay buffer is built for.

    Attributes:
        fields: What is kept of each transition, by name.
        num_envs: How many environments are stepped together.
        seed: Seed of all it draws.
    """

    fields: Mapping[str, ReplayBufferField]
    num_envs: int
    seed: int


@dataclass(frozen=True)
class ReplayBufferSample:
    """Transitions drawn from a replay buffer.

    Attributes:
        fields: The transitions by field, one row each, to be kept as long as wanted.
        indices: Where they are stored, for `update_priorities`.
        weights: What each counts in a loss, float64: makes up for being drawn more often than others. At most 1.
    """

    fields: dict[str, Array]
    indices: Array
    weights: Array


class BuiltReplayBuffer(Stateful, Protocol):
    """A built replay buffer; `get_state` and `set_state` include its random generator."""

    #: Whether transitions are drawn by priority, and wait for `update_priorities`.
    prioritized: bool

    def __len__(self) -> int:
        """How many transitions it holds."""

    def append(self, batch: JsonMapping) -> None:
        """Takes T steps of all environments in, arrays of shape (T, N, ...); the oldest make room."""

    def extend(self, rows: JsonMapping) -> None:
        """Takes single transitions in, arrays of shape (K, ...), oldest first."""

    def sample(self, batch_size: int) -> ReplayBufferSample:
        """Draws transitions, with replacement."""

    def update_priorities(self, indices: Array, errors: Array) -> None:
        """Says how wrong the learner was about these transitions; only priorities have a use for it."""

    def break_off(self) -> None:
        """Says that the episodes in progress do not go on: their environments were reset."""

    def clear(self) -> None:
        """Forgets every transition."""


@dataclass(frozen=True)
class StoreRequest:
    """What a trajectory store is opened for.

    Attributes:
        run_id: The run whose steps it will keep.
        settings: Where and how; see `Settings`.
        account: Is told of every segment file that is where it belongs now; may be told twice.
        pinned: Gives the data references of stored specs: snapshots that they name are never expired.
        claim: The number of the claim with which the run is written for: 1, and one more with every resume.
        check: Is called with claims before every commit; raises where nothing may be written for one of their runs.
    """

    run_id: str
    settings: Any
    account: Callable[[Sequence[Any]], None]
    pinned: Callable[[], Sequence[Mapping[str, Any]]]
    claim: int = 1
    check: Callable[[Collection[Any]], None] = lambda claims: None


class OpenStore(Protocol):
    """An open trajectory store. Rows come as Arrow tables by kind; one thread uses it at a time."""

    def write(self, phase: str, rows: JsonMapping, timesteps: int) -> None:
        """Takes rows in; `timesteps` are the run's transitions at the last of them."""

    def close_segments(self) -> None:
        """Makes everything that was written so far last, and able to be told from what comes later."""

    def deliver(self) -> None:
        """Brings finished segments where they belong, as far as that is due."""

    def drop_after(self, timesteps: int, judged: Collection[tuple[str, int]]) -> None:
        """Forgets what came after a checkpoint, and judgements that are none of these (phase and transitions)."""

    def finish(self, *, compact: bool) -> None:
        """Brings everything where it belongs, in few files where that is asked for."""

    def report(self) -> JsonObject:
        """What the run's row says of it: rows by kind, what is not delivered, what went wrong."""

    def rows(self, kind: Any) -> Any:
        """The run's rows of that kind, as an Arrow table."""

    def close(self) -> None:
        """Gives files and connections back; what is not finished stays as it is."""


@dataclass(frozen=True)
class FrozenRef:
    """A trained policy by name: of a run or of a registered model.

    Attributes:
        run: Id of a training run, or a unique beginning of it.
        model: Id of a registered model.
        checkpoint: Which of a run's checkpoints: `last`, `best`, or a step.
        sha256: What the checkpoint's checksum must be; None: whatever the ledger or the registry says.
    """

    run: str | None = None
    model: int | None = None
    checkpoint: str | int = "last"
    sha256: str | None = None


class TrainedPolicy(Stateful, Protocol):
    """A trained policy that acts and learns nothing more; it prepares observations as in its training.

    Its state is what it remembers of the episodes in progress; the stream of its draws is no part of it.
    """

    @property
    def observation_space(self) -> AnySpace:
        """The space of one observation, before any preprocessing."""

    @property
    def action_space(self) -> AnySpace:
        """The space of one action."""

    def seed(self, seed: int, env: AnyVectorEnv | None) -> None:
        """Starts the stream of its draws anew, for that environment where there is one."""

    def act(
        self, observation: AnyObservation, episode_start: Array, *, deterministic: bool, masks: Array | None
    ) -> Array:
        """One action per observation, raw as it comes; nothing is remembered where an episode starts."""


@dataclass(frozen=True)
class PolicyRequest:
    """What a policy is built for.

    Attributes:
        observation_space: Space of one observation.
        action_space: Space of one action.
        num_envs: How many are asked at once.
        seed: Seed of all it draws.
        env: The environment, for rules that look at its market.
        load_policy: Gives the policy of a trained run or model, for policies that name one.
    """

    observation_space: AnySpace
    action_space: AnySpace
    num_envs: int
    seed: int
    env: AnyVectorEnv | None = None
    load_policy: Callable[[FrozenRef], TrainedPolicy] | None = None


class PolicyRunner(Stateful, Protocol):
    """A built policy."""

    def act(self, observation: AnyObservation, *, deterministic: bool) -> Array:
        """One action per environment of the batch."""


class EpisodicRunner(PolicyRunner, Protocol):
    """A built policy that remembers: it is told where episodes start, and which actions are legal."""

    #: "exact" when set_state continues bit for bit.
    resume: Literal["exact", "approximate"]

    def act_in_episodes(
        self, observation: AnyObservation, episode_start: Array, *, deterministic: bool, masks: Array | None = None
    ) -> Array:
        """One action per environment; nothing is remembered of environments where an episode starts."""
