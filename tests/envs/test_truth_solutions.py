"""The optima of the truth suite: closed forms against dynamic programming, and both against the environments."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest

from alphaswarm_rl.bench.truth_play import play
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.batched_cartpole import cartpole_solution
from alphaswarm_rl.envs.cartpole import CartPole
from alphaswarm_rl.envs.truth.merton_portfolio import MertonPortfolio
from alphaswarm_rl.envs.truth.noise_after_costs import NoiseAfterCosts
from alphaswarm_rl.envs.truth.oracle_feature import OracleFeature, solve
from alphaswarm_rl.envs.truth.ou_signal import LinearRule, OuSignal
from alphaswarm_rl.envs.truth.regime_allocation import WEIGHTS, RegimeAllocation
from alphaswarm_rl.envs.truth.task import mean_reward
from alphaswarm_rl.policies.runners import RandomRunner

TASKS = (OracleFeature, NoiseAfterCosts, MertonPortfolio, OuSignal, RegimeAllocation)
EPISODES = 2000
#: Standard errors within which two means count as the same.
ERRORS = 4.0

every_task = pytest.mark.parametrize("cls", TASKS, ids=lambda cls: cls.rl_alias)


def rewards_of(cls, act, episodes=EPISODES, seed=7):
    """Mean reward per step of each episode."""
    played = play(cls(), act, seed=seed, episodes=episodes)
    return played.returns / played.lengths


def always(action):
    return lambda observations: np.tile(action, (len(observations), *(1,) * np.ndim(action)))


def at_random(cls, seed=0):
    space = cls().build(EnvRequest(num_envs=1, seed=0)).single_action_space
    return partial(RandomRunner(space, seed).act, deterministic=False)


def assert_mean(found, expected):
    error = found.std(ddof=1) / math.sqrt(len(found))
    assert abs(found.mean() - expected) <= ERRORS * error + 1e-12, (found.mean(), expected, error)


@every_task
def test_the_optimal_policy_earns_what_is_said(cls):
    solution = cls().solution()
    assert_mean(rewards_of(cls, solution.act), solution.j_opt)


@every_task
def test_the_policy_without_skill_earns_what_is_said(cls):
    solution = cls().solution()
    act = at_random(cls) if solution.base == "random" else always(solution.constant)
    assert_mean(rewards_of(cls, act), solution.j_base)


@every_task
def test_no_constant_policy_is_better_than_the_one_that_is_said_to_be_best(cls):
    solution = cls().solution()
    others = [np.array(action) for action in range(3)]
    if solution.constant.ndim:
        others = [np.full_like(solution.constant, action) for action in np.linspace(-1, 1, 9)]
        others += [solution.constant + shift for shift in (-0.05, 0.05)]
    best = rewards_of(cls, always(solution.constant))
    for other in others:
        difference = best - rewards_of(cls, always(other))
        if difference.any():
            assert difference.mean() > 0, other


def perturbed(cls, act):
    """Policies that are near the optimum, and some that people would think of."""
    if cls is OuSignal:
        rules = (
            [(0.5, 5 / 11 * s) for s in (0.8, 1.2)]
            + [(0.5 + d, 5 / 11) for d in (-0.1, 0.1)]
            + [(2 / 3, 1 / 3), (0, 1)]
        )
        for keep, follow in rules:
            yield lambda o, k=keep, f=follow: (k * o[:, 1] + f / 5.0 * o[:, 0])[:, None]
    elif cls is MertonPortfolio:
        for shift in ([0.1, 0], [-0.1, 0], [0, 0.1], [0, -0.1], [0.1, -0.1]):
            yield lambda o, s=shift: act(o) + s
    else:
        rng = np.random.default_rng(0)
        for share in (0.03, 0.3):
            yield lambda o, s=share: np.where(rng.random(len(o)) < s, rng.integers(0, 3, len(o)), act(o))
        yield always(0)
        yield always(1)
        yield always(2)
    if cls is OracleFeature:
        yield lambda o: np.where(o[:, 0] > 0, 2, 0)
        yield lambda o: np.where(np.abs(o[:, 0]) < 0.3, 1, np.where(o[:, 0] > 0, 2, 0))
        for shift in (-0.1, 0.1):
            yield lambda o, s=shift: act(np.stack([o[:, 0] + s, o[:, 1]], axis=1))
            yield lambda o, s=shift: act(np.stack([o[:, 0] + s * o[:, 1], o[:, 1]], axis=1))
    if cls is RegimeAllocation:
        yield lambda o: np.where(o[:, 0] > 0, 2, 1)
        yield lambda o: np.where(o[:, 0] > 0, 1, 0)


@every_task
def test_no_perturbed_policy_is_better_on_the_same_random_numbers(cls):
    solution = cls().solution()
    best, tried = rewards_of(cls, solution.act), 0
    for act in perturbed(cls, solution.act):
        difference = best - rewards_of(cls, act)
        if difference.any():  # noise: flat is flat
            tried += 1
            error = difference.std(ddof=1) / math.sqrt(len(difference))
            assert difference.mean() > -ERRORS * error
    assert tried >= 4


def test_the_oracles_dynamic_programme_is_its_closed_form():
    for cost, carry in ((0.2, 0.1), (0.3, 0.05), (0.1, 0.0)):
        plan = solve(cost, carry)
        worth = -cost * carry / (1 - cost)
        np.testing.assert_allclose(plan.worth, [worth, 0.0, worth], atol=1e-7)
        assert plan.gain == pytest.approx((1 - cost - carry / (1 - cost)) ** 2 / 2, abs=1e-7)


def test_the_oracles_thresholds_are_where_the_page_says():
    act = OracleFeature().solution().act
    enter, hold = 0.325, -0.075
    seen = np.array([[enter - 1e-4, 0], [enter + 1e-4, 0], [hold + 1e-4, 1], [hold - 1e-4, 1], [-enter - 1e-4, 1]])
    assert act(seen.astype(np.float32)).tolist() == [1, 2, 2, 1, 0]
    assert act(-seen.astype(np.float32)).tolist() == [1, 0, 0, 1, 2]


def test_a_finite_oracle_agrees_with_a_chain_of_three_states():
    """In an endless episode the mean reward is the gain; the beginning costs the first position alone."""
    plan = solve(0.2, 0.1)
    start = np.array([0.0, 1.0, 0.0])
    far = mean_reward(plan.pays, plan.moves, start, 20_000)
    assert far == pytest.approx(plan.gain, abs=1e-5)
    assert mean_reward(plan.pays, plan.moves, start, 1) == pytest.approx(plan.pays[1])


def test_the_signals_rule_is_the_page_s():
    rule = OuSignal().rule()
    assert (rule.keep, rule.follow) == (pytest.approx(0.5), pytest.approx(5 / 11))


def test_the_signals_rule_solves_the_bellman_equation():
    task = OuSignal(OuSignal.Config(persistence=0.7, risk_aversion=2.0, cost=3.0))
    for discount in (1.0, 0.99, 0.5):
        rule = task.rule(discount)
        # The value's curvature A and slope B by iteration, without the closed form.
        curve = slope = 0.0
        for _ in range(2000):
            weight = 2.0 + 3.0 + discount * curve
            curve, slope = 3.0 - 9.0 / weight, 3.0 * (1.0 + discount * 0.7 * slope) / weight
        weight = 2.0 + 3.0 + discount * curve
        assert rule.keep == pytest.approx(3.0 / weight, abs=1e-12)
        assert rule.follow == pytest.approx((1.0 + discount * 0.7 * slope) / weight, abs=1e-12)


def test_no_linear_rule_is_better_in_a_long_episode():
    task = OuSignal(OuSignal.Config(horizon=5000))
    best = task.rule()
    for keep in np.linspace(-0.05, 0.05, 5):
        for follow in np.linspace(-0.05, 0.05, 5):
            assert task.j_of(LinearRule(best.keep + keep, best.follow + follow)) <= task.j_of(best) + 1e-7


def test_the_moments_of_a_linear_rule_are_those_of_a_simulation():
    task, rule = OuSignal(), LinearRule(0.3, 0.4)
    found = rewards_of(OuSignal, lambda o: (rule.keep * o[:, 1] + rule.follow / 5.0 * o[:, 0])[:, None])
    assert_mean(found, task.j_of(rule))


def best_with_a_clock_signal():
    """J of the best policy that knows the time: the Riccati recursion backwards from an episode's end."""
    config = OuSignal.Config()
    curve = slope = square = 0.0
    constant = 0.0
    for _ in range(config.horizon):
        weight = config.risk_aversion + config.cost + curve
        pull = 1.0 + config.persistence * slope
        # The value of (p, x) is constant - curve p^2 / 2 + slope p x + square x^2.
        constant += square * (1.0 - config.persistence**2)
        square = square * config.persistence**2 + 0.5 * pull**2 / weight
        curve, slope = config.cost - config.cost**2 / weight, config.cost * pull / weight
    return config.scale * (constant + square) / config.horizon


def best_with_a_clock_oracle():
    config = OracleFeature.Config()
    positions = np.array([-1.0, 0.0, 1.0])
    returns = (np.arange(4000) + 0.5) / 2000 - 1.0
    after, before = positions, positions[:, None]
    pays = returns[:, None, None] * after - config.cost * abs(after - before) - config.carry * abs(after)
    value = np.zeros(3)
    for _ in range(config.horizon):
        value = (pays + value).max(axis=-1).mean(axis=0)
    return value[1] / config.horizon


def best_with_a_clock_regime():
    task = RegimeAllocation()
    pays, moves = task._pays(), task._switches()
    value = np.zeros((2, 3))
    for _ in range(task.config.horizon):
        value = (pays + (moves @ value)[:, None, :]).max(axis=-1)
    share = task.share_of_good
    return (share * value[0, 0] + (1 - share) * value[1, 0]) / task.config.horizon


@pytest.mark.parametrize(
    ("cls", "best"),
    [
        (OuSignal, best_with_a_clock_signal),
        (OracleFeature, best_with_a_clock_oracle),
        (RegimeAllocation, best_with_a_clock_regime),
    ],
    ids=lambda value: getattr(value, "rl_alias", ""),
)
def test_a_clock_would_help_by_less_than_half_a_percent(cls, best):
    solution = cls().solution()
    gain = (best() - solution.j_opt) / (solution.j_opt - solution.j_base)
    assert -1e-6 <= gain < 0.005


def test_the_discounted_optimum_is_as_good_to_half_a_percent():
    signal = OuSignal()
    solution = signal.solution()
    assert signal.j_of(signal.rule(0.99)) > 0.995 * solution.j_opt
    regime = RegimeAllocation()
    np.testing.assert_array_equal(regime.best(0.99), regime.best())
    plan, discounted = solve(0.2, 0.1), solve(0.2, 0.1, discount=0.99)
    start = np.array([0.0, 1.0, 0.0])
    theirs, ours = (mean_reward(p.pays, p.moves, start, 128) for p in (discounted, plan))
    assert theirs > 0.995 * ours


def test_mertons_weights_by_hand():
    task = MertonPortfolio()
    solution = task.solution()
    # C = [[0.0625, 0.015], [0.015, 0.04]] has the determinant 0.002275.
    weights = np.array([0.04 * 0.08 - 0.015 * 0.05, 0.0625 * 0.05 - 0.015 * 0.08]) / 0.002275
    np.testing.assert_allclose(solution.constant * 3.0, weights)
    assert solution.j_opt == pytest.approx(0.02 + 0.5 * (0.08 * weights[0] + 0.05 * weights[1]))
    assert solution.j_base == pytest.approx(0.02 - 0.5 * 0.1025 * 3)


def test_weights_beyond_the_bound_are_refused():
    with pytest.raises(EnvError, match="beyond it"):
        MertonPortfolio(MertonPortfolio.Config(bound=1.0)).build(EnvRequest(num_envs=1, seed=0))


def test_the_random_policy_on_noise_costs_what_can_be_counted():
    solution = NoiseAfterCosts(NoiseAfterCosts.Config(cost=0.9, carry=0.3, horizon=1)).solution()
    assert solution.j_base == pytest.approx(-(0.9 * 2 / 3 + 0.3 * 2 / 3))
    solution = NoiseAfterCosts(NoiseAfterCosts.Config(cost=0.9, carry=0.3, horizon=2)).solution()
    assert solution.j_base == pytest.approx(-(0.9 * (2 / 3 + 8 / 9) / 2 + 0.3 * 2 / 3))


def test_the_best_regime_policy_is_all_or_nothing_and_better_than_every_other_table():
    task = RegimeAllocation()
    assert task.best().tolist() == [[2, 2, 2], [0, 0, 0]]
    tables = np.stack(np.meshgrid(*[range(3)] * 6), axis=-1).reshape(-1, 2, 3)
    values = [task.j_of(table) for table in tables]
    assert max(values) <= task.j_of(task.best()) + 1e-12
    held = [task.j_of(np.full((2, 3), action)) for action in range(len(WEIGHTS))]
    assert int(np.argmax(held)) == task.solution().constant


def test_cost_makes_the_regime_policy_wait():
    """With dear trades and short bad regimes the stock is kept through them."""
    config = RegimeAllocation.Config(cost=0.9, stay=(0.95, 0.2), drift=(0.15, -0.05))
    assert RegimeAllocation(config).best()[1, 2] == 2


def test_a_linear_rule_balances_every_pole():
    solution = cartpole_solution(500)
    played = play(CartPole(), solution.act, seed=3, episodes=2000)
    assert played.lengths.min() == 500
    assert solution.j_opt == 500.0
    assert 8.0 < solution.j_base < 11.0
    pushed = play(CartPole(), always(solution.constant), seed=3, episodes=2000)
    assert pushed.returns.mean() == pytest.approx(solution.j_base, abs=0.1)
