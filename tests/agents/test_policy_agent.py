"""The agent that runs a fixed policy."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.agents.stepping import BOUNDARY_STEPS
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError, UnknownComponent
from alphaswarm_rl.core.refs import reference

from .worlds import CONTINUOUS, DICT, VECTOR, Hooks, RestorableWorld, World, learner_for


def through_json(state: State) -> State:
    return State(dict(state.arrays), json.loads(json.dumps(state.data)))


@pytest.mark.parametrize("observation_space", [VECTOR, DICT, spaces.Discrete(5)])
@pytest.mark.parametrize("action_space", [CONTINUOUS, spaces.Discrete(4)])
@pytest.mark.parametrize("halt_at", [1, 37, BOUNDARY_STEPS, 200])
def test_a_resume_is_exact(observation_space, action_space, halt_at):
    def world():
        return RestorableWorld(observation_space, action_space, num_envs=3, seed=5)

    straight, env = learner_for("random", (one := world())), world()
    straight.train(one, 1000, Hooks())
    halted, hooks = learner_for("random", env), Hooks(halt=lambda: hooks.asked == halt_at)
    halted.train(env, 1000, hooks)
    assert halted.timesteps == 3 * halt_at
    saved, saved_env = through_json(halted.get_state()), env.get_state()

    second = world()
    second.set_state(saved_env)
    resumed = learner_for("random", second, seed=99)
    resumed.set_state(saved)
    resumed.train(second, 1000, Hooks())
    assert second.resets == 0
    assert resumed.timesteps == straight.timesteps == 1002
    assert np.array_equal(np.stack(env.actions + second.actions), np.stack(one.actions))
    end, expected = resumed.get_state(), straight.get_state()
    assert end.data == expected.data
    assert all(np.array_equal(end.arrays[name], array) for name, array in expected.arrays.items())


def test_every_boundary_can_be_resumed_from():
    env = RestorableWorld(num_envs=2)
    learner, saved = learner_for("random", env), []
    hooks = Hooks(boundary=lambda: saved.append((learner.get_state(), env.get_state(), len(env.actions))))
    learner.train(env, 2 * 300, hooks)
    assert [steps for *_, steps in saved] == [BOUNDARY_STEPS, 2 * BOUNDARY_STEPS, 300]
    assert hooks.asked == 300
    for state, env_state, steps in saved:
        other_env = RestorableWorld(num_envs=2)
        other_env.set_state(env_state)
        other = learner_for("random", other_env, seed=3)
        other.set_state(through_json(state))
        other.train(other_env, 2 * 300, Hooks())
        assert all(map(np.array_equal, other_env.actions, env.actions[steps:]))
        assert other.timesteps == learner.timesteps


def test_an_environment_that_cannot_be_restored_is_reset():
    env = World()
    learner = learner_for("random", env)
    learner.train(env, 20, Hooks())
    fresh = World()
    resumed = learner_for("random", fresh)
    resumed.set_state(learner.get_state())
    resumed.train(fresh, 40, Hooks())
    assert fresh.resets == 1
    assert resumed.timesteps == 40


def test_a_second_training_goes_on():
    env = World()
    learner = learner_for("random", env)
    learner.train(env, 20, Hooks())
    learner.train(env, 20, Hooks())
    learner.train(env, 40, Hooks())
    assert (env.resets, len(env.actions)) == (1, 20)


def test_predictions_do_not_change_the_training():
    def actions(disturb):
        env = World()
        learner = learner_for("random", env)
        for total in (20, 40):
            learner.train(env, total, Hooks())
            if disturb:
                learner.predict(np.zeros((5, 3)), None, np.zeros(5), deterministic=False)
        return np.stack(env.actions)

    assert np.array_equal(actions(False), actions(True))


def test_predictions_are_of_the_batchs_size():
    learner = learner_for("constant", World(), action=2)
    actions, memory = learner.predict(np.zeros((7, 3)), None, np.ones(7), deterministic=True)
    assert actions.tolist() == [2] * 7
    assert memory is None


def test_predictions_are_for_the_environment_they_are_seeded_for_and_repeat_themselves():
    learner = learner_for("random", World(action_space=spaces.Discrete(4)))
    other = World(action_space=CONTINUOUS, num_envs=5)

    def draw():
        learner.seed_predictions(7, other)
        return learner.predict(np.zeros((5, 3)), None, np.ones(5), deterministic=False)[0]

    first = draw()
    assert first.shape == other.action_space.shape
    assert first.dtype == CONTINUOUS.dtype
    assert np.array_equal(draw(), first)


def test_every_policy_is_an_agent_by_its_name():
    for cls in catalogue.listing("policy"):
        if cls.rl_alias != "frozen":
            written = {"class": "policy", "kwargs": {"policy": {"class": cls.rl_alias}}}
            ref = reference({"class": cls.rl_alias}, "agent")
            assert ref == reference({"class": cls.__name__}, "agent") == reference(written, "agent")
            assert ref.label == cls.rl_alias
            assert catalogue.named("agent", cls.rl_alias) is cls
    ref = reference({"class": "equal_weight", "kwargs": {"rebalance_bars": 5}}, "agent")
    assert ref.kwargs == {"policy": {"class": "equal_weight", "kwargs": {"rebalance_bars": 5}}}
    assert reference({"class": "ppo"}, "agent").label == "ppo"
    with pytest.raises(UnknownComponent, match="Did you mean 'equal_weight'"):
        reference({"class": "equal_wait"}, "agent")


def test_a_policy_is_no_other_kind_of_component_by_its_name():
    with pytest.raises(UnknownComponent):
        reference({"class": "equal_weight"}, "env")
    with pytest.raises(UnknownComponent):
        reference({"class": "ppo"}, "policy")


def test_short_names():
    ref = reference({"class": "constant", "kwargs": {"action": 2}}, "agent")
    assert ref == reference(
        {"class": "policy", "kwargs": {"policy": {"class": "constant", "kwargs": {"action": 2}}}}, "agent"
    )
    assert ref.kwargs == {"policy": {"class": "constant", "kwargs": {"action": 2}}}
    assert reference({"class": "random"}, "agent").name == "policy"
    assert not catalogue.get("agent", "random").trains
    assert catalogue.get("agent", "ppo").trains
    with pytest.raises(ComponentError, match="unknown key 'actoin'"):
        reference({"class": "constant", "kwargs": {"actoin": 2}}, "agent")


def test_a_state_that_does_not_fit_is_refused():
    env = World()
    learner = learner_for("random", env)
    learner.train(env, 10, Hooks())
    with pytest.raises(CheckpointError, match="observation"):
        learner_for("random", World(spaces.Box(0, 1, (9,)))).set_state(learner.get_state())
    with pytest.raises(CheckpointError, match="cannot be read"):
        learner.set_state(State())
