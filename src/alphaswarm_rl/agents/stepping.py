"""What learners ask of an environment between two steps."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode

from alphaswarm_rl.core.errors import EnvError

Array = np.ndarray[Any, Any]


def refuse_other_autoreset(env: Any) -> None:
    """An environment that starts the next episode in a step of its own would have that step learnt from."""
    mode = getattr(env, "metadata", {}).get("autoreset_mode", AutoresetMode.SAME_STEP)
    if mode != AutoresetMode.SAME_STEP:
        raise EnvError(
            f"an environment of autoreset mode {getattr(mode, 'value', mode)!r}",
            "the native agents learn from every step, and one that only begins an episode is none",
            "Make it with autoreset_mode=AutoresetMode.SAME_STEP.",
        )


def goes_on(env: Any) -> bool:
    """Whether the environment itself, behind those who watch it, can be put back into its state."""
    while hasattr(env, "env"):
        env = env.env
    return hasattr(env, "set_state")


def is_on_device(env: Any) -> bool:
    """Whether what the environment takes and gives are tensors."""
    device = getattr(env, "device", None)
    if device is None:
        return False
    import torch

    return isinstance(device, torch.device)
