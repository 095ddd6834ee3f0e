"""From a spec to built things: market data, environments with their preprocessing, and the learner."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.contracts import (
    AgentRequest,
    AnyVectorEnv,
    DataRequest,
    EnvRequest,
    Learner,
    Phase,
    State,
    TableReader,
)
from alphaswarm_rl.core.errors import CheckpointError, SpecError
from alphaswarm_rl.core.hashing import plain_fields
from alphaswarm_rl.core.judgement import Judgement
from alphaswarm_rl.core.kinds import Agent, EnvComponent
from alphaswarm_rl.core.refs import ComponentRef
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.slots import PARTS, WINDOW, build_parts
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.replay import TransitionPipeline
from alphaswarm_rl.envs.observation_transform import ObservationSettings
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.execution.backtest_env import backtest_env
from alphaswarm_rl.execution.engine_choice import EngineChoice
from alphaswarm_rl.inference.market_data import MarketData
from alphaswarm_rl.inference.policy_plan import PolicyPlan, make_plan, refuse_hindsight
from alphaswarm_rl.inference.universe import Universe
from alphaswarm_rl.inference.windows import data_digest, earlier_windows, training_windows
from alphaswarm_rl.ledger import RunRow
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec, refuse_unused_parts
from alphaswarm_rl.spec.sections import TrainingSpec

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.inference.frozen_policies import FoundPolicy, FrozenPolicies

#: Vector steps of random actions that `obs.normalize: fixed` takes its statistics from.
FIT_STEPS = 1000


class Builder:
    """Builds what one spec describes, for one seed.

    Args:
        spec: The validated spec.
        seed: The run's seed, from which every consumer's stream is derived by name.
        device: Device of the learner's tensors.
        root: Folder that paths of data are relative to.
        frames: Data frames that the caller handed in, by name.
        lake: Gives the reader of the lake's tables, for data pipelines that read there.
        frozen: Finds the trained policies that the spec names; None: nobody can, and acting with one is an error.
        engine: What plays the accounts in place of the environment's own decision step; None: nothing does.
    """

    def __init__(
        self,
        spec: RLExperimentSpec,
        *,
        seed: int,
        device: str,
        root: Path = Path(),
        frames: Mapping[str, pd.DataFrame] | None = None,
        lake: Callable[[], TableReader] | None = None,
        frozen: FrozenPolicies | None = None,
        engine: EngineChoice | None = None,
    ) -> None:
        assert spec.env is not None
        assert spec.agent is not None
        refuse_unused_parts(spec)
        self.spec = spec
        self.seed = seed
        self.device = device
        self.env: EnvComponent = spec.env.build() if engine is None else engine.env(spec.env)
        self._engine = None if engine is None else engine.build()
        self.agent: Agent = spec.agent.build()
        self.parts = build_parts({slot.name: getattr(spec, slot.name) or None for slot in PARTS})
        self.data = None
        if spec.data_pipeline is not None:
            self.data = self._market_data(spec.data_pipeline, root, frames or {}, lake)
        self._load_policy = frozen
        self._frozen: tuple[FoundPolicy, ...] = () if frozen is None else frozen.named_in(spec)
        for found in self._frozen:
            # Data are scaled by what the trained policy's scalers learnt, where they are of the same pipeline.
            if self.data is not None and found.spec.data_pipeline == spec.data_pipeline:
                self.restore_data(found.loaded.states)

    @property
    def warmup_bars(self) -> int:
        """Bars before a decision that environment and agent look at."""
        return max(self.env.warmup_bars(self.parts), self.agent.warmup_bars())

    def _market_data(
        self,
        pipeline: ComponentRef,
        root: Path,
        frames: Mapping[str, pd.DataFrame],
        lake: Callable[[], TableReader] | None,
    ) -> MarketData:
        source = pipeline.build()
        if isinstance(source, TransitionPipeline):
            raise SpecError(
                f"data_pipeline {source.rl_alias!r}",
                "it gives recorded transitions to learn from, not bars to trade",
                "Name a pipeline of bars, such as iceberg or parquet.",
            )
        request = DataRequest(
            warmup_bars=self.warmup_bars,
            seed=derived_seed(self.seed, "data"),
            root=root,
            frames=frames,
            symbols=tuple(self.spec.universe.symbols),
            lake=lake,
        )
        return MarketData(source, request, self.spec.training.window, self._universe())

    def _universe(self) -> Universe | None:
        model, start = self.spec.universe.model, self.spec.training.start
        # Without a start the spec was refused.
        return None if model is None or start is None else Universe(model.build(), start)

    def trains_on_device(self, *, recorded: bool) -> bool:
        """Whether the training environment is in torch where the agent is: nobody on this side looks at its steps.

        Args:
            recorded: Whether training steps are recorded.
        """
        return (
            self.device.startswith("cuda")
            and self.env.on_device
            and self.agent.on_device
            and getattr(self.agent.config, "encoder", None) is None
            and self._observation_settings.changes_nothing
            and not recorded
        )

    def build_env(
        self,
        stream: str,
        *,
        num_envs: int,
        phase: Phase,
        window: Window,
        render: bool = False,
        on_device: bool = False,
    ) -> AnyVectorEnv:
        """An environment whose randomness is the stream of that name; preprocessed as the spec says.

        Args:
            stream: The stream.
            num_envs: How many are stepped together.
            phase: What for.
            window: The dates it may show.
            render: Whether it must give pictures.
            on_device: Whether it is in torch where the agent is.
        """
        self.refuse_window(window)
        if phase == "evaluate":
            refuse_hindsight(self._hindsight(window))
        env = self._raw_env(stream, num_envs=num_envs, phase=phase, window=window, render=render, on_device=on_device)
        settings = self._observation_settings
        return env if settings.changes_nothing else PreprocessedEnv(env, settings, training=phase == "train")

    @property
    def _observation_settings(self) -> ObservationSettings:
        obs = self.spec.obs
        return ObservationSettings(normalize=obs.normalize, clip_range=obs.clip_range, stack_frames=obs.stack_frames)

    @property
    def has_dates(self) -> bool:
        """Whether the environment plays dates; one that has none makes its own episodes."""
        return WINDOW in self.env.slots()

    def refuse_window(self, window: Window) -> None:
        """Refuses dates for an environment that has none."""
        if window and not self.has_dates:
            raise SpecError(
                f"window {window}",
                f"the env {self.env.rl_alias!r} has no dates",
                "Replay it with another seed instead.",
            )

    def load_data(self, windows: tuple[Window, ...]) -> None:
        """Loads what these windows need at once, where the spec has market data."""
        if self.data is not None:
            self.data.load(windows)

    def restore_data(self, states: Mapping[str, State]) -> None:
        """Takes fitted scalers from a checkpoint; they are loaded, never fitted again."""
        if self.data is None:
            return
        if "data" not in states:
            raise CheckpointError(
                "the checkpoint", "it holds no state of the data pipeline", "Use a checkpoint of a run of this spec."
            )
        self.data.restore(states["data"])

    def data_fingerprint(self, window: Window) -> str | None:
        """SHA-256 of the bars of that window with their warm-up; None where the environment makes its own."""
        return self.env.data_fingerprint(window) if self.data is None else self.data.raw(window).fingerprint

    def dates_played(self, env: AnyVectorEnv, window: Window) -> tuple[str | None, str | None]:
        """The first and the last bar that an evaluation in that environment trades; the window's dates without bars."""
        if self.data is None:
            return window.start, window.end
        stamps = self.data.raw(window).timestamps
        return shown(stamps[self._first_bar(env, window)]), shown(stamps[-1])

    def _first_bar(self, env: AnyVectorEnv, window: Window) -> int:
        assert self.data is not None
        plan = getattr(env.unwrapped, "plan", None)
        return plan.first_bar if isinstance(plan, TradingPlan) else self.data.raw(window).warmup

    def judgement(self, env: AnyVectorEnv, window: Window, *, episodes: int, deterministic: bool) -> Judgement:
        """What scores of an evaluation in that environment are judged on.

        Args:
            env: The environment that is played.
            window: Its dates.
            episodes: How many episodes are played.
            deterministic: Whether the policy acts without drawing.
        """
        if self.data is None:
            data = self.env.data_fingerprint(window)
        else:
            data = self.data.traded_fingerprint(window, self._first_bar(env, window))
        costs = self.trading_costs(env, has_data=data is not None)
        start, end = self.dates_played(env, window)
        return Judgement(data, start, end, episodes, deterministic, costs)

    def trading_costs(self, env: AnyVectorEnv, *, has_data: bool = True) -> JsonObject:
        """What trading in that environment costs, how orders fill, and what it begins with.

        Args:
            env: The environment.
            has_data: Whether one that is no trading environment of ours has bars of its own.
        """
        plan = getattr(env.unwrapped, "plan", None)
        if isinstance(plan, TradingPlan):
            played = getattr(env.unwrapped, "engine", None)
            return {
                **asdict(plan.costs),
                "fill": plan.fill.name,
                "initial_cash": plan.initial_cash,
                "margin": asdict(plan.margin),
                # Weights at the fill are what judgements from before were made with.
                **({} if plan.sizing is None else {"sizing": asdict(plan.sizing)}),
                **({} if played is None or played.capabilities.exact else {"engine": played.rl_alias}),
            }
        # An environment with bars of its own has its costs among its parameters.
        return {self.env.rl_alias: plain_fields(self.env.config)} if has_data else {}

    def has_other_bars(self, trained: RunRow, window: Window) -> bool:
        """Whether the bars of a training window are not those that the run saw; not asked of bars that seeds make.

        Args:
            trained: The run that was trained on them.
            window: Its training window.
        """
        if self.data is None:
            return self.env.data_fingerprint(window) != trained.data_fingerprint
        if self.data.drawn_by_the_run and self.seed != trained.seed:
            return False
        return self.data.fingerprint(window) != trained.data_fingerprint

    def in_sample(self, window: Window, training: TrainingSpec | None = None) -> bool | None:
        """Whether an evaluation on those dates sees what training or validation saw; None where nobody can know.

        Args:
            window: The dates of the evaluation.
            training: How the policy was trained; None: as the spec says.
        """
        trainings = self._trainings(training)
        own = self._overlaps(window, [seen for each in trainings for seen in training_windows(each)])
        return self._or_earlier(own, window, trainings)

    def in_training(self, window: Window, training: TrainingSpec | None = None) -> bool | None:
        """Whether an evaluation on those dates sees what the policy was trained on; None where nobody can know."""
        trainings = self._trainings(training)
        return self._or_earlier(self._overlaps(window, [each.window for each in trainings]), window, trainings)

    def _or_earlier(self, own: bool | None, window: Window, trainings: Sequence[TrainingSpec]) -> bool | None:
        """The same with what the weights saw that these trainings began with.

        Dates of other data are no proof: where they overlap, nobody can know what of it is the same.
        """
        seen = [each for training in trainings for each in earlier_windows(training)]
        ours = data_digest(self.spec)
        same = self._overlaps(window, [Window(each.start, each.end) for each in seen if each.data == ours])
        if own or same:
            return True
        others = any(Window(each.start, each.end).overlaps(window) for each in seen if each.data != ours)
        return None if others or own is None or same is None else False

    def trained_windows(self) -> list[Window]:
        """The dates of this data that the policy is trained on, earlier trainings too; none where it learns nothing."""
        trainings, ours = self._trainings(None), data_digest(self.spec)
        earlier = [seen for each in trainings for seen in earlier_windows(each) if seen.data == ours]
        return [*(each.window for each in trainings), *(Window(seen.start, seen.end) for seen in earlier)]

    def judged_window(self, window: Window, seen: Iterable[Window]) -> Window | None:
        """The dates of a validation window that policies are judged on: what none of them was trained on.

        Where training lies in its middle, the piece with the most bars is left; without bars, the latest. None where
        nothing is left.

        Args:
            window: The validation window.
            seen: What the policies were trained on.
        """
        pieces = window.without(seen)
        if self.data is None:
            return next(reversed(pieces), None)
        bars = [(self.data.num_bars(piece), piece) for piece in pieces]
        most = max((count for count, _ in bars), default=0)
        return next((piece for count, piece in bars if count == most > 0), None)

    def _trainings(self, training: TrainingSpec | None) -> list[TrainingSpec]:
        """How the policy was trained; none where it never was."""
        if self.agent.trains:
            return [training or self.spec.training]
        return [found.spec.training for found in self._frozen]

    def _overlaps(self, window: Window, seen: Sequence[Window]) -> bool | None:
        if not seen:
            return False
        return self.env.in_sample(window, tuple(seen)) if self.data is None else self.data.overlaps(window, seen)

    def notices(self, *, judges: bool, windows: Mapping[str, Window] | None = None) -> list[str]:
        """What the user should know about how things were resolved.

        Args:
            judges: Whether there will be an evaluation.
            windows: The windows that will be played, by name.
        """
        left_out = self._left_out_of_evaluation() if judges else ()
        of_data = (
            []
            if self.data is None
            else [note for name, window in (windows or {}).items() for note in self.data.notices(name, window)]
        )
        choice = None if self.data is None else self.data.choice
        of_prices = () if choice is None else choice.price_notices()
        return [*self.env.notices(), *left_out, *of_prices, *of_data, *self._frozen_notices()]

    def doubts(self, windows: Iterable[Window]) -> list[str]:
        """What looks wrong in the bars that these windows show, counted; nothing where there are no bars."""
        return [] if self.data is None else self.data.doubts(windows)

    def _frozen_notices(self) -> list[str]:
        others = [
            f"frozen policy: {found.called} was trained on another data_pipeline; data are scaled as this spec says"
            for found in self._frozen
            if found.spec.data_pipeline != self.spec.data_pipeline
        ]
        return [*(found.notice for found in self._frozen), *others]

    def fit_preprocessing(self, env: AnyVectorEnv) -> None:
        """Fits what must be fitted before training, on an environment of its own."""
        if isinstance(env, PreprocessedEnv) and self.spec.obs.normalize == "fixed":
            window = self.spec.training.window
            with closing(self._raw_env("fit", num_envs=env.num_envs, phase="train", window=window)) as warm_up:
                env.fit(warm_up, seed=self.seed, steps=FIT_STEPS)

    def _raw_env(
        self, stream: str, *, num_envs: int, phase: Phase, window: Window, render: bool = False, on_device: bool = False
    ) -> AnyVectorEnv:
        parts = self.parts if self.data is None else {**self.parts, "panel": self.data.seen(window)}
        request = EnvRequest(
            num_envs=num_envs,
            seed=derived_seed(self.seed, stream),
            phase=phase,
            window=window,
            parts=parts,
            render=render,
            stop_properly=self.spec.training.stop_properly_penalty_coef if phase == "train" else None,
            backend="torch" if on_device else "numpy",
            device=self.device if on_device else "cpu",
        )
        if self._engine is None:
            return self.env.build(request)
        assert isinstance(self.env, TradingComponent)
        return backtest_env(request, self.env.plan(request), self._engine)

    def build_learner(self, env: AnyVectorEnv, *, training: bool) -> Learner:
        """The agent, built for that environment's spaces; to be trained, or only to be asked for actions."""
        seed = derived_seed(self.seed, "agent")
        named = self.spec.training.advantage
        advantage = None if named is None else named.build()
        request = AgentRequest.for_env(env, seed, device=self.device, training=training)
        return self.agent.build(replace(request, advantage=advantage, load_policy=self._load_policy))

    def policy_plan(self, env: AnyVectorEnv, window: Window, *, remembers: bool) -> PolicyPlan:
        """What answering with the agent needs, beside what it learns.

        Args:
            env: The environment that it acts in.
            window: The dates of that.
            remembers: Whether the built agent remembers.
        """
        return make_plan(
            self.spec,
            env,
            self.agent,
            warmup_bars=self.warmup_bars,
            hindsight=self._hindsight(window),
            remembers=remembers,
            history_start=None if self.data is None else shown(self.data.load((window,)).timestamps[0]),
        )

    def _hindsight(self, window: Window) -> tuple[str, ...]:
        """What the agent is shown of the future: columns of data, and parts of the observation."""
        columns = frozenset() if self.data is None else self.data.raw(window).training_only_features
        observation = self._part("observation")
        builders = () if observation is None else observation.builders()
        return (*sorted(columns), *(builder.rl_alias for builder in builders if builder.training_only))

    def _left_out_of_evaluation(self) -> tuple[str, ...]:
        reward = self._part("reward")
        if reward is None:
            return ()
        ordinary = [named for named in reward.terms() if not named.term.settles]
        left_out = [named.name for named in ordinary if named.term.training_only]
        if not left_out:
            return ()
        instead = "; the portfolio return is reported instead" if len(left_out) == len(ordinary) else ""
        return (f"reward terms left out of evaluation: {', '.join(left_out)}{instead}",)

    def _part(self, slot: str) -> Any:
        """The component in a slot: the spec's, or the environment's own where it says it."""
        return self.env.part(slot, self.parts) if isinstance(self.env, TradingComponent) else self.parts.get(slot)


def builder_for(
    spec: RLExperimentSpec,
    settings: Settings,
    *,
    seed: int,
    device: str,
    frames: Mapping[str, pd.DataFrame] | None,
    engine: EngineChoice | None = None,
) -> Builder:
    """The builder of a spec whose data, tables and trained policies are where the settings say; see `Builder`."""
    from alphaswarm_rl.inference.frozen_policies import FrozenPolicies

    root, lake, frozen = settings.data_path, lake_of(settings), FrozenPolicies(settings, frames)
    return Builder(spec, seed=seed, device=device, root=root, frames=frames, lake=lake, frozen=frozen, engine=engine)


def lake_of(settings: Settings) -> Callable[[], TableReader]:
    """How data pipelines come to the lake of these settings; nothing of it is loaded before one asks."""

    def reader() -> TableReader:
        from alphaswarm_rl.lake.snapshots import LakeReader

        return LakeReader(settings)

    return reader


def preprocessing_state(env: AnyVectorEnv) -> State | None:
    """The fitted statistics of an environment's preprocessing, if it has any."""
    return env.statistics() if isinstance(env, PreprocessedEnv) else None


def load_preprocessing(env: AnyVectorEnv, state: State | None) -> None:
    """Hands fitted statistics to an environment; they are loaded, never fitted again."""
    if isinstance(env, PreprocessedEnv) and state is not None:
        env.load_statistics(state)


def is_stateful(env: AnyVectorEnv) -> bool:
    """Whether an environment can be put back into any state."""
    if isinstance(env, PreprocessedEnv):
        return bool(env.inner_stateful)
    return hasattr(env, "get_state") and hasattr(env, "set_state")
