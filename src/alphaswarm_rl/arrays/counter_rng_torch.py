"""Counter-based random numbers on torch tensors: those of `counter_rng`, bit for bit, on any device.

Torch has no unsigned 64-bit arithmetic on every device, so words of 32 bits stand in int64 and products are made in two
halves.
"""

from __future__ import annotations

import torch
from torch import Tensor

_ROUNDS = 10
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = 0xFFFFFFFF
_LOW_HALF = 0xFFFF


def seed_words(seed: int, device: torch.device | str = "cpu") -> Tensor:
    """The low and the high 32 bits of a seed, (2,) int64: as a tensor a new seed needs no new compilation."""
    if not 0 <= seed < 1 << 64:
        raise ValueError(f"seed {seed} is out of range")
    return torch.tensor([seed & _LOW, seed >> 32], dtype=torch.int64, device=device)


def uniform(words: Tensor, first: Tensor, second: Tensor | int, stream: int, count: int) -> Tensor:
    """`counter_rng.uniform`: numbers in [0, 1) with 53 random bits, `count` for each key.

    Args:
        words: `seed_words` of the seed.
        first: First halves of the keys, (n,) int64, from 0 to 2**32 - 1, which is not checked.
        second: Their second halves, (n,) or one number.
        stream: Tells apart several uses of one seed and key; below 2**32.
        count: How many numbers per key.

    Returns:
        Numbers of shape (n, count), float64.
    """
    columns: list[Tensor] = []
    for number in range(-(-count // 2)):
        columns += block(words, first, second, number, stream)
    return torch.stack(columns[:count], dim=-1)


def block(
    words: Tensor, first: Tensor, second: Tensor | int, number: Tensor | int, stream: int
) -> tuple[Tensor, Tensor]:
    """Two numbers of each key out of `uniform`: those with the indices `2 * number` and `2 * number + 1`."""
    c0, c1, c2, c3 = _philox(words, first, second, number, stream)
    return _number(c0, c1), _number(c2, c3)


def _philox(
    words: Tensor, c0: Tensor, c1: Tensor | int, c2: Tensor | int, c3: Tensor | int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Philox4x32-10 of the counters (c0, c1, c2, c3), each word in 64 bits."""
    k0, k1 = words[0], words[1]
    a, b, c, d = (torch.zeros_like(c0) + word for word in (c0, c1, c2, c3))
    for _ in range(_ROUNDS):
        high0, low0 = _product(_MULTIPLIERS[0], a)
        high1, low1 = _product(_MULTIPLIERS[1], c)
        a, b, c, d = high1 ^ b ^ k0, low1, high0 ^ d ^ k1, low0
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return a, b, c, d


def _product(multiplier: int, word: Tensor) -> tuple[Tensor, Tensor]:
    """The high and the low 32 bits of a product of two words.

    In two halves, as the whole product does not fit into a signed number and what an overflow gives is not promised.
    """
    upper = multiplier * (word >> 16)
    lower = multiplier * (word & _LOW_HALF)
    middle = upper + (lower >> 16)
    return middle >> 16, ((middle & _LOW_HALF) << 16) | (lower & _LOW_HALF)


def _number(first: Tensor, second: Tensor) -> Tensor:
    return ((first >> 5).double() * 2.0**26 + (second >> 6).double()) * 2.0**-53
