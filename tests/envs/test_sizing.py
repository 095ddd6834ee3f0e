"""Environments whose decisions make orders of weights."""

import numpy as np
import pytest

from alphaswarm_rl import make_env
from alphaswarm_rl.core.errors import AlphaSwarmError, ComponentError, EnvError
from alphaswarm_rl.core.hashing import canonical_fields
from alphaswarm_rl.envs.stock_portfolio import StockPortfolio
from alphaswarm_rl.market.panel import MarketPanel
from tests.envs.panels import random_panel
from tests.envs.test_trades import BRACKET, FREE, SEEN, WEIGHT, fill_rows, on_device, steps_of, trend

AT_DECISION = {"sizing": "at_decision"}


def test_units_are_those_of_the_price_that_was_seen_whatever_the_fill_costs():
    panel = trend([10.0, 11.0, 12.0])
    panel_opens = panel.open[:, 0].tolist()
    assert panel_opens == [10.0, 10.0, 11.0]
    first, second = steps_of(panel, [[0.5], [0.5]], **WEIGHT, **AT_DECISION)
    assert fill_rows(first) == [(50.0, 10.0, "action")]
    # 500 in cash and 50 at 11 are 1050; half of it is 47.7 units, filled at the open of 11.
    assert fill_rows(second) == [(pytest.approx(525 / 11 - 50), 11.0, "action")]
    assert second[2].targets[0, 0].tolist() == [0.5]


def test_what_is_held_within_the_threshold_is_not_traded():
    panel = trend([10.0, 10.2, 10.2, 14.0, 14.0])
    rules = {"order_rules": {"rebalance_threshold": 0.05}}
    steps = steps_of(panel, [[0.5]] * 4, **WEIGHT, **AT_DECISION, **rules)
    assert [len(fill_rows(step)) for step in steps] == [1, 0, 0, 1]


def test_the_gate_sells_all_of_it_at_once():
    panel = trend([10.0] * 4).with_market_features({"turbulence": np.array([0.0, 50.0, 0.0, 0.0])})
    rules = {"order_rules": {"lot": 40, "rebalance_threshold": 0.9}}
    plain = {"turbulence_threshold": 50.0, **WEIGHT, **AT_DECISION}
    _, gated = steps_of(panel, [[1.0], [1.0]], **plain)
    assert fill_rows(gated) == [(-100.0, 10.0, "gate")]
    bought, gated = steps_of(panel, [[1.0], [1.0]], **plain, **rules)
    assert fill_rows(bought) == [(80.0, 10.0, "action")]
    assert fill_rows(gated) == [(-80.0, 10.0, "gate")]


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize(
    "action",
    [{"class": "integer_shares"}, {"class": "discrete_buy_sell_hold", "kwargs": {"asset": "A"}}, BRACKET["action"]],
)
def test_actions_without_weights_are_refused(action, backend):
    with pytest.raises(EnvError, match="sizing: at_decision: it makes units of weights"):
        make_env("stock_trading", panel=trend([10.0] * 3), action=action, backend=backend, **SEEN, **AT_DECISION)


def test_rules_of_orders_that_nobody_makes_are_refused():
    with pytest.raises(AlphaSwarmError, match="they need sizing: at_decision"):
        make_env("stock_portfolio", panel=random_panel(1), lookback=5, order_rules={"lot": 1})
    rules = {"min_notional": 10.0, "max_order_notional": 5.0}
    with pytest.raises(AlphaSwarmError, match="max_order_notional must be above min_notional"):
        make_env("stock_portfolio", panel=random_panel(1), lookback=5, **AT_DECISION, order_rules=rules)
    with pytest.raises(ComponentError, match="at_decisions"):
        make_env("stock_portfolio", panel=random_panel(1), lookback=5, sizing="at_decisions")


def test_a_specs_hash_has_sizing_only_where_it_is_not_at_the_fill():
    plain, sized = StockPortfolio.Config(), StockPortfolio.Config(sizing="at_decision")
    assert not {"sizing", "order_rules"} & canonical_fields(plain).keys()
    assert canonical_fields(sized)["sizing"] == "at_decision"
    assert StockPortfolio.Config.model_validate({}, context={"stored": True}).sizing == "at_fill"


def test_a_state_is_put_back_and_goes_on_bit_for_bit():
    kwargs = {"panel": random_panel(3), "num_envs": 4, "action": {"class": "continuous_weights"}, "costs": FREE}
    env = make_env("stock_trading", **kwargs, **AT_DECISION, order_rules={"lot": 1})
    env.reset(seed=1)
    rng = np.random.default_rng(0)
    actions = rng.random((6, 4, 4)).astype(np.float32)
    env.step(actions[0])
    state = env.get_state()
    first = [env.step(one)[4]["portfolio_value"] for one in actions[1:]]
    env.set_state(state)
    again = [env.step(one)[4]["portfolio_value"] for one in actions[1:]]
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_orders_know_nothing_of_the_bars_that_come(backend):
    past = random_panel(5, bars=30, gaps=False)
    now = 14
    later = {name: getattr(past, name).copy() for name in ("open", "high", "low", "close", "volume")}
    for name in ("open", "high", "low", "close"):
        later[name][now + 1 :] *= 1.7
    other = MarketPanel.from_arrays({"timestamps": past.timestamps, "assets": list(past.assets), **later})
    found = []
    for panel in (past, other):
        rules = {"lot": 1, "rebalance_threshold": 0.02}
        env = make_env(
            "stock_trading",
            panel=panel,
            phase="evaluate",
            backend=backend,
            **WEIGHT,
            **SEEN,
            **AT_DECISION,
            order_rules=rules,
        )
        env.log_trades()
        env.reset()
        rng, ordered = np.random.default_rng(1), []
        for _ in range(now + 1):
            *_, infos = env.step(on_device(env, rng.uniform(0.0, 0.4, (1, 4)).astype(np.float32)))
            ordered.append(infos["trades"]["ordered"] if backend == "torch" else env.sized.orders.copy())
        found.append(np.array([np.asarray(orders) for orders in ordered]))
    # What NumPy's form ordered at the last bar that is alike; torch shows what was filled, one bar less.
    alike = now + 1 if backend == "numpy" else now
    np.testing.assert_array_equal(found[0][:alike], found[1][:alike])
