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


def plan_of(component: TradingComponent, request: EnvRequest) -> TradingPlan:
    """The plan: parts from the request where it has them, the component's own elsewhere."""
    panel = request.parts.get("panel")
    if panel is None:
        raise EnvError(
            f"env {component.rl_alias!r}",
            "it has no market data",
            "Hand in panel=MarketPanel..., or add a data_pipeline to the spec.",
        )
    config, parts = component.config, request.parts
    fill, margin = fill_policy(config.fill), margin_of(config.margin)
    builders = component.part("observation", parts).builders()
    if fill.shows_next_open:
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


def reward_terms(terms: Sequence[NamedTerm], request: EnvRequest) -> tuple[NamedTerm, ...]:
    """The terms as this phase pays them: without hindsight in evaluation, with the stop penalty in training."""
    settling = [named for named in terms if named.term.settles]
    ordinary = [named for named in terms if not named.term.settles]
    if request.phase != "train":
        ordinary = [named for named in ordinary if not named.term.training_only] or [_portfolio_return()]
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
