"""Native agents through the runtime: recorded, registered, gated, with any advantage and any encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.core.errors import ComponentError, RunError
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.lake.catalog import Lake, of_run
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.spec import refuse_unused_parts

QUICK = {"n_steps": 16, "batch_size": 32, "n_epochs": 2, "net_arch": [8]}
AGENTS: dict[str, dict[str, Any]] = {
    "ppo_inhouse": QUICK,
    "a2c_inhouse": {"n_steps": 8, "net_arch": [8]},
    "ddqn_inhouse": {"learning_starts": 64, "net_arch": [8]},
}
TRADING = {
    "env": {"class": "stock_trading", "kwargs": {"fill": "next_close", "episode_bars": 20}},
    "data_pipeline": {"class": "synthetic", "kwargs": {"n_assets": 2, "n_bars": 200, "features": ["macd"], "seed": 1}},
}
#: As the second of the documents that the project began with writes it, its indentation restored.
BLOCK = {
    "total_timesteps": 200_000,
    "log_interval": 10,
    "advantage": {
        "class": "ReinforcePlusPlusAdvantage",
        "module_path": "alphaswarm.rl.advantage.reinforce_plus_plus",
        "kwargs": {"minus_baseline": True, "global_normalization": True, "leave_one_out": True},
    },
    "stop_properly_penalty_coef": 0.2,
}


def trained(home: Path, **spec: Any) -> Any:
    base = {"name": "native", "env": {"class": "cartpole"}, "evaluation": {"episodes": 2}}
    settings = Settings(home=home)
    run = RLRuntime(RLExperimentSpec.from_data({**base, **spec}), settings).train()
    assert run.status == "completed"
    return run, settings


@pytest.mark.parametrize("agent", AGENTS)
def test_a_native_run_is_recorded_registered_and_judged(tmp_path: Path, agent: str) -> None:
    run, settings = trained(
        tmp_path,
        agent={"class": agent, "kwargs": AGENTS[agent]},
        training={"total_timesteps": 512, "n_envs": 4},
    )
    with Ledger.open(settings) as ledger:
        row = ledger.run(run.run_id)
        assert (row.timesteps, row.resume) == (512, None)
        assert len(ledger.evaluations(run.run_id)) == 1
    with Lake(settings) as lake:
        steps = lake.table("trajectories").scan(row_filter=of_run(run.run_id)).to_pandas()
    own = steps[steps.phase == "train"]
    assert len(own) == 512
    # On-policy agents say what they thought of each step.
    assert own.value.notna().all() == own.log_prob.notna().all() == (agent != "ddqn_inhouse")
    with ModelRegistry.open(settings) as registry:
        (model,) = registry.list()
        assert model.algorithm == agent
        assert registry.validations(model.id)


def test_the_training_block_of_the_beginning_trains_with_the_hash_of_the_short_spelling(tmp_path: Path) -> None:
    agent = {"class": "ppo_inhouse", "kwargs": QUICK}
    long = {"name": "native", **TRADING, "agent": agent, "training": BLOCK}
    short = {**long, "training": {**BLOCK, "advantage": {"class": "reinforce_plus_plus"}}}
    assert RLExperimentSpec.from_data(long).spec_hash == RLExperimentSpec.from_data(short).spec_hash
    run, settings = trained(tmp_path, **TRADING, agent=agent, training={**BLOCK, "total_timesteps": 256, "n_envs": 4})
    with Ledger.open(settings) as ledger:
        checkpoints = [event for event in ledger.events(run.run_id) if event.stage == "train.checkpoint"]
        assert checkpoints


@pytest.mark.parametrize("encoder", ["mlp", "transformer", "recurrent", "autoencoder"])
def test_a_native_agent_learns_through_an_encoder(tmp_path: Path, encoder: str) -> None:
    run, _ = trained(
        tmp_path,
        obs={"stack_frames": 4},
        agent={"class": "ppo_inhouse", "kwargs": {**QUICK, "encoder": encoder, "embed_dim": 8}},
        training={"total_timesteps": 256, "n_envs": 4},
    )
    again, _ = trained(
        tmp_path / "again",
        obs={"stack_frames": 4},
        agent={"class": "ppo_inhouse", "kwargs": {**QUICK, "encoder": encoder, "embed_dim": 8}},
        training={"total_timesteps": 256, "n_envs": 4},
    )
    assert np.isfinite(run.metrics["mean_reward"])
    assert run.metrics["mean_reward"] == again.metrics["mean_reward"]


@pytest.mark.parametrize(
    ("agent", "advantage", "message"),
    [
        ({"gae_lambda": 0.9}, {"class": "gae"}, "gae_lambda"),
        ({"normalize_advantage": False}, {"class": "reinforce_plus_plus"}, "normalize_advantage"),
        ({"vf_coef": 1.0}, {"class": "grpo"}, "vf_coef"),
        ({"gamma": 0.9}, {"class": "gae"}, r"it is 0\.9, and that of training\.advantage is 0\.99"),
    ],
)
def test_nothing_is_accepted_and_ignored_beside_an_advantage(
    agent: dict[str, Any], advantage: dict[str, Any], message: str
) -> None:
    spec = {
        "name": "native",
        "env": {"class": "cartpole"},
        "agent": {"class": "ppo_inhouse", "kwargs": agent},
        "training": {"advantage": advantage},
    }
    with pytest.raises(ComponentError, match=message):
        refuse_unused_parts(RLExperimentSpec.from_data(spec))


def test_a_policy_that_remembers_is_served_by_client(tmp_path: Path) -> None:
    recurrent = {"class": "recurrent", "kwargs": {"hidden": 8, "layers": 1}}
    _, settings = trained(
        tmp_path,
        agent={"class": "ppo_inhouse", "kwargs": {**QUICK, "encoder": recurrent, "embed_dim": 8}},
        training={"total_timesteps": 256, "n_envs": 4},
    )
    with ModelRegistry.open(settings) as registry:
        (model,) = registry.list()
    seen = np.random.default_rng(0).normal(size=(6, 1, 4)).astype(np.float32)
    with PolicyServer.open(settings, model_id=model.id, unvalidated=True) as server:
        with pytest.raises(RunError, match="Say who asks"):
            server.answer(seen[0])
        alone = [int(server.answer(row, client="alone").actions[0]) for row in seen]
        # Somebody else who asks in between changes nothing.
        between = []
        for row in seen:
            server.answer(seen[5 - len(between)], client="another")
            between.append(int(server.answer(row, client="between").actions[0]))
    assert between == alone
