"""Augmented Random Search under our hooks."""

from __future__ import annotations

import numpy as np
import pytest

from ..worlds import Hooks, learner_for, same_state, world_for


def test_a_vector_step_counts_once():
    env = world_for("ars", num_envs=3)
    learner = learner_for("ars", env, n_eval_episodes=6)
    hooks = Hooks()
    learner.train(env, 200, hooks)
    assert learner.timesteps == 3 * len(env.actions) == 3 * hooks.asked
    assert env.resets == 1 + 4 * learner.model._n_updates  # one per candidate: each starts its episodes fresh


def test_a_halt_ends_it_at_once_and_goes_back_to_the_last_update():
    env = world_for("ars")
    learner = learner_for("ars", env)
    states = {}
    hooks = Hooks(
        halt=lambda: hooks.asked == 100, boundary=lambda: states.update({learner.timesteps: learner.get_state()})
    )
    learner.train(env, 10_000, hooks)
    assert hooks.asked == 100
    assert learner.timesteps == max(states) < 200
    whole, end = states[learner.timesteps], learner.get_state()
    assert end.data | {"episodes": []} == whole.data | {"episodes": []}
    for name, array in whole.arrays.items():
        assert np.array_equal(array, end.arrays[name])


def test_the_schedule_goes_on_after_a_resume():
    env = world_for("ars")
    learner = learner_for("ars", env, lr_schedule="linear", learning_rate=1.0)
    before = Hooks(halt=lambda: before.asked == 200)
    learner.train(env, 1000, before)
    resumed = learner_for("ars", env, lr_schedule="linear", learning_rate=1.0)
    resumed.set_state(learner.get_state())
    start = resumed.timesteps
    after = Hooks()
    resumed.train(env, 1000, after)
    assert after.metrics[0]["train/learning_rate"] == pytest.approx(1 - start / 1000)
    assert all(0 < metrics["train/learning_rate"] <= 1 for metrics in before.metrics + after.metrics)


def test_a_resumed_search_starts_from_the_saved_weights():
    env = world_for("ars")
    learner = learner_for("ars", env)
    learner.train(env, 200, Hooks())
    resumed = learner_for("ars", env, seed=4)
    resumed.set_state(learner.get_state())
    assert np.array_equal(resumed.model.weights, learner.model.weights)
    assert same_state(resumed.get_state(), learner.get_state())
