"""Training a backbone apart from any agent: on the next return, or on restoring its own window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.policies.backbones.layers import draw_from, initialise


@dataclass(frozen=True)
class FitSettings:
    """How a backbone is fitted: passes over the windows, windows per step of Adam, its rate, and the seed."""

    epochs: int = 10
    batch_size: int = 64
    learning_rate: float = 1e-3
    seed: int = 0


@dataclass(frozen=True)
class Fit:
    """What fitting gave: the linear head (None for a reconstruction), and the mean loss of each pass."""

    head: nn.Linear | None
    losses: tuple[float, ...]


def windows_before(series: Array, returns: Array, length: int) -> tuple[Array, Array]:
    """Every window of a series with the return that followed it: nothing in a window is newer than its last step.

    Args:
        series: Features by step, (T, F).
        returns: The return from the step before to each step, (T,).
        length: Steps per window.

    Returns:
        Windows (N, length, F) that end at the steps length - 1 ... T - 2, and the returns (N,) of the steps after.
    """
    count = len(series) - length
    if count < 1 or len(returns) != len(series):
        raise ComponentError(
            f"a series of {len(series)} steps with {len(returns)} returns",
            f"there is no window of {length} steps with a return after it for every step",
            "Give a longer series, and one return per step.",
        )
    cut = np.lib.stride_tricks.sliding_window_view(series, length, axis=0)[:count]
    return np.ascontiguousarray(cut.swapaxes(1, 2)), np.asarray(returns)[length:]


def fit_next_returns(
    network: nn.Module, windows: Array | Tensor, targets: Array | Tensor, settings: FitSettings | None = None
) -> Fit:
    """Trains a backbone with a linear head to say the next return, by least squares; its own loss is added.

    Args:
        network: What a backbone's `build` gave, in training mode as it comes from there; it is fitted in place.
        windows: (N, length, features), the oldest step first.
        targets: What each window shall say, (N,) or (N, outputs).
        settings: How; None: the defaults.
    """
    settings = settings or FitSettings()
    x = torch.as_tensor(windows, dtype=torch.float32)
    y = torch.as_tensor(targets, dtype=torch.float32).reshape(len(x), -1)
    with torch.device("meta"):
        head = nn.Linear(int(network.features_dim), y.shape[1])
    head.to_empty(device="cpu")
    initialise(head, torch.Generator().manual_seed(derived_seed(settings.seed, "head")))

    def loss(rows: Tensor) -> Tensor:
        error = (head(network(x[rows])) - y[rows]).square().mean()
        own = getattr(network, "auxiliary_loss", None)
        return error if own is None else error + own(x[rows])

    learnt = [*network.parameters(), *head.parameters()]
    return Fit(head, _fit(network, learnt, len(x), loss, settings))


def fit_reconstruction(network: nn.Module, windows: Array | Tensor, settings: FitSettings | None = None) -> Fit:
    """Trains a backbone by its own loss alone, such as the autoencoder's.

    Args:
        network: What a backbone's `build` gave, in training mode as it comes from there; it is fitted in place.
        windows: (N, length, features), the oldest step first.
        settings: How; None: the defaults.
    """
    x = torch.as_tensor(windows, dtype=torch.float32)
    own = getattr(network, "auxiliary_loss", None)
    if own is None or not own(x[:1]).requires_grad:
        raise ComponentError(
            f"a network of type {type(network).__name__}",
            "it has no loss of its own to be trained by",
            "Use the backbone `autoencoder` with reconstruction_weight above 0.",
        )
    losses = _fit(network, list(network.parameters()), len(x), lambda rows: own(x[rows]), settings or FitSettings())
    return Fit(None, losses)


def _fit(
    network: nn.Module,
    learnt: list[nn.Parameter],
    count: int,
    loss: Callable[[Tensor], Tensor],
    settings: FitSettings,
) -> tuple[float, ...]:
    if not network.training:
        raise ComponentError(
            f"a network of type {type(network).__name__}",
            "it is in evaluation mode, in which nothing is dropped out",
            "Put it into training mode first, in which build() gives it.",
        )
    generator = torch.Generator().manual_seed(derived_seed(settings.seed, "fit"))
    optimiser = torch.optim.Adam(learnt, lr=settings.learning_rate)
    draw_from(network, generator)
    losses = []
    for _ in range(settings.epochs):
        total = 0.0
        for rows in torch.randperm(count, generator=generator).split(settings.batch_size):
            optimiser.zero_grad()
            value = loss(rows)
            value.backward()
            optimiser.step()
            total += float(value.detach()) * len(rows)
        losses.append(total / count)
    draw_from(network, None)
    return tuple(losses)
