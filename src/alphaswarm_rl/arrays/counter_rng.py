"""Counter-based random numbers: Philox4x32-10, over whole arrays.

A counter-based generator has no state to advance: the number at a counter is a function of the counter and the key
alone. So what environment 3 draws in its episode 7 does not depend on how many environments run beside it, and can be
drawn ahead, again, or in any order.

Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.types import Array

Words = np.ndarray[Any, np.dtype[np.uint32]]

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_WORD = 1 << 32
_WORDS_PER_COUNTER = 4


def philox(counter: Words, key: tuple[int, int]) -> Words:
    """Philox4x32-10 of every counter.

    Args:
        counter: Words of shape (..., 4).
        key: Two 32-bit words.

    Returns:
        Random words of the same shape.
    """
    # Each word sits in 64 bits: the product of two words then needs no splitting.
    c0, c1, c2, c3 = (counter[..., word].astype(np.uint64) for word in range(_WORDS_PER_COUNTER))
    k0, k1 = key
    for _ in range(_ROUNDS):
        product0 = _MULTIPLIERS[0] * c0
        product1 = _MULTIPLIERS[1] * c2
        c0 = (product1 >> _HALF) ^ c1 ^ np.uint64(k0)
        c1 = product1 & _LOW
        c2 = (product0 >> _HALF) ^ c3 ^ np.uint64(k1)
        c3 = product0 & _LOW
        k0 = (k0 + _KEY_STEPS[0]) % _WORD
        k1 = (k1 + _KEY_STEPS[1]) % _WORD
    return np.stack([c0, c1, c2, c3], axis=-1).astype(np.uint32)


def uniform(seed: int, keys: Array, stream: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Numbers in [0, 1) with 53 random bits, `count` for each key.

    The Philox key is the seed's low and high 32 bits. The counter is (key[0], key[1], block, stream): block b gives the
    numbers 2b and 2b + 1, the first from its words 0 and 1, the second from its words 2 and 3. A number is the upper 27
    bits of its first word followed by the upper 26 bits of its second, over 2**53. So its upper 27 bits are those of
    the first word, and a longer draw begins with the shorter one.

    Args:
        seed: At most 64 bits.
        keys: Whole numbers below 2**32 of shape (n, 2), such as environment and episode.
        stream: Tells apart several uses of one seed and key; below 2**32.
        count: How many numbers per key.

    Returns:
        Numbers of shape (n, count).
    """
    keys = np.asarray(keys)
    if not 0 <= seed < 1 << 64 or not 0 <= stream < _WORD:
        raise ValueError(f"seed {seed} or stream {stream} is out of range")
    if keys.size and (keys.min() < 0 or keys.max() >= _WORD):
        raise ValueError("a key is out of range: 0 to 2**32 - 1")
    blocks = -(-count // 2)
    counter = np.empty((len(keys), blocks, _WORDS_PER_COUNTER), np.uint32)
    counter[..., :2] = keys[:, None, :]
    counter[..., 2] = np.arange(blocks)
    counter[..., 3] = stream
    words = philox(counter, (seed % _WORD, seed >> 32)).reshape(len(keys), blocks * 2, 2)
    upper = (words[..., 0] >> np.uint32(5)).astype(np.float64)
    lower = (words[..., 1] >> np.uint32(6)).astype(np.float64)
    numbers = (upper * 2.0**26 + lower) * 2.0**-53
    return np.ascontiguousarray(numbers[:, :count])
