"""What was traded adds up: positions, fills, carry and equity of every step, on NumPy and on torch."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl import make_env
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.fills import FILL_POLICIES
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.trades import REASONS, _in_order, _Source, fees_by_part
from tests.envs.panels import random_panel

TRADING = sorted(cls.rl_alias for cls in catalogue.listing() if issubclass(cls, TradingComponent) and cls.on_device)
FREE = {"commission_rate": 0.0, "half_spread_bps": 0.0, "borrow_rate": 0.0}
COSTS = (
    {},
    FREE,
    {"commission_rate": 0.002, "sell_commission_rate": 0.001, "commission_minimum": 5.0, "impact": 0.1},
    {"commission_per_share": 0.02, "half_spread_bps": 10.0, "borrow_rate": 0.5},
)
MARGIN = {"initial": 0.5, "maintenance": 0.4, "short": True}
#: Every way of trading: an action, and whether its account may owe.
WAYS = {
    "whole": ({"class": "integer_shares", "kwargs": {"hmax": 60}}, False),
    "fractional": ({"class": "integer_shares", "kwargs": {"hmax": 60, "whole": False}}, False),
    "stops": ({"class": "stop_loss_shares", "kwargs": {"hmax": 60, "stop": 0.95}}, False),
    "levels": ({"class": "multi_discrete", "kwargs": {"hmax": 60}}, False),
    "softmax": ({"class": "softmax_weights"}, False),
    "weights": ({"class": "continuous_weights"}, False),
    "short weights": ({"class": "target_position", "kwargs": {"short": True, "leverage": 2.0}}, True),
    "position": ({"class": "discrete_buy_sell_hold", "kwargs": {"asset": "A0"}}, False),
    "bracket": ({"class": "bracket", "kwargs": {"asset": "A0"}}, False),
    "short bracket": ({"class": "bracket", "kwargs": {"asset": "A0", "short": True, "fraction": 1.5}}, True),
}


#: How weights become units: at the fill, or by rules when the decision is made.
SIZINGS = {
    "at_fill": {},
    "at_decision": {"sizing": "at_decision"},
    "lots": {
        "sizing": "at_decision",
        "order_rules": {"lot": 1, "rebalance_threshold": 0.02, "min_notional": 50, "max_order_notional": 3000},
    },
}
#: Ways whose targets are weights.
BY_WEIGHT = ("softmax", "weights", "short weights")
#: Stages that change them.
CAPPED = [{"class": "position_cap", "kwargs": {"max_position": 0.2}}]


def numbers(array):
    return array.cpu().numpy() if hasattr(array, "cpu") else array


def actions_of(env, rng):
    space = env.single_action_space
    if space.dtype.kind == "f":
        found = rng.uniform(-1.0, 1.0, (env.num_envs, *space.shape)).astype(space.dtype)
    else:
        found = rng.integers(0, space.n if hasattr(space, "n") else space.nvec, (env.num_envs, *space.shape))
    return on_device(env, found)


def on_device(env, actions):
    """The actions as the environment takes them."""
    if not hasattr(env, "device"):
        return actions
    import torch

    return torch.from_numpy(actions)


def logged(env, tables, infos):
    """Positions and fills of a step, with the account's own numbers."""
    log = {name: numbers(array) for name, array in infos["trades"].items()}
    account = {name: numbers(infos[name]) for name in ("cash", "portfolio_value", "cost", "carry", "turnover")}
    return log, account, tables.positions(log, account["cash"], account["carry"]), tables.fills(log)


def assert_adds_up(log, account, positions, fills):
    """Every identity of `market.trades`, to 1e-9 of the equity before the step."""
    n = len(account["cash"])
    scale = np.maximum(np.abs(log["value_before"]), 1.0)

    def per_row(values):
        return np.bincount(fills.row, values, n)

    def same(found, expected):
        assert (np.abs(found - expected) <= 1e-9 * scale).all(), (found, expected)

    worth = positions.quantity * positions.price
    same(account["cash"] + worth.sum(axis=1), account["portfolio_value"])
    before = positions.quantity_before * positions.price_before
    same(log["cash_before"] + before.sum(axis=1), log["value_before"])
    cost = fills.commission + fills.spread + fills.impact
    same(per_row(cost), account["cost"])
    same(positions.carry.sum(axis=1) + positions.cash_carry, account["carry"])
    moved = per_row(fills.quantity * fills.price)
    change = positions.dividends.sum(axis=1) - moved - account["cost"] - account["carry"]
    same(account["cash"], log["cash_before"] + change)
    filled = np.zeros_like(positions.quantity)
    np.add.at(filled, (fills.row, fills.asset), fills.quantity)
    units = positions.quantity_before + filled + positions.split_quantity
    same(((units - positions.quantity) * positions.price).sum(axis=1), 0.0)
    assert (np.abs(units - positions.quantity) <= 1e-9 * np.maximum(np.abs(units), 1.0)).all()
    assert (fills.quantity != 0).all()
    assert (cost >= 0).all()
    assert (np.diff(fills.row) >= 0).all()
    first = np.searchsorted(fills.row, fills.row)
    assert (fills.number == np.arange(len(fills.row)) - first).all()


def play(env, seed, steps=40):
    """The reasons of all fills of some steps that add up."""
    tables = env.log_trades()
    env.reset(seed=seed)
    rng = np.random.default_rng(seed)
    reasons = set()
    for _ in range(steps):
        *_, infos = env.step(actions_of(env, rng))
        step = logged(env, tables, infos)
        assert_adds_up(*step)
        reasons |= {REASONS[code] for code in step[-1].reason}
    return reasons


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    fill=st.sampled_from(sorted(FILL_POLICIES)),
    costs=st.sampled_from(COSTS),
    way=st.sampled_from(sorted(WAYS)),
    actions=st.booleans(),
    gate=st.booleans(),
    stages=st.sampled_from([[], CAPPED]),
    funding=st.sampled_from([0.0, 0.01, -0.01]),
    sizing=st.sampled_from(sorted(SIZINGS)),
    backend=st.sampled_from(["numpy", "torch"]),
)
def test_every_step_of_every_way_of_trading_adds_up(
    seed, fill, costs, way, actions, gate, stages, funding, sizing, backend
):
    action, lends = WAYS[way]
    panel = random_panel(seed, actions=actions)
    turbulence = np.random.default_rng(seed).uniform(0.0, 100.0, panel.num_bars)
    env = make_env(
        "stock_trading",
        panel=panel.with_market_features({"turbulence": turbulence}),
        num_envs=3,
        backend=backend,
        phase="train",
        fill=fill,
        costs={**costs, "funding_rate": funding} if lends else costs,
        margin=MARGIN if lends else None,
        initial_cash=10_000.0,
        episode_bars=15,
        action=action,
        observation={"class": "portfolio_state"},
        **({"turbulence_threshold": 70.0} if gate else {}),
        **({**SIZINGS[sizing], "portfolio": stages} if way in BY_WEIGHT else {}),
    )
    play(env, seed)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("alias", TRADING)
def test_every_environment_on_the_decision_step_adds_up(alias, backend):
    panel = random_panel(7, bars=60, assets=1 if alias == "tradesim_algotrading" else 4, actions=True)
    kwargs = {"lookback": 10} if alias == "stock_portfolio" else {}
    env = make_env(alias, panel=panel, num_envs=4, backend=backend, **kwargs)
    assert "action" in play(env, 3)
    assert env.traded_names.assets == panel.assets


def trend(closes, **columns):
    """One asset that opens where it closed before, on days from 2020-03-02 on."""
    close = np.array(closes, float)[:, None]
    opens = np.concatenate([close[:1], close[:-1]])
    arrays = {
        "timestamps": np.datetime64("2020-03-02") + np.arange(len(close)).astype("timedelta64[D]"),
        "assets": ["A"],
        "close": close,
        "open": opens,
        "high": np.maximum(opens, close),
        "low": np.minimum(opens, close),
        **{name: np.array(values, float)[:, None] for name, values in columns.items()},
    }
    return MarketPanel.from_arrays(arrays)


def steps_of(panel, actions, **kwargs):
    """Positions and fills of each step of one account of 1000 that makes these actions."""
    kwargs = {"costs": FREE, "fill": "next_open", "initial_cash": 1000.0, **kwargs}
    env = make_env("stock_trading", panel=panel, num_envs=1, phase="evaluate", **SEEN, **kwargs)
    tables = env.log_trades()
    env.reset()
    found = []
    for action in actions:
        *_, infos = env.step(on_device(env, np.array([action], env.single_action_space.dtype)))
        step = logged(env, tables, infos)
        assert_adds_up(*step)
        found.append(step)
    return found


def fill_rows(step):
    fills = step[-1]
    reasons = [REASONS[code] for code in fills.reason]
    return list(zip(fills.quantity.tolist(), fills.price.tolist(), reasons, strict=True))


SEEN = {"observation": {"class": "portfolio_state"}}
WEIGHT = {"action": {"class": "continuous_weights"}}
BRACKET = {"action": {"class": "bracket", "kwargs": {"stop_losses": [0.05], "take_profits": [0.1]}}}


def test_a_buy_at_the_next_open_is_a_fill_with_commission_spread_and_impact():
    panel = trend([10.0, 10.0, 12.0], volume=[400.0] * 3)
    costs = {"commission_rate": 0.001, "commission_per_share": 0.01, "half_spread_bps": 20.0, "impact": 0.5}
    orders = {"action": {"class": "integer_shares", "kwargs": {"hmax": 4}}}
    first, second = steps_of(panel, [[1.0], [-0.25]], costs=costs, **orders)
    _, _, positions, fills = first
    assert fill_rows(first) == [(4.0, 10.0, "action")]
    assert fills.commission[0] == pytest.approx(40 * 0.001 + 4 * 0.01)
    assert fills.spread[0] == pytest.approx(40 * 0.002)
    assert fills.impact[0] == pytest.approx(40 * 0.5 * (4 / 400) ** 0.5)
    assert positions.quantity_before[0, 0] == 0.0
    assert positions.quantity[0, 0] == 4.0
    assert positions.price[0, 0] == 10.0
    assert positions.targets[0, 0].tolist() == [4.0]
    assert fill_rows(second) == [(-1.0, 10.0, "action")]
    assert second[2].price[0, 0] == 12.0
    assert second[2].price_before[0, 0] == 10.0


def test_the_least_commission_is_one_per_fill():
    panel = trend([10.0, 10.0, 10.0])
    orders = {"action": {"class": "integer_shares", "kwargs": {"hmax": 4}}}
    bought, held = steps_of(panel, [[1.0], [0.0]], costs={**FREE, "commission_minimum": 3.0}, **orders)
    assert bought[-1].commission.tolist() == [3.0]
    assert fill_rows(held) == []


@pytest.mark.parametrize(
    ("closes", "price", "reason"), [([10.0, 10.0, 9.0], 9.5, "stop"), ([10.0, 10.0, 12.0], 11.0, "take_profit")]
)
def test_an_exit_of_a_bracket_is_a_fill_of_its_own(closes, price, reason):
    entered, left = steps_of(trend(closes), [2, 0], **BRACKET)
    assert fill_rows(entered) == [(pytest.approx(100.0), 10.0, "action")]
    assert fill_rows(left) == [(pytest.approx(-100.0), pytest.approx(price), reason)]
    # Nothing was ordered: what is held is what was wanted.
    assert left[2].targets[0, 0].tolist() == [1.0]
    assert left[2].quantity[0, 0] == 0.0


def test_a_bracket_that_is_entered_and_left_in_one_bar_has_two_fills_in_that_order():
    (step,) = steps_of(trend([10.0, 8.0, 8.0]), [2], **BRACKET)
    assert [(sign > 0, reason) for sign, _, reason in fill_rows(step)] == [(True, "action"), (False, "stop")]
    assert step[-1].number.tolist() == [0, 1]


def test_at_closes_an_exit_comes_before_the_order_of_the_same_bar():
    closes = [10.0, 10.0, 9.0, 9.0]
    _, turned = steps_of(trend(closes), [2, 2], fill="next_close", **BRACKET)
    assert [reason for _, _, reason in fill_rows(turned)] == ["stop"]


def test_what_the_gate_sells_is_sold_by_the_gate():
    panel = trend([10.0, 10.0, 10.0, 10.0]).with_market_features({"turbulence": np.array([0.0, 50.0, 0.0, 0.0])})
    bought, gated, again = steps_of(panel, [[0.5], [0.5], [0.0]], turbulence_threshold=50.0, **WEIGHT)
    assert [reason for _, _, reason in fill_rows(bought)] == ["action"]
    assert fill_rows(gated) == [(pytest.approx(-50.0), 10.0, "gate")]
    assert gated[2].targets[0, 0].tolist() == [0.5, 0.0]
    assert fill_rows(again) == []


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_what_the_stop_of_an_order_sells_is_sold_by_a_stop_whatever_the_agent_orders(backend):
    stops = {"action": {"class": "stop_loss_shares", "kwargs": {"hmax": 8, "stop": 0.9}}, "backend": backend}
    panel = trend([10.0, 10.0, 9.0, 9.0, 9.0])
    bought, held, stopped, after = steps_of(panel, [[1.0], [0.0], [1.0], [-0.5]], **stops)
    assert fill_rows(bought) == [(8.0, 10.0, "action")]
    assert fill_rows(held) == fill_rows(after) == []
    assert fill_rows(stopped) == [(-8.0, 9.0, "stop")]
    assert stopped[2].targets[0, 0].tolist() == [-8.0]


def test_what_the_agent_sells_itself_is_no_stop():
    stops = {"action": {"class": "stop_loss_shares", "kwargs": {"hmax": 8, "stop": 0.9}}}
    _, sold = steps_of(trend([10.0, 10.0, 10.0]), [[1.0], [-1.0]], **stops)
    assert fill_rows(sold) == [(-8.0, 10.0, "action")]


def test_the_stages_are_the_action_and_the_gate_where_there_is_one():
    panel = trend([10.0] * 3).with_market_features({"turbulence": np.zeros(3)})
    plain = make_env("stock_trading", panel=panel, num_envs=1, **SEEN, **WEIGHT)
    gated = make_env("stock_trading", panel=panel, num_envs=1, turbulence_threshold=1.0, **SEEN, **WEIGHT)
    assert plain.traded_names.stages == ("continuous_weights",)
    assert gated.traded_names.stages == ("continuous_weights", "turbulence_gate")
    assert (plain.traded_names.assets, plain.traded_names.targets) == (("A",), "weights")


def test_an_asset_that_ends_is_closed_by_that():
    close = np.array([[10.0, 5.0], [10.0, 5.0], [11.0, 5.0], [np.nan, 5.0]])
    stamps = np.datetime64("2020-03-02") + np.arange(4).astype("timedelta64[D]")
    panel = MarketPanel.from_arrays({"timestamps": stamps, "assets": ["A", "B"], "close": close, "open": close})
    bought, ended = steps_of(panel, [[0.5, 0.0], [0.5, 0.0]], **WEIGHT)
    assert [reason for _, _, reason in fill_rows(bought)] == ["action"]
    quantity, price, reason = fill_rows(ended)[-1]
    assert (quantity, price, reason) == (
        pytest.approx(-ended[0]["quantity_before"][0, 0], rel=0.2),
        11.0,
        "asset_ended",
    )
    assert ended[2].quantity[0].tolist() == [0.0, 0.0]


def test_a_margin_call_closes_and_the_carry_is_that_of_what_was_held_before_it():
    short = {"action": {"class": "target_position", "kwargs": {"short": True, "leverage": 2.0}}, "margin": MARGIN}
    panel = trend([10.0, 10.0, 14.0])
    sold, called = steps_of(panel, [[-1.0], [-1.0]], costs={**FREE, "borrow_rate": 0.252}, **short)
    assert fill_rows(sold) == [(pytest.approx(-200.0), 10.0, "action")]
    assert sold[2].carry[0, 0] == pytest.approx(2000.0 * 0.252 / panel.periods_per_year)
    assert sold[2].cash_carry[0] == 0.0
    (*_, last) = fill_rows(called)
    assert last == (pytest.approx(-called[0]["quantity"][0, 0] + 200.0, rel=0.01), 14.0, "margin_call")
    assert called[2].carry[0, 0] > 0.0


def test_what_is_borrowed_in_cash_is_the_carry_of_cash():
    margin = {"initial": 0.5, "maintenance": 0.1, "short": False}
    lever = {"action": {"class": "target_position", "kwargs": {"leverage": 2.0}}, "margin": margin}
    panel = trend([10.0, 10.0, 10.0])
    (step,) = steps_of(panel, [[1.0]], costs={**FREE, "borrow_rate": 0.252}, **lever)
    assert step[2].carry[0, 0] == 0.0
    assert step[2].cash_carry[0] == pytest.approx(1000.0 * 0.252 / panel.periods_per_year)


@pytest.mark.parametrize("fill", ["next_open", "same_close"])
def test_buys_and_sales_have_their_own_commission(fill):
    costs = {**FREE, "commission_rate": 0.002, "sell_commission_rate": 0.001}
    orders = {"action": {"class": "integer_shares", "kwargs": {"hmax": 4}}}
    bought, sold = steps_of(trend([10.0] * 4), [[1.0], [-1.0]], costs=costs, fill=fill, **orders)
    assert bought[-1].commission.tolist() == pytest.approx([40 * 0.002])
    assert sold[-1].commission.tolist() == pytest.approx([40 * 0.001])


def test_a_target_that_a_stage_changed_and_the_gate_left_is_none_of_the_gates():
    panel = trend([10.0] * 4).with_market_features({"turbulence": np.array([0.0, 50.0, 0.0, 0.0])})
    stages = {"portfolio": [{"class": "position_cap", "kwargs": {"max_position": 0.25}}]}
    bought, gated = steps_of(panel, [[0.5], [0.5]], turbulence_threshold=50.0, **stages, **WEIGHT)
    assert bought[2].targets[0, 0].tolist() == [0.5, 0.25, 0.25]
    assert fill_rows(bought) == [(pytest.approx(25.0), 10.0, "action")]
    assert gated[2].targets[0, 0].tolist() == [0.5, 0.25, 0.0]
    assert fill_rows(gated) == [(pytest.approx(-25.0), 10.0, "gate")]


@pytest.mark.parametrize("rate", [0.0, 0.01])
def test_what_was_borrowed_before_a_margin_call_is_the_carry_of_cash(rate):
    """The sale by force comes after the borrow: neither its money nor its costs lower what was owed."""
    margin = {"initial": 0.5, "maintenance": 0.4, "short": False}
    lever = {"action": {"class": "target_position", "kwargs": {"leverage": 2.0}}, "margin": margin}
    costs = {**FREE, "borrow_rate": 0.252, "commission_rate": rate}
    panel = trend([10.0, 10.0, 10.0, 7.0])
    _, held, called = steps_of(panel, [[0.9], [0.9], [0.9]], costs=costs, **lever)
    (*_, last) = fill_rows(called)
    assert last[2] == "margin_call"
    assert called[2].quantity[0, 0] == 0.0
    ordered = [(units, price) for units, price, reason in fill_rows(called) if reason == "action"]
    paid = sum(units * price + abs(units) * price * rate for units, price in ordered)
    owed = -(held[1]["cash"][0] - paid)
    assert owed > 700.0
    assert called[2].cash_carry[0] == pytest.approx(owed * 0.252 / panel.periods_per_year)


def test_what_is_bought_at_the_close_is_split_with_the_rest():
    panel = trend([10.0, 10.0, 5.0, 5.0], splits=[1, 1, 2, 1])
    _, split = steps_of(panel, [[0.0], [0.5]], fill="same_close", **WEIGHT)
    assert fill_rows(split) == [(pytest.approx(50.0), 10.0, "action")]
    assert split[2].split_quantity[0, 0] == pytest.approx(50.0)
    assert split[2].quantity[0, 0] == pytest.approx(100.0)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_funding_is_paid_by_longs_and_earned_by_shorts(side):
    lever = {"action": {"class": "target_position", "kwargs": {"short": True}}, "margin": MARGIN}
    panel = trend([10.0] * 3)
    (step,) = steps_of(panel, [[side * 0.5]], costs={**FREE, "funding_rate": 0.01}, **lever)
    assert step[2].carry[0, 0] == pytest.approx(side * 500.0 * 0.01)  # each bar


def test_what_an_end_costs_is_at_most_what_it_brings():
    close = np.array([[10.0, 5.0], [10.0, 5.0], [1.0, 5.0], [np.nan, 5.0]])
    stamps = np.datetime64("2020-03-02") + np.arange(4).astype("timedelta64[D]")
    panel = MarketPanel.from_arrays({"timestamps": stamps, "assets": ["A", "B"], "close": close, "open": close})
    costs = {**FREE, "commission_minimum": 60.0, "half_spread_bps": 100.0}
    orders = {"action": {"class": "integer_shares", "kwargs": {"hmax": 50}}}
    _, ended = steps_of(panel, [[1.0, 0.0], [0.0, 0.0]], costs=costs, **orders)
    fills = ended[-1]
    assert fill_rows(ended) == [(-50.0, 1.0, "asset_ended")]
    # 60 of commission and 0.5 of spread for 50 of money: both are cut by one factor.
    assert fills.commission.tolist() == pytest.approx([50.0 * 60.0 / 60.5])
    assert fills.spread.tolist() == pytest.approx([50.0 * 0.5 / 60.5])


def test_a_bar_without_volume_has_no_impact():
    rates = CostModel(impact=0.5, half_spread_bps=0.0, commission_rate=0.0).rates(252.0)
    volume = np.array([0.0, 100.0])
    commission, spread, impact = fees_by_part(rates, np.array([4.0, -4.0]), np.array([10.0, 10.0]), volume)
    assert impact.tolist() == pytest.approx([0.0, 40.0 * 0.5 * 0.2])
    assert commission.tolist() == spread.tolist() == [0.0, 0.0]


def test_fills_of_one_step_stay_in_the_order_of_what_made_them():
    rows, assets = 40, 2
    shape = (rows, assets)
    sources = [
        _Source(np.ones(shape), np.full(shape, price), (np.zeros(shape),) * 3, np.zeros(shape)) for price in (1.0, 2.0)
    ]
    fills = _in_order(sources)
    assert fills.row.tolist() == np.repeat(np.arange(rows), 4).tolist()
    assert fills.price.tolist() == [1.0, 1.0, 2.0, 2.0] * rows
    assert fills.number.tolist() == [0, 1, 2, 3] * rows


@pytest.mark.parametrize(("fill", "units"), [("next_open", 50.0), ("same_close", 50.0)])
def test_a_split_and_a_dividend_change_quantity_and_cash_without_a_fill(fill, units):
    panel = trend([10.0, 10.0, 10.0, 5.0], splits=[1, 1, 1, 2], dividends=[0, 0, 0, 0.25])
    _, held, split = steps_of(panel, [[0.5], [0.5], [0.5]], fill=fill, **WEIGHT)
    assert held[2].quantity[0, 0] == pytest.approx(units)
    positions = split[2]
    assert positions.split_quantity[0, 0] == pytest.approx(units)
    assert positions.dividends[0, 0] == pytest.approx(2 * units * 0.25)
    assert positions.price_before[0, 0] == 10.0
    assert positions.price[0, 0] == 5.0


def test_actions_are_about_their_assets_and_cash():
    panel = random_panel(1, assets=3, gaps=False)
    symbols = {
        way: make_env("stock_trading", panel=panel, num_envs=1, action=action).traded_names.action
        for way, (action, lends) in WAYS.items()
        if not lends
    }
    assert symbols["softmax"] == ("CASH", "A0", "A1", "A2")
    assert symbols["whole"] == symbols["weights"] == symbols["levels"] == ("A0", "A1", "A2")
    assert symbols["bracket"] == symbols["position"] == ("A0",)


def test_nothing_is_logged_before_it_is_asked_for():
    env = make_env("stock_trading", panel=trend([10.0] * 5), num_envs=1, **SEEN)
    env.reset()
    assert "trades" not in env.step(np.zeros((1, 1), np.float32))[-1]
    env.log_trades()
    assert "trades" in env.step(np.zeros((1, 1), np.float32))[-1]


def test_a_logged_step_is_the_step_that_is_not_logged():
    panel = random_panel(5, actions=True)
    for backend in ("numpy", "torch"):
        envs = [make_env("stock_trading", panel=panel, num_envs=4, backend=backend) for _ in range(2)]
        envs[1].log_trades()
        for env in envs:
            env.reset(seed=1)
        rng = [np.random.default_rng(0) for _ in envs]
        for _ in range(30):
            plain, log = (env.step(actions_of(env, own)) for env, own in zip(envs, rng, strict=True))
            assert all((numbers(plain[k]) == numbers(log[k])).all() for k in range(4))
            assert (numbers(plain[4]["cash"]) == numbers(log[4]["cash"])).all()
