"""Observations stacked, normalised and clipped."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete
from stable_baselines3.common.running_mean_std import RunningMeanStd

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.envs.cartpole import CartPole
from alphaswarm_rl.envs.observation_transform import ObservationSettings, ObservationTransform
from alphaswarm_rl.envs.preprocessing import PreprocessedEnv

from .contract import actions_for, check_vector_env, row
from .toys import build, component


def wrap(env, *, training=True, **settings):
    return PreprocessedEnv(env, ObservationSettings(**settings), training=training)


def cartpole(num_envs=3, seed=0):
    return CartPole().build(EnvRequest(num_envs=num_envs, seed=seed))


@pytest.mark.parametrize(
    "settings",
    [
        {"clip_range": 0.1},
        {"stack_frames": 3},
        {"stack_frames": 4, "clip_range": (-0.5, 0.05)},
    ],
)
@pytest.mark.parametrize("env_id", ["cartpole", "DictToy", "stocks-v0"])
def test_the_contract(env_id, settings):
    inner = CartPole() if env_id == "cartpole" else component(env_id, max_episode_steps=40)
    check_vector_env(lambda request: wrap(inner.build(request), **settings))


def test_the_contract_of_running_statistics_frozen():
    trained = wrap(cartpole(), normalize="running", stack_frames=2, clip_range=5.0)
    trained.reset()
    for actions in actions_for(trained, 0, 100):
        trained.step(actions)
    statistics = trained.statistics()

    def frozen(request):
        env = wrap(CartPole().build(request), training=False, normalize="running", stack_frames=2, clip_range=5.0)
        env.load_statistics(statistics)
        return env

    check_vector_env(frozen)


def test_running_statistics_are_those_of_stable_baselines3():
    env, raw = wrap(cartpole(5), normalize="running", clip_range=2.0), cartpole(5)
    theirs = RunningMeanStd(shape=(4,))

    def expected(observation, *, update=True):
        if update:
            theirs.update(observation.astype(np.float64))
        return np.clip((observation - theirs.mean) / np.sqrt(theirs.var + 1e-8), -2.0, 2.0)

    np.testing.assert_allclose(env.reset()[0], expected(raw.reset()[0]), atol=1e-6)
    ends = 0
    for actions in actions_for(raw, 0, 300):
        ours, *_, our_infos = env.step(actions)
        observation, *_, infos = raw.step(actions)
        np.testing.assert_allclose(ours, expected(observation), atol=1e-6)
        if infos:
            rows = infos["_final_obs"]
            last = expected(infos["final_obs"][rows], update=False)
            np.testing.assert_allclose(our_infos["final_obs"][rows], last, atol=1e-6)
            ends += rows.sum()
    assert ends > 20
    arrays = env.statistics().arrays
    np.testing.assert_allclose(arrays["observation.mean"], theirs.mean, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(arrays["observation.var"], theirs.var, rtol=1e-9)
    assert arrays["observation.count"] == pytest.approx(theirs.count)


def test_statistics_do_not_learn_in_evaluation():
    env = wrap(cartpole(), normalize="running")
    env.reset()
    env.training = False
    before = env.statistics().arrays
    env.reset()
    env.step(np.zeros(3, int))
    for name, array in env.statistics().arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_stacks_show_the_last_frames_and_an_end_continues_its_own_episode():
    env, raw = wrap(build("Toy"), stack_frames=3), build("Toy")
    first, _ = raw.reset()
    stacked, _ = env.reset()
    np.testing.assert_array_equal(stacked, np.concatenate([first] * 3, axis=1))
    assert env.single_observation_space.shape == (9,)
    history = [first] * 3
    for step in range(1, 20):
        observation, *_, infos = raw.step(np.zeros(2, int))
        stacked, *_, our_infos = env.step(np.zeros(2, int))
        if "final_obs" in infos:
            assert step % 7 == 0
            np.testing.assert_array_equal(
                our_infos["final_obs"], np.concatenate([*history[1:], infos["final_obs"]], axis=1)
            )
            history = [observation] * 3
        else:
            history = [*history[1:], observation]
        np.testing.assert_array_equal(stacked, np.concatenate(history, axis=1))


def test_only_ended_streams_begin_a_new_stack():
    env = wrap(cartpole(8), stack_frames=4)
    env.reset()
    mixed = 0
    for actions in actions_for(env, 0, 60):
        stacked, _, terminated, _, _ = env.step(actions)
        frames = stacked.reshape(8, 4, 4)
        same = (frames == frames[:, -1:]).all(axis=(1, 2))
        np.testing.assert_array_equal(same, terminated)
        mixed += terminated.any() and not terminated.all()
    assert mixed > 5


@pytest.mark.parametrize(("env_id", "shape", "axis"), [("ImageToy", (6, 5, 12), 3), ("ChannelFirstToy", (12, 6, 5), 1)])
def test_images_are_stacked_along_their_channels(env_id, shape, axis):
    env, raw = wrap(build(env_id), stack_frames=4), build(env_id)
    first, _ = raw.reset()
    env.reset()
    second = raw.step(np.zeros(2, int))[0]
    stacked = env.step(np.zeros(2, int))[0]
    assert env.single_observation_space == Box(0, 255, shape, np.uint8)
    assert stacked.dtype == np.uint8
    np.testing.assert_array_equal(stacked, np.concatenate([first, first, first, second], axis=axis))


def test_of_a_dict_the_floats_are_normalised_and_the_rest_is_left_alone():
    env = wrap(build("DictToy"), normalize="running", clip_range=1.5, stack_frames=2)
    raw = build("DictToy")
    env.reset()
    raw.reset()
    for _ in range(7):
        observation, *_, infos = env.step(np.zeros(2, int))
        plain, *_, plain_infos = raw.step(np.zeros(2, int))
    spaces = env.single_observation_space
    assert spaces["vector"] == Box(-1.5, 1.5, (6,), np.float32)
    assert spaces["image"] == Box(0, 255, (6, 5, 6), np.uint8)
    assert spaces["mode"] == Discrete(4)
    np.testing.assert_array_equal(observation["image"], np.concatenate([plain["image"]] * 2, axis=3))
    np.testing.assert_array_equal(observation["mode"], plain["mode"])
    np.testing.assert_array_equal(infos["final_obs"]["mode"], plain_infos["final_obs"]["mode"])
    np.testing.assert_array_equal(infos["final_infos"], plain_infos["final_infos"])
    assert np.abs(infos["final_obs"]["vector"]).max() <= 1.5
    assert set(env.statistics().arrays) == {"vector.mean", "vector.var", "vector.count"}


def test_fixed_statistics_come_from_a_warm_up_and_stay():
    env = wrap(cartpole(), normalize="fixed", stack_frames=2)
    with pytest.raises(EnvError, match=r"fit\(\)"):
        env.reset()
    env.fit(cartpole(4, seed=77), seed=1, steps=200)
    before = env.statistics()
    assert before.arrays["observation.count"] == pytest.approx(4 * 201, abs=1e-3)
    env.reset()
    for actions in actions_for(env, 0, 50):
        env.step(actions)
    for name, array in env.statistics().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])
    with pytest.raises(EnvError, match="Fit once"):
        env.fit(cartpole(4, seed=77), seed=1, steps=200)
    again = wrap(cartpole(), normalize="fixed", stack_frames=2)
    again.fit(cartpole(4, seed=77), seed=1, steps=200)
    for name, array in again.statistics().arrays.items():
        np.testing.assert_array_equal(array, before.arrays[name])
    evaluation = wrap(cartpole(seed=5), normalize="fixed", stack_frames=2, training=False)
    evaluation.load_statistics(before)
    evaluation.reset()


def test_a_warm_up_respects_action_masks():
    env = wrap(build("MaskedToy"), normalize="fixed")
    env.fit(build("MaskedToy"), seed=0, steps=50)
    env.reset()
    assert env.action_masks().shape == (2, 3)


def test_nothing_is_fitted_that_is_not_asked_for():
    with pytest.raises(EnvError, match="nothing to fit"):
        wrap(cartpole(), normalize="running").fit(cartpole(), seed=0)


@pytest.mark.parametrize(
    ("env_id", "settings", "remedy"),
    [
        ("ImageToy", {"normalize": "running"}, "obs.normalize: none"),
        ("DiscreteToy", {"normalize": "fixed"}, "obs.normalize: none"),
        ("ImageToy", {"clip_range": 1.0}, "obs.clip_range: null"),
        ("DiscreteToy", {"stack_frames": 2}, "obs.stack_frames: null"),
        ("Toy", {"stack_frames": 0}, "1 or more"),
        ("Toy", {"clip_range": -1.0}, "positive"),
        ("Toy", {"clip_range": (1.0, 1.0)}, "in order"),
    ],
)
def test_what_would_have_no_effect_is_refused(env_id, settings, remedy):
    with pytest.raises(EnvError, match=remedy):
        wrap(build(env_id), **settings)


def test_bounds_of_the_space_follow_the_clip():
    space = wrap(cartpole(), clip_range=(-1.0, 3.0)).single_observation_space
    np.testing.assert_allclose(space.low, [-1, -1, -0.41887903, -1], rtol=1e-6)
    np.testing.assert_allclose(space.high, [3, 3, 0.41887903, 3], rtol=1e-6)
    assert wrap(cartpole(), normalize="running").single_observation_space == Box(-np.inf, np.inf, (4,), np.float32)


def test_a_served_policy_sees_what_the_environment_showed():
    settings = ObservationSettings(normalize="running", clip_range=3.0, stack_frames=3)
    env = wrap(cartpole(2), normalize="running", clip_range=3.0, stack_frames=3)
    env.reset()
    for actions in actions_for(env, 0, 80):
        env.step(actions)
    env.training = False
    served = ObservationTransform(env.env.single_observation_space, settings)
    served.load_statistics(env.statistics())
    raw = cartpole(2)
    raw_first, _ = raw.reset(seed=3)
    handed_in = []
    np.testing.assert_array_equal(served.apply(raw_first, np.ones(2, bool)), env.reset(seed=3)[0])
    for actions in actions_for(raw, 2, 80):
        observation, _, terminated, truncated, _ = raw.step(actions)
        handed_in.append((observation, observation.copy()))
        found = served.apply(observation, terminated | truncated)
        np.testing.assert_array_equal(found, env.step(actions)[0])
    for observation, copy in handed_in:
        np.testing.assert_array_equal(observation, copy, err_msg="what is handed in stays as it is")


def test_a_state_carries_statistics_stacks_and_the_environment_inside():
    settings = {"normalize": "running", "clip_range": 4.0, "stack_frames": 3}
    env, other = wrap(cartpole(3, seed=1), **settings), wrap(cartpole(3, seed=2), **settings)
    assert env.inner_stateful
    env.reset()
    actions = actions_for(env, 0, 200)
    for action in actions[:100]:
        env.step(action)
    other.set_state(env.get_state())
    for action in actions[100:]:
        ours, theirs = env.step(action), other.step(action)
        assert [row(ours[0], i) for i in range(3)] == [row(theirs[0], i) for i in range(3)]
    assert env.episode_numbers.tolist() == other.episode_numbers.tolist()


def test_without_a_stateful_environment_inside_the_statistics_still_carry_over():
    env, other = (wrap(build("Toy"), normalize="running", stack_frames=2) for _ in range(2))
    assert not env.inner_stateful
    env.reset()
    env.step(np.zeros(2, int))
    other.set_state(env.get_state())
    other.set_episode_state(env.episode_state())
    other.reset()
    assert other.episode_numbers.tolist() == [1, 1]
    assert other.statistics().arrays["observation.count"] == pytest.approx(6, abs=1e-3)


def test_statistics_of_another_environment_are_refused():
    with pytest.raises(EnvError, match="not of this environment"):
        wrap(cartpole(), normalize="running").load_statistics(wrap(build("Toy"), normalize="running").statistics())
    with pytest.raises(EnvError, match="not of this environment"):
        wrap(cartpole(), normalize="running").load_statistics(wrap(cartpole(), clip_range=1.0).statistics())


def test_it_answers_for_the_environment_inside():
    env = wrap(cartpole(), clip_range=1.0)
    assert env.metadata == env.env.metadata
    assert not hasattr(env, "action_masks")
    assert not hasattr(env, "anything_else")
    assert env.num_envs == 3
