"""The device of an environment's tensors."""

from __future__ import annotations

import torch

from alphaswarm_rl.core.errors import EnvError


def torch_device(name: str) -> torch.device:
    """The device of that name, with its number; an error where torch has none."""
    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise EnvError(f"device {name!r}", f"torch has none: {error}", "Use cpu, or a machine that has it.") from error
