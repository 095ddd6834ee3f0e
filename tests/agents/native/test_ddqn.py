"""Our own DQN."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from gymnasium import spaces

from alphaswarm_rl.agents.native.ddqn import DdqnInhouse
from alphaswarm_rl.agents.native.q_function import QFunction, QNetwork
from alphaswarm_rl.core.contracts import AgentRequest, EnvRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError, EnvError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

from ..worlds import CONTINUOUS, DICT, IMAGE, Hooks, MaskedWorld, World, same_state

SMALL = {
    "net_arch": [16],
    "batch_size": 16,
    "learning_starts": 40,
    "target_update_interval": 7,
    "tau": 1.0,
    "exploration_steps": 300,
    "replay": {"class": "prioritized", "kwargs": {"capacity": 200}},
}
WINDOW = spaces.Box(-1, 1, (4, 3), np.float32)
UNIFORM = {"class": "general", "kwargs": {"capacity": 200}}


def learner_for(env, seed=0, training=True, **kwargs):
    agent = build_from_config({"class": "ddqn_inhouse", "kwargs": SMALL | kwargs}, kind="agent")
    return agent.build(AgentRequest.for_env(env, seed, training=training))


def cartpole(num_envs=2, seed=0, phase="train"):
    return BatchedCartPole(EnvRequest(num_envs=num_envs, seed=seed, phase=phase))


def through_json(state: State) -> State:
    return State({name: array.copy() for name, array in state.arrays.items()}, json.loads(json.dumps(state.data)))


# -- exactness -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("halt_at", [1, 19, 21, 63, 128])
@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"n_steps": 1, "replay": UNIFORM, "double": False, "dueling": False},
        {"n_steps": 5, "train_freq": 3, "gradient_steps": 2, "tau": 0.1},
        {"encoder": {"class": "transformer", "kwargs": {"length": 2, "dropout": 0.3}}, "embed_dim": 8},
    ],
)
def test_a_resume_is_exact(halt_at, kwargs):
    """Before learning, inside windows, around a full buffer: train 2N is train N, new objects, and N."""
    one = cartpole()
    straight = learner_for(one, **kwargs)
    straight.train(one, 300, Hooks())

    env, hooks = cartpole(), Hooks(halt=lambda: hooks.asked == halt_at)
    halted = learner_for(env, **kwargs)
    halted.train(env, 300, hooks)
    assert halted.timesteps == 2 * halt_at
    second = cartpole(seed=9)
    second.set_state(env.get_state())
    resumed = learner_for(second, seed=99, **kwargs)
    resumed.set_state(through_json(halted.get_state()))
    resumed.train(second, 300, Hooks())
    assert resumed.timesteps == straight.timesteps == 300
    assert same_state(resumed.get_state(), straight.get_state())


def test_every_boundary_can_be_resumed_from():
    env, saved = cartpole(), []
    learner = learner_for(env)
    learner.train(env, 600, Hooks(boundary=lambda: saved.append((learner.get_state(), env.get_state()))))
    assert len(saved) == 3
    for state, env_state in saved:
        other = cartpole()
        other.set_state(env_state)
        again = learner_for(other, seed=5)
        again.set_state(through_json(state))
        again.train(other, 600, Hooks())
        assert same_state(again.get_state(), learner.get_state())


def test_two_trainings_of_one_seed_are_equal_and_of_another_are_not():
    def trained(seed):
        env = cartpole()
        learner = learner_for(env, seed=seed)
        learner.train(env, 200, Hooks())
        return learner.get_state()

    assert same_state(trained(3), trained(3))
    assert not same_state(trained(3), trained(4))


def test_no_global_generator_is_touched():
    before = np.random.get_state()[1].copy(), torch.get_rng_state()
    env = cartpole()
    learner = learner_for(env)
    learner.train(env, 200, Hooks())
    learner.predict(np.zeros((3, 4), np.float32), None, np.ones(3), deterministic=False)
    assert np.array_equal(np.random.get_state()[1], before[0])
    assert torch.equal(torch.get_rng_state(), before[1])


def test_predictions_do_not_change_the_training():
    def trained(disturb):
        env = cartpole()
        learner = learner_for(env)
        for total in (100, 200):
            learner.train(env, total, Hooks())
            if disturb:
                learner.predict(np.zeros((5, 4), np.float32), None, np.ones(5), deterministic=False)
        return learner.get_state()

    assert same_state(trained(False), trained(True))


def test_an_environment_that_cannot_be_restored_is_reset_and_its_open_windows_are_dropped():
    env = World()
    learner = learner_for(env, n_steps=8)
    learner.train(env, 8, Hooks())
    fresh = World()
    resumed = learner_for(fresh, n_steps=8)
    resumed.set_state(learner.get_state())
    held = len(resumed._buffer)
    resumed.train(fresh, 10, Hooks())
    assert fresh.resets == 1
    assert len(resumed._buffer) == held


def test_a_state_that_does_not_fit_is_refused():
    env = cartpole()
    learner = learner_for(env)
    learner.train(env, 60, Hooks())
    state = learner.get_state()
    with pytest.raises(CheckpointError, match="'ppo'"):
        learner.set_state(State(state.arrays, {**state.data, "agent": "ppo"}))
    with pytest.raises(CheckpointError, match="does not fit"):
        learner_for(cartpole(), net_arch=[8]).set_state(state)
    with pytest.raises(CheckpointError):
        learner_for(cartpole(num_envs=3)).set_state(state)


def test_a_learner_that_only_predicts_takes_a_state_of_any_number_of_environments():
    env = cartpole()
    learner = learner_for(env)
    learner.train(env, 60, Hooks())
    judge = learner_for(cartpole(num_envs=5, phase="evaluate"), training=False)
    judge.set_state(learner.get_state())
    seen = np.random.default_rng(0).normal(size=(5, 4)).astype(np.float32)
    for each in (learner, judge):
        each.seed_predictions(7, env)
    for deterministic in (True, False):
        one, other = (each.predict(seen, None, np.ones(5), deterministic=deterministic) for each in (learner, judge))
        assert np.array_equal(one[0], other[0])


# -- what it learns from -------------------------------------------------------------------------------------------


def linear(double=True, **kwargs):
    """Two actions worth x and -x to the online network, 10x and 20x to the target network; no hidden layers."""
    config = DdqnInhouse.Config(net_arch=(), dueling=False, double=double, **kwargs)
    q = QFunction(QNetwork(1, 2, config), config, generator=generator(0, "q"), device="cpu")
    arrays = q.get_arrays()
    arrays["online/action.weight"] = np.array([[1.0], [-1.0]], np.float32)
    arrays["target/action.weight"] = np.array([[10.0], [20.0]], np.float32)
    q.set_arrays(arrays, 0)
    return q


def errors_of(q, action=0, reward=1.0, discount=0.5, after=3.0, terminated=False, masks=None):
    """The error of one transition from an observation of 2."""
    row = np.array
    drawn = {
        "observation": row([[2.0]], np.float32),
        "action": row([action]),
        "reward": row([reward], np.float32),
        "terminated": row([terminated]),
        "discount": row([discount]),
        "next_observation": row([[after]], np.float32),
    }
    if masks is not None:
        drawn["next_mask"] = row([masks])
    return q.learn(drawn, np.ones(1, np.float32))[0].item()


def test_worked_examples_of_the_target():
    """At 3 the online network prefers action 0, of which the target network says 30; of action 1 it says 60."""
    assert errors_of(linear()) == 2 - (1 + 0.5 * 30)
    assert errors_of(linear(double=False)) == 2 - (1 + 0.5 * 60)
    assert errors_of(linear(), action=1) == -2 - (1 + 0.5 * 30)
    # at -3 the online network prefers action 1, of which the target network says -60
    assert errors_of(linear(), after=-3.0) == 2 - (1 - 0.5 * 60)
    # a terminated transition has no next value, whatever was seen
    assert errors_of(linear(), terminated=True, after=np.nan) == 2 - 1


@pytest.mark.parametrize("double", [True, False])
def test_a_masked_action_is_not_believed_in(double):
    assert errors_of(linear(double), masks=[False, True]) == 2 - (1 + 0.5 * 60)
    assert errors_of(linear(double), masks=[True, False]) == 2 - (1 + 0.5 * 30)


def test_dueling_values_are_the_states_plus_advantages_of_mean_0():
    config = DdqnInhouse.Config(net_arch=(5,), activation="tanh")
    network = QNetwork(3, 4, config)
    QFunction(network, config, generator=generator(1, "q"), device="cpu")
    seen = torch.linspace(-1, 1, 6).reshape(2, 3)
    values = network(seen)
    hidden = torch.tanh(network.layers[0](seen))
    torch.testing.assert_close(values.mean(dim=1, keepdim=True), network.state(hidden))
    advantages = network.action(hidden)
    torch.testing.assert_close(values[:, 0] - values[:, 1], advantages[:, 0] - advantages[:, 1])


def test_the_target_network_moves_when_it_is_due_and_only_then():
    env, seen = cartpole(), []
    learner = learner_for(env, target_update_interval=5)

    def remember():
        arrays = learner.get_state().arrays
        seen.append((learner._gradient_steps, arrays["online/layers.0.weight"], arrays["target/layers.0.weight"]))

    hooks = Hooks(halt=lambda: remember() or False)
    learner.train(env, 200, hooks)
    for (steps, online, target), (later, other_online, other_target) in pairwise(seen):
        assert np.array_equal(online, other_online) == (later == steps)
        moved = later // 5 > steps // 5
        assert np.array_equal(target, other_target) != moved
        if moved:
            assert np.array_equal(other_target, other_online)
    assert seen[-1][0] > 50


def test_a_part_of_the_way_is_a_part_of_the_way():
    q = linear()
    q.update_target(0.25)
    assert q.get_arrays()["target/action.weight"].ravel().tolist() == [7.75, 14.75]


def test_exploration_falls_in_a_line():
    env = cartpole()
    learner = learner_for(env, exploration_steps=400, exploration_final_eps=0.2, learning_starts=10_000)
    found = []
    for total in (0, 100, 200, 400, 600):
        learner.train(env, total, Hooks())
        found.append(learner.epsilon)
    assert found == pytest.approx([1, 0.8, 0.6, 0.2, 0.2])


def test_what_follows_the_end_of_an_episode_is_what_it_showed_last():
    env = cartpole()
    learner = learner_for(env, n_steps=1, replay=UNIFORM, learning_starts=10_000)
    learner.train(env, 200, Hooks())
    arrays = learner.get_state().arrays
    rows = {name: arrays[f"replay/storage/ring/{name}"] for name in ("terminated", "next_observation")}
    assert rows["terminated"].sum() > 2
    x, angle = np.abs(rows["next_observation"][rows["terminated"]][:, [0, 2]]).T
    assert ((x > 2.4) | (angle > 12 * np.pi / 180)).all()


# -- environments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_steps", [1, 3])
def test_masked_actions_are_never_taken(n_steps):
    """The world itself refuses them, also while exploring and after an end."""
    env = MaskedWorld(num_envs=3)
    learner = learner_for(env, n_steps=n_steps)
    learner.train(env, 600, Hooks())
    assert len(env.actions) == 200
    observation, _ = env.reset()
    for deterministic in (True, False):
        for _ in range(50):
            masks = env.action_masks()
            actions, _ = learner.predict(observation, None, np.ones(3), deterministic=deterministic, masks=masks)
            observation, *_ = env.step(actions)


def test_observations_of_any_space_are_seen():
    env = World(DICT)
    learner = learner_for(env)
    learner.train(env, 100, Hooks())
    assert learner.timesteps == 100


@pytest.mark.parametrize(("encoder", "space"), [("mlp", DICT), ("cnn", IMAGE), ("autoencoder", WINDOW)])
def test_an_encoder_learns_with_the_layers(encoder, space):
    env = World(space)
    learner = learner_for(env, encoder=encoder, embed_dim=8)
    before = learner.get_state()
    learner.train(env, 200, Hooks())
    after = learner.get_state()
    encoded = [name for name in before.arrays if name.startswith("online/encoder.")]
    assert encoded
    assert all((before.arrays[name] != after.arrays[name]).any() for name in encoded)


def test_a_state_from_step_to_step_is_refused():
    with pytest.raises(ComponentError, match="single transitions"):
        learner_for(cartpole(), encoder={"class": "recurrent", "kwargs": {"length": 1}})


def test_continuous_actions_are_refused():
    with pytest.raises(EnvError, match="chooses one of several"):
        learner_for(World(action_space=CONTINUOUS))


def test_the_steps_are_said_once():
    with pytest.raises(ComponentError, match="set its n_steps"):
        learner_for(World(), replay={"class": "nstep_info"})


def test_batches_fit_the_memory():
    with pytest.raises(ComponentError, match="batch_size 201 is more than the replay's capacity of 200"):
        learner_for(World(), batch_size=201)


def test_a_training_that_ends_before_it_learns_says_so(caplog):
    env = World()
    learner_for(env, learning_starts=64).train(env, 64, Hooks())
    assert "learns nothing: learning_starts is 64" in caplog.text


def mean_reward(learner):
    """Of twenty episodes that it plays without drawing."""
    env = cartpole(num_envs=20, seed=7, phase="evaluate")
    observation, _ = env.reset()
    running, total = np.ones(20, np.bool_), np.zeros(20)
    while running.any():
        actions, _ = learner.predict(observation, None, np.ones(20), deterministic=True)
        observation, rewards, terminated, truncated, _ = env.step(actions)
        total += rewards * running
        running &= ~(terminated | truncated)
    return total.mean()


@pytest.mark.parametrize("replay", ["prioritized", "general"])
def test_it_learns_cartpole(replay):
    """Random actions last for 22 steps; within 30,000 transitions its best policy lasts for more than 195."""
    env = cartpole(num_envs=8, seed=1)
    kwargs = {"gradient_steps": 2, "replay": {"class": replay}}
    agent = build_from_config({"class": "ddqn_inhouse", "kwargs": kwargs}, kind="agent")
    learner, best = agent.build(AgentRequest.for_env(env, 1)), 0.0
    for total in range(2_500, 30_001, 2_500):
        learner.train(env, total, Hooks())
        best = max(best, mean_reward(learner))
        if best > 195:
            break
    assert best > 195
