"""The classical baselines, which look at the market."""

from __future__ import annotations

import json

import numpy as np
import pytest

from alphaswarm_rl.core import kinds
from alphaswarm_rl.core.contracts import EnvRequest, PolicyRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.envs.observation_transform import ObservationSettings
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv
from alphaswarm_rl.policies.market_runner import trading_env
from alphaswarm_rl.recording.episodes import EpisodeTracker
from alphaswarm_rl.runtime.rollout import EvaluationPlan, evaluate_learner

from .markets import CASH, POLICIES, QUICK, env_of, learner_of, panel_of, play, random_panel, runner_of

NAN = np.nan


def test_equal_weights_earn_the_mean_return_of_every_bar():
    panel = random_panel(assets=4)
    returns = panel.close[1:] / panel.close[:-1]
    expected = CASH * np.cumprod(returns.mean(axis=1))
    assert play("equal_weight", env_of(panel))["value"] == pytest.approx(expected, rel=1e-9)


def test_equal_weights_are_held_between_rebalancings():
    panel = random_panel(bars=8)
    value, expected = CASH, []
    for start in (0, 3, 6):
        for bar in range(start, min(start + 3, 7)):
            expected.append(value * (panel.close[bar + 1] / panel.close[start]).mean())
        value = expected[-1]
    played = play("equal_weight", env_of(panel), rebalance_bars=3)
    assert played["value"] == pytest.approx(expected, rel=1e-9)
    moves = np.abs(played["traded"][:-1]).max(axis=1)
    assert (moves[[0, 3]] > 1.0).all()
    assert moves[[1, 2, 4, 5]] == pytest.approx(0, abs=1e-6)


def test_equal_weights_are_of_the_assets_that_can_be_traded_now():
    # The second asset starts on bar 2, the third has a gap on bar 1 and ends on bar 3.
    close = [[10, NAN, 10], [10, NAN, NAN], [10, 10, 10], [10, 10, 10], [10, 10, NAN], [10, 10, NAN]]
    env = env_of(panel_of(close))
    weights = play("equal_weight", env)["weights"]
    assert weights[1] == pytest.approx([0.5, 0, 0.5])
    # On bar 1 the third cannot be sold.
    assert weights[2] == pytest.approx([0.5, 0, 0.5])
    assert weights[3] == pytest.approx([1 / 3, 1 / 3, 0])  # it ended there, and was closed
    assert runner_of("equal_weight", env).get_state().arrays["cut"].shape == (1, 3)


def test_buy_and_hold_earns_the_mean_of_the_whole_returns():
    panel = random_panel(assets=4)
    played = play("buy_and_hold", env_of(panel))
    assert played["value"] == pytest.approx(CASH * (panel.close[1:] / panel.close[0]).mean(axis=1), rel=1e-9)


@pytest.mark.parametrize("action", ["continuous_weights", "softmax_weights"])
def test_weights_hold_where_orders_fill_at_the_close_that_was_seen(action):
    panel = random_panel()
    played = play("buy_and_hold", env_of(panel, action={"class": action}))
    assert played["value"] == pytest.approx(CASH * (panel.close[1:] / panel.close[0]).mean(axis=1), rel=1e-6)
    money = played["traded"] * panel.close[:-1]
    assert np.abs(money[1:-1]).max() < 1e-6 * CASH


@pytest.mark.parametrize("policy", POLICIES)
def test_the_torch_environment_gives_the_same(policy):
    def values(backend):
        env = env_of(random_panel(), action={"class": "continuous_weights"}, num_envs=2, backend=backend)
        runner = runner_of(policy, env, **QUICK[policy])
        observation, _ = env.reset(seed=0)
        out = []
        for _ in range(25):
            observation, _, _, _, infos = env.step(runner.act(observation, deterministic=True))
            out.append(np.asarray(infos["portfolio_value"]))
        return np.array(out)

    assert values("torch") == pytest.approx(values("numpy"), rel=1e-9)


@pytest.mark.parametrize("fill", ["same_close", "next_close"])
def test_to_hold_is_to_order_nothing(fill):
    played = play("buy_and_hold", env_of(random_panel(), fill=fill))
    assert np.abs(played["action"][0]).min() > 1e-5
    assert played["action"][1:] == pytest.approx(0, abs=1e-12)


def test_an_asset_that_starts_or_ends_later_changes_nothing_that_is_held():
    close = [[10, NAN, 10], [11, 10, 10], [12, 10, 20], [13, 10, NAN], [14, 10, NAN]]
    played = play("buy_and_hold", env_of(panel_of(close)))
    half = CASH / 2
    # The third ends at 20 on bar 2 and leaves its cash.
    assert played["value"] == pytest.approx([half * (1.1 + 1), half * (1.2 + 2), half * (1.3 + 2), half * (1.4 + 2)])
    assert played["weights"][-1] == pytest.approx([1.3 / 3.3, 0, 0])


def test_a_purchase_that_the_largest_order_cuts_goes_on():
    # 1,000,000 over two assets of price 100 are 5000 units each, and an order is of 2000 at most.
    env = env_of(panel_of(np.full((6, 2), 100.0)), action={"class": "integer_shares", "kwargs": {"hmax": 2000}})
    played = play("buy_and_hold", env)
    assert played["traded"][:4, 0].tolist() == [2000, 2000, 1000, 0]


def test_a_cut_purchase_does_not_touch_what_is_complete():
    # The first costs 1000, so that 500 units are within one order; then it doubles, and is held.
    close = np.column_stack([[1000.0, 2000, 2000, 2000, 2000, 2000], np.full(6, 100.0)])
    env = env_of(panel_of(close), action={"class": "integer_shares", "kwargs": {"hmax": 2000}})
    played = play("buy_and_hold", env)
    assert played["traded"][:4, 0].tolist() == [500, 0, 0, 0]
    assert played["traded"][:2, 1].tolist() == [2000, 2000]


def test_minimum_variance_of_uncorrelated_assets_is_by_inverse_variances():
    # Returns without mean or correlation: +a +a -a -a against +b -b +b -b. Then prices stand still.
    first, second = 0.01 * np.array([1, 1, -1, -1]), 0.02 * np.array([1, -1, 1, -1])
    returns = np.vstack([np.tile(np.column_stack([first, second]), (3, 1)), np.zeros((2, 2))])
    panel = panel_of(np.vstack([[100.0, 50.0], [100.0, 50.0] * np.cumprod(1 + returns, axis=0)]))
    weights = play("minimum_variance", env_of(panel), lookback=12, rebalance_bars=12)["weights"]
    # Before the twelve returns are known: equal, then held.
    assert weights[1] == pytest.approx([1.01 / 2.03, 1.02 / 2.03])
    # Standard deviations are as 1 to 2, inverse variances as 4 to 1.
    assert weights[13] == pytest.approx([0.8, 0.2], abs=1e-5)


def allocation(policy, panel, bar, **kwargs):
    """The weights it aims at, on a market where one decision is at that bar."""
    from alphaswarm_rl.statistics.allocations import TrailingWeights

    objective = "utility" if policy == "mean_variance" else policy
    return TrailingWeights(f"policy {policy!r}", method=objective, **kwargs)(panel, bar)


@pytest.mark.parametrize("size", [1.0, 1e-3, 1e-5])
def test_mean_variance_of_two_uncorrelated_assets_is_the_closed_form(size):
    # max w m1 + (1-w) m2 - k (w^2 v1 + (1-w)^2 v2)  =>  w = ((m1 - m2) / (2k) + v2) / (v1 + v2)
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 4, float)
    returns = size * (signs * [0.01, 0.02] + [0.0004, 0.0006])
    panel = panel_of(np.vstack([[1.0, 1.0], np.cumprod(1 + returns, axis=0)]))
    aversion = 2.0 / size
    v1, v2 = returns.var(axis=0, ddof=1)
    w = ((returns[:, 0].mean() - returns[:, 1].mean()) / (2 * aversion) + v2) / (v1 + v2)
    assert 0.6 < w < 0.8
    weights = allocation("mean_variance", panel, 16, lookback=16, risk_aversion=aversion)
    assert weights == pytest.approx([w, 1 - w], abs=1e-5)


def test_mean_variance_has_an_answer_when_all_means_are_negative():
    signs = np.array([[1, 1], [1, -1], [-1, 1], [-1, -1]] * 4, float)
    returns = 0.01 * signs - [0.002, 0.001]
    panel = panel_of(np.vstack([[1.0, 1.0], np.cumprod(1 + returns, axis=0)]))
    assert allocation("mean_variance", panel, 16, lookback=16, risk_aversion=0.0) == pytest.approx([0, 1], abs=1e-6)


def test_without_the_lookback_or_two_assets_that_have_it_weights_are_equal():
    close = random_panel(bars=12, assets=3).close.copy()
    close[:8, 1] = NAN
    close[:9, 2] = NAN
    panel = panel_of(close)
    assert allocation("minimum_variance", panel, 4, lookback=5).tolist() == [1, 0, 0]
    assert allocation("minimum_variance", panel, 10, lookback=5) == pytest.approx([1 / 3] * 3)


def test_an_asset_without_the_whole_history_or_that_never_moved_has_no_weight():
    close = random_panel(bars=12, assets=4).close.copy()
    close[:8, 1] = NAN
    close[:, 2] = 10.0
    weights = allocation("minimum_variance", panel_of(close), 11, lookback=5)
    assert (weights[[1, 2]] == 0).all()
    assert (weights[[0, 3]] > 0).all()
    assert weights.sum() == pytest.approx(1)


def test_splits_and_dividends_are_part_of_returns():
    from alphaswarm_rl.statistics.allocations import trailing_returns

    # One share of 110 becomes two of 50, and each pays 5.
    close = np.array([[100.0], [110.0], [50.0]])
    extra = {"splits": np.array([[1.0], [1.0], [2.0]]), "dividends": np.array([[0.0], [0.0], [5.0]])}
    assert trailing_returns(panel_of(close), 2, 2)[:, 0] == pytest.approx([0.1, 50 / 110 - 1])
    assert trailing_returns(panel_of(close, **extra), 2, 2)[:, 0] == pytest.approx([0.1, 0.0])


def test_a_solver_that_fails_is_an_error_with_date_and_reason(monkeypatch):
    import cvxpy

    def fail(*args, **kwargs):
        raise cvxpy.SolverError("no luck")

    monkeypatch.setattr(cvxpy.Problem, "solve", fail)
    with pytest.raises(ComponentError, match=r"'minimum_variance' at 2020-01-11.*failed"):
        allocation("minimum_variance", random_panel(), 10, lookback=5)


def test_an_optimisation_is_done_once_for_all_environments_at_a_bar(monkeypatch):
    from alphaswarm_rl.statistics.allocations import TrailingWeights

    asked = []
    monkeypatch.setattr(TrailingWeights, "__call__", lambda self, panel, bar: asked.append(bar) or np.full(3, 1 / 3))
    env = env_of(random_panel(), num_envs=5)
    runner = runner_of("minimum_variance", env, rebalance_bars=4)
    observation, _ = env.reset(seed=0)
    for _ in range(9):
        observation, *_ = env.step(runner.act(observation, deterministic=True))
    assert asked == [0, 4, 8]


@pytest.mark.parametrize("policy", POLICIES)
def test_no_action_knows_the_future(policy):
    panel = random_panel()
    seen = 14
    noise = panel.close.copy()
    noise[seen + 1 :] *= np.exp(np.random.default_rng(1).normal(0, 0.5, noise[seen + 1 :].shape))
    # The order of bar t fills at its close, so that values are the same up to bar t.
    actions = [play(policy, env_of(each), **QUICK[policy])["action"] for each in (panel, panel_of(noise))]
    assert np.array_equal(actions[0][: seen + 1], actions[1][: seen + 1])
    if policy == "equal_weight":
        assert not np.array_equal(*actions)


@pytest.mark.parametrize("policy", POLICIES)
def test_an_environment_alone_and_among_many_is_the_same(policy):
    def actions(n):
        env = env_of(random_panel(bars=60), num_envs=n, phase="train", episode_bars=20)
        runner = runner_of(policy, env, **QUICK[policy])
        observation, _ = env.reset(seed=3)
        out = []
        for _ in range(50):
            action = runner.act(observation, deterministic=False)
            out.append(action[0].copy())
            observation, *_ = env.step(action)
        return np.array(out)

    assert np.array_equal(actions(1), actions(4))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("hmax", [1e6, 300])
def test_it_goes_on_from_its_state(policy, hmax):
    def world():
        action = {"class": "integer_shares", "kwargs": {"hmax": hmax, "whole": False}}
        env = env_of(random_panel(), action=action, num_envs=2, phase="train", episode_bars=20)
        return env, runner_of(policy, env, **QUICK[policy])

    env, runner = world()
    observation, _ = env.reset(seed=0)
    for _ in range(6):
        observation, *_ = env.step(runner.act(observation, deterministic=True))
    state, env_state = runner.get_state(), env.get_state()
    other_env, other = world()
    other_env.set_state(env_state)
    other.set_state(State(dict(state.arrays), json.loads(json.dumps(state.data))))
    other_observation = observation
    for _ in range(20):
        action, other_action = (
            runner.act(observation, deterministic=True),
            other.act(other_observation, deterministic=True),
        )
        assert np.array_equal(action, other_action)
        observation, *_ = env.step(action)
        other_observation, *_ = other_env.step(other_action)
    assert state.arrays["cut"].any() == (hmax == 300)


def test_a_state_that_does_not_fit_is_refused():
    env, other = env_of(random_panel()), env_of(random_panel(), num_envs=2)
    runner = runner_of("equal_weight", env)
    with pytest.raises(CheckpointError, match="no 'cut'"):
        runner.set_state(State())
    runner.set_state(runner_of("equal_weight", other).get_state())
    with pytest.raises(CheckpointError, match="2 environments with 3 assets"):
        runner.act(env.reset(seed=0)[0], deterministic=True)


def test_the_market_is_found_through_wrappers():
    env = env_of(random_panel())
    wrapped = PreprocessedEnv(env, ObservationSettings(normalize="running", clip_range=None, stack_frames=2))
    assert trading_env(EpisodeTracker(wrapped), "equal_weight") is env
    assert trading_env(env, "equal_weight") is env


@pytest.mark.parametrize("policy", POLICIES)
def test_an_environment_without_a_market_is_refused(policy):
    component = build_from_config({"class": policy}, kind="policy")
    env = build_from_config({"class": "cartpole"}, kind="env")
    built = env.build(EnvRequest(num_envs=1, seed=0))
    spaces = (built.single_observation_space, built.single_action_space)
    with pytest.raises(ComponentError, match=rf"'{policy}'.*{type(built).__name__} has none"):
        component.build(PolicyRequest(*spaces, 1, 0, built))
    with pytest.raises(ComponentError, match="given no environment"):
        component.build(PolicyRequest(*spaces, 1, 0))


def test_an_action_that_cannot_express_weights_is_refused(monkeypatch):
    env = env_of(random_panel())
    monkeypatch.setattr(type(env.plan.action), "encode", kinds.ActionSpec.encode)
    with pytest.raises(ComponentError, match="'integer_shares' cannot express them"):
        runner_of("equal_weight", env)


def test_an_observation_from_elsewhere_is_refused():
    env = env_of(random_panel())
    runner = runner_of("equal_weight", env)
    observation = np.zeros((1, *env.single_observation_space.shape), np.float32)
    with pytest.raises(ComponentError, match="not from there"):
        runner.act(observation, deterministic=True)
    env.reset(seed=0)
    with pytest.raises(ComponentError, match="not from there"):
        runner.act(np.repeat(observation, 2, axis=0), deterministic=True)


def plan(episodes):
    return EvaluationPlan(phase="evaluate", window=Window(), episodes=episodes, deterministic=True)


@pytest.mark.parametrize("num_envs", [1, 3])
def test_the_agent_that_runs_it_is_evaluated_in_another_environment_than_it_was_built_for(num_envs):
    training = env_of(random_panel(seed=1), num_envs=2, phase="train", episode_bars=10)
    panel = random_panel(seed=2)
    learner = learner_of("buy_and_hold", training)
    for _ in range(2):
        # The reward is money earned times 1e-4.
        evaluated = evaluate_learner(learner, env_of(panel, num_envs=num_envs), plan(3), seed=5)
        expected = 1e-4 * CASH * ((panel.close[-1] / panel.close[0]).mean() - 1)
        assert evaluated.returns == pytest.approx([expected] * 3)


def test_the_agent_that_runs_it_trains_and_evaluates_in_between():
    class Hooks:
        def should_halt(self):
            return False

        def boundary(self, metrics):
            pass

        def decided(self, values, log_probs):
            pass

    def actions(disturb):
        env = env_of(random_panel(), num_envs=2, phase="train", episode_bars=10)
        learner = learner_of("minimum_variance", EpisodeTracker(env), **QUICK["minimum_variance"])
        values = []
        for total in (14, 28):
            learner.train(env, total, Hooks())
            values.append(env.view.value.copy())
            if disturb:
                other = env_of(random_panel(seed=4))
                evaluate_learner(learner, other, plan(1), seed=0)
        return np.array(values)

    assert np.array_equal(actions(False), actions(True))
