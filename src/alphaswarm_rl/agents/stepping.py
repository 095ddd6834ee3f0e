"""What learners ask of an environment, and the loop of those that learn step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from gymnasium.vector import AutoresetMode

from alphaswarm_rl.core.contracts import AnyVectorEnv, TrainingHooks
from alphaswarm_rl.core.errors import EnvError

#: Vector steps between two boundaries; every step is whole here, so this only bounds how often the runtime is asked.
BOUNDARY_STEPS = 128


class _Counting(Protocol):
    timesteps: int


def train_by_steps(
    learner: _Counting,
    num_envs: int,
    total_timesteps: int,
    hooks: TrainingHooks,
    step: Callable[[], None],
    metrics: Callable[[], Mapping[str, float]],
) -> None:
    """Steps until `timesteps` reaches the total or a halt; the state is whole after every step.

    Args:
        learner: Whose transitions are counted.
        num_envs: Transitions of one step.
        total_timesteps: How many there shall be.
        hooks: The runtime's hooks.
        step: One step of all environments, with what is learnt from it; it counts its transitions.
        metrics: What a boundary reports.
    """
    whole_at = learner.timesteps
    while learner.timesteps < total_timesteps:
        step()
        if hooks.should_halt():
            break
        if learner.timesteps // num_envs % BOUNDARY_STEPS == 0:
            whole_at = learner.timesteps
            hooks.boundary(metrics())
    if learner.timesteps != whole_at:
        hooks.boundary(metrics())


def require_same_step_autoreset(env: AnyVectorEnv) -> None:
    """Refuses an environment that starts the next episode in a step of its own: that step would be learnt from."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode", AutoresetMode.SAME_STEP)
    if mode != AutoresetMode.SAME_STEP:
        raise EnvError(
            f"an environment of autoreset mode {getattr(mode, 'value', mode)!r}",
            "the native agents learn from every step, and one that only begins an episode is none",
            "Make it with autoreset_mode=AutoresetMode.SAME_STEP.",
        )


def can_restore(env: object) -> bool:
    """Whether the environment itself, behind those who watch it, can be put back into its state."""
    while hasattr(env, "env"):
        env = env.env
    return hasattr(env, "set_state")


def is_on_device(env: object) -> bool:
    """Whether what the environment takes and gives are tensors."""
    device = getattr(env, "device", None)
    if device is None:
        return False
    import torch

    return isinstance(device, torch.device)
