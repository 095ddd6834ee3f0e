import pytest

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import RLExperimentSpec

TINY = {
    "name": "Tiny",
    "env": {"class": "cartpole"},
    "agent": {"class": "ppo", "kwargs": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}},
    "training": {"total_timesteps": 512, "n_envs": 4, "log_interval": 1, "seed": 3},
    "evaluation": {"episodes": 4},
}


def tiny(**changes):
    """The tiny spec with sections merged in; the agent's kwargs may be given as `agent_kwargs`."""
    data = {key: dict(value) if isinstance(value, dict) else value for key, value in TINY.items()}
    if "agent_kwargs" in changes:
        data["agent"] = {"class": "ppo", "kwargs": {**TINY["agent"]["kwargs"], **changes.pop("agent_kwargs")}}
    for key, value in changes.items():
        data[key] = {**data.get(key, {}), **value} if key in ("training", "evaluation") else value
    return RLExperimentSpec.from_data(data)


@pytest.fixture
def train(settings):
    """Trains a tiny spec and returns the result."""

    def run(spec=None, *, using=settings, **changes):
        return RLRuntime(spec or tiny(**changes), using).train()

    return run


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened
