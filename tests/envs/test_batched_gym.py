"""Gymnasium environments stepped together."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from alphaswarm_rl.core.contracts import EnvRequest, State
from alphaswarm_rl.core.errors import EnvError

from .contract import actions_for, check_vector_env, leaves
from .toys import TOYS, build, component


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Toy", "DictToy", "ImageToy", "DiscreteToy"])
def test_the_contract(env_id):
    check_vector_env(component(env_id).build)


def test_pendulum_keeps_the_contract_with_a_short_limit():
    check_vector_env(component("Pendulum-v1", max_episode_steps=25).build, steps=60)


def test_every_episode_is_that_of_a_single_environment_reset_with_its_seed():
    env = build("CartPole-v1", num_envs=3, seed=8)
    seeds: list[list[int]] = [[] for _ in range(3)]
    for given, sub in zip(seeds, env.envs, strict=True):
        reset = sub.reset
        sub.reset = lambda *, seed, options=None, given=given, reset=reset: (
            given.append(seed) or reset(seed=seed, options=options)
        )
    observation, _ = env.reset()
    actions = actions_for(env, 0, 150)
    singles = [gymnasium.make("CartPole-v1") for _ in range(3)]
    for i, single in enumerate(singles):
        np.testing.assert_array_equal(single.reset(seed=seeds[i][0])[0], observation[i])
    for action in actions:
        observation, rewards, terminated, truncated, infos = env.step(action)
        for i, single in enumerate(singles):
            theirs, reward, their_end, their_cut, _ = single.step(action[i])
            assert (reward, their_end, their_cut) == (rewards[i], terminated[i], truncated[i])
            if their_end or their_cut:
                np.testing.assert_array_equal(infos["final_obs"][i], theirs)
                theirs, _ = single.reset(seed=seeds[i][-1])
            np.testing.assert_array_equal(observation[i], theirs)
    everything = [seed for given in seeds for seed in given]
    assert len(everything) > 10
    assert len(set(everything)) == len(everything)


def test_what_environments_say_is_kept_only_where_they_say_something():
    env = build("Toy", num_envs=2)
    _, infos = env.reset()
    assert infos == {}
    _, infos = env.reset(options={"level": 3})
    assert [info["options"] for info in infos["env_infos"]] == [{"level": 3}] * 2
    for _ in range(6):
        assert env.step(np.zeros(2, int))[4] == {}
    *_, infos = env.step(np.zeros(2, int))
    assert infos["final_infos"] == ({"time": 7}, {"time": 7})
    assert "env_infos" not in infos
    assert infos["_final_obs"].tolist() == [True, True]


def test_an_environment_that_sets_both_flags_is_terminated():
    env = build("Toy", both_flags=True)
    env.reset()
    for _ in range(7):
        _, _, terminated, truncated, _ = env.step(np.zeros(2, int))
    assert terminated.tolist() == [True, True]
    assert truncated.tolist() == [False, False]


def test_dict_observations_are_batched_part_by_part():
    env = build("DictToy", num_envs=2)
    env.reset()
    for _ in range(7):
        observation, *_, infos = env.step(np.zeros(2, int))
    assert set(observation) == set(infos["final_obs"]) == {"vector", "image", "mode", "pair", "bits"}
    assert observation["image"].shape == (2, 6, 5, 3)
    assert observation["mode"].tolist() == [0, 0]
    assert infos["final_obs"]["mode"].tolist() == [3, 3]
    assert all(leaf.dtype == env.single_observation_space[key].dtype for key, leaf in observation.items())


def test_observations_that_cannot_be_batched_are_refused():
    with pytest.raises(EnvError, match=r"alphaswarm-test/TupleToy-v0.*is none of Box"):
        build("TupleToy")


def test_a_dict_of_actions_reaches_each_environment():
    env = build("ActsDictToy", num_envs=2)
    env.reset()
    actions = {"move": np.array([1, 0]), "by": np.array([[0.5, 0.25], [-1.0, 0.0]], np.float32)}
    assert env.step(actions)[1].tolist() == [1.75, -1.0]


def test_action_masks_are_there_only_where_the_environments_have_them():
    assert not hasattr(build("Toy"), "action_masks")
    env = build("MaskedToy", num_envs=2)
    env.reset()
    assert env.action_masks().tolist() == [[False, True, True]] * 2
    env.step(np.ones(2, int))
    assert env.action_masks().tolist() == [[True, False, True]] * 2


def test_an_error_of_an_environment_comes_through_untouched():
    env = build("FailingToy")
    env.reset()
    env.step(np.zeros(2, int))
    env.step(np.zeros(2, int))
    with pytest.raises(ZeroDivisionError, match="the toy broke"):
        env.step(np.zeros(2, int))


def test_a_wrong_number_of_actions_is_an_error():
    env = build("Toy", num_envs=2)
    env.reset()
    with pytest.raises(ValueError, match="zip"):
        env.step(np.zeros(3, int))


def test_stepping_needs_a_reset():
    with pytest.raises(ResetNeeded):
        build("Toy").step(np.zeros(2, int))


@pytest.mark.parametrize("seed", [-1, 2**32, 1.5, True, [1, 2]])
def test_a_seed_is_one_number_of_32_bits(seed):
    with pytest.raises(EnvError, match="whole number"):
        build("Toy").reset(seed=seed)


def test_there_is_at_least_one_environment():
    with pytest.raises(EnvError, match="at least one"):
        build("Toy", num_envs=0)


def test_the_numbering_goes_on_after_a_resume():
    env = build("Toy", num_envs=2, seed=11)
    env.reset()
    for _ in range(7 * 20):
        env.step(np.zeros(2, int))
    assert env.episode_numbers.tolist() == [20, 20]
    state = env.episode_state()
    resumed = build("Toy", num_envs=2, seed=0)
    resumed.set_episode_state(state)
    first, _ = resumed.reset()
    assert resumed.episode_numbers.tolist() == [21, 21]
    for _ in range(7):
        expected = env.step(np.zeros(2, int))[0]
    np.testing.assert_array_equal(first, expected)
    assert not hasattr(env, "get_state")


def test_a_state_of_another_batch_is_refused():
    env = build("Toy", num_envs=2)
    with pytest.raises(EnvError, match="shape"):
        env.set_episode_state(build("Toy", num_envs=3).episode_state())
    with pytest.raises(EnvError, match="missing"):
        env.set_episode_state(State(data={"seed": 1}))


def test_closing_closes_every_environment():
    env = build("Toy", num_envs=3)
    closed = []
    for sub in env.envs:
        sub.unwrapped.close = lambda: closed.append(1)
    env.close()
    assert len(closed) == 3
    assert env.closed


def test_the_first_environment_draws():
    env = build("CartPole-v1", num_envs=2, request={"render": True})
    env.reset()
    (frame,) = env.render()
    assert frame.shape == (400, 600, 3)
    assert frame.dtype == np.uint8
    assert env.envs[1].render_mode is None
    env.close()


def test_pictures_that_nobody_can_draw_are_refused():
    with pytest.raises(EnvError, match="rgb_array"):
        build("Toy", request={"render": True})
    env = build("CartPole-v1")
    env.reset()
    with pytest.raises(EnvError, match="not built to draw"):
        env.render()


def test_toys_of_all_kinds_have_no_shared_observation_memory():
    for name in set(TOYS) - {"TupleToy", "FailingToy", "ActsDictToy", "MaskedToy"}:
        env = component(name).build(EnvRequest(num_envs=2, seed=0))
        first, _ = env.reset()
        second = env.step(np.zeros(2, int))[0]
        for before, after in zip(leaves(first), leaves(second), strict=True):
            assert not np.shares_memory(before, after)
