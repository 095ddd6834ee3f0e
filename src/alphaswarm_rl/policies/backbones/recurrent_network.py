"""The recurrent network as a torch module."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import torch
from torch import Tensor, nn

from alphaswarm_rl.core.errors import ComponentError
from alphaswarm_rl.policies.backbones.layers import Dropout, check_windows

_CELLS = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


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
