"""Terms that shape a reward: potentials, bounds, and the penalty for an improper stop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.rewards.clip_residual import ClipResidual
from alphaswarm_rl.rewards.composite import Composite
from alphaswarm_rl.rewards.portfolio_return import PortfolioReturn
from alphaswarm_rl.rewards.potential_shaping import PotentialShaping
from alphaswarm_rl.rewards.stop_properly import StopProperlyWrapper
from alphaswarm_rl.terminations.drawdown import DrawdownTermination
from tests.rewards.episodes import Episode, made, panel_of

ORACLE = (0.5, -0.2, 1.1, -2.0, 0.35)
PARTS = (Composite, PortfolioReturn, DrawdownTermination)  # imported, so that references find them


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("terminated", [True, False])
def test_discounted_shaping_telescopes_to_the_last_potential(gamma, terminated):
    episode, walk = Episode(made(PotentialShaping, gamma=gamma)), (110.0, 80.0, 120.0, 150.0)
    rewards = episode.values(*walk[:-1])
    rewards.append(episode.step(value=walk[-1], terminated=terminated, truncated=not terminated))
    total = sum(gamma**t * reward for t, reward in enumerate(rewards))
    assert total == pytest.approx(0.0 if terminated else gamma**4 * 0.5, abs=1e-12)


def test_clip_residual_is_what_is_cut_off():
    episode = Episode(made(ClipResidual, low=-1.0, high=2.0))
    assert [episode.step(reward=reward) for reward in (0.5, 3.0, -4.0)] == [0.0, -1.0, 3.0]


@pytest.mark.parametrize("bounds", [{"low": 1.0}, {"low": 2.0, "high": 1.0}])
def test_bounds_in_the_wrong_order_are_refused(bounds):
    with pytest.raises(ComponentError, match="low must be below high"):
        build_from_config({"class": "clip_residual", "kwargs": bounds}, kind="reward")


def settled(rewards, end, **kwargs):
    """What the stop penalty adds to each of these rewards, of which the last ends the episode."""
    episode = Episode(made(StopProperlyWrapper, **kwargs))
    return settle(episode, rewards, end)


def settle(episode, rewards, end):
    added = [episode.step(reward=reward) for reward in rewards[:-1]]
    return [*added, episode.step(reward=rewards[-1], **end)]


IMPROPER = {"terminated": True, "improper_stop": True}


def test_scaled_stop_of_a_worked_episode():
    added = settled(ORACLE, IMPROPER, coef=0.2, mode="scale")
    assert added[:-1] == [0.0] * 4
    assert sum(ORACLE) + sum(added) == pytest.approx(-0.05)


def test_penalised_stop_of_a_losing_and_a_winning_episode():
    assert sum(ORACLE) + sum(settled(ORACLE, IMPROPER, coef=0.2)) == pytest.approx(-0.25 * 1.8)
    winning = [-reward for reward in ORACLE]
    assert sum(winning) + sum(settled(winning, IMPROPER, coef=0.2)) == pytest.approx(0.25 * 0.2)


@pytest.mark.parametrize("end", [{"truncated": True}, {}])
@pytest.mark.parametrize("mode", ["penalise", "scale"])
def test_an_episode_that_ends_otherwise_is_left_alone(end, mode):
    assert settled(ORACLE, end, coef=0.0, mode=mode) == [0.0] * 5


@pytest.mark.parametrize("mode", ["penalise", "scale"])
def test_a_coefficient_of_1_takes_nothing(mode):
    assert settled(ORACLE, IMPROPER, coef=1.0, mode=mode) == [0.0] * 5


def test_the_next_episode_starts_from_0():
    episode = Episode(made(StopProperlyWrapper, coef=0.5))
    settle(episode, ORACLE, IMPROPER)
    episode.begin()
    assert settle(episode, (1.0, 1.0), IMPROPER) == [0.0, -1.0]


@given(
    rewards=st.lists(st.floats(-10, 10), min_size=1, max_size=8),
    coef=st.floats(0, 1),
)
def test_a_penalised_stop_never_improves_an_episode(rewards, coef):
    assert sum(settled(rewards, IMPROPER, coef=coef)) <= 0.0


@pytest.mark.parametrize("coef", [-0.1, 1.1])
def test_other_coefficients_are_refused(coef):
    with pytest.raises(ComponentError, match="coef"):
        build_from_config({"class": "stop_properly", "kwargs": {"coef": coef}}, kind="reward")


FALL = 10.0 * np.concatenate([np.ones(2), [1.2, 1.1], 0.8 ** np.arange(8)])


def trading(reward, **request):
    """An environment in a market that falls, with a drawdown limit; all cash goes into it."""
    kwargs = {
        "panel": panel_of(FALL),
        "reward": reward,
        "terminations": [{"class": "drawdown", "kwargs": {"limit": 0.3}}],
        "action": {"class": "integer_shares", "kwargs": {"hmax": 1e6}},
        "fill": "next_close",
        "episode_bars": None,
    }
    return make_env("stock_trading", **{**kwargs, **request})


def play(env, action):
    """Rewards, terms by name, and the last infos of one episode."""
    env.reset()
    rewards, terms = [], {}
    while True:
        _, reward, terminated, truncated, infos = env.step(np.full((1, 1), action, np.float32))
        rewards.append(reward[0])
        for name, values in infos["reward_terms"].items():
            terms.setdefault(name, []).append(values[0])
        if terminated[0] or truncated[0]:
            return rewards, terms, infos


def with_stop(**kwargs):
    terms = [{"class": "portfolio_return"}, {"class": "stop_properly", "kwargs": kwargs}]
    return {"class": "composite", "kwargs": {"terms": terms}}


@pytest.mark.parametrize("mode", ["penalise", "scale"])
def test_in_an_environment_the_contributions_are_the_reward(mode):
    rewards, terms, infos = play(trading(with_stop(coef=0.25, mode=mode)), 1.0)
    assert infos["reason"][0] == "drawdown"
    assert rewards == [sum(parts) for parts in zip(*terms.values(), strict=True)]
    raw = sum(terms["portfolio_return"])
    assert raw < 0
    assert sum(rewards) == pytest.approx(0.25 * raw if mode == "scale" else 1.75 * raw)


def test_in_an_environment_the_end_of_data_is_proper():
    _, terms, infos = play(trading(with_stop(coef=0.0)), 0.0)
    assert infos["reason"][0] == "end_of_data"
    assert not any(terms["stop_properly"])


def test_the_training_option_adds_the_same_term():
    component = build_from_config(
        {"class": "stock_trading", "kwargs": {"fill": "next_close", "episode_bars": None}}, kind="env"
    )
    parts = {
        "panel": panel_of(FALL),
        "reward": build_from_config({"class": "portfolio_return"}, kind="reward"),
        "action": build_from_config({"class": "integer_shares", "kwargs": {"hmax": 1e6}}, kind="action"),
        "terminations": (build_from_config({"class": "drawdown", "kwargs": {"limit": 0.3}}, kind="termination"),),
    }
    env = component.build(EnvRequest(num_envs=1, seed=0, parts=parts, stop_properly=0.25))
    assert play(env, 1.0)[0] == play(trading(with_stop(coef=0.25)), 1.0)[0]
