"""Encoders of whole observations: `mlp`, `cnn`, or any backbone, by one call for every agent.

A backbone reads windows (steps, features), the oldest step first. A Box of two dimensions is taken as it is. A flat
Box is cut into rows: stacked frames (`obs.stack_frames`) and the observation `lookback_stack` lie there row by row, the
oldest first. Nothing is ever padded or cut off. A flat Box in which something else stands beside the rows, such as a
portfolio's state, has no such rows: stack frames instead, each of which is a whole observation.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx

from alphaswarm_rl.core.contracts import EncoderRequest
from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.core.refs import ComponentRef, reference
from alphaswarm_rl.core.types import AnySpace, Batch, JsonMapping
from alphaswarm_rl.policies.backbones.components import Backbone
from alphaswarm_rl.policies.backbones.layers import initialise

#: The Nature CNN's three convolutions leave nothing of a smaller picture.
SMALLEST_PICTURE = 36


def build_encoder(
    observation_space: AnySpace,
    encoder: str | ComponentRef | JsonMapping,
    embed_dim: int,
    *,
    length: int | None = None,
    seed: int = 0,
    pretrained: bool = True,
) -> nn.Module:
    """A torch module from a batch of observations (B, ...) to features (B, d), whose width is its `features_dim`.

    Args:
        observation_space: The space of one observation.
        encoder: `mlp`, `cnn`, the alias of a backbone, or a reference to one.
        embed_dim: The width of the features; a backbone that names its own keeps that.
        length: Steps in a flat observation, for backbones that do not name it: the number of stacked frames, or 1 to
            carry a recurrent state from step to step.
        seed: Seed of the first weights.
        pretrained: Whether weights that a backbone names are read; False where all will be loaded afterwards.
    """
    if encoder in ("mlp", "cnn"):
        kind = MlpEncoder if encoder == "mlp" else CnnEncoder
        with torch.device("meta"):
            network = kind(observation_space, embed_dim)
        network.to_empty(device="cpu")
        initialise(network, torch.Generator().manual_seed(seed))
        return network
    ref = reference({"class": encoder} if isinstance(encoder, str) else encoder, "policy_backbone")
    backbone = ref.build()
    rows = getattr(backbone.config, "length", None) or length
    steps, features = window_shape(observation_space, rows, encoder=ref.name)
    with nullcontext() if isinstance(backbone, Backbone) else _drawing_apart(seed):
        built = backbone.build(EncoderRequest(features, steps, embed_dim, seed, pretrained))
    return WindowEncoder(built, steps, features)


@contextmanager
def _drawing_apart(seed: int) -> Iterator[None]:
    """For backbones of somebody else's, which may draw from the global generator as they are made; ours do not."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def window_shape(space: AnySpace, length: int | None, *, encoder: str) -> tuple[int, int]:
    """Steps and features per step of an observation space; one that has no steps is an error.

    Args:
        space: The space of one observation.
        length: How many rows a flat Box has; None where nobody says.
        encoder: Alias of the encoder, for errors.
    """
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2):
        raise _misfit(encoder, f"it reads steps of numbers, and the observation space is {space}", "Use `mlp` or `cnn`")
    if len(space.shape) == 2:
        if length not in (None, space.shape[0]):
            raise _misfit(
                encoder,
                f"length is {length}, and the observation has {space.shape[0]} steps of {space.shape[1]} features",
                "Leave length out",
            )
        return int(space.shape[0]), int(space.shape[1])
    width = int(space.shape[0])
    if length is None:
        raise _misfit(
            encoder,
            f"the observation is {width} numbers in one row, and nobody says how many steps that is",
            f"Set obs.stack_frames, or write encoder: {{class: {encoder}, kwargs: {{length: STEPS}}}}",
        )
    if width % length:
        raise _misfit(
            encoder,
            f"{width} numbers cannot be cut into {length} steps of one width",
            "Give a length that divides them",
        )
    return length, width // length


def _misfit(encoder: str, why: str, remedy: str) -> ComponentError:
    return ComponentError(f"encoder {encoder!r}", why, f"{remedy}.")


class WindowEncoder(nn.Module):
    """A backbone that reads observations, flattened or not.

    In training mode, a loss that the backbone has of its own is added to whatever loss of the features is
    differentiated: an agent need not know of it.

    Args:
        backbone: The network.
        length: Steps per observation.
        features: Numbers per step.
    """

    def __init__(self, backbone: nn.Module, length: int, features: int) -> None:
        super().__init__()
        self.backbone = backbone
        self.length, self.features = length, features
        self.features_dim = int(backbone.features_dim)

    @property
    def recurrent(self) -> bool:
        """Whether it can carry a state from observation to observation: each is one step."""
        return self.length == 1 and hasattr(self.backbone, "forward_sequence")

    def forward(self, observations: Tensor) -> Tensor:
        """Features (B, d) of observations (B, ...)."""
        windows = observations.reshape(len(observations), self.length, self.features).float()
        features = self.backbone(windows)
        return with_own_loss(features, self.backbone, windows) if self.training else features

    def initial_state(self, n: int, device: torch.device | str) -> Tensor:
        """The state of n environments at the start of an episode."""
        return self.backbone.initial_state(n, device)

    def forward_sequence(self, observations: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Features (T, B, d) of observations (T, B, ...) one after another, and the state after the last."""
        if not self.recurrent:
            raise ComponentError(
                f"an encoder of {self.length} steps per observation ({type(self.backbone).__name__})",
                "it has no state that could be carried to the next observation",
                "Use the backbone `recurrent` with length 1.",
            )
        features, after = self.backbone.forward_sequence(observations.flatten(2).float(), state, starts)
        return features, after


def with_own_loss(features: Tensor, backbone: nn.Module, windows: Tensor) -> Tensor:
    """The features as they are; a gradient through them also carries that of the backbone's `auxiliary_loss`, once.

    Args:
        features: What the backbone made of the windows.
        backbone: The network.
        windows: The windows.
    """
    own = getattr(backbone, "auxiliary_loss", None)
    if own is None or not features.requires_grad:
        return features
    loss = own(windows)
    return _WithLoss.apply(features, loss) if loss.requires_grad else features


class _WithLoss(torch.autograd.Function):
    """Passes features through; a loss beside them gets the gradient 1 in the backward pass."""

    @staticmethod
    def forward(ctx: FunctionCtx, features: Tensor, loss: Tensor) -> Tensor:
        """The features."""
        return features.view_as(features)

    @staticmethod
    def backward(ctx: FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor]:
        """Their gradient, and 1 for the loss."""
        return gradient, gradient.new_ones(())


class _Encoder(nn.Module):
    """A network from observations to features.

    Args:
        space: The space of one observation.
        features_dim: Width of the features.
    """

    def __init__(self, space: AnySpace, features_dim: int) -> None:
        super().__init__()
        self.space = space
        self.features_dim = features_dim


class MlpEncoder(_Encoder):
    """Flattens observations, discrete parts one-hot and the parts of a Dict side by side; one layer with ReLU."""

    def __init__(self, space: AnySpace, features_dim: int) -> None:
        super().__init__(space, features_dim)
        self.embed = nn.Sequential(nn.Linear(_flat_width(space), features_dim), nn.ReLU())

    def forward(self, observations: Batch) -> Tensor:
        """Features (B, d)."""
        return self.embed(_flatten(self.space, observations))


class CnnEncoder(_Encoder):
    """The Nature CNN for pictures with the channels first or last, whichever is the shortest; bytes become 0 to 1."""

    def __init__(self, space: AnySpace, features_dim: int) -> None:
        super().__init__(space, features_dim)
        channels, height, width = self._read_shape(space)
        self.convolutions = nn.Sequential(
            nn.Conv2d(channels, 32, 8, stride=4),
            nn.ReLU(),
            nn.Conv2d(32, 64, 4, stride=2),
            nn.ReLU(),
            nn.Conv2d(64, 64, 3),
            nn.ReLU(),
            nn.Flatten(),
        )
        left = [((((size - 8) // 4 + 1) - 4) // 2 + 1) - 2 for size in (height, width)]
        self.embed = nn.Sequential(nn.Linear(64 * left[0] * left[1], features_dim), nn.ReLU())

    def forward(self, observations: Tensor) -> Tensor:
        """Features (B, d)."""
        pictures = observations.reshape(len(observations), *self._shape).float()
        if not self._channels_first:
            pictures = pictures.permute(0, 3, 1, 2)
        return self.embed(self.convolutions(pictures / 255 if self._bytes else pictures))

    def _read_shape(self, space: AnySpace) -> tuple[int, int, int]:
        from gymnasium import spaces

        if not isinstance(space, spaces.Box) or len(space.shape) != 3:
            raise ComponentError("encoder 'cnn'", f"it needs pictures of three dimensions, not {space}", "Use `mlp`.")
        self._shape = space.shape
        self._channels_first = int(np.argmin(space.shape)) == 0
        self._bytes = space.dtype == np.uint8
        channels, *sides = space.shape if self._channels_first else (space.shape[2], *space.shape[:2])
        if min(sides) < SMALLEST_PICTURE:
            raise ComponentError(
                "encoder 'cnn'",
                f"it needs pictures of {SMALLEST_PICTURE} by {SMALLEST_PICTURE} at least, not {sides[0]} by {sides[1]}",
                "Use `mlp`.",
            )
        return int(channels), int(sides[0]), int(sides[1])


def _flat_width(space: AnySpace) -> int:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return sum(_flat_width(part) for part in space.spaces.values())
    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    if isinstance(space, spaces.Box | spaces.MultiBinary):
        return int(np.prod(space.shape))
    raise ComponentError(
        "encoder 'mlp'",
        f"it cannot flatten {type(space).__name__} spaces",
        "Use Box, Discrete, MultiDiscrete, MultiBinary or a Dict.",
    )


def _flatten(space: AnySpace, observations: Batch) -> Tensor:
    from gymnasium import spaces

    if isinstance(space, spaces.Dict):
        return torch.cat([_flatten(part, observations[key]) for key, part in space.spaces.items()], dim=1)
    if isinstance(space, spaces.Discrete):
        return nn.functional.one_hot(observations.long() - int(space.start), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        starts, sizes = space.start.flatten().tolist(), space.nvec.flatten().tolist()
        columns = observations.flatten(1).long().unbind(1)
        hot = [
            nn.functional.one_hot(column - start, size)
            for column, start, size in zip(columns, starts, sizes, strict=True)
        ]
        return torch.cat(hot, dim=1).float()
    return observations.flatten(1).float()
