"""One training of one contestant of `native_ppo.py`; run by its Python, prints one line of JSON."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from native_ppo import OURS_FAST, SETTINGS

EPISODES = 20


class Quiet:
    """Hooks of a learner that is trained without a runtime."""

    def boundary(self, metrics: Any) -> None:
        """Nothing is saved."""

    def decided(self, values: Any, log_probs: Any) -> None:
        """Nothing is recorded."""

    def should_halt(self) -> bool:
        """Never."""
        return False


def ours(task: str, setting: str, seed: int, steps: int, *, path: str = "auto") -> dict[str, float]:
    """Our agent: alone on CartPole as the peers are, through the whole runtime on stocks."""
    settings = dict(SETTINGS[setting])
    envs = settings.pop("envs")
    kwargs: dict[str, Any] = settings | {"path": path}
    if task == "stocks":
        return through_runtime("ppo_inhouse", kwargs, envs, seed, steps)
    if setting == "fast":
        kwargs |= OURS_FAST
    import torch

    torch.set_num_threads(1)
    from alphaswarm_rl.agents.native.ppo import PpoInhouse
    from alphaswarm_rl.core.contracts import AgentRequest, EnvRequest
    from alphaswarm_rl.envs.batched_cartpole import BatchedCartPole

    env = BatchedCartPole(EnvRequest(num_envs=envs, seed=seed))
    began = time.perf_counter()
    learner = PpoInhouse(PpoInhouse.Config(**kwargs)).build(AgentRequest.for_env(env=env, seed=seed))
    learner.train(env, steps, Quiet())
    spent = time.perf_counter() - began
    judged = BatchedCartPole(EnvRequest(num_envs=EPISODES, seed=seed + 1000, phase="evaluate"))
    seen, _ = judged.reset()
    alive, total = np.ones(EPISODES, bool), np.zeros(EPISODES)
    while alive.any():
        actions, _ = learner.predict(seen, None, ~alive, deterministic=True)
        seen, rewards, terminated, truncated, _ = judged.step(actions)
        total += rewards * alive
        alive &= ~(terminated | truncated)
    return {"steps_per_s": steps / spent, "mean_return": float(total.mean())}


def through_runtime(agent: str, kwargs: dict[str, Any], envs: int, seed: int, steps: int) -> dict[str, float]:
    """A whole run on 30 stocks; the peers' agent goes the same way."""
    from recording import world

    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings

    spec = RLExperimentSpec.from_data(
        {
            "name": "native-ppo",
            **world("stocks"),
            "agent": {"class": agent, "kwargs": kwargs},
            "training": {"total_timesteps": steps, "n_envs": envs, "seed": seed},
            "evaluation": {"episodes": 0},
            "trajectory_store": {"enabled": False},
        }
    )
    with tempfile.TemporaryDirectory() as home:
        began = time.perf_counter()
        run = RLRuntime(spec, Settings(home=Path(home))).train()
        spent = time.perf_counter() - began
    if run.status != "completed":
        raise SystemExit(f"run {run.run_id} is {run.status}")
    return {"steps_per_s": steps / spent, "mean_return": float("nan")}


def peer(task: str, setting: str, seed: int, steps: int, *, jax: bool, anytrading: bool = False) -> dict[str, float]:
    """Stable-Baselines3's PPO or sbx's, in the way its own documentation runs it."""
    import torch

    torch.set_num_threads(1)
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.evaluation import evaluate_policy

    if jax:
        from sbx import PPO  # type: ignore[no-redef]
    settings = dict(SETTINGS[setting])
    envs = settings.pop("envs")
    if anytrading:
        import gym_anytrading  # noqa: F401

        env = make_vec_env("stocks-v0", envs, seed=seed, env_kwargs={"render_mode": None})
    else:
        env = make_vec_env("CartPole-v1", envs, seed=seed)
    began = time.perf_counter()
    model = (
        PPO("MlpPolicy", env, seed=seed, device="cpu", **settings)
        if not jax
        else PPO("MlpPolicy", env, seed=seed, **settings)
    )
    model.learn(steps)
    spent = time.perf_counter() - began
    mean = float("nan")
    if not anytrading:
        mean, _ = evaluate_policy(model, make_vec_env("CartPole-v1", 1, seed=seed + 1000), EPISODES)
    return {"steps_per_s": steps / spent, "mean_return": float(mean)}


def main() -> None:
    """Trains and tells."""
    contestant, task, setting, seed, steps = sys.argv[1:]
    numbers = task, setting, int(seed), int(steps)
    if contestant == "sb3" and task == "stocks":
        settings = dict(SETTINGS[setting])
        found = through_runtime("ppo", settings, settings.pop("envs"), int(seed), int(steps))
    elif contestant in ("ours", "ours-torch"):
        found = ours(*numbers, path="torch" if contestant == "ours-torch" else "auto")
    else:
        found = peer(*numbers, jax=contestant == "sbx", anytrading=contestant == "sb3-anytrading")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
