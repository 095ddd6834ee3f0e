"""Every algorithm trains, predicts, says its state and resumes."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch
from gymnasium import spaces

from alphaswarm_rl.agents.sb3.algorithms import algorithms
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError, TrainingDiverged

from ..worlds import CONTINUOUS, DICT, IMAGE, SMALL, Hooks, World, learner_for, same_state, trained, world_for

ON_POLICY = ["ppo", "a2c", "trpo", "recurrent_ppo", "maskable_ppo"]
OBSERVATION = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
STARTS = np.ones(4, dtype=bool)


def through_json(state: State) -> State:
    return State({name: array.copy() for name, array in state.arrays.items()}, json.loads(json.dumps(state.data)))


def predictions(learner, deterministic=True):
    return learner.predict(OBSERVATION, None, STARTS, deterministic=deterministic)[0]


@pytest.mark.parametrize("alias", SMALL)
def test_trains_predicts_and_round_trips(alias):
    hooks = Hooks()
    learner = trained(alias, 128, hooks=hooks)
    assert learner.timesteps >= 128
    assert hooks.metrics
    assert any("train/learning_rate" in metrics for metrics in hooks.metrics)
    state = learner.get_state()
    fresh = learner_for(alias, world_for(alias), seed=1)
    assert not same_state(fresh.get_state(), state)
    fresh.set_state(through_json(state))
    assert same_state(fresh.get_state(), state)
    assert fresh.timesteps == learner.timesteps
    actions = predictions(fresh)
    assert actions.shape == (4,) if alias in (*ON_POLICY, "dqn", "qrdqn", "ars") else (4, 2)
    assert np.array_equal(actions, predictions(learner))


@pytest.mark.parametrize("alias", SMALL)
def test_one_seed_gives_one_training(alias):
    first, second, other = (trained(alias, 64, seed=seed).get_state() for seed in (3, 3, 4))
    assert same_state(first, second)
    assert not same_state(first, other)


@pytest.mark.parametrize("alias", SMALL)
def test_a_resumed_training_ends_at_the_same_count_and_repeats_itself(alias):
    straight = trained(alias, 150)
    ends = []
    for _ in range(2):
        half = trained(alias, 70)
        env = world_for(alias, seed=9)
        resumed = learner_for(alias, env, seed=8)
        resumed.set_state(through_json(half.get_state()))
        resumed.train(env, 150, Hooks())
        ends.append(resumed.get_state())
        if alias != "ars":  # whose updates take as many steps as their episodes
            assert resumed.timesteps == straight.timesteps
    assert same_state(*ends)


@pytest.mark.parametrize("alias", ["ppo", "dqn"])
def test_a_halt_drops_what_was_not_learnt_from(alias):
    parameters = {"train_freq": 5} if alias == "dqn" else {}
    states, env = {}, world_for(alias)
    learner = learner_for(alias, env, **parameters)
    hooks = Hooks(
        halt=lambda: hooks.asked == 37, boundary=lambda: states.update({learner.timesteps: learner.get_state()})
    )
    learner.train(env, 1000, hooks)
    assert hooks.asked == 37
    assert learner.timesteps == (64 if alias == "ppo" else 70)
    assert max(states) == learner.timesteps
    end, whole = learner.get_state(), states[learner.timesteps]
    assert end.data | {"episodes": []} == whole.data | {"episodes": []}
    assert same_state(State(end.arrays), State(whole.arrays))


@pytest.mark.parametrize("alias", ON_POLICY)
def test_boundaries_come_after_each_rollout_and_its_update(alias):
    env = world_for(alias)
    learner = learner_for(alias, env)
    seen = []
    hooks = Hooks(boundary=lambda: seen.append((learner.timesteps, learner.model._n_updates)))
    learner.train(env, 3 * learner.rollout_transitions, hooks)
    assert [steps for steps, _ in seen] == [learner.rollout_transitions * k for k in (1, 2, 3)]
    assert all(updates > 0 for _, updates in seen)
    assert hooks.asked == 3 * learner.rollout_transitions // env.num_envs
    assert all("train/learning_rate" in metrics for metrics in hooks.metrics)
    assert not learner.model.logger.name_to_value
    learner.train(env, learner.timesteps, hooks)
    assert len(seen) == 3


@pytest.mark.parametrize("alias", ["ppo", "dqn"])
def test_nobody_counted_the_updates_of_weights_that_were_trained_elsewhere(alias):
    env = world_for(alias)
    learner = learner_for(alias, env)
    assert learner.updates == 0
    state = learner.get_state()
    elsewhere = State(state.arrays, {**state.data, "counters": {**state.data["counters"], "num_timesteps": 4096}})
    learner.set_state(through_json(elsewhere))
    assert learner.updates is None
    learner.train(env, 4096 + 256, Hooks())
    counted = learner.updates
    assert counted > 0
    learner.set_state(through_json(learner.get_state()))
    assert learner.updates == counted


def test_an_agent_that_collected_and_did_not_learn_yet_has_no_update():
    learner = trained("dqn", 64, learning_starts=1000)
    assert learner.timesteps == 64
    fresh = learner_for("dqn", world_for("dqn"))
    fresh.set_state(through_json(learner.get_state()))
    assert learner.updates == fresh.updates == 0


def test_off_policy_has_no_rollout():
    assert learner_for("dqn", world_for("dqn")).rollout_transitions is None


def test_a_large_training_ends_at_whole_rollouts():
    env = world_for("ppo", num_envs=8)
    learner = learner_for("ppo", env, n_steps=256, batch_size=2048, n_epochs=1)
    learner.train(env, 5000, Hooks())
    other = learner_for("ppo", env, n_steps=256, batch_size=2048, n_epochs=1)
    other.set_state(learner.get_state())
    other.train(env, 10_000, Hooks())
    assert (learner.timesteps, other.timesteps) == (6144, 10_240)


def test_a_linear_schedule_goes_on_after_a_resume():
    def rates(hooks):
        return [metrics["train/learning_rate"] for metrics in hooks.metrics]

    straight, before, after = Hooks(), Hooks(halt=lambda: before.asked == 50), Hooks()
    trained("ppo", 160, hooks=straight, lr_schedule="linear", learning_rate=0.01)
    half = trained("ppo", 160, hooks=before, lr_schedule="linear", learning_rate=0.01)
    resumed = learner_for("ppo", world_for("ppo"), lr_schedule="linear", learning_rate=0.01)
    resumed.set_state(half.get_state())
    resumed.train(world_for("ppo"), 160, after)
    assert rates(straight) == pytest.approx([0.008, 0.006, 0.004, 0.002, 0.0])
    assert rates(before) + rates(after) == rates(straight)


@pytest.mark.parametrize("alias", SMALL)
def test_predictions_in_between_do_not_change_the_training(alias):
    env = world_for(alias)
    learner, other = learner_for(alias, env), learner_for(alias, world_for(alias), seed=7)

    def disturb():
        for who in (other, learner):
            predictions(who, deterministic=False)
            predictions(who, deterministic=True)
        learner_for(alias, world_for(alias), seed=5)

    learner.train(env, 96, Hooks(boundary=disturb))
    assert same_state(learner.get_state(), trained(alias, 96).get_state())


@pytest.mark.parametrize("alias", SMALL)
def test_the_global_generators_stay_as_they_are(alias):
    def numbers():
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()

    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    before = numbers()
    learner = trained(alias, 40)
    for deterministic in (True, False):
        predictions(learner, deterministic)
    assert numbers() == before


@pytest.mark.parametrize("alias", ["ppo", "dqn"])
def test_seeded_predictions_repeat_themselves_in_any_environment(alias):
    learner = trained(alias)
    observations = np.zeros((50, 3), np.float32)

    def draw(env):
        learner.seed_predictions(7, env)
        return learner.predict(observations, None, np.ones(50, bool), deterministic=False)[0]

    assert np.array_equal(draw(world_for(alias)), draw(world_for(alias, num_envs=50)))


def test_the_environments_action_space_is_left_alone():
    env = world_for("dqn")
    env.single_action_space.seed(5)
    before = env.single_action_space.np_random.bit_generator.state
    learner_for("dqn", env).train(env, 40, Hooks())
    assert env.single_action_space.np_random.bit_generator.state == before


def test_a_state_of_other_shapes_is_refused_and_changes_nothing():
    learner = trained("ppo", 32)
    wide = learner_for("ppo", world_for("ppo"), net_arch=[9])
    before = wide.get_state()
    with pytest.raises(CheckpointError, match="shape"):
        wide.set_state(learner.get_state())
    assert same_state(wide.get_state(), before)
    deep = learner_for("ppo", world_for("ppo"), net_arch=[8, 8])
    with pytest.raises(CheckpointError, match="differ in name"):
        deep.set_state(learner.get_state())
    with pytest.raises(CheckpointError, match="agent 'ppo', not 'a2c'"):
        learner_for("a2c", world_for("a2c")).set_state(learner.get_state())
    with pytest.raises(CheckpointError, match="lacks"):
        learner.set_state(State())


def test_a_broken_state_is_refused():
    learner = trained("sac", 40)
    good = learner.get_state()
    for name, why in {
        "tensors/tensor/log_ent_coef": "log_ent_coef",
        "replay/rewards": "columns",
        "generators/torch": "cannot be read",
    }.items():
        broken = State({key: array for key, array in good.arrays.items() if key != name}, good.data)
        with pytest.raises(CheckpointError, match=why):
            learner.set_state(broken)
    small = learner_for("sac", world_for("sac"), buffer_size=20)
    with pytest.raises(CheckpointError, match="does not fit"):
        small.set_state(good)
    with pytest.raises(CheckpointError, match="has not"):
        learner.set_state(State(good.arrays | {"tensors/more/x": np.zeros(1)}, good.data))


def test_a_state_of_other_environments_serves_predictions_only():
    learner = trained("dqn", 64)
    env = world_for("dqn", num_envs=3)
    other = learner_for("dqn", env)
    other.set_state(learner.get_state())
    assert np.array_equal(predictions(other), predictions(learner))
    with pytest.raises(CheckpointError, match="of 2 environments and cannot be trained on with 3"):
        other.train(env, 1000, Hooks())
    with pytest.raises(CheckpointError, match="saved"):
        other.get_state()


def test_n_step_returns_do_not_cross_a_resume():
    learner = trained("dqn", 60, n_steps=3)
    buffer = learner.model.replay_buffer
    newest = buffer.pos - 1
    assert not buffer.timeouts[newest].all()
    learner.train(world_for("dqn"), learner.timesteps + 1, Hooks())
    assert np.array_equal(np.logical_or(buffer.dones[newest], buffer.timeouts[newest]), [True, True])


@pytest.mark.parametrize("alias", ["ppo", "dqn", "sac", "recurrent_ppo", "maskable_ppo"])
@pytest.mark.parametrize(
    ("space", "policy_type"), [(DICT, "MultiInputPolicy"), (IMAGE, "CnnPolicy"), (IMAGE, "MlpPolicy")]
)
def test_every_policy_type(alias, space, policy_type):
    env = world_for(alias, space)
    kwargs = {"policy_type": policy_type, "embed_dim": 4, "encoder": "cnn"} if policy_type == "CnnPolicy" else {}
    learner = learner_for(alias, env, **{"policy_type": policy_type} | kwargs)
    learner.train(env, 32, Hooks())
    observation, _ = env.reset()
    actions, _ = learner.predict(observation, None, np.ones(2, bool), deterministic=True)
    fresh = learner_for(alias, env, seed=1, **{"policy_type": policy_type} | kwargs)
    fresh.set_state(through_json(learner.get_state()))
    assert np.array_equal(fresh.predict(observation, None, np.ones(2, bool), deterministic=True)[0], actions)
    assert same_state(fresh.get_state(), learner.get_state())


ACTION_SPACES = {"MultiDiscrete": spaces.MultiDiscrete([2, 3]), "MultiBinary": spaces.MultiBinary(3), "Box": CONTINUOUS}


class AllAllowed(World):
    def action_masks(self):
        return np.ones((self.num_envs, 5 if isinstance(self.single_action_space, spaces.MultiDiscrete) else 6), bool)


@pytest.mark.parametrize(
    ("alias", "kind"),
    [(alias, kind) for alias, agent in algorithms().items() for kind in ACTION_SPACES if kind in agent.action_spaces],
)
def test_every_action_space_that_an_algorithm_claims(alias, kind):
    env = AllAllowed(action_space=ACTION_SPACES[kind])
    learner = learner_for(alias, env)
    learner.train(env, 40, Hooks())
    actions, _ = learner.predict(OBSERVATION, None, STARTS, deterministic=False)
    assert all(env.single_action_space.contains(action) for action in actions.astype(env.single_action_space.dtype))


def test_masks_are_respected():
    learner = trained("maskable_ppo")  # the world itself refuses a forbidden action
    masks = np.eye(3, dtype=bool)[[0, 1, 2, 1]]
    for deterministic in (True, False):
        actions, _ = learner.predict(OBSERVATION, None, STARTS, deterministic=deterministic, masks=masks)
        assert actions.tolist() == [0, 1, 2, 1]


def test_memory_is_forgotten_where_an_episode_starts():
    learner = trained("recurrent_ppo", 32)
    _, fresh = learner.predict(OBSERVATION, None, STARTS, deterministic=True)
    _, later = learner.predict(OBSERVATION, fresh, ~STARTS, deterministic=True)
    _, mixed = learner.predict(OBSERVATION, later, np.array([True, False, False, True]), deterministic=True)
    for part, new in zip(mixed, fresh, strict=True):
        assert part.shape == (1, 4, 8)
        same = [np.allclose(part[0, i], new[0, i], atol=1e-6) for i in range(4)]
        assert same == [True, False, False, True]


@pytest.mark.parametrize("alias", SMALL)
def test_a_training_that_diverges_says_so_and_its_state_is_no_boundary(alias):
    env, hooks = world_for(alias), Hooks()
    learner = learner_for(alias, env)
    learner.train(env, 64, Hooks())
    with torch.no_grad():
        for weights in learner._model.policy.parameters():
            weights.fill_(torch.nan)
    if alias == "ars":
        learner._model.weights.fill_(torch.nan)
    with pytest.raises(TrainingDiverged, match="not finite any more"):
        learner.train(env, 512, hooks)
    # At most what was collected before the first update is reported; no update is.
    assert not any("loss" in name for metrics in hooks.metrics for name in metrics)


def test_an_error_that_is_no_divergence_stays_what_it_is():
    class Broken(Hooks):
        def should_halt(self):
            raise ValueError("of somebody else")

    env = world_for("ppo")
    with pytest.raises(ValueError, match="of somebody else"):
        learner_for("ppo", env).train(env, 64, Broken())
