"""What SB3 learns from is what happened: its rollout buffer against an independent recording of plain environments."""

import gymnasium as gym
import numpy as np
import pytest
import torch

from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.recording.episodes import EpisodeTracker
from tests.runtime.conftest import tiny

STEPS, ENVS, LONGEST = 96, 3, 20
CASES = {
    "gymnasium": {"class": "gymnasium", "kwargs": {"id": "CartPole-v1", "max_episode_steps": LONGEST}},
    "cartpole": {"class": "cartpole", "kwargs": {"max_episode_steps": LONGEST}},
}


class Hooks:
    def should_halt(self):
        return False

    def boundary(self, metrics):
        pass

    def decided(self, values, log_probs):
        pass


@pytest.mark.parametrize("case", CASES)
def test_the_rollout_buffer_equals_an_independent_recording(case):
    kwargs = {"n_steps": STEPS, "batch_size": STEPS, "n_epochs": 1, "net_arch": [8]}
    spec = tiny(env=CASES[case], agent={"class": "ppo", "kwargs": kwargs}, training={"n_envs": ENVS})
    builder = Builder(spec, seed=11, device="cpu")
    env = EpisodeTracker(builder.build_env("env", num_envs=ENVS, phase="train", window=Window()))
    learner = builder.build_learner(env, training=True)
    weights = {name: tensor.clone() for name, tensor in learner.model.policy.state_dict().items()}
    learner.train(env, STEPS * ENVS, Hooks())
    buffer, policy = learner.model.rollout_buffer, learner.model.policy
    policy.load_state_dict(weights)  # the bootstrap used the policy that played
    actions = buffer.actions.reshape(ENVS, STEPS)
    observations = buffer.observations.reshape(ENVS, STEPS, 4)

    ends = {"terminated": 0, "truncated": 0}
    for index in range(ENVS):
        plain = gym.make("CartPole-v1", max_episode_steps=LONGEST)
        starts, started = episode_starts(builder), True
        for step in range(STEPS):
            if started:
                plain.reset()
                plain.unwrapped.state = next(starts)[index]
                observation = np.array(plain.unwrapped.state, dtype=np.float32)
            assert buffer.episode_starts[step, index] == started
            np.testing.assert_array_equal(observations[index, step], observation)
            observation, reward, terminated, truncated, _ = plain.step(int(actions[index, step]))
            expected = np.float32(reward)
            if truncated and not terminated:
                with torch.no_grad():
                    value = policy.predict_values(policy.obs_to_tensor(observation)[0])[0].numpy()[0]
                expected = np.float32(expected + np.float32(learner.model.gamma) * value)
            np.testing.assert_allclose(buffer.rewards[step, index], expected, rtol=1e-6)
            ends["terminated"] += bool(terminated)
            ends["truncated"] += bool(truncated and not terminated)
            started = terminated or truncated
    assert min(ends.values()) > 0, ends


def episode_starts(builder):
    """Yields the exact double-precision starts of every environment's episodes, from a second copy of the stream."""
    twin = builder.build_env("env", num_envs=ENVS, phase="train", window=Window())
    while True:
        twin.reset()  # moves every environment on to its next episode
        if hasattr(twin, "envs"):
            yield [np.array(env.unwrapped.state) for env in twin.envs]
        else:
            yield list(twin.get_state().arrays["physics"].reshape(4, ENVS).T)
