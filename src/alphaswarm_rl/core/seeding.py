"""Randomness: one seed per run, an independent stream per named consumer."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

#: Seeds fit 32 bits: the smallest range that every library in use accepts.
LARGEST_SEED = 2**32 - 1


def seed_sequence(seed: int, *names: str | int) -> np.random.SeedSequence:
    """The seed sequence of one consumer; the same names give the same stream, whoever else draws."""
    import numpy as np

    key = hashlib.sha256("/".join(map(str, names)).encode()).digest()
    return np.random.SeedSequence(seed, spawn_key=tuple(np.frombuffer(key[:16], dtype="<u4").tolist()))


def generator(seed: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for one consumer."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(seed_sequence(seed, *names)))


def derived_seed(seed: int, *names: str | int) -> int:
    """A 32-bit seed for one consumer that takes a number."""
    return int(seed_sequence(seed, *names).generate_state(1)[0])
