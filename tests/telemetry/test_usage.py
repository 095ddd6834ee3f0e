"""The documented usage, given by environment variables alone, exports what it asks for."""

import os
import subprocess
import sys

import pytest

from alphaswarm_rl.ledger import Ledger
from tests.telemetry.test_file import points

#: Every option of the usage block, by its variable. No tracker listens at that address: the run goes on without it.
USAGE = {
    "RL_ENV_ID": "CartPole-v1",
    "RL_ENV_N_ENVS": "8",
    "RL_AGENT_ALGORITHM": "ppo",
    "RL_AGENT_NET_ARCH": "[64, 64]",
    "RL_TRAIN_TOTAL_TIMESTEPS": "100000",
    "RL_TRAIN_LEARNING_RATE": "3e-4",
    "RL_EVAL_EPISODES": "10",
    "RL_STORE_BACKEND": "mlflow",
    "RL_STORE_TRACKING_URI": "http://localhost:5000",
    "RL_STORE_EXPERIMENT_NAME": "cartpole-ppo",
    "RL_REGISTRY_ENABLE": "true",
    "RL_REGISTRY_DB": "./rl_registry.db",
    "RL_REGISTRY_MIN_REWARD": "195.0",
    "RL_REGISTRY_KEEP_TOP_N": "10",
    "RL_METRICS_ENABLE": "true",
    "RL_METRICS_TRACK_REWARD": "true",
    "RL_METRICS_TRACK_LOSS": "true",
    "RL_TRACES_ENABLE": "true",
    "RL_TRACES_EPISODES": "true",
    "RL_LOGS_ENABLE": "true",
    "RL_LOGS_LEVEL": "info",
}


@pytest.mark.parametrize(
    "changed",
    [
        # One rollout of 2,048 steps in each environment: a tenth of the default log interval.
        pytest.param({"RL_TRAIN_TOTAL_TIMESTEPS": "16384"}, id="one rollout"),
        pytest.param({}, id="as it stands", marks=pytest.mark.slow),
    ],
)
def test_the_usage_block_exports_loss_entropy_rate_and_explained_variance(changed, tmp_path, lines, settings):
    done = subprocess.run(
        [sys.executable, "-c", "from alphaswarm_rl.cli import train_main; train_main()"],
        cwd=tmp_path,
        env={**os.environ, **USAGE, **changed},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    exported = {name: value for name, _, value in points(lines("metrics"))}
    assert exported.keys() >= {"rl.episode.reward", "rl.loss", "rl.entropy", "rl.fps", "rl.explained_variance"}
    assert 0 < exported["rl.entropy"] < 0.6932  # below ln 2: there are two actions
    assert exported["rl.fps"] > 0
    assert exported["rl.explained_variance"] <= 1
    losses = {found["loss"] for name, found, _ in points(lines("metrics")) if name == "rl.loss"}
    assert losses == {"loss", "policy_gradient_loss", "value_loss"}
    with Ledger.open(settings) as ledger:
        run = ledger.run("latest")
        last = [event for event in ledger.events(run.id) if event.stage == "train.step"][-1].payload
    assert (run.status, last["timesteps"], last["reason"]) == ("completed", run.timesteps, "end")
