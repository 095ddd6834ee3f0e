"""Orders of target weights are what an environment whose decisions make orders did at that bar."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl import make_env
from alphaswarm_rl.core.errors import DataError, OrderError
from alphaswarm_rl.core.orders import Price, TargetWeights
from alphaswarm_rl.envs.trading import Costs
from alphaswarm_rl.execution.weight_to_orders import AccountNow, WeightToOrders
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin
from alphaswarm_rl.market.sizing import SHORTFALLS, SizingRules
from tests.envs.panels import random_panel
from tests.envs.test_trades import COSTS, MARGIN, SEEN

DAY = np.datetime64("2024-03-01", "ns")
FREE = CostModel(commission_rate=0, half_spread_bps=0, borrow_rate=0)
ONE_PERCENT = CostModel(commission_rate=0.01, half_spread_bps=0, borrow_rate=0)


def target(at=DAY, leverage=1.0, **weights):
    return TargetWeights(tuple(weights), np.array(list(weights.values())), at, leverage=leverage)


def account(cash=1000.0, prices=None, at=DAY, **kwargs):
    known = {"KO": 10.0, "PEP": 20.0} if prices is None else prices
    found = {"positions": {}, "prices": {symbol: Price(value, at) for symbol, value in known.items()}, **kwargs}
    return AccountNow(cash=cash, **found)


def words(result):
    return [(order.side, order.quantity, order.symbol) for order in result.orders]


def reasons(result):
    return {skipped.symbol: skipped.reason for skipped in result.skipped}


class Halted:
    def should_halt(self):
        return True


def test_sells_come_before_buys_and_the_most_valuable_buy_first():
    maker = WeightToOrders(SizingRules(lot=1), FREE)
    held = account(0.0, {"A": 10.0, "B": 10.0, "C": 10.0, "D": 10.0}, positions={"B": 60.0, "C": 40.0})
    found = maker.orders(target(A=0.3, B=0.2, C=0.0, D=0.5), held, run_id="run")
    assert words(found) == [("sell", 40.0, "B"), ("sell", 40.0, "C"), ("buy", 50.0, "D"), ("buy", 30.0, "A")]
    assert [order.reason for order in found.orders] == ["rebalance", "exit", "rebalance", "rebalance"]
    assert {order.type for order in found.orders} == {"market"}
    assert (found.skipped, found.aborted, found.target) == ((), None, target(A=0.3, B=0.2, C=0.0, D=0.5).sha256)


def test_a_retry_has_the_names_of_the_first_and_another_decision_has_others():
    maker, same = WeightToOrders(), target(KO=0.5, PEP=0.2)
    first, retried = (maker.orders(same, account(cash), run_id="run") for cash in (1000.0, 900.0))
    assert [order.client_id for order in first.orders] == [order.client_id for order in retried.orders]
    others = [
        maker.orders(same, account(), run_id="nur"),
        maker.orders(target(DAY + 1, KO=0.5, PEP=0.2), account(), run_id="run"),
        maker.orders(target(KO=0.4, PEP=0.1), account(), run_id="run"),
    ]
    every = [order.client_id for result in (first, *others) for order in result.orders]
    assert len(set(every)) == 8


def test_what_is_not_ordered_says_why():
    maker = WeightToOrders(SizingRules(rebalance_threshold=0.1, lot=1, min_notional=50), ONE_PERCENT)
    now = account(300.0, {"A": 10.0, "B": 10.0, "C": 10.0, "D": 400.0}, positions={"B": 70.0})
    found = maker.orders(target(A=0.08, B=0.62, C=0.3, D=0.0), now, run_id="run")
    assert words(found) == [("buy", 29.0, "C")]
    assert reasons(found) == {"A": "below_threshold", "B": "below_threshold", "C": "buying_power"}


@pytest.mark.parametrize(
    ("changed", "aborted", "detail"),
    [
        ({"positions": None}, "positions_unknown", "not the same as none"),
        ({"cash": None}, "cash_unknown", "could not be had"),
        ({"prices": {}}, "price_unknown", "KO has a target weight, and no price"),
        ({"prices": {"KO": Price(float("nan"), DAY)}}, "price_unknown", "KO has a target weight"),
        ({"positions": {"PEP": 1.0}, "prices": {"KO": Price(10.0, DAY)}}, "price_unknown", "PEP is held"),
        ({"tradable": ()}, "market_closed", "nothing can be traded now"),
        ({"cash": -5.0}, "no_buying_power", "worth -5.00"),
        ({"cash": 0.0}, "no_buying_power", "worth 0.00"),
    ],
)
def test_what_cannot_be_known_aborts_and_nothing_is_ordered(changed, aborted, detail):
    result = WeightToOrders().orders(target(KO=0.5, PEP=0.0), replace(account(), **changed), run_id="run")
    assert (result.orders, result.aborted) == ((), aborted)
    assert detail in result.detail


def test_the_kill_switch_is_asked_first():
    result = WeightToOrders(halt=Halted()).orders(target(KO=0.5), account(positions=None), run_id="run")
    assert (result.orders, result.aborted) == ((), "halted")


def test_a_stale_price_aborts_where_it_values_what_is_held_and_is_refused_where_it_is_wanted():
    maker = WeightToOrders(max_price_age=60.0, costs=FREE)
    stale = {"KO": Price(10.0, DAY), "PEP": Price(20.0, DAY - np.timedelta64(61, "s"))}
    now = account(prices={}, now=DAY)
    result = maker.orders(target(KO=0.5, PEP=0.3), replace(now, prices=stale), run_id="run")
    assert words(result) == [("buy", 50.0, "KO")]
    assert [(one.symbol, one.reason, one.detail) for one in result.skipped] == [
        ("PEP", "stale_price", "its price is 61 s old")
    ]
    held = maker.orders(target(KO=0.5, PEP=0.3), replace(now, prices=stale, positions={"PEP": 1.0}), run_id="run")
    assert (held.aborted, held.orders) == ("price_stale", ())
    fresh = {**stale, "PEP": Price(20.0, DAY - np.timedelta64(60, "s"))}
    assert len(maker.orders(target(KO=0.5, PEP=0.3), replace(now, prices=fresh), run_id="run").orders) == 2


def test_what_does_not_trade_keeps_its_last_price_however_old():
    maker = WeightToOrders(max_price_age=60.0, costs=FREE)
    prices = {"KO": Price(10.0, DAY), "PEP": Price(20.0, DAY - np.timedelta64(9, "D"))}
    now = account(500.0, prices={}, positions={"PEP": 25.0}, tradable={"KO"})
    found = maker.orders(target(KO=0.5, PEP=0.0), replace(now, prices=prices), run_id="run")
    assert words(found) == [("buy", 50.0, "KO")]
    assert reasons(found) == {"PEP": "not_tradable"}


@pytest.mark.parametrize(
    ("changed", "weights", "why"),
    [
        ({"positions": {"KOO": 5.0}}, {"KO": 0.5}, "the symbol 'KOO'.*Did you mean 'KO'"),
        ({"tradable": {"KO", "XYZ"}}, {"KO": 0.5}, "the symbol 'XYZ'"),
        ({"positions": {"KO": float("nan")}}, {"KO": 0.5}, "the position in KO: it is nan"),
        ({"positions": {"KO": -1.0}}, {"KO": 0.5}, "the account cannot be short"),
        ({"cash": float("nan")}, {"KO": 0.5}, "the account's cash: it is nan"),
        ({}, {"KO": -0.5}, "the target weight of KO: it is negative"),
        ({}, {"KO": 1.0, "PEP": 0.5}, "sum to 1.5: the account carries at most 1"),
    ],
)
def test_what_is_wrong_in_itself_is_an_error_that_names_it(changed, weights, why):
    with pytest.raises(OrderError, match=why):
        WeightToOrders().orders(target(leverage=2.0, **weights), replace(account(), **changed), run_id="run")


def test_impact_needs_the_volume():
    maker = WeightToOrders(costs=CostModel(impact=0.1))
    with pytest.raises(DataError, match="column 'volume'"):
        maker.orders(target(KO=0.5), account(), run_id="run")
    result = maker.orders(target(KO=0.5, PEP=0.2), account(volumes={"KO": 1e6}), run_id="run")
    assert words(result) == [("buy", 50.0, "KO")]
    assert reasons(result) == {"PEP": "not_tradable"}


@settings(max_examples=40)
@given(
    seed=st.integers(0, 10_000),
    costs=st.sampled_from(COSTS),
    lends=st.booleans(),
    fill=st.sampled_from(["next_open", "next_close", "same_close", "cheat_on_open"]),
    rules=st.sampled_from(
        [{}, {"lot": 1, "rebalance_threshold": 0.02, "min_notional": 50, "max_order_notional": 3000}]
    ),
)
def test_orders_are_the_environments_bit_for_bit(seed, costs, lends, fill, rules):
    panel = random_panel(seed, bars=24, actions=True)
    margin = MARGIN if lends else None
    env = make_env(
        "stock_trading", panel=panel, num_envs=1, phase="evaluate", fill=fill, costs=costs, margin=margin,
        initial_cash=10_000.0, action={"class": "continuous_weights", "kwargs": {"short": lends}},
        sizing="at_decision", order_rules=rules, **SEEN,
    )  # fmt: skip
    maker = WeightToOrders(
        SizingRules(**rules), CostModel(**Costs(**costs).model_dump()), Margin(**MARGIN) if lends else CASH_ACCOUNT
    )
    env.log_trades()
    env.reset()
    rng, ended = np.random.default_rng(seed), False
    while not ended:
        bar, view = int(env.view.bar[0]), env.view
        cash, held = float(view.cash[0]), view.positions[0].copy()
        action = rng.uniform(-1.0 if lends else 0.0, 1.0, (1, panel.num_assets)) * rng.choice([0.3, 1.0])
        _, _, terminated, truncated, infos = env.step(action.astype(np.float32))
        weights = infos["trades"]["targets"][0, -1]
        known = [index for index, price in enumerate(panel.close[bar]) if price > 0]
        # With orders at the close an asset cannot be bought at the close at which it ends.
        tradable = env.market.tradable[bar]
        found = maker.orders(
            TargetWeights(panel.assets, weights, panel.timestamps[bar]),
            AccountNow(
                cash=cash,
                positions=dict(zip(panel.assets, held.tolist(), strict=True)),
                prices={panel.assets[i]: Price(float(panel.close[bar, i]), panel.timestamps[bar]) for i in known},
                tradable={symbol for symbol, trades in zip(panel.assets, tradable, strict=True) if trades},
                volumes=dict(zip(panel.assets, np.nan_to_num(panel.volume[bar]).tolist(), strict=True)),
            ),
            run_id="run",
        )
        ordered = {order.symbol: order.signed_quantity for order in found.orders}
        if found.aborted is None:
            expected = dict(zip(panel.assets, env.sized.orders[0].tolist(), strict=True))
            assert ordered == {symbol: units for symbol, units in expected.items() if units}
            codes = zip(panel.assets, env.sized.reasons[0].tolist(), strict=True)
            assert reasons(found) == {symbol: SHORTFALLS[code] for symbol, code in codes if code}
        else:
            assert found.aborted in ("no_buying_power", "market_closed")
            assert not env.sized.orders.any()
        ended = bool(terminated[0] or truncated[0])
