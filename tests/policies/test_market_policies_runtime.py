"""The classical baselines in whole runs."""

from __future__ import annotations

import numpy as np
import pytest

import alphaswarm_rl.data_pipelines.synthetic  # noqa: F401
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import RLExperimentSpec
from tests.runtime.test_resume import halted_run

from .markets import CASH, FREE, ORDERS, QUICK

TRAINING_END = "2020-06-01"


def spec_of(policy, *, obs=None, action=ORDERS, **training):
    """A spec that runs the policy in a market without costs."""
    kwargs = {"fill": "same_close", "episode_bars": 20, "initial_cash": CASH, "costs": FREE}
    return RLExperimentSpec.from_data(
        {
            "name": "Baseline",
            "env": {"class": "stock_trading", "kwargs": kwargs},
            "data_pipeline": {"class": "synthetic", "kwargs": {"n_assets": 3, "n_bars": 200, "seed": 1}},
            "action": action,
            "observation": {"class": "portfolio_state"},
            "agent": {"class": "policy", "kwargs": {"policy": {"class": policy, "kwargs": QUICK[policy]}}},
            "obs": obs or {},
            "training": {"total_timesteps": 128, "n_envs": 4, "end": TRAINING_END, **training},
            "evaluation": {"start": TRAINING_END, "end": "2020-08-03", "episodes": 1},
        }
    )


def test_a_trained_run_is_judged_in_the_market_of_the_evaluation(settings):
    spec = spec_of("buy_and_hold", obs={"normalize": "running", "stack_frames": 2})
    result = RLRuntime(spec, settings).train()
    builder = Builder(spec, seed=0, device="cpu")
    env = builder.build_env("evaluate", num_envs=1, phase="evaluate", window=spec.evaluation.window)
    close = env.unwrapped.plan.panel.close[env.unwrapped.plan.first_bar :]
    # The reward is money earned times 1e-4.
    expected = 1e-4 * CASH * ((close[-1] / close[0]).mean() - 1)
    assert result.metrics["mean_reward"] == pytest.approx(expected, rel=1e-6)
    again = RLRuntime.from_run(result.run_id, settings)
    assert again.evaluate().metrics == result.metrics
    assert again.replay(Window("2020-08-03", "2020-09-01")).metrics["mean_reward"] != result.metrics["mean_reward"]


@pytest.mark.parametrize("policy", ["equal_weight", "buy_and_hold", "minimum_variance"])
def test_a_resumed_run_ends_in_the_same_bytes(settings, policy):
    # Orders so small that some are unfinished at any moment.
    action = {"class": "integer_shares", "kwargs": {"hmax": 300}}
    spec = spec_of(policy, action=action, total_timesteps=12_000, n_envs=8, log_interval=1)
    whole = RLRuntime(spec, settings).train()
    stopped = halted_run(spec, settings)
    assert stopped.timesteps < 12_000
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert resumed.timesteps == whole.timesteps
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    assert resumed.metrics == whole.metrics


def test_inference_plays_episodes_and_refuses_observations_from_elsewhere(settings):
    result = RLRuntime(spec_of("equal_weight"), settings).train()
    inference = PolicyServer.of_run(settings, run=result.run_id)
    steps = list(inference.roll_out(1))
    assert sum(step["reward"] for step in steps) == pytest.approx(result.metrics["mean_reward"])
    builder = Builder(inference.policy.spec, seed=0, device="cpu")
    env = builder.build_env("infer", num_envs=1, phase="evaluate", window=Window())
    with pytest.raises(ComponentError, match="not from there"):
        PolicyServer.of_run(settings, run=result.run_id).answer(np.zeros(env.single_observation_space.shape))
