"""The native batched CartPole against Gymnasium's."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from alphaswarm_rl.arrays.counter_rng import uniform
from alphaswarm_rl.core.contracts import EnvRequest, State, Window
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.cartpole import CartPole

from .contract import check_vector_env, roll


def build(num_envs, seed=0, **parameters):
    return CartPole(CartPole.Config(**parameters)).build(EnvRequest(num_envs=num_envs, seed=seed))


def test_the_contract():
    check_vector_env(CartPole().build)


def test_spaces_are_gymnasiums():
    ours, theirs = build(3), gymnasium.make("CartPole-v1")
    assert ours.single_observation_space == theirs.observation_space
    assert ours.single_action_space == theirs.action_space
    assert ours.observation_space.shape == (3, 4)


def test_every_bit_is_gymnasiums_over_thousands_of_steps():
    ours = build(16, seed=3)
    theirs = [gymnasium.make("CartPole-v1") for _ in range(16)]
    first, _ = ours.reset()

    def begin(env, column):
        env.reset()
        env.unwrapped.state = ours.get_state().arrays["physics"][:, column].copy()

    for column, env in enumerate(theirs):
        begin(env, column)
    observation = first
    rng = np.random.default_rng(0)
    truncations = terminations = 0
    for _ in range(1500):
        # Mostly a rule that balances, so that some episodes last all 500 steps; sometimes chance.
        balanced = (observation[:, 2] + 0.3 * observation[:, 3] + 0.02 * observation[:, 0] > 0).astype(np.int64)
        actions = np.where(rng.uniform(size=16) < np.linspace(0, 1, 16), rng.integers(0, 2, 16), balanced)
        observation, rewards, terminated, truncated, infos = ours.step(actions)
        physics = ours.get_state().arrays["physics"]
        for i, env in enumerate(theirs):
            their_observation, reward, their_end, their_cut, _ = env.step(actions[i])
            assert (rewards[i], terminated[i], truncated[i]) == (reward, their_end, their_cut and not their_end)
            if their_end or their_cut:
                assert infos["final_obs"][i].tobytes() == their_observation.tobytes()
                begin(env, i)
            else:
                assert observation[i].tobytes() == their_observation.tobytes()
                assert physics[:, i].tobytes() == env.unwrapped.state.tobytes()
        terminations += terminated.sum()
        truncations += truncated.sum()
    assert truncations > 5
    assert terminations > 100


def test_an_episode_starts_from_the_counter_generator():
    env = build(3, seed=21)
    env.reset()
    env.reset()
    expected = -0.05 + (0.05 - -0.05) * uniform(21, np.array([[0, 1], [1, 1], [2, 1]]), stream=0, count=4)
    np.testing.assert_array_equal(env.get_state().arrays["physics"], expected.T)
    assert np.abs(expected).max() <= 0.05


def test_environment_0_of_1_is_environment_0_of_1024():
    assert roll(build(1, seed=4), 200)[0] == roll(build(1024, seed=4), 200)[0]


def test_the_limit_truncates():
    env = build(2, max_episode_steps=3)
    env.reset()
    flags = [env.step(np.array([0, 1]))[3].tolist() for _ in range(6)]
    assert flags == [[False, False], [False, False], [True, True]] * 2


def test_a_state_carries_the_episode_numbers_and_the_seed():
    env = build(4, seed=9)
    env.reset()
    for step in range(300):
        env.step(np.full(4, step % 3 % 2))
    state = env.get_state()
    assert set(state.arrays) == {"physics", "steps", "episodes"}
    assert state.data == {"seed": 9}
    assert state.arrays["episodes"].min() > 3
    with pytest.raises(EnvError, match="shape"):
        build(5).set_state(state)
    with pytest.raises(EnvError, match="missing"):
        build(4).set_state(State(data={"seed": 1}))


@pytest.mark.parametrize("actions", [[0, 2], [-1, 0], [0], [[0, 1]], [0.0, 1.0], [True, False]])
def test_other_actions_are_refused_and_nothing_moves(actions):
    env = build(2)
    env.reset()
    before = env.get_state().arrays["physics"]
    with pytest.raises(EnvError, match="cartpole"):
        env.step(np.array(actions))
    np.testing.assert_array_equal(env.get_state().arrays["physics"], before)


def test_stepping_needs_a_reset():
    with pytest.raises(ResetNeeded):
        build(1).step(np.array([0]))


def test_what_it_does_not_offer_is_refused_with_the_remedy():
    with pytest.raises(EnvError, match="CartPole-v1"):
        CartPole().build(EnvRequest(num_envs=1, seed=0, render=True))
    with pytest.raises(EnvError, match="CartPole-v1"):
        build(1).render()
    with pytest.raises(EnvError, match="has no dates"):
        CartPole().build(EnvRequest(num_envs=1, seed=0, window=Window(start="2020-01-01")))
    with pytest.raises(EnvError, match="options"):
        build(1).reset(options={"low": 0})
