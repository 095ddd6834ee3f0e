"""Deciding now: what a policy would trade, from bars so far and an account, is what its environment did there."""

import dataclasses
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import settings as effort
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import AlphaSwarmError, DataError, EnvError, OrderError, RunError
from alphaswarm_rl.core.kinds import ObservationBuilder, PortfolioStage
from alphaswarm_rl.core.risk_limits import RiskLimits
from alphaswarm_rl.execution.equity_guard import EquityGuard
from alphaswarm_rl.inference.account import Account
from alphaswarm_rl.inference.account_file import read_account
from alphaswarm_rl.inference.decision_data import bars_of_file, bars_of_run
from alphaswarm_rl.inference.policy_plan import read_plan
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.market.bar_row import BarRow
from alphaswarm_rl.settings import Settings
from tests.inference.deciding import ASSETS, START, frame_of_bars, row_of, scene_of, spec_of

WEIGHTS = [
    {"class": "softmax_weights"},
    {"class": "continuous_weights"},
    {"class": "target_position", "kwargs": {"leverage": 0.6}},
]
STAGES = [
    [],
    [{"class": "identity"}],
    [{"class": "momentum", "kwargs": {"k": 2, "lookback": 4}}, {"class": "equal_weight"}],
    [{"class": "softmax"}, {"class": "turbulence", "kwargs": {"threshold": 3.0, "scale": 0.5, "cooldown_bars": 2}}],
    [{"class": "volatility_target", "kwargs": {"lookback": 5}}, {"class": "position_cap"}],
    [{"class": "position_cap"}, {"class": "drawdown", "kwargs": {"max_drawdown": 0.01}}],
    [{"class": "turnover", "kwargs": {"max_turnover": 0.1}}, {"class": "daily_loss"}],
]
COSTS = [
    {},
    {"commission_rate": 0.0, "half_spread_bps": 0.0},
    {"commission_minimum": 2.0, "commission_per_share": 0.01},
    {"impact": 0.1},
]
RULES = [
    {},
    {"sizing": "at_decision"},
    {"sizing": "at_decision", "order_rules": {"lot": 1, "min_notional": 50, "rebalance_threshold": 0.01}},
]
OTHERS = [
    {"class": "integer_shares", "kwargs": {"hmax": 200}},
    {"class": "stop_loss_shares", "kwargs": {"hmax": 200, "stop": 0.98}},
    {"class": "bracket", "kwargs": {"asset": "A"}},
    {"class": "discrete_buy_sell_hold", "kwargs": {"asset": "B"}},
    {"class": "masked_discrete", "kwargs": {"asset": "A"}},
]
CASH = Account(cash=100_000.0)
OBSERVATIONS = [
    [{"class": "portfolio_state"}, {"class": "technical_indicators"}],
    [{"class": "portfolio_state", "kwargs": {"pieces": ["cash", "prices", "value", "drawdown", "time_left"]}}],
    [{"class": "lookback_stack", "kwargs": {"lookback": 3, "price_returns": True}}, {"class": "turbulence"}],
    [{"class": "covariance", "kwargs": {"lookback": 6}}, {"class": "microstructure", "kwargs": {"lookback": 4}}],
    [{"class": "multi_timeframe", "kwargs": {"timeframes": ["1w"], "bars": 2, "warmup": 20}}],
]
OBS = [{}, {"normalize": "fixed", "stack_frames": 2}]


def remembers(spec):
    """Whether one look at the account does not say what the policy needs."""
    stages = {ref["class"] for ref in spec.env.kwargs.get("portfolio", ())}
    return bool(stages & {"drawdown", "daily_loss"}) or (spec.obs.stack_frames or 1) > 1


def ordered(decision):
    units = {order.symbol: order.signed_quantity for order in decision.orders}
    return [units.get(symbol, 0.0) for symbol in decision.assets]


def played(scene, steps=12):
    """Plays the environment with the policy, and decides beside it bar by bar with carried features."""
    env, raw, policy = scene.env, scene.env.unwrapped, scene.server.policy
    raw.log_trades()
    observation, _ = env.reset()
    memory, starts = None, np.array([True])
    stream = scene.server.decision_stream(scene.sofar)
    for step in range(steps):
        account, bars = scene.account(), scene.sofar
        if step:
            stream.add(row_of(scene.bars, bars.num_bars - 1))
        masks = env.action_masks() if hasattr(raw, "action_masks") else None
        action, memory = policy.predict(observation, memory, starts, deterministic=True, masks=masks)
        decided = stream.decide(account)
        observation, _, terminated, truncated, infos = env.step(action)
        yield account, bars, decided, infos["trades"], raw
        starts = terminated | truncated
        if starts[0]:
            return


def same(decision, trades, raw):
    """A decision is what the environment did."""
    targets = trades["targets"][0]
    if decision.targets == "position":
        targets = np.full((len(targets), len(ASSETS)), np.nan)
        targets[:, raw.trade.asset] = trades["targets"][0]
    np.testing.assert_array_equal(decision.by_stage, targets)
    if raw._decision.sized is not None:
        assert not decision.indicative
        np.testing.assert_array_equal(ordered(decision), raw._decision.sized.orders[0])
    else:
        assert decision.indicative


@given(
    seed=st.integers(0, 1000),
    action=st.sampled_from(WEIGHTS),
    stages=st.sampled_from(STAGES),
    costs=st.sampled_from(COSTS),
    rules=st.sampled_from(RULES),
    fill=st.sampled_from(["next_open", "next_close", "same_close", "cheat_on_open"]),
    obs=st.sampled_from(OBS),
    observed=st.sampled_from(OBSERVATIONS),
)
@effort(max_examples=15)
def test_a_decision_is_what_the_environment_did_at_that_bar(
    tmp_path_factory, seed, action, stages, costs, rules, fill, obs, observed
):
    frame = frame_of_bars(seed)
    env = {"portfolio": stages, "costs": costs, "fill": fill, **rules}
    observation = {"class": "stacked", "kwargs": {"parts": observed}}
    spec = spec_of(frame, env_kwargs=env, action=action, obs=obs, observation=observation)
    scene = scene_of(spec, frame, Settings(home=tmp_path_factory.mktemp("home")))
    for step, (account, bars, decided, trades, raw) in enumerate(played(scene)):
        same(decided, trades, raw)
        if step == 0 or not remembers(spec):
            same(scene.server.decide(bars, account), trades, raw)


@pytest.mark.parametrize("action", OTHERS, ids=[action["class"] for action in OTHERS])
def test_shares_and_positions_are_decided_as_in_the_environment(settings, action):
    frame = frame_of_bars(3, gaps=False)
    if "asset" not in action.get("kwargs", {}):
        spec = spec_of(frame, action=action)
    else:
        spec = spec_of(frame, action=action, reward={"class": "log_return"})
    scene = scene_of(spec, frame, settings)
    filled = 0
    for account, bars, decided, trades, raw in played(scene):
        same(decided, trades, raw)
        once = scene.server.decide(bars, account)
        same(once, trades, raw)
        assert once.orders == decided.orders
        for order in decided.orders:
            (ordered_units,) = (
                trades["ordered"][0][index] for index, name in enumerate(ASSETS) if name == order.symbol
            )
            assert np.sign(ordered_units) in (0.0, np.sign(order.signed_quantity))
            filled += ordered_units != 0
            assert (order.stop_loss is not None) == (action["class"] == "bracket" and order.signed_quantity > 0)
            if order.stop_loss is not None:
                close = bars.close[-1, ASSETS.index(order.symbol)]
                assert order.stop_loss < close < order.take_profit
    assert filled or action["class"] in ("bracket", "discrete_buy_sell_hold", "masked_discrete")


def entered(scene, action):
    """A decision of a policy that answers with that action."""
    scene.server.policy._learner.predict = lambda *_, **__: (np.array([action]), None)
    return scene.server.decide(scene.bars.cut(0, START + 5), CASH)


def test_a_bracket_enters_with_its_stop_and_its_take_profit(settings):
    frame = frame_of_bars(3, gaps=False)
    kwargs = {"asset": "A", "stop_losses": [0.02, 0.05], "take_profits": [0.04, 0.1]}
    spec = spec_of(frame, action={"class": "bracket", "kwargs": kwargs}, reward={"class": "log_return"})
    scene = scene_of(spec, frame, settings)
    close = scene.bars.close[START + 4, 0]
    (order,) = entered(scene, 3).orders  # the first stop with the second take-profit
    assert (order.symbol, order.side, order.reason) == ("A", "buy", "action")
    assert (order.stop_loss, order.take_profit) == (close - close * 0.02, close + close * 0.1)
    assert entered(scene, 0).orders == ()
    assert np.isnan(entered(scene, 0).target).all()


def test_shares_are_bound_by_what_is_held_and_by_cash(settings):
    frame = frame_of_bars(3, gaps=False)
    spec = spec_of(frame, action={"class": "integer_shares", "kwargs": {"hmax": 10_000}})
    scene = scene_of(spec, frame, settings)
    scene.server.policy._learner.predict = lambda *_, **__: (np.array([[-1.0, 1.0, 0.0]], np.float32), None)
    bars = scene.bars.cut(0, START + 5)
    decided = scene.server.decide(bars, Account(cash=1000.0, positions={"A": 7.0}))
    sold, bought = decided.orders
    assert (sold.symbol, sold.signed_quantity, bought.symbol) == ("A", -7.0, "B")
    assert 0 < bought.quantity * bars.close[-1, 1] < 1000.0 + 7.0 * bars.close[-1, 0]
    assert [(each.symbol, each.reason) for each in decided.skipped] == [("A", "not_held"), ("B", "buying_power")]


# -- what is not known ----------------------------------------------------------------------------------------------


def test_what_nobody_said_of_the_account_is_refused_by_name(settings):
    frame = frame_of_bars(5, gaps=False)
    observed = {"class": "portfolio_state", "kwargs": {"pieces": ["cash", "drawdown", "time_left"]}}
    scene = scene_of(spec_of(frame, observation=observed), frame, settings)
    bars = scene.bars.cut(0, START + 5)
    with pytest.raises(OrderError, match=r"peak.*portfolio_state.*peak="):
        scene.server.decide(bars, CASH)
    with pytest.raises(OrderError, match=r"last.*portfolio_state.*bars_left="):
        scene.server.decide(bars, dataclasses.replace(CASH, peak=100_000.0))
    scene.server.decide(bars, dataclasses.replace(CASH, peak=100_000.0, bars_left=3))


def test_a_stop_needs_the_average_cost(settings):
    frame = frame_of_bars(5, gaps=False)
    scene = scene_of(spec_of(frame, action={"class": "stop_loss_shares"}), frame, settings)
    bars = scene.bars.cut(0, START + 5)
    held = Account(cash=1e5, positions={"A": 10.0})
    with pytest.raises(OrderError, match=r"average_cost"):
        scene.server.decide(bars, held)
    decided = scene.server.decide(bars, dataclasses.replace(held, average_cost={"A": 1e6}))
    assert [(order.symbol, order.reason, order.quantity) for order in decided.orders if order.side == "sell"] == [
        ("A", "stop", 10.0)
    ]


def test_a_limit_that_remembers_the_account_is_refused_by_name_unless_it_saw_every_bar(settings):
    frame = frame_of_bars(5, gaps=False)
    env = {"portfolio": [{"class": "drawdown", "kwargs": {"max_drawdown": 0.1}}]}
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], env_kwargs=env), frame, settings)
    scene.server.decide(scene.bars.cut(0, START + 1), CASH)  # the first bar of the window: there is no past
    with pytest.raises(OrderError, match=r"value.*'drawdown'.*DecisionStream"):
        scene.server.decide(scene.bars.cut(0, START + 3), CASH)


class HalvesGrowth(PortfolioStage):
    """Remembers the weights that it was given, and gives no more than half of what is new."""

    rl_alias = "decide_test_halves_growth"
    role = "risk"
    asset_state = ("given",)

    def step(self, view, state, out):
        out[...] = np.where(out > state["given"], state["given"] + (out - state["given"]) / 2, out)
        state["given"][...] = out


def test_a_stage_that_remembers_weights_is_refused_by_name_unless_it_saw_every_bar(settings):
    frame = frame_of_bars(5, gaps=False)
    env = {"portfolio": [{"class": "decide_test_halves_growth"}]}
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], env_kwargs=env), frame, settings)
    for _, _, decided, trades, raw in played(scene, steps=4):
        same(decided, trades, raw)
    with pytest.raises(EnvError, match=r"halves_growth.*remembers the weights"):
        scene.server.decide(scene.sofar, CASH)


class CountsBars(ObservationBuilder):
    """How many bars of the episode it has seen, and the sum of their closes: a memory of the market alone."""

    rl_alias = "decide_test_counts_bars"

    def init(self, n, xp):
        return {"seen": xp.zeros((n, 2), dtype=xp.float64)}

    def names(self, panel):
        return ("bars", "closes")

    def step(self, view, state, out):
        state["seen"][:, 0] += 1
        state["seen"][:, 1] += view.close[:, 0]
        out[...] = state["seen"]


def test_what_remembers_the_market_alone_is_made_up_for_by_its_bars(settings):
    frame = frame_of_bars(5, gaps=False)
    parts = {"parts": [{"class": "decide_test_counts_bars"}, {"class": "portfolio_state"}]}
    spec = spec_of(frame, action=WEIGHTS[0], observation={"class": "stacked", "kwargs": parts})
    scene = scene_of(spec, frame, settings)
    for account, bars, decided, trades, raw in played(scene, steps=5):
        same(decided, trades, raw)
        same(scene.server.decide(bars, account), trades, raw)


def test_a_policy_that_remembers_the_account_decides_bar_by_bar_alone(settings):
    frame = frame_of_bars(5, gaps=False)
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], obs={"stack_frames": 3}), frame, settings)
    for _, _, decided, trades, raw in played(scene, steps=4):
        same(decided, trades, raw)
    with pytest.raises(OrderError, match="portfolio_state"):
        scene.server.decide(scene.sofar, scene.account())


def test_a_stream_sees_every_bar_once_and_in_order(settings):
    frame = frame_of_bars(5, gaps=False)
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], obs={"stack_frames": 2}), frame, settings)
    stream = scene.server.decision_stream(scene.bars.cut(0, START + 1))
    with pytest.raises(DataError, match="nothing was decided at the one before"):
        stream.add(row_of(scene.bars, START + 1))
    stream.decide(CASH)
    with pytest.raises(DataError, match="decided at already"):
        stream.decide(CASH)
    with pytest.raises(DataError, match="in their order"):
        stream.add(row_of(scene.bars, START))
    stream.add(row_of(scene.bars, START + 1))
    stream.decide(CASH)


# -- accounts, bars, files ------------------------------------------------------------------------------------------


@pytest.fixture
def scene(settings):
    frame = frame_of_bars(7, gaps=False, actions=False)
    return scene_of(spec_of(frame, action=WEIGHTS[0]), frame, settings)


@pytest.mark.parametrize(
    ("account", "words"),
    [
        (lambda: Account(cash=float("nan")), "cash"),
        (lambda: Account(cash=1.0, positions={"A": float("inf")}), "position of A"),
        (lambda: Account(cash=1.0, positions={"AA": 1.0}), "'AA'.*Did you mean|'AA'.*Known"),
        (lambda: Account(cash=1.0, positions={"A": -1.0}), "cannot be short"),
        (lambda: Account(cash=-1.0, positions={"A": 100.0}), "owes nothing"),
        (lambda: Account(cash=0.0), "equity is 0"),
        (lambda: Account(cash=1.0, peak=-1.0), "peak"),
        (lambda: Account(cash=1.0, bars_left=0), "bars_left"),
    ],
)
def test_an_account_that_cannot_be_is_refused_by_name(scene, account, words):
    with pytest.raises(OrderError, match=words):
        scene.server.decide(scene.bars.cut(0, START + 5), account())


def test_a_position_without_a_price_is_refused(settings):
    frame = frame_of_bars(7, gaps=False, actions=False)
    late = frame[(frame["tic"] != "C") | (frame["date"] >= sorted(frame["date"].unique())[START + 10])]
    scene = scene_of(spec_of(late, action=WEIGHTS[0]), late, settings)
    bars = scene.bars.cut(0, START + 5)
    with pytest.raises(OrderError, match=r"'C'.*no price"):
        scene.server.decide(bars, Account(cash=1.0, positions={"C": 1.0}))
    decided = scene.server.decide(bars, CASH)
    assert ("C", "not_tradable") in [(each.symbol, each.reason) for each in decided.skipped]


def test_bars_after_the_date_change_nothing(scene, tmp_path):
    rng = np.random.default_rng(0)
    frame = scene.server.policy.frames["bars"]
    day = str(sorted(frame["date"].unique())[START + 4])[:10]
    noise = frame.copy()
    later = noise["date"] > day
    for name in ("open", "high", "low", "close"):
        noise.loc[later, name] = 50.0 * np.exp(rng.normal(0, 1, later.sum()))
    noise.loc[later, "high"] = noise.loc[later, ["open", "high", "low", "close"]].max(axis=1)
    noise.loc[later, "low"] = noise.loc[later, ["open", "high", "low", "close"]].min(axis=1)
    expected = scene.server.decide(scene.bars.cut(0, START + 5), CASH)
    for table in (frame, noise, frame[~later]):
        file = tmp_path / "bars.parquet"
        table.to_parquet(file)
        bars = bars_of_file(scene.server.policy, file, day)
        assert str(bars.timestamps[-1])[:10] == day
        decided = scene.server.decide(bars, CASH)
        np.testing.assert_array_equal(decided.by_stage, expected.by_stage)
        assert decided.orders == expected.orders
    noise.to_csv(tmp_path / "bars.csv", index=False)
    of_csv = scene.server.decide(bars_of_file(scene.server.policy, tmp_path / "bars.csv", day), CASH)
    np.testing.assert_allclose(of_csv.by_stage, expected.by_stage, rtol=1e-12)
    of_run = scene.server.decide(bars_of_run(scene.server.policy, day), CASH)
    np.testing.assert_array_equal(of_run.by_stage, expected.by_stage)


def test_a_file_is_read_by_the_columns_of_the_run(settings, tmp_path):
    frame = frame_of_bars(7, gaps=False, actions=False).rename(columns={"close": "px", "tic": "name"})
    columns = {name: name for name in ("open", "high", "low", "volume")}
    columns |= {"close": "px", "asset": "name", "timestamp": "date"}
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], bars={"columns": columns}), frame, settings)
    frame.to_parquet(tmp_path / "bars.parquet")
    bars = bars_of_file(scene.server.policy, tmp_path / "bars.parquet")
    assert bars.fingerprint == scene.bars.fingerprint
    frame.rename(columns={"px": "close"}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(DataError, match="px"):
        bars_of_file(scene.server.policy, tmp_path / "other.parquet")
    with pytest.raises(DataError, match="no form"):
        bars_of_file(scene.server.policy, tmp_path / "bars.xlsx")


def test_a_shorter_history_is_marked_and_one_that_is_too_short_refused(scene):
    assert scene.server.decide(scene.bars.cut(0, START + 5), CASH).history == "complete"
    assert scene.server.decide(scene.bars.cut(20, START + 5), CASH).history == "short"
    with pytest.raises(DataError, match="start"):
        scene.server.decide(scene.bars.cut(0, START), CASH)
    assert (
        scene.server.decide(scene.bars.cut(0, START), CASH, start="2020-03-02").bar == scene.bars.timestamps[START - 1]
    )


def test_a_history_that_is_too_short_to_look_back_on_is_refused(settings):
    frame = frame_of_bars(7, gaps=False, actions=False)
    env = {"portfolio": [{"class": "volatility_target", "kwargs": {"lookback": 5}}]}
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], env_kwargs=env), frame, settings)
    assert scene.server.decide(scene.bars.cut(START - 6, START + 1), CASH).history == "short"
    with pytest.raises(DataError, match="looks back"):
        scene.server.decide(scene.bars.cut(START - 3, START), CASH, start="2020-01-01")


def test_a_date_that_the_data_does_not_reach_is_refused(scene):
    with pytest.raises(DataError, match="newest"):
        bars_of_run(scene.server.policy, "2030-01-01")
    with pytest.raises(DataError, match="bars from 2020-01-01"):
        bars_of_run(scene.server.policy, "2010-01-01")


def test_an_older_checkpoint_takes_what_it_does_not_say_from_its_spec(settings):
    frame = frame_of_bars(7)
    env = {"sizing": "at_decision", "costs": {"commission_rate": 0.003}, "margin": {"initial": 0.5}}
    scene = scene_of(spec_of(frame, action=WEIGHTS[0], env_kwargs=env), frame, settings)
    plan = scene.server.policy.plan
    data = json.loads(json.dumps(plan.to_json()))
    for name in ("terms", "periods_per_year", "history_start"):
        del data["market"][name]
    older = read_plan(data, checkpoint="x")
    assert older.rules(scene.spec) == plan.rules(scene.spec)
    loaded = dataclasses.replace(scene.loaded, policy=data)
    bars = scene.bars.cut(0, START + 5)
    expected = scene.server.decide(bars, CASH)
    server = PolicyServer.of(loaded, scene.server.policy.settings, frames=scene.server.policy.frames)
    found = server.decide(bars, CASH)
    assert (found.orders, found.history) == (expected.orders, "unknown")


def test_a_policy_that_sees_the_next_open_is_given_it(settings):
    frame = frame_of_bars(7)
    scene = scene_of(spec_of(frame, env_kwargs={"fill": "cheat_on_open"}), frame, settings)
    for account, bars, decided, trades, raw in played(scene, steps=4):
        same(decided, trades, raw)
        same(scene.server.decide(bars, account), trades, raw)
    bars, held = scene.sofar, scene.account()
    for opens, words in (
        (None, "next_open.*nobody said it.*Give next_open="),
        ({"A": 50.0, "B": 50.0}, "next open of 'C'"),
        ({**held.next_open, "D": 1.0}, "next open of 'D'"),
    ):
        with pytest.raises(OrderError, match=words):
            scene.server.decide(bars, dataclasses.replace(held, next_open=opens))
    for wrong in (0.0, -1.0, float("nan")):
        with pytest.raises(OrderError, match="next open of A"):
            dataclasses.replace(held, next_open={**held.next_open, "A": wrong})


def test_rules_of_the_market_are_refused(settings):
    frame = frame_of_bars(7, gaps=False)
    scene = scene_of(spec_of(frame), frame, settings)
    scene.server.policy.plan = scene.server.policy.plan.model_copy(update={"needs_env": True})
    with pytest.raises(EnvError, match="a rule that looks at its environment"):
        scene.server.decide(scene.bars.cut(0, START + 5), CASH)


def test_the_kill_switch_refuses_decisions(settings):
    frame = frame_of_bars(7, gaps=False)
    scene = scene_of(spec_of(frame, action=WEIGHTS[0]), frame, settings)
    bars = scene.bars.cut(0, START + 5)
    with PolicyServer.of(scene.loaded, settings, frames={"bars": frame}) as server:
        stream = server.decision_stream(bars)
        stream.decide(CASH)
        stream.add(row_of(scene.bars, START + 5))
        with Ledger.open(settings) as ledger:
            ledger.declare_halt("*", "enough", "test")
        time.sleep(1.5)  # what the kill switch said counts for a second
        for decide in (
            lambda: server.decide(bars, CASH),
            lambda: stream.decide(CASH),
            lambda: server.decision_stream(bars),
        ):
            with pytest.raises(RunError, match="enough"):
                decide()


def test_losses_of_the_account_halt_its_decisions(settings):
    frame = frame_of_bars(7, gaps=False, actions=False)
    scene = scene_of(spec_of(frame, action=WEIGHTS[0]), frame, settings)
    with Ledger.open(settings) as ledger, PolicyServer.of(scene.loaded, settings, frames={"bars": frame}) as server:
        guard = EquityGuard(RiskLimits(max_drawdown=0.2), ledger, scope="bot:grid")
        stream = server.decision_stream(scene.bars.cut(0, START + 1), equity_guard=guard)
        for bar, cash in ((0, 100.0), (1, 120.0), (2, 97.0)):
            if bar:
                stream.add(row_of(scene.bars, START + bar))
            stream.decide(Account(cash=cash))
        assert guard.marks.day == np.datetime64(scene.bars.timestamps[START + 2], "D")
        assert ledger.halt_status() == []
        stream.add(row_of(scene.bars, START + 3))
        with pytest.raises(RunError, match=r"bot:grid.*max_drawdown.*lost 20.83%"):
            stream.decide(Account(cash=95.0))
        (halt,) = ledger.halt_status()
        assert (halt.scope, halt.set_by) == ("bot:grid", "equity guard")
        bars = scene.bars.cut(0, START + 5)
        with pytest.raises(RunError, match="losses engaged it"):  # whatever was gained since
            server.decide(bars, Account(cash=130.0), equity_guard=guard)
        ledger.release("bot:grid", "looked at", "ann")
        guard.rearm()
        assert server.decide(bars, Account(cash=130.0), equity_guard=guard).orders
        with pytest.raises(RunError, match=r"lost 100\.00%"):  # what is worth nothing halts, too
            server.decide(scene.bars.cut(0, START + 6), Account(cash=0.0), equity_guard=guard)


def test_equal_decisions_have_equal_order_ids(scene):
    bars = scene.bars.cut(0, START + 5)
    first, again = (scene.server.decide(bars, CASH) for _ in range(2))
    assert [order.client_id for order in first.orders] == [order.client_id for order in again.orders]
    assert len({order.client_id for order in first.orders}) == len(first.orders) > 0
    assert first.weights().sha256 == again.weights().sha256
    with pytest.raises(AlphaSwarmError, match="sum"):
        first.weights(leverage=0.1)


# -- files of positions ---------------------------------------------------------------------------------------------


ONE = {"A": 2.0}


@pytest.mark.parametrize(
    ("name", "text", "more"),
    [
        ("a.csv", "symbol,quantity\nA,2\nCASH,100\n", {}),
        ("a.csv", "Symbol,Quantity,Average_Cost\nA,2,9.5\nCASH,100,\n", {"average_cost": {"A": 9.5}}),
        ("a.json", '{"A": 2, "CASH": 100}', {}),
        (
            "a.json",
            '{"cash": 100, "positions": {"A": 2}, "peak": 120, "bars_left": 4}',
            {"peak": 120.0, "bars_left": 4},
        ),
        ("a.json", '{"cash": 100, "positions": {"A": 2}, "next_open": {"A": 9}}', {"next_open": {"A": 9.0}}),
    ],
)
def test_a_file_of_positions_is_an_account(tmp_path, name, text, more):
    (tmp_path / name).write_text(text)
    assert read_account(tmp_path / name) == Account(100.0, ONE, **more)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.csv", "symbol,quantity\nA,2\n", "no cash"),
        ("a.csv", "symbol,quantity\nA,two\nCASH,1\n", "line 2.*'A'.*no number"),
        ("a.csv", "symbol,quantity\nA,nan\nCASH,1\n", "line 2.*'A'"),
        ("a.csv", "symbol,quantity\nA,1\nA,2\nCASH,1\n", "twice"),
        ("a.csv", "symbol,quantity\nA,1,3\n", "more than 2"),
        ("a.csv", "symbol,units\nA,1\n", "quantity"),
        ("a.csv", "symbol,quantity,price\nA,1,2\n", "price"),
        ("a.json", '{"A": true, "CASH": 1}', "'A'"),
        ("a.json", "[1]", "no mapping"),
        ("a.json", '{"positions": {}, "money": 3}', "money"),
        ("a.json", '{"positions": {}, "cash": 3, "bars_left": 1.5}', "whole"),
        ("a.txt", "", "no form"),
    ],
)
def test_a_wrong_file_of_positions_names_what_is_wrong(tmp_path, name, text, words):
    (tmp_path / name).write_text(text)
    with pytest.raises(OrderError, match=words):
        read_account(tmp_path / name)


def test_cash_is_said_once(tmp_path):
    (tmp_path / "a.csv").write_text("symbol,quantity\nA,2\n")
    assert read_account(tmp_path / "a.csv", 5.0) == Account(5.0, {"A": 2.0})
    (tmp_path / "b.csv").write_text("symbol,quantity\nCASH,2\n")
    with pytest.raises(OrderError, match="once"):
        read_account(tmp_path / "b.csv", 5.0)
    with pytest.raises(OrderError, match="not there"):
        read_account(Path(tmp_path / "c.csv"))


def test_a_new_bar_that_is_wrong_is_named(scene):
    stream = scene.server.decision_stream(scene.bars.cut(0, START + 1))
    row = row_of(scene.bars, START + 1)
    for changes, words in (
        ({"close": np.array([1.0, -1.0, 2.0])}, "'B'.*close"),
        ({"open": None}, "open"),
        ({"close": np.array([1.0])}, "close"),
        ({"dividends": np.zeros(3)}, "dividends"),
        ({"features": {"x": np.zeros(3)}}, "'x'"),
        ({"timestamp": scene.bars.timestamps[0]}, "order"),
    ):
        with pytest.raises(DataError, match=words):
            stream.add(dataclasses.replace(row, **changes))
    assert isinstance(row, BarRow)
    assert pd.Timestamp(row.timestamp) == pd.Timestamp(scene.bars.timestamps[START + 1])
    stream.add(row)
    stream.decide(CASH)
