"""What holds for every action."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.actions import (  # noqa: F401  (registers)
    bracket,
    continuous_weights,
    discrete_buy_sell_hold,
    integer_shares,
    masked_discrete,
    multi_discrete,
    softmax_weights,
    target_position,
)
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.making import make_env
from tests.actions.views import ACCOUNT, decoded, panel_of, state_of, view_of

#: Each with its parameters, in cash accounts and with shorts.
ACTIONS = {
    "continuous_weights": {"max_weight": 0.7},
    "continuous_weights short": {"short": True},
    "softmax_weights": {},
    "target_position": {"short": False, "leverage": 2.0},
    "target_position short": {"leverage": 2.0},
    "discrete_buy_sell_hold": {"asset": "A1"},
    "discrete_buy_sell_hold short": {"asset": "A1", "short": True, "fraction": 0.5},
    "multi_discrete": {"levels": 7, "hmax": 50},
    "masked_discrete": {"asset": "A1", "max_units": 20, "lot": 0.7},
    "masked_discrete short": {"asset": "A1", "max_units": 20, "short": True, "mode": "targets"},
    "bracket": {"asset": "A1"},
    "bracket short": {"asset": "A1", "short": True, "fraction": 0.5},
}
every_action = pytest.mark.parametrize("name", ACTIONS)


def reference_to(name):
    return {"class": name.removesuffix(" short"), "kwargs": ACTIONS[name]}


def built(name):
    return build_from_config(reference_to(name), kind="action")


def samples(action, panel, count, seed=0):
    space = action.space(panel)
    space.seed(seed)
    return np.stack([space.sample() for _ in range(count)])


def gappy_panel(bars=201, seed=0):
    """Three assets with holes; one starts later and one ends earlier."""
    rng = np.random.default_rng(seed)
    close = np.exp(4 + np.cumsum(rng.normal(0, 0.03, (bars, 3)), axis=0))
    first = close * np.exp(rng.normal(0, 0.01, close.shape))
    high, low = np.maximum(first, close) * 1.01, np.minimum(first, close) * 0.99
    hole = rng.random(close.shape) < 0.15
    hole[:20, 0] = hole[-30:, 2] = True
    hole[[0, -1], 1] = False
    columns = {"open": first, "high": high, "low": low}
    return panel_of(np.where(hole, np.nan, close), **{k: np.where(hole, np.nan, v) for k, v in columns.items()})


@every_action
@given(weights=st.lists(st.floats(-3, 3), min_size=2, max_size=2), held=st.sampled_from([0.0, 7.0, 30.0]))
def test_the_space_contains_what_encode_gives(name, weights, held):
    action = built(name)
    view = view_of(np.zeros(1, int), positions=[[0.0, held]])
    encoded = action.encode(view, np.array([weights]))
    if name.startswith("bracket"):
        assert encoded is None
    else:
        assert len(encoded) == 1
        assert action.space(view.market.panel).contains(encoded[0])


@pytest.mark.parametrize("name", [name for name in ACTIONS if name.startswith(("continuous", "softmax", "target"))])
def test_numbers_out_of_bounds_count_as_the_bound(name):
    action = built(name)
    space = action.space(view_of([0]).market.panel)
    for sign, bound in ((9.0, space.high), (-9.0, space.low)):
        far = decoded(action, view_of((bound + sign)[None]))
        assert (far == decoded(action, view_of(bound[None]))).all()


@every_action
def test_a_batch_of_two_is_two_alone(name):
    action = built(name)
    positions = np.array([[4.0, 7.0], [0.0, -2.0]])
    view = view_of(np.zeros(2, int), positions=positions)
    view.action = samples(action, view.market.panel, 2)
    together = decoded(action, view)
    for row in range(2):
        alone = view.rows(np.array([row]))
        np.testing.assert_array_equal(decoded(action, alone), together[row : row + 1])
        weights = np.array([[0.25, 0.5], [0.7, 0.0]])
        both = action.encode(view, weights)
        if both is not None:
            np.testing.assert_array_equal(action.encode(alone, weights[row : row + 1]), both[row : row + 1])
        masks = action.mask(view, state_of(action, view))
        if masks is not None:
            np.testing.assert_array_equal(action.mask(alone, state_of(action, alone)), masks[row : row + 1])


@every_action
@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
def test_two_hundred_random_steps_over_gaps_stay_finite_and_solvent(name, fill):
    short = name.endswith("short")
    env = make_env(
        "stock_trading",
        panel=gappy_panel(),
        num_envs=3,
        action=reference_to(name),
        observation=ACCOUNT,
        fill=fill,
        initial_cash=10_000.0,
        episode_bars=None,
        margin={"initial": 0.5} if short else None,
    )
    env.reset()
    env.action_space.seed(1)
    traded = 0.0
    for _ in range(200):
        observation, reward, _, _, infos = env.step(env.action_space.sample())
        assert np.isfinite(observation).all()
        assert np.isfinite(reward).all()
        assert np.isfinite(infos["portfolio_value"]).all()
        view = env.view
        np.testing.assert_allclose(view.cash + (view.positions * view.close).sum(axis=-1), view.value, rtol=1e-9)
        if not short:
            assert (view.cash >= 0).all()
            assert (view.positions >= 0).all()
        traded += infos["turnover"].sum()
    assert traded > 1


@every_action
def test_the_first_of_three_environments_is_the_only_one_of_one(name):
    def values(count):
        env = make_env(
            "stock_trading",
            panel=gappy_panel(bars=60),
            num_envs=count,
            action=reference_to(name),
            observation=ACCOUNT,
            margin={"initial": 0.5} if name.endswith("short") else None,
            episode_bars=None,
        )
        env.reset()
        first = samples(env.plan.action, env.plan.panel, 55)
        rest = samples(env.plan.action, env.plan.panel, 55 * 2, seed=1)
        found = []
        for t in range(55):
            actions = np.stack([first[t], rest[2 * t], rest[2 * t + 1]])[:count]
            found.append(env.step(actions)[4]["portfolio_value"][0])
        return found

    assert values(1) == values(3)


def test_masked_choices_are_always_carried_at_the_close_that_was_seen():
    env = make_env(
        "stock_trading",
        panel=gappy_panel(),
        num_envs=4,
        action={"class": "masked_discrete", "kwargs": {"asset": "A1", "max_units": 9, "lot": 10.0}},
        observation=ACCOUNT,
        fill="same_close",
        initial_cash=10_000.0,
        episode_bars=None,
    )
    env.reset()
    rng = np.random.default_rng(0)
    for _ in range(150):
        masks = env.action_masks()
        assert masks.any(axis=-1).all()
        actions = np.array([rng.choice(np.flatnonzero(row)) for row in masks])
        before = env.view.positions[:, 1].copy()
        env.step(actions)
        np.testing.assert_allclose(env.view.traded[:, 1], (actions - 9) * 10.0, atol=1e-9)
        np.testing.assert_allclose(env.view.positions[:, 1], before + (actions - 9) * 10.0, atol=1e-9)
