"""What all trading environments share: parameters, default parts, and the way to a built environment."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, model_validator

from alphaswarm_rl.core import slots
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.core.kinds import EnvComponent
from alphaswarm_rl.core.model import FrozenModel
from alphaswarm_rl.core.refs import ComponentRef, ref_to

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

    from alphaswarm_rl.core.contracts import EnvRequest
    from alphaswarm_rl.core.types import JsonMapping, JsonObject
    from alphaswarm_rl.envs.trading_plan import TradingPlan
    from alphaswarm_rl.market.costs import CostModel
    from alphaswarm_rl.market.margin import Margin
    from alphaswarm_rl.market.sizing_rules import SizingRules

    StageRef = ComponentRef
else:
    StageRef = ref_to(slots.PORTFOLIO.kind)


class Costs(FrozenModel):
    """What trading costs; `market.costs.CostModel` says what each number means."""

    commission_rate: float = Field(0.0005, ge=0, lt=1, description="Commission, as a fraction of the money traded.")
    sell_commission_rate: float | None = Field(None, ge=0, lt=1, description="The same for sells; null: no difference.")
    commission_per_share: float = Field(0.0, ge=0, description="Commission in money per unit.")
    commission_minimum: float = Field(0.0, ge=0, description="Least commission in money per order.")
    half_spread_bps: float = Field(2.0, ge=0, lt=10_000, description="Half the bid-ask spread, in basis points.")
    impact: float = Field(
        0.0, ge=0, description="Relative loss when trading as much as the bar's volume; grows with its square root."
    )
    borrow_rate: float = Field(0.02, ge=0, description="Yearly rate on shorts and on negative cash.")
    funding_rate: float = Field(0.0, description="Rate per bar that longs pay and shorts receive.")


class MarginAccount(FrozenModel):
    """What the account may owe; `market.margin.Margin` says what each number means."""

    initial: float = Field(0.5, gt=0, le=1, description="Equity needed after a trade, over gross exposure.")
    maintenance: float = Field(0.25, ge=0, le=1, description="Equity below which positions are sold by force.")
    short: bool = Field(True, description="Whether positions may be negative.")

    @model_validator(mode="after")
    def _maintenance_is_less(self) -> MarginAccount:
        if self.maintenance > self.initial:
            raise ValueError("maintenance must not be above initial")
        return self


class OrderRules(FrozenModel):
    """Which orders a decision makes of weights; `market.sizing_rules.SizingRules` says what each number means."""

    rebalance_threshold: float = Field(
        0.0, ge=0, lt=1, description="Part of the equity below which a difference is no order; a weight of 0 always is."
    )
    lot: float = Field(0.0, ge=0, description="Units that orders are whole multiples of; 0: any fraction.")
    min_notional: float = Field(0.0, ge=0, description="Least money of an order.")
    max_order_notional: float | None = Field(None, gt=0, description="Most money of an order; null: no limit.")

    @model_validator(mode="after")
    def _some_order_fits(self) -> OrderRules:
        if self.max_order_notional is not None and self.max_order_notional <= self.min_notional:
            raise ValueError("max_order_notional must be above min_notional")
        return self


class TradingConfig(ComponentConfig):
    """Parameters of every trading environment."""

    initial_cash: float = Field(100_000.0, gt=0, description="Money that an episode starts with.")
    fill: Literal["next_open", "next_close", "same_close", "cheat_on_open"] = Field(
        "next_open",
        description="When a decision at bar t fills: at the next open or close; the last two have seen the price they "
        "fill at and mark the run as optimistic.",
    )
    costs: Costs = Field(default_factory=Costs, description="What trading costs.")
    margin: MarginAccount | None = Field(
        None, description="What may be owed; null: a cash account, which owes nothing."
    )
    episode_bars: int | None = Field(
        252,
        ge=1,
        description="Steps of a training episode, which starts at a random bar; null: the whole window. An evaluation "
        "is over the whole window always.",
    )
    portfolio: list[StageRef] = Field(
        default_factory=list,
        description="Stages between the agent's weights and the target weights; empty: none changes them.",
    )
    sizing: Literal["at_fill", "at_decision"] = Field(
        "at_fill",
        description="When weights become units: at the fill, exactly after costs, or when the decision is made, by the "
        "last known price, as an order needs it.",
        json_schema_extra=added_field(since=2, born="at_fill"),
    )
    order_rules: OrderRules | None = Field(
        None,
        description="Which orders are made with sizing at_decision; null: every difference is one.",
        json_schema_extra=added_field(since=2, born=None),
    )

    @model_validator(mode="after")
    def _rules_are_for_orders(self) -> TradingConfig:
        if self.order_rules is not None and self.sizing != "at_decision":
            raise ValueError("order_rules are for orders that decisions make: they need sizing: at_decision")
        return self


class TradingComponent(EnvComponent):
    """A trading environment: default parts, each of which a spec can replace."""

    on_device = True

    rl_category = "trading"
    rl_tags = ("native", "exact-resume", "market")
    takes = slots.TRADING
    #: By slot, its parameters that mean something in default parts alone.
    parameters_of: ClassVar[dict[str, tuple[str, ...]]] = {}
    Config: type[TradingConfig] = TradingConfig  # type: ignore[assignment]

    def flat_observations(self) -> bool:
        """It shows one row of numbers."""
        return True

    @abc.abstractmethod
    def defaults(self) -> JsonObject:
        """References to its own `action`, `observation`, `reward` and `terminations`."""

    def plan(self, request: EnvRequest) -> TradingPlan:
        """What the environment of that request is made of."""
        from alphaswarm_rl.envs.trading_plan import plan_of

        return plan_of(self, request)

    def build(self, request: EnvRequest) -> VectorEnv[Any, Any, Any]:
        """The environment, on NumPy or on torch."""
        if request.backend == "torch":
            from alphaswarm_rl.envs.trading_torch import TorchTradingEnv

            return TorchTradingEnv(request, self.plan(request))
        from alphaswarm_rl.envs.trading_env import TradingEnv

        return TradingEnv(request, self.plan(request))

    def gates_first_bar(self) -> bool:
        """Whether its turbulence gate, where it has one, acts at an episode's first decision too."""
        return True

    def part(self, slot: str, parts: JsonMapping) -> Any:
        """What fills a slot: what was handed in, or its own."""
        return parts.get(slot) or slots.slot(slot).build(self.defaults()[slot])

    def own_parts(self, replaced: frozenset[str]) -> tuple[ComponentRef, ...]:
        """Its default parts, but for those in slots that are replaced."""
        own = [slots.slot(name).references(value) for name, value in self.defaults().items() if name not in replaced]
        return tuple(ref for refs in own for ref in refs)

    def warmup_bars(self, parts: JsonMapping) -> int:
        """Bars before the window's start that its parts look at."""
        pieces = [piece for slot in slots.PARTS for piece in slot.pieces(self.part(slot.name, parts))]
        pieces += slots.PORTFOLIO.build(self.config.portfolio)
        return max(piece.warmup_bars() for piece in pieces)

    def notices(self) -> tuple[str, ...]:
        """Says so where a fill has seen its price."""
        from alphaswarm_rl.market.fills import fill_policy

        if fill_policy(self.config.fill).optimistic:
            return (f"optimistic_fill: with fill {self.config.fill!r} decisions have seen the price they fill at",)
        return ()


def ref(alias: str, **kwargs: object) -> JsonObject:
    """A reference to a component, as a spec would write it."""
    return {"class": alias, "kwargs": kwargs}


def stacked(*parts: JsonObject) -> JsonObject:
    """A reference to observations side by side."""
    return ref("stacked", parts=list(parts))


def money_orders() -> JsonObject:
    """What FinRL's two variants with orders in money have in common."""
    account = ref("portfolio_state", pieces=["cash", "prices", "holdings"])
    return {"observation": stacked(account, ref("technical_indicators")), "terminations": []}


def costs_of(config: Costs) -> CostModel:
    """The cost model of those numbers."""
    from alphaswarm_rl.market.costs import CostModel

    return CostModel(**config.model_dump())


def margin_of(config: MarginAccount | None) -> Margin:
    """The margin of those numbers; a cash account where there are none."""
    from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin

    return CASH_ACCOUNT if config is None else Margin(**config.model_dump())


def sizing_of(config: TradingConfig) -> SizingRules | None:
    """The rules by which decisions make orders; None where weights are traded to at the fill."""
    from alphaswarm_rl.market.sizing_rules import SizingRules

    if config.sizing == "at_fill":
        return None
    return SizingRules() if config.order_rules is None else SizingRules(**config.order_rules.model_dump())
