"""First weights, drawn from a generator of one's own: torch's global one is left alone."""

from __future__ import annotations

import math

import torch
from torch import nn

from alphaswarm_rl.core.errors import ComponentError


@torch.no_grad()
def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draws all weights inside, by torch's own rules; a layer with weights of its own has `initialise(generator)`."""
    for part in module.modules():
        if hasattr(part, "initialise"):
            part.initialise(generator)
        elif isinstance(part, nn.Linear | nn.Conv2d):
            nn.init.kaiming_uniform_(part.weight, a=math.sqrt(5), generator=generator)
            if part.bias is not None:
                bound = 1 / math.sqrt(part.weight[0].numel())
                nn.init.uniform_(part.bias, -bound, bound, generator=generator)
        elif isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
        elif isinstance(part, nn.RNNBase):
            bound = 1 / math.sqrt(part.hidden_size)
            for parameter in part.parameters():
                nn.init.uniform_(parameter, -bound, bound, generator=generator)
        elif next(part.parameters(recurse=False), None) is not None:
            raise ComponentError(
                f"layer {type(part).__name__}", "nobody says how its weights begin", "Give it initialise(generator)."
            )
