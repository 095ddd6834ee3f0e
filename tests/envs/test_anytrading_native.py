"""The native batched twin of gym-anytrading's environments against the library."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from alphaswarm_rl import build_from_config
from alphaswarm_rl.core.contracts import EnvRequest, State, Window
from alphaswarm_rl.core.errors import AlphaSwarmError, EnvError
from alphaswarm_rl.envs.anytrading_native import AnyTrading

from .contract import check_vector_env, roll
from .toys import component

SHORT = {"forex": Window("2017-02-01", "2017-02-03"), "stocks": Window("2010-01-01", "2010-03-01")}

both = pytest.mark.parametrize("task", ["forex", "stocks"])


def native(task, **parameters):
    return AnyTrading(AnyTrading.Config(task=task, **parameters))


def build(task, num_envs=2, seed=0, window=Window(), **parameters):  # noqa: B008 (frozen)
    return native(task, **parameters).build(EnvRequest(num_envs=num_envs, seed=seed, window=window))


def library(task, parameters):
    """The library's own environment; fees are attributes there."""
    made_with = {key: value for key, value in parameters.items() if key == "unit_side"}
    if "window_size" in parameters:
        size = parameters["window_size"]
        length = gymnasium.spec(f"{task}-v0").kwargs["frame_bound"][1]
        made_with |= {"window_size": size, "frame_bound": (size, length)}
    env = gymnasium.make(f"{task}-v0", disable_env_checker=True, **made_with).unwrapped
    for name, value in parameters.items():
        if name.startswith("trade_fee"):
            assert hasattr(env, name)
            setattr(env, name, value)
    return env


@both
def test_the_contract(task):
    def short(request):
        return native(task).build(EnvRequest(**{**vars(request), "window": SHORT[task]}))

    check_vector_env(short)


@pytest.mark.parametrize(
    ("task", "parameters"),
    [
        ("forex", {}),
        ("forex", {"unit_side": "right"}),
        ("forex", {"unit_side": "right", "trade_fee": 0.0011, "window_size": 7}),
        ("forex", {"trade_fee": 0.0}),
        ("stocks", {}),
        ("stocks", {"trade_fee_bid_percent": 0.002, "trade_fee_ask_percent": 0.001, "window_size": 1}),
    ],
)
def test_whole_episodes_are_the_librarys_bit_for_bit(task, parameters):
    ours = build(task, num_envs=3, **parameters)
    theirs = [library(task, parameters) for _ in range(3)]
    # One trades at random, one seldom, so that it is often long for many bars, one mostly buys.
    rng, likely = np.random.default_rng(0), np.array([0.5, 0.05, 0.02])
    observation, infos = ours.reset()
    for i, env in enumerate(theirs):
        expected, info = env.reset(seed=i)
        assert observation[i].tobytes() == expected.tobytes()
        assert (infos["total_profit"][i], infos["total_reward"][i], infos["position"][i]) == (1, 0, 0)
        assert (info["total_profit"], info["total_reward"], info["position"].value) == (1, 0, 0)
    actions, steps, ended = np.array([0, 0, 1]), 0, False
    while not ended:
        actions = np.where(rng.uniform(size=3) < likely, 1 - actions, actions)
        observation, rewards, terminated, truncated, infos = ours.step(actions)
        steps += 1
        for i, env in enumerate(theirs):
            expected, reward, their_end, ended, info = env.step(actions[i])
            shown = infos["final_obs"] if ended else observation
            assert shown[i].tobytes() == expected.tobytes()
            assert rewards[i] == reward
            assert (terminated[i], truncated[i]) == (their_end, ended)
            assert infos["total_profit"][i] == info["total_profit"]
            assert infos["total_reward"][i] == info["total_reward"]
            assert infos["position"][i] == info["position"].value
    assert steps == len(theirs[0].prices) - theirs[0].window_size - 1
    assert steps > 2000
    assert ours.episode_numbers.tolist() == [1, 1, 1]
    assert observation[0].tobytes() == theirs[0].reset()[0].tobytes()
    # Nothing of the first episode is left in the second.
    actions = np.array([1, 0, 1])
    observation, rewards, _, _, infos = ours.step(actions)
    for i, env in enumerate(theirs):
        env.reset()
        expected, reward, _, _, info = env.step(actions[i])
        assert observation[i].tobytes() == expected.tobytes()
        assert (rewards[i], infos["total_profit"][i]) == (reward, info["total_profit"])


@both
@pytest.mark.parametrize("window_size", [None, 10])
def test_it_is_the_gymnasium_path_in_every_window(task, window_size):
    kwargs = {} if window_size is None else {"window_size": window_size}
    through_gymnasium, ours = component(f"{task}-v0", kwargs=kwargs), native(task, **kwargs)
    assert ours.slots() == through_gymnasium.slots() == {"window"}
    for window in (Window(), SHORT[task], Window(start=SHORT[task].start), Window(end=SHORT[task].end)):
        assert ours.data_fingerprint(window) == through_gymnasium.data_fingerprint(window)
        for trained in ((), (SHORT[task],), (Window(end=SHORT[task].start),)):
            assert ours.in_sample(window, trained) == through_gymnasium.in_sample(window, trained)
    request = EnvRequest(num_envs=2, seed=0, window=SHORT[task])
    mine, other = ours.build(request), through_gymnasium.build(request)
    assert mine.single_observation_space == other.single_observation_space
    assert mine.single_action_space == other.single_action_space
    assert mine.observation_space == other.observation_space
    assert mine.action_space == other.action_space
    assert roll(mine, 150) == roll(other, 150)


def test_windows_outside_the_bars_are_refused():
    with pytest.raises(EnvError, match=r"2009-05-22.*2018-08-29"):
        build("stocks", window=Window("2019-01-01"))
    with pytest.raises(EnvError, match="window_size 5000"):
        build("stocks", window_size=5000)


@both
def test_environment_0_of_1_is_environment_0_of_1024(task):
    assert roll(build(task, 1, window=SHORT[task]), 100)[0] == roll(build(task, 1024, window=SHORT[task]), 100)[0]


@both
def test_a_state_carries_the_accounts_bit_for_bit(task):
    env, other = build(task, 4, seed=9, window=SHORT[task]), build(task, 4, seed=1, window=SHORT[task])
    rng = np.random.default_rng(0)
    env.reset()
    for actions in rng.integers(0, 2, (70, 4)):
        env.step(actions)
    state = env.get_state()
    assert set(state.arrays) == {"position", "traded", "profit", "reward", "episodes"}
    assert state.data["seed"] == 9
    other.set_state(state)
    for actions in rng.integers(0, 2, (70, 4)):
        expected, found = env.step(actions), other.step(actions)
        for name in ("total_profit", "total_reward", "position"):
            assert expected[4][name].tobytes() == found[4][name].tobytes()
        assert expected[0].tobytes() == found[0].tobytes()
        assert expected[1].tobytes() == found[1].tobytes()
    assert env.episode_numbers.tolist() == other.episode_numbers.tolist()


def test_a_state_of_another_batch_or_window_is_refused():
    env = build("stocks", 4)
    env.reset()
    for _ in range(100):
        env.step(np.ones(4, int))
    state = env.get_state()
    with pytest.raises(EnvError, match="shape"):
        build("stocks", 5).set_state(state)
    with pytest.raises(EnvError, match="bar 130"):
        build("stocks", 4, window=SHORT["stocks"]).set_state(state)
    with pytest.raises(EnvError, match="bar None"):
        build("stocks", 4).set_state(State(data={"seed": 1}))


def test_infos_are_the_callers_to_keep():
    env = build("forex", 2, window=SHORT["forex"])
    kept = [env.reset()[1]]
    kept += [env.step(np.array([step % 2, 1]))[4] for step in range(60)]
    copies = [{name: array.copy() for name, array in infos.items()} for infos in kept]
    for _ in range(60):
        env.step(np.array([1, 0]))
    for infos, copy in zip(kept, copies, strict=True):
        for name, array in infos.items():
            np.testing.assert_array_equal(array, copy[name])


def test_prices_are_held_once_whatever_the_number_of_environments():
    def held(env):
        return env._signal.nbytes + env._prices.nbytes

    few, many = build("forex", 1), build("forex", 4096)
    assert held(few) == held(many) < 100_000


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"task": "stocks", "trade_fee": 0.1}, "'trade_fee' is a parameter of forex"),
        ({"task": "stocks", "unit_side": "right"}, "'unit_side' is a parameter of forex"),
        ({"task": "forex", "trade_fee_bid_percent": 0.1}, "'trade_fee_bid_percent' is a parameter of stocks"),
        ({"task": "forex", "trade_fee_ask_percent": 0.1}, "'trade_fee_ask_percent' is a parameter of stocks"),
        ({"task": "crypto"}, "task"),
        ({}, "task"),
        ({"task": "forex", "window_size": 0}, "window_size"),
        ({"task": "forex", "unit_side": "middle"}, "unit_side"),
        ({"task": "stocks", "trade_fee_bid_percent": 1}, "trade_fee_bid_percent"),
        ({"task": "forex", "trade_fee": -1}, "trade_fee"),
        ({"task": "forex", "frame_bound": [40, 90]}, "frame_bound"),
    ],
)
def test_wrong_parameters_are_refused(kwargs, message):
    with pytest.raises(AlphaSwarmError, match=message):
        build_from_config({"class": "anytrading", "kwargs": kwargs}, kind="env")


@pytest.mark.parametrize("actions", [[0, 2], [-1, 0], [0], [[0, 1]], [0.0, 1.0], [True, False]])
def test_other_actions_are_refused_and_nothing_moves(actions):
    env = build("stocks")
    env.reset()
    before = env.get_state()
    with pytest.raises(EnvError, match="anytrading"):
        env.step(np.array(actions))
    assert env.get_state().data == before.data


def test_stepping_needs_a_reset():
    with pytest.raises(ResetNeeded):
        build("forex").step(np.array([0, 0]))


def test_what_it_does_not_offer_is_refused_with_the_remedy():
    with pytest.raises(EnvError, match="stocks-v0"):
        native("stocks").build(EnvRequest(num_envs=1, seed=0, render=True))
    with pytest.raises(EnvError, match="stocks-v0"):
        build("forex").render()
    with pytest.raises(EnvError, match="options"):
        build("forex").reset(options={"low": 0})
