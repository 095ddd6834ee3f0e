"""The backbones as torch modules: windows (B, L, F) to features (B, d), L steps of F numbers, the oldest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.policies.backbones.layers import Dropout, EncoderLayer, check_windows

#: Keeps a feature that does not move from being divided by nothing.
_LEAST_VARIANCE = 1e-5

_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


class TransformerNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d); see `TransformerBackbone`.

    The token of a step depends on that step and older ones alone (`tokens`).
    """

    def __init__(
        self,
        features: int,
        length: int,
        features_dim: int,
        *,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
        pool: Literal["last", "mean"],
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim, self.pool = features, length, features_dim, pool
        self.embed = nn.Linear(features, d_model)
        self.positions = nn.Parameter(torch.empty(length, d_model))
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(EncoderLayer(d_model, heads, d_ff, dropout, norm_first=True) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, features_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws the positions."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)

    def tokens(self, x: Tensor) -> Tensor:
        """One token per step, (B, L, d_model)."""
        check_windows(x, self.length, self.features)
        future = torch.ones(self.length, self.length, dtype=torch.bool, device=x.device).triu(1)
        tokens = self.dropout(self.embed(x) + self.positions)
        for layer in self.layers:
            tokens = layer(tokens, future)
        return self.norm(tokens)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        tokens = self.tokens(x)
        return self.head(tokens[:, -1] if self.pool == "last" else tokens.mean(1))


class PatchTSTNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d); see `PatchTSTBackbone`.

    Before the head, reordering features (with their two affine parameters each) reorders `patch_tokens` likewise.
    """

    def __init__(
        self,
        features: int,
        length: int,
        features_dim: int,
        *,
        patch: int,
        stride: int,
        d_model: int,
        heads: int,
        layers: int,
        d_ff: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim = features, length, features_dim
        self.patch, self.stride = patch, stride
        self.patches = (length - patch) // stride + 2
        self.scale = nn.Parameter(torch.empty(features))
        self.shift = nn.Parameter(torch.empty(features))
        self.embed = nn.Linear(patch, d_model)
        self.positions = nn.Parameter(torch.empty(self.patches, d_model))
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            EncoderLayer(d_model, heads, d_ff, dropout, norm_first=False) for _ in range(layers)
        )
        self.head = nn.Linear(features * (self.patches * d_model + 2), features_dim)

    def initialise(self, generator: torch.Generator) -> None:
        """Draws the positions; the affine parameters begin without effect."""
        nn.init.normal_(self.positions, std=0.02, generator=generator)
        nn.init.ones_(self.scale)
        nn.init.zeros_(self.shift)

    def normalise(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Each feature of each window normalised (B, L, F), and the mean and deviation that were taken out, (B, F)."""
        mean = x.mean(1, keepdim=True)
        deviation = (x.var(1, keepdim=True, correction=0) + _LEAST_VARIANCE).sqrt()
        return (x - mean) / deviation * self.scale + self.shift, mean.squeeze(1), deviation.squeeze(1)

    def cut(self, x: Tensor) -> Tensor:
        """Patches (B, F, patches, patch), the oldest first, of windows whose last value is repeated `stride` times."""
        series = x.transpose(1, 2)
        padded = torch.cat([series, series[..., -1:].expand(-1, -1, self.stride)], dim=-1)
        return padded.unfold(-1, self.patch, self.stride)

    def patch_tokens(self, x: Tensor) -> Tensor:
        """Tokens (B, F, patches, d_model) of normalised windows: each feature by itself, all by the same layers."""
        tokens = self.dropout(self.embed(self.cut(x)) + self.positions)
        shape = tokens.shape
        tokens = tokens.flatten(0, 1)
        for layer in self.layers:
            tokens = layer(tokens)
        return tokens.view(shape)

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        check_windows(x, self.length, self.features)
        normal, mean, deviation = self.normalise(x)
        return self.head(torch.cat([self.patch_tokens(normal).flatten(1), mean, deviation], dim=1))


class RecurrentNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d), or steps (T, B, F) to features (T, B, d); see `RecurrentBackbone`.

    The state of a batch is one tensor (B, state_width), so that it is stored and picked from like an observation.
    """

    def __init__(
        self,
        features: int,
        length: int,
        features_dim: int,
        *,
        cell: Literal["lstm", "gru", "rnn"],
        hidden: int,
        layers: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim = features, length, features_dim
        # One layer each: torch's own dropout between layers draws from the global generator.
        self.layers = nn.ModuleList(_CELLS[cell](features if k == 0 else hidden, hidden) for k in range(layers))
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(hidden, features_dim)
        #: Layers, tensors per layer (an LSTM has two), width.
        self._shape = (layers, 2 if cell == "lstm" else 1, hidden)
        self.state_width = self._shape[0] * self._shape[1] * hidden

    def forward(self, x: Tensor) -> Tensor:
        """The features after the newest step of each window, beginning with nothing remembered."""
        check_windows(x, self.length, self.features)
        outputs, _ = self._run(x.transpose(0, 1), self.initial_state(len(x), x.device, x.dtype))
        return self.head(outputs[-1])

    def initial_state(self, n: int, device: torch.device | str, dtype: torch.dtype = torch.float32) -> Tensor:
        """The state of n environments at the start of an episode."""
        return torch.zeros(n, self.state_width, device=device, dtype=dtype)

    def forward_sequence(self, x: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Features of every step, and the state after the last.

        Args:
            x: Steps (T, B, F), the oldest first.
            state: State (B, state_width) before the first of them.
            starts: Which steps are the first of an episode, (T, B): nothing older is remembered there.
        """
        if x.ndim != 3 or x.shape[2] != self.features or starts.shape != x.shape[:2]:
            raise ComponentError(
                f"steps of shape {tuple(x.shape)} with starts of shape {tuple(starts.shape)}",
                f"the encoder was built for (steps, batch, {self.features}) and (steps, batch)",
                "Give it such steps.",
            )
        # Between two starts, whoever's they are, all steps go through each layer in one call.
        cuts = [0, *(t for t, any_start in enumerate(starts.any(1).tolist()) if any_start and t > 0), len(x)]
        outputs = []
        for first, end in pairwise(cuts):
            state = state.masked_fill(starts[first].unsqueeze(-1), 0.0)
            features, state = self._run(x[first:end], state)
            outputs.append(features)
        return self.head(torch.cat(outputs)), state

    def _run(self, x: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        layers, parts, hidden = self._shape
        before = state.reshape(len(state), layers, parts, hidden)
        after = []
        for index, layer in enumerate(self.layers):
            own = before[:, index].transpose(0, 1).contiguous()  # (parts, B, hidden)
            x, ended = layer(self.dropout(x) if index else x, (own[:1], own[1:]) if parts == 2 else own)
            after += list(ended) if parts == 2 else [ended]
        return x, torch.cat(after).transpose(0, 1).reshape(state.shape)


class AutoencoderNetwork(nn.Module):
    """Windows (B, L, F) to features (B, d), with a decoder where there is a reconstruction loss."""

    def __init__(
        self, features: int, length: int, features_dim: int, *, hidden: Sequence[int], reconstruction_weight: float
    ) -> None:
        super().__init__()
        self.features, self.length, self.features_dim = features, length, features_dim
        self.reconstruction_weight = reconstruction_weight
        widths = [length * features, *hidden, features_dim]
        self.encoder = _layers(widths)
        self.decoder = _layers(widths[::-1]) if reconstruction_weight > 0 else None

    def forward(self, x: Tensor) -> Tensor:
        """The features of each window."""
        check_windows(x, self.length, self.features)
        return self.encoder(x.flatten(1))

    def auxiliary_loss(self, x: Tensor) -> Tensor:
        """The reconstruction loss of a batch, weighted; 0 without a decoder."""
        if self.decoder is None:
            return x.new_zeros(())
        restored = self.decoder(self(x))
        return self.reconstruction_weight * (restored - x.flatten(1)).square().mean()


def _layers(widths: Sequence[int]) -> nn.Sequential:
    """Linear layers with ReLU between them."""
    parts: list[nn.Module] = []
    for before, after in pairwise(widths):
        parts += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*parts[:-1])
