"""The devices that tensors live on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from alphaswarm_rl.core.errors import EnvError, OptionError

if TYPE_CHECKING:
    import torch


def resolve_device(name: str) -> str:
    """The device that a setting means on this machine; one that is not there is an error."""
    import torch

    available = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        return next((name for name in ("cuda", "mps") if available[name]), "cpu")
    if not available[name]:
        raise OptionError(f"device {name!r}", "this machine has none that torch can use", "Use --device cpu or auto.")
    return name


def torch_device(name: str) -> torch.device:
    """The device of that name, with its number; an error where torch has none."""
    import torch

    try:
        return torch.empty(0, device=name).device
    except (RuntimeError, AssertionError) as error:
        raise EnvError(f"device {name!r}", f"torch has none: {error}", "Use cpu, or a machine that has it.") from error
