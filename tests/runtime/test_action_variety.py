"""Whether a policy was ever updated, and whether its actions depend on what it sees: of real policies."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from alphaswarm_rl.core.window import Window
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.action_variety import ActionVariety
from alphaswarm_rl.runtime.rollout import EvaluationPlan, evaluate_learner
from tests.runtime.conftest import tiny

UNIT = Box(-1.0, 1.0, (2,), np.float32)


def found(space, *steps):
    """What is found after each of these steps, whose rows are environments."""
    variety = ActionVariety(space)
    assert variety.found is None
    kind = space.dtype
    seen = []
    for actions in steps:
        variety.add(np.array(actions, kind))
        seen.append(variety.found)
    return seen


def test_actions_vary_from_one_step_to_another_and_from_one_environment_to_another():
    assert found(Discrete(3), [1, 1], [1, 1], [1, 2]) == [False, False, True]
    assert found(Discrete(3), [0, 1]) == [True]
    assert found(UNIT, [[0.5, 0.5]], [[0.5, 0.4]]) == [False, True]


def test_a_drift_of_several_steps_is_seen_beside_the_first_of_them():
    steps = [[[0.5 + number * 0.6e-6, 0.0]] for number in range(6)]
    assert found(Box(-1.0, 1.0, (2,), np.float64), *steps)[-1] is True


@pytest.mark.parametrize(("size", "apart", "vary"), [(0.5, 1e-6, False), (0.5, 3e-6, True), (999.0, 5e-4, False)])
def test_what_differs_by_rounding_alone_is_the_same(size, apart, vary):
    space = Box(-1e4, 1e4, (1,), np.float64)
    assert found(space, [[size]], [[size + apart]])[-1] is vary


def test_beyond_the_bounds_of_their_space_all_actions_are_the_same():
    assert found(UNIT, [[3.0, -2.0]], [[70.0, -1.0]]) == [False, False]
    assert found(UNIT, [[3.0, -2.0]], [[0.9, -1.0]]) == [False, True]


class Scripted:
    """A learner that was updated, and answers with the actions it is given, in turn."""

    def __init__(self, actions, updates=7):
        self._actions, self.updates, self.asked = actions, updates, []

    def seed_predictions(self, seed, env):
        self._number = 0

    def predict(self, observation, memory, starts, *, deterministic, masks):
        self.asked.append(deterministic)
        action = self._actions[self._number % len(self._actions)]
        self._number += 1
        return np.full(len(starts), action), memory


def judged(settings, learner, *, deterministic=True):
    from alphaswarm_rl.inference.builder import Builder

    builder = Builder(tiny(), seed=1, device="cpu")
    env = builder.build_env("evaluate", num_envs=2, phase="evaluate", window=Window())
    plan = EvaluationPlan(phase="evaluate", window=Window(), episodes=3, deterministic=deterministic)
    evaluation = evaluate_learner(learner, env, plan, seed=5)
    env.close()
    return evaluation


def test_a_policy_that_acts_alike_whatever_it_sees_is_found_constant(settings):
    same = judged(settings, Scripted([1]))
    assert (same.actions_vary, same.updates) == (False, 7)
    other = judged(settings, Scripted([1, 1, 0, 0]))
    assert (other.actions_vary, other.updates) == (True, 7)


def test_one_that_draws_is_asked_what_it_would_do_without_drawing(settings):
    learner = Scripted([1])
    assert judged(settings, learner, deterministic=False).actions_vary is False
    assert learner.asked[:2] == [True, False]


def test_one_that_was_never_updated_is_not_asked(settings):
    learner = Scripted([0, 1], updates=0)
    evaluation = judged(settings, learner, deterministic=False)
    assert (evaluation.updates, evaluation.actions_vary) == (0, None)
    assert not any(learner.asked)


AGENTS = {
    "a rule": {"class": "random"},
    "before its first update": {"class": "ddqn_inhouse", "kwargs": {"learning_starts": 5000, "net_arch": [8]}},
    "updated": {"class": "ddqn_inhouse", "kwargs": {"learning_starts": 64, "batch_size": 16, "net_arch": [8]}},
}


@pytest.mark.parametrize("name", AGENTS)
def test_the_model_of_a_training_without_an_update_passes_nowhere(settings, name):
    RLRuntime(tiny(agent=AGENTS[name], training={"total_timesteps": 512}), settings).train()
    with ModelRegistry.open(settings) as registry:
        row = next(row for row in registry.list() if row.mean_reward is not None)
        for profile in ("default", "strict", "trading", "seed-legacy"):
            verdicts = {check.gate: check for check in registry.validate(row.id, profile=profile).checks}
            assert verdicts["trained"].passed is (name == "updated"), profile
            if name != "updated":
                assert verdicts["trained"].value == 0
                assert not verdicts["not_constant"].passed
                assert not registry.has_passed(row.id)
