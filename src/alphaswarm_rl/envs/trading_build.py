"""From a trading component and a request to the plan of an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from alphaswarm_rl.core.contracts import EnvRequest, NamedTerm
from alphaswarm_rl.core.errors import EnvError, SpecError
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.envs.trading import TradingComponent, costs_of, margin_of
from alphaswarm_rl.envs.trading_plan import TradingPlan
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.panel import MarketPanel


def plan_of(component: TradingComponent, request: EnvRequest) -> TradingPlan:
    """The plan: parts from the request where it has them, the component's own elsewhere."""
    panel = request.parts.get("panel")
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
        stages=tuple(stage.build() for stage in config.portfolio),
        fill=fill,
        costs=costs_of(config.costs),
        margin=margin,
        initial_cash=config.initial_cash,
        episode_bars=config.episode_bars if request.phase == "train" else None,
        turbulence_threshold=getattr(config, "turbulence_threshold", None),
    )


def _refuse_unused(component: TradingComponent, request: EnvRequest) -> None:
    """Refuses parameters of parts that were replaced: they would change nothing."""
    fields = type(component.config).model_fields
    for name, slots in component.parameters_of.items():
        changed = getattr(component.config, name) != fields[name].default
        if changed and all(request.parts.get(slot) for slot in slots):
            raise EnvError(
                f"parameter {name!r} of env {component.rl_alias!r}",
                f"it is one of its own {' and '.join(slots)}, which another takes the place of",
                "Leave it out, and say it in the part that replaces its own.",
            )


def reward_terms(terms: Sequence[NamedTerm], request: EnvRequest) -> tuple[NamedTerm, ...]:
    """The terms as this phase pays them: without hindsight in evaluation, with the stop penalty in training."""
    settling = [named for named in terms if named.term.settles]
    ordinary = [named for named in terms if not named.term.settles]
    if request.phase != "train":
        ordinary = [named for named in ordinary if not named.term.training_only]
        if not ordinary:
            return (_portfolio_return(),)
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


def _portfolio_return() -> NamedTerm:
    term: Any = reference({"class": "portfolio_return"}, "reward").build()
    return NamedTerm("portfolio_return", 1.0, term)
