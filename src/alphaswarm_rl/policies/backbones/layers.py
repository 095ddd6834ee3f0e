"""Layers that several backbones are made of, and how their first weights are drawn.

Nothing here draws from torch's global generator: dropout and first weights have generators of their own.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from alphaswarm_rl.core.errors import ComponentError


class Dropout(nn.Module):
    """Dropout that can draw from a generator of its own; without one it draws from torch's.

    Args:
        p: Share of values that are dropped.
    """

    generator: torch.Generator | None = None

    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        """Some values dropped and the others scaled up, in training; `x` itself otherwise."""
        if not self.training or self.p == 0:
            return x
        kept = torch.rand(x.shape, device=x.device, generator=self.generator) >= self.p
        return x * kept / (1 - self.p)


def draw_from(module: nn.Module, generator: torch.Generator | None) -> None:
    """Makes every dropout inside draw from that generator, which must be on the module's device."""
    for part in module.modules():
        if isinstance(part, Dropout):
            part.generator = generator


class SelfAttention(nn.Module):
    """Attention of every token to every other, by scaled dot products.

    Plain matrix products rather than a fused kernel: windows are short, and these can be differentiated twice and
    repeat themselves bit for bit on every device.
    """

    def __init__(self, d_model: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(d_model, 3 * d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Tokens (B, L, d) from tokens; `hidden` (L, L) says which token may not see which."""
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, content = qkv.permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-1, -2) / math.sqrt(width // self.heads)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        seen = self.dropout(scores.softmax(-1)) @ content
        return self.out(seen.transpose(1, 2).reshape(batch, length, width))


class EncoderLayer(nn.Module):
    """Self-attention and a feed-forward part with GELU, each added to what came in.

    Args:
        d_model: Width of a token.
        heads: Attention heads.
        d_ff: Width inside the feed-forward part.
        dropout: Share of activations dropped in training.
        norm_first: Whether LayerNorm comes before each part, or after the sum.
    """

    def __init__(self, d_model: int, heads: int, d_ff: int, dropout: float, *, norm_first: bool) -> None:
        super().__init__()
        self.attention = SelfAttention(d_model, heads, dropout)
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.GELU(), Dropout(dropout), nn.Linear(d_ff, d_model)
        )
        self.attention_norm, self.feed_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.dropout = Dropout(dropout)
        self.norm_first = norm_first

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Tokens (B, L, d) from tokens."""
        if self.norm_first:
            x = x + self.dropout(self.attention(self.attention_norm(x), hidden))
            return x + self.dropout(self.feed_forward(self.feed_norm(x)))
        x = self.attention_norm(x + self.dropout(self.attention(x, hidden)))
        return self.feed_norm(x + self.dropout(self.feed_forward(x)))


def check_windows(x: Tensor, length: int, features: int) -> None:
    """Refuses anything but a batch of windows of that size: another would be broadcast or misread."""
    if x.ndim != 3 or tuple(x.shape[1:]) != (length, features):
        raise ComponentError(
            f"windows of shape {tuple(x.shape)}",
            f"the encoder was built for (batch, {length}, {features})",
            "Give it such windows, or build it for these.",
        )


def initialise(module: nn.Module, generator: torch.Generator) -> None:
    """Draws all weights inside, by torch's own rules; a layer with weights of its own has `initialise(generator)`."""
    with torch.no_grad():
        for part in module.modules():
            _initialise(part, generator)


def _initialise(part: nn.Module, generator: torch.Generator) -> None:
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
