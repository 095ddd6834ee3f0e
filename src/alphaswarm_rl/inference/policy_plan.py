"""The policy plan: what a checkpoint says so that its policy can answer without the environment it learnt in.

    observation   space, feature names, the builders that make it, how it is prepared (`obs` of the spec)
    action        space, the component that reads it, portfolio stages, how its numbers are traded
    market        assets, warm-up bars, when orders fill; null where the environment trades nothing
    scope         the models that may stand in for this one
    remembers     whether an answer depends on what the same client asked before
    needs_env     whether it answers only what its environment shows, as rules that look at the market do

Scalers, statistics and weights are not here: they are arrays of the same checkpoint.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, PlainSerializer, ValidationError

from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.errors import CheckpointError, EnvError, SpecError
from alphaswarm_rl.core.hashing import canonical_json, plain_fields, sha256_text
from alphaswarm_rl.core.model import FrozenModel, explain
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.core.slots import DATA_PIPELINE, PARTS
from alphaswarm_rl.core.types import AnySpace, JsonMapping, JsonObject
from alphaswarm_rl.envs.observation_transform import ObservationSettings
from alphaswarm_rl.envs.preprocessing import raw_env
from alphaswarm_rl.inference.spaces import space_from_json, space_signature, space_to_json
from alphaswarm_rl.models.rows import Scope
from alphaswarm_rl.spec import RLExperimentSpec

if TYPE_CHECKING:
    from alphaswarm_rl.core.component import RLComponent
    from alphaswarm_rl.core.kinds import Agent
    from alphaswarm_rl.envs.trading_plan import TradingPlan
    from alphaswarm_rl.market.costs import CostModel
    from alphaswarm_rl.market.decider import Decider
    from alphaswarm_rl.market.margin import Margin
    from alphaswarm_rl.market.market import Market
    from alphaswarm_rl.market.observer import Observer
    from alphaswarm_rl.market.sizing_rules import SizingRules

    PlannedSpace = AnySpace
else:
    from gymnasium import Space

    PlannedSpace = Annotated[
        Space,
        BeforeValidator(lambda value: value if isinstance(value, Space) else space_from_json(value)),
        PlainSerializer(space_to_json),
    ]

#: The parts of a spec that decide what a reward means.
_REWARD_PARTS = ("env", *(slot.name for slot in PARTS if slot.judges), DATA_PIPELINE)


class _Plan(FrozenModel):
    model_config = ConfigDict(arbitrary_types_allowed=True)


class Preprocessing(_Plan):
    """What is done to observations before the agent sees them."""

    normalize: Literal["none", "running", "fixed"]
    clip_range: float | tuple[float, float] | None
    stack_frames: int | None

    @property
    def settings(self) -> ObservationSettings:
        """The same for an `ObservationTransform`."""
        return ObservationSettings(self.normalize, self.clip_range, self.stack_frames)


class ObservationPlan(_Plan):
    """What the policy sees: the space is that of one observation before any preprocessing."""

    space: PlannedSpace
    features: tuple[str, ...] | None = Field(description="A name for each number; null where nobody names them.")
    builders: tuple[JsonObject, ...] = Field(description="References to the components that make it.")
    preprocessing: Preprocessing
    hindsight: tuple[str, ...] = Field(description="What in it is made with hindsight; such a policy never answers.")


class ActionPlan(_Plan):
    """What the policy does: an action of the space, read by the component, changed by the stages, traded as said."""

    space: PlannedSpace
    masks: bool = Field(description="Whether the environment says which actions are legal.")
    component: JsonObject | None = Field(description="Reference to the action; null where nothing is traded.")
    stages: tuple[JsonObject, ...] = Field(description="References to the portfolio stages.")
    trade: JsonObject | None = Field(description="How its numbers are traded: the fields of `core.contracts.Trade`.")
    turbulence_threshold: float | None = Field(description="Turbulence from which on everything is sold.")
    gates_first_bar: bool = Field(True, description="Whether that holds for an episode's first decision too.")


class TradingTerms(_Plan):
    """What trading costs, what may be owed, and when weights become units."""

    costs: JsonObject = Field(description="The fields of `market.costs.CostModel`.")
    margin: JsonObject = Field(description="The fields of `market.margin.Margin`.")
    sizing: JsonObject | None = Field(
        None, description="The fields of `market.sizing.SizingRules`; null: weights are those at the fill."
    )


@dataclasses.dataclass(frozen=True)
class MarketRules:
    """What trading costs, what may be owed, and when weights become units.

    Attributes:
        costs: The costs.
        margin: The margin.
        sizing: By which rules decisions make orders of weights; None: weights are those at the fill.
    """

    costs: CostModel
    margin: Margin
    sizing: SizingRules | None


class MarketPlan(_Plan):
    """The market that was traded."""

    assets: tuple[str, ...]
    warmup_bars: int = Field(ge=0, description="Bars before a decision that are looked at.")
    fill: str = Field(description="When a decision fills.")
    initial_cash: float
    terms: TradingTerms | None = Field(None, description="Costs, margin and sizing; null in earlier checkpoints.")
    periods_per_year: float | None = Field(None, description="Bars in a year, as the run counted them.")
    history_start: str | None = Field(None, description="The first bar of the data that features were computed from.")


class PolicyPlan(_Plan):
    """What answering needs of a training, beside the learnt numbers."""

    observation: ObservationPlan
    action: ActionPlan
    market: MarketPlan | None
    scope: Scope
    remembers: bool
    needs_env: bool

    def observer(self, market: Market, n: int) -> Observer:
        """What makes the policy's observations of bars and accounts, before preprocessing: no environment is needed.

        Args:
            market: The bars so far, as the policy sees them: see `LoadedPolicy.market`.
            n: Number of accounts.
        """
        from alphaswarm_rl.market.observer import Observer

        self.traded_market()
        return Observer([_build(ref, "observation") for ref in self.observation.builders], market, n)

    def decider(self, market: Market, n: int) -> Decider:
        """What makes targets of the policy's actions, through the portfolio stages: no environment is needed.

        Args:
            market: The bars so far.
            n: Number of accounts.
        """
        from alphaswarm_rl.market.decider import Decider

        self.traded_market()
        assert self.action.component is not None
        stages = [_build(ref, "portfolio_stage") for ref in self.action.stages]
        action = _build(self.action.component, "action")
        threshold, first = self.action.turbulence_threshold, self.action.gates_first_bar
        return Decider(action, stages, market, n, turbulence_threshold=threshold, gates_first_bar=first)

    def traded_market(self) -> MarketPlan:
        """The market that was traded; an error where there is none."""
        if self.market is None:
            raise EnvError(
                f"a policy of {self.scope.env_id!r}",
                "its environment trades nothing",
                "Use a policy that was trained in a trading environment.",
            )
        return self.market

    def rules(self, spec: RLExperimentSpec) -> MarketRules:
        """Costs, margin and sizing; of a checkpoint that does not say them, as its spec does.

        Args:
            spec: The spec that trained the policy.
        """
        from alphaswarm_rl.envs.trading import TradingComponent, costs_of, margin_of, sizing_of
        from alphaswarm_rl.market.costs import CostModel
        from alphaswarm_rl.market.margin import Margin
        from alphaswarm_rl.market.sizing_rules import SizingRules

        terms = self.traded_market().terms
        if terms is not None:
            sizing = None if terms.sizing is None else SizingRules(**terms.sizing)
            return MarketRules(CostModel(**terms.costs), Margin(**terms.margin), sizing)
        assert spec.env is not None
        env = spec.env.build()
        assert isinstance(env, TradingComponent)
        config = env.config
        return MarketRules(costs_of(config.costs), margin_of(config.margin), sizing_of(config))

    def to_json(self) -> JsonObject | None:
        """The plan as JSON; None where a space has no such form, and the environment must be built to answer."""
        try:
            return self.model_dump(mode="json")
        except ValueError:
            return None


def read_plan(data: JsonMapping, *, checkpoint: str) -> PolicyPlan:
    """The plan that a checkpoint holds; one that cannot be read is an error.

    Args:
        data: The section `policy` of its JSON.
        checkpoint: Its folder, for the error.
    """
    try:
        return PolicyPlan.model_validate(data)
    except ValidationError as error:
        raise CheckpointError(
            f"checkpoint {checkpoint!r}",
            f"its policy section cannot be read: {explain(error, PolicyPlan)}",
            "Use another checkpoint of the run.",
        ) from error


def make_plan(
    spec: RLExperimentSpec,
    env: AnyVectorEnv,
    agent: Agent,
    *,
    warmup_bars: int,
    hindsight: tuple[str, ...],
    remembers: bool,
    history_start: str | None = None,
) -> PolicyPlan:
    """The plan of a policy that acts in an environment.

    Args:
        spec: The spec of both.
        env: The environment; watched and preprocessed or not.
        agent: The agent.
        warmup_bars: Bars before a decision that environment and agent look at.
        hindsight: What the agent sees that is made with hindsight.
        remembers: Whether the built agent remembers; stacked frames are remembered whatever the agent is.
        history_start: The first bar of the data that features were computed from; None where nobody says it.
    """
    from alphaswarm_rl.envs.trading_plan import TradingPlan

    raw, obs = raw_env(env), spec.obs
    plan = getattr(raw, "plan", None)
    trading = plan if isinstance(plan, TradingPlan) else None
    names = getattr(raw, "feature_names", None)
    return PolicyPlan(
        observation=ObservationPlan(
            space=raw.single_observation_space,
            features=None if names is None else tuple(names),
            builders=() if trading is None else tuple(map(_reference, trading.builders)),
            preprocessing=Preprocessing(
                normalize=obs.normalize, clip_range=obs.clip_range, stack_frames=obs.stack_frames
            ),
            hindsight=hindsight,
        ),
        action=ActionPlan(
            space=raw.single_action_space,
            masks=hasattr(raw, "action_masks"),
            component=None if trading is None else _reference(trading.action),
            stages=() if trading is None else tuple(map(_reference, trading.stages)),
            trade=None if trading is None else dataclasses.asdict(trading.action.trade(trading.panel)),
            turbulence_threshold=None if trading is None else trading.turbulence_threshold,
            gates_first_bar=trading is None or trading.gates_first_bar,
        ),
        market=None if trading is None else _market_plan(trading, warmup_bars, history_start),
        scope=scope_of(spec, raw),
        remembers=remembers or (obs.stack_frames or 1) > 1 or "recurrent" in agent.rl_tags,
        needs_env=agent.looks_at_market(),
    )


def _market_plan(trading: TradingPlan, warmup_bars: int, history_start: str | None) -> MarketPlan:
    return MarketPlan(
        assets=trading.panel.assets,
        warmup_bars=warmup_bars,
        fill=trading.fill.name,
        initial_cash=trading.initial_cash,
        terms=terms_of(trading.costs, trading.margin, trading.sizing),
        periods_per_year=trading.panel.periods_per_year,
        history_start=history_start,
    )


def terms_of(costs: CostModel, margin: Margin, sizing: SizingRules | None) -> TradingTerms:
    """The terms as a checkpoint holds them."""
    rules = None if sizing is None else dataclasses.asdict(sizing)
    return TradingTerms(costs=dataclasses.asdict(costs), margin=dataclasses.asdict(margin), sizing=rules)


def _build(ref: JsonMapping, kind: str) -> Any:
    return reference(ref, kind, stored=True).build()


def _reference(component: RLComponent) -> JsonObject:
    return {"class": component.rl_alias, "kwargs": plain_fields(component.config)}


def refuse_hindsight(shown: tuple[str, ...]) -> None:
    """Refuses a policy that is shown the future."""
    if shown:
        raise SpecError(
            f"what the agent sees: {', '.join(shown)}",
            "it is made with hindsight, and a policy that sees it cannot be judged",
            "Leave it out, or train without any evaluation: evaluation: {episodes: 0}.",
        )


def scope_of(spec: RLExperimentSpec, env: AnyVectorEnv) -> Scope:
    """The models that may be compared: rewards mean the same, and observations and actions are of the same spaces.

    Args:
        spec: The spec that trains them.
        env: Its environment, built; watched and preprocessed or not.
    """
    canonical = spec.canonical()
    parts = {name: canonical[name] for name in _REWARD_PARTS}
    if spec.universe.model is not None:
        parts["universe"] = {"model": canonical["universe"]["model"], "known_at": spec.training.start}
    signature = sha256_text("alphaswarm-rl/env/1\n" + canonical_json({**parts, "symbols": list(spec.universe.symbols)}))
    return Scope(
        env_id=env_id_of(spec),
        env_signature=signature,
        observation_signature=space_signature(raw_env(env).single_observation_space),
        action_signature=space_signature(env.single_action_space),
    )


def env_id_of(spec: RLExperimentSpec) -> str:
    """The environment of a spec, as people call it."""
    assert spec.env is not None
    return str(spec.env.kwargs.get("id") or spec.env.name) if spec.env.name == "gymnasium" else spec.env.name
