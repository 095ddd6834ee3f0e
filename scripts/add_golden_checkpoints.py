"""Adds golden checkpoints of this schema version: small ones, kept and loaded for ever, and never written again."""

import json
import shutil
import tempfile
from pathlib import Path

import numpy as np

from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings
from alphaswarm_rl.inference.checkpoints import SCHEMA_VERSION, load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "checkpoints"
SMALL = {"net_arch": [4]}
AGENTS = {
    "ppo": {"class": "ppo", "kwargs": {**SMALL, "n_steps": 16, "batch_size": 16, "n_epochs": 1}},
    "dqn": {"class": "dqn", "kwargs": {**SMALL, "learning_starts": 16, "buffer_size": 64, "batch_size": 8}},
    "random": {"class": "random"},
}


def main() -> None:
    """Trains each agent for a moment and keeps its checkpoint with the answers it gives."""
    for name, agent in AGENTS.items():
        folder = GOLDEN / f"{name}-{SCHEMA_VERSION}"
        if folder.exists():
            continue
        with tempfile.TemporaryDirectory() as home:
            settings = Settings(home=Path(home))
            spec = RLExperimentSpec.from_data(
                {
                    "name": f"golden {name}",
                    "env": {"class": "cartpole"},
                    "obs": {"normalize": "running", "stack_frames": 2},
                    "agent": agent,
                    "training": {"total_timesteps": 64, "n_envs": 2},
                }
            )
            result = RLRuntime(spec, settings).train()
            shutil.copytree(result.checkpoint, folder)
            inference = PolicyServer.of(load_checkpoint(folder), settings)
            observations = np.random.default_rng(0).uniform(-1, 1, (20, 4)).round(3).tolist()
            answers = [inference.answer(observation).actions.tolist() for observation in observations]
        record = {"sha256": result.checkpoint_sha256, "observations": observations, "actions": answers}
        folder.with_suffix(".json").write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
