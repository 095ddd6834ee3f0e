"""What a trading environment is made of.

`TradingPlan` holds the components and rules before any array exists, checked against the panel and each other, and
`plan_of` makes one of a trading component and a request. `TradingParts` are a plan's components with their arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

from alphaswarm_rl.core import slots
from alphaswarm_rl.core.contracts import EnvRequest, NamedTerm
from alphaswarm_rl.core.errors import DataError, EnvError, SpecError
from alphaswarm_rl.core.kinds import ActionSpec, ObservationBuilder, PortfolioStage, SmallComponent, Termination
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.core.types import BackendArray, JsonObject, NamedArrays
from alphaswarm_rl.envs.trading import TradingComponent, costs_of, margin_of, sizing_of
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.fills import FillPolicy, fill_policy
from alphaswarm_rl.market.margin import Margin
from alphaswarm_rl.market.market import Market
from alphaswarm_rl.market.observer import Observer
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.part import Part
from alphaswarm_rl.market.sizing_rules import SizingRules
from alphaswarm_rl.market.stages import check_order

#: Why an episode ends when its bars do.
END_OF_DATA = "end_of_data"
#: Arrays of an account that begin with the initial cash; all others but the bars begin with nothing.
STARTING_MONEY = ("cash", "value", "value_before", "peak")


@dataclass(frozen=True)
class TradingPlan:
    """The parts and rules of a trading environment.

    Attributes:
        panel: The market.
        action: What the agent's output means.
        builders: What the agent sees, from left to right.
        terms: The reward, ordinary terms first, then those that settle.
        terminations: Why an episode ends, beside the end of its bars.
        stages: Between the agent's weights and the target weights; none is the identity.
        fill: When orders fill.
        costs: What trading costs.
        margin: What may be owed.
        initial_cash: What an episode starts with.
        episode_bars: Steps of an episode that starts at a random bar; None: all bars, from the first.
        turbulence_threshold: Turbulence from which on everything is sold and nothing bought; None: no gate.
        gates_first_bar: Whether that gate acts at an episode's first decision too.
        sizing: By which rules decisions make orders of weights; None: weights are traded to at the fill.
    """

    panel: MarketPanel
    action: ActionSpec
    builders: tuple[ObservationBuilder, ...]
    terms: tuple[NamedTerm, ...]
    terminations: tuple[Termination, ...]
    stages: tuple[PortfolioStage, ...]
    fill: FillPolicy
    costs: CostModel
    margin: Margin
    initial_cash: float
    episode_bars: int | None
    turbulence_threshold: float | None = None
    gates_first_bar: bool = True
    sizing: SizingRules | None = None

    def __post_init__(self) -> None:
        check_order(self.stages)
        for part in self.parts():
            for column in part.needs:
                if getattr(self.panel, column) is None:
                    raise DataError(
                        f"column {column!r}",
                        f"the {part.rl_kind} {part.rl_alias!r} needs it and the panel has none",
                        "Give bars that have it, or leave that part out.",
                    )
        names = [term.name for term in self.terms]
        for name in names:
            if names.count(name) > 1:
                raise EnvError(f"reward term {name!r}", "there are two of that name", "Give one of them another name.")
        self._refuse_what_has_no_effect()
        if self.stages and self.action.trade(self.panel).way != "weights":
            raise EnvError(
                f"portfolio stage {self.stages[0].rl_alias!r}",
                f"stages change weights, and the action {self.action.rl_alias!r} gives none",
                "Leave the stages out, or use an action that gives weights, such as softmax_weights.",
            )
        if self.turbulence_threshold is not None and "turbulence" not in self.panel.market_feature_names:
            raise DataError(
                "market feature 'turbulence'",
                "the environment's turbulence_threshold needs it and the panel has none",
                "Add market_features: [turbulence] to the data pipeline, or leave the threshold out.",
            )
        if self.last_bar - self.first_bar < 1:
            raise DataError(
                f"the window of {self.panel.num_bars - self.panel.warmup} bars",
                f"its parts look back {self.lookback} bars, and then none is left to trade",
                "Give a longer window, or bars before it.",
            )

    def _refuse_what_has_no_effect(self) -> None:
        trade, alias = self.action.trade(self.panel), self.action.rl_alias
        if trade.way == "shares" and self.margin.lends:
            raise EnvError(
                "the environment's margin",
                f"the action {alias!r} gives orders in units, which are bound by cash and never owe anything",
                "Leave the margin out, or use an action of weights or positions.",
            )
        if self.sizing is not None and trade.way != "weights":
            raise EnvError(
                "the environment's sizing: at_decision",
                f"it makes units of weights when the decision is made, and the action {alias!r} gives none",
                "Leave sizing at at_fill, or use an action that gives weights, such as softmax_weights.",
            )
        if getattr(self.action.config, "short", False) and not self.margin.short:
            raise EnvError(
                f"the action {alias!r} with short: true",
                "the account cannot be short",
                "Give the environment margin: {initial: 0.5, maintenance: 0.25}, or set short: false.",
            )
        if trade.bracket and any(named.term.rl_alias == "implementation_shortfall" for named in self.terms):
            raise EnvError(
                "the reward term 'implementation_shortfall'",
                f"the action {alias!r} fills more than once in a bar, at prices that the term does not see",
                "Use another reward, or another action.",
            )
        if any(part.rl_alias == "next_open" for part in self.builders) and not self.fill.shows_next_open:
            raise EnvError(
                "the observation 'next_open'",
                f"with the fill {self.fill.name!r} nobody can know the next open when deciding",
                "Leave it out, or use fill: cheat_on_open, which marks the run as optimistic.",
            )
        if not self.panel.tradable[self.first_bar :].any():
            raise DataError(
                f"the window of {self.panel.num_bars - self.panel.warmup} bars",
                f"none of {', '.join(self.panel.assets)} can be traded in it",
                "Choose another window, or other assets.",
            )

    def parts(self) -> Iterable[SmallComponent]:
        """All of them, in the order that numbers their arrays in saved states."""
        terms = (named.term for named in self.terms)
        return (self.action, *self.builders, *terms, *self.terminations, *self.stages)

    def identity(self) -> JsonObject:
        """The market and the parts, as plain data: what a saved state belongs to."""
        times = self.panel.timestamps
        return {
            "assets": list(self.panel.assets),
            "bars": [len(times), str(times[0]), str(times[-1])],
            "parts": [f"{part.rl_kind}:{part.rl_alias}" for part in self.parts()],
        }

    @property
    def tracks_cost(self) -> bool:
        """Whether some part wants to know what positions were bought for."""
        return any(part.tracks_cost for part in self.parts())

    @property
    def lookback(self) -> int:
        """Bars before a decision that some part looks at."""
        return max(part.warmup_bars() for part in self.parts())

    @property
    def first_bar(self) -> int:
        """The first bar on which anything can be decided."""
        return max(self.panel.warmup, self.lookback)

    @property
    def last_bar(self) -> int:
        """The bar on which every episode is over at the latest."""
        return self.panel.num_bars - 1

    @property
    def length(self) -> int:
        """Steps of an episode."""
        every = self.last_bar - self.first_bar
        return every if self.episode_bars is None else min(self.episode_bars, every)

    @property
    def starts(self) -> int:
        """How many bars an episode may start on."""
        return 1 if self.episode_bars is None else self.last_bar - self.first_bar - self.length + 1


def plan_of(component: TradingComponent, request: EnvRequest) -> TradingPlan:
    """The plan: parts from the request where it has them, the component's own elsewhere."""
    panel = request.parts.get(slots.PANEL)
    if panel is None:
        raise EnvError(
            f"env {component.rl_alias!r}",
            "it has no market data",
            "Hand in panel=MarketPanel..., or add a data_pipeline to the spec.",
        )
    if not isinstance(panel, MarketPanel):
        raise EnvError(
            f"env {component.rl_alias!r}",
            f"its panel is a {type(panel).__name__}",
            "Make one: MarketPanel.from_frame(frame), or from_csv, from_parquet, from_arrow, from_arrays.",
        )
    _refuse_unused(component, request)
    config, parts = component.config, request.parts
    fill, margin = fill_policy(config.fill), margin_of(config.margin)
    builders = component.part("observation", parts).builders()
    if fill.shows_next_open and not any(builder.rl_alias == "next_open" for builder in builders):
        builders = (*builders, reference({"class": "next_open"}, "observation").build())
    terminations = component.part("terminations", parts)
    if margin.lends and not any(part.rl_alias == "margin_call" for part in terminations):
        # An account that can owe more than it has must not go on when it does.
        terminations = (*terminations, reference({"class": "margin_call"}, "termination").build())
    return TradingPlan(
        panel=panel,
        action=component.part("action", parts),
        builders=builders,
        terms=reward_terms(component.part("reward", parts).terms(), request),
        terminations=terminations,
        stages=slots.PORTFOLIO.build(config.portfolio),
        fill=fill,
        costs=costs_of(config.costs),
        margin=margin,
        initial_cash=config.initial_cash,
        episode_bars=config.episode_bars if request.phase == "train" else None,
        turbulence_threshold=getattr(config, "turbulence_threshold", None),
        gates_first_bar=component.gates_first_bar(),
        sizing=sizing_of(config),
    )


def _refuse_unused(component: TradingComponent, request: EnvRequest) -> None:
    """Refuses parameters of parts that were replaced: they would change nothing."""
    fields = type(component.config).model_fields
    by_slot = component.parameters_of
    for name in dict.fromkeys(name for names in by_slot.values() for name in names):
        own = [slot for slot, names in by_slot.items() if name in names]
        changed = getattr(component.config, name) != fields[name].default
        if changed and all(request.parts.get(slot) for slot in own):
            raise EnvError(
                f"parameter {name!r} of env {component.rl_alias!r}",
                f"it is one of its own {' and '.join(own)}, which another takes the place of",
                "Leave it out, and say it in the part that replaces its own.",
            )


def reward_terms(terms: Sequence[NamedTerm], request: EnvRequest) -> tuple[NamedTerm, ...]:
    """The terms as this phase pays them: without hindsight in evaluation, with the stop penalty in training."""
    settling = [named for named in terms if named.term.settles]
    ordinary = [named for named in terms if not named.term.settles]
    if request.phase != "train":
        ordinary = [named for named in ordinary if not named.term.training_only]
        if not ordinary:
            term = reference({"class": "portfolio_return"}, "reward").build()
            return (NamedTerm("portfolio_return", 1.0, term),)
    elif request.stop_properly is not None:
        if any(named.term.rl_alias == "stop_properly" for named in settling):
            raise SpecError(
                "training.stop_properly_penalty_coef",
                "the reward already has the term 'stop_properly'",
                "Keep one of them.",
            )
        term = reference({"class": "stop_properly", "kwargs": {"coef": request.stop_properly}}, "reward").build()
        settling.append(NamedTerm("stop_properly", 1.0, term))
    return (*ordinary, *settling)


class TradingParts:
    """The parts of a plan with their arrays for n accounts.

    Args:
        plan: The plan.
        market: The market of its panel.
        n: Number of accounts.

    Attributes:
        decider: From actions to targets.
        observer: From accounts to observations.
        terms: The reward's terms, in the order of the plan.
        terminations: Why an episode ends, in the order of the plan.
    """

    def __init__(self, plan: TradingPlan, market: Market, n: int) -> None:
        threshold, first = plan.turbulence_threshold, plan.gates_first_bar
        self.decider = Decider(
            plan.action, plan.stages, market, n, turbulence_threshold=threshold, gates_first_bar=first
        )
        self.observer = Observer(plan.builders, market, n)
        self.terms = tuple(Part(named.term, market, n) for named in plan.terms)
        self.terminations = tuple(Part(termination, market, n) for termination in plan.terminations)

    def __iter__(self) -> Iterator[Part]:
        """All of them, in the order of `TradingPlan.parts`."""
        yield self.decider.action
        yield from self.observer.parts
        yield from self.terms
        yield from self.terminations
        yield from self.decider.stages

    def arrays(self) -> NamedArrays:
        """Their own arrays, under the names that they have in saved states."""
        return {f"part{index}/{name}": array for index, part in enumerate(self) for name, array in part.own.items()}

    def holding(self, arrays: Mapping[str, BackendArray]) -> TradingParts:
        """The same parts with these arrays, by the names of `arrays`; parts of which none is given keep their own."""
        held = []
        for index, part in enumerate(self):
            own = {name: arrays[f"part{index}/{name}"] for name in part.own if f"part{index}/{name}" in arrays}
            held.append(part.holding(own) if own else part)
        action, *rest = held
        parts, take = copy(self), iter(rest)
        parts.observer = self.observer.holding([next(take) for _ in self.observer.parts])
        parts.terms = tuple(next(take) for _ in self.terms)
        parts.terminations = tuple(next(take) for _ in self.terminations)
        parts.decider = self.decider.holding(action, list(take))
        return parts
