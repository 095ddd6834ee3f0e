"""Hashes of rows depend on their bytes alone."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl.lake.hashing64 import row_hashes

_FIRST, _SECOND, _THIRD, _EMPTY = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xA0761D6478BD642F
_BITS = 2**64 - 1


def mixed(number: int) -> int:
    number = (number ^ (number >> 30)) * _SECOND & _BITS
    number = (number ^ (number >> 27)) * _THIRD & _BITS
    return number ^ (number >> 31)


def hashed(row: bytes) -> int:
    """In plain Python: words of eight bytes with zeros behind them, four lanes, and what is left over."""
    words = [int.from_bytes(row[at : at + 8].ljust(8, b"\0"), "little") for at in range(0, len(row), 8)]
    lanes, factors, shifts = [_FIRST, _SECOND, _THIRD, _EMPTY], (_SECOND, _THIRD, _FIRST, _SECOND), (29, 31, 33, 30)
    whole = len(words) // 4 * 4
    for at, word in enumerate(words[:whole]):
        lane = (lanes[at % 4] ^ word) * factors[at % 4] & _BITS
        lanes[at % 4] = lane ^ (lane >> shifts[at % 4])
    for word in words[whole:]:
        lanes[0] = (mixed(lanes[0] ^ word) + _FIRST) & _BITS
    return mixed(mixed(mixed(mixed((lanes[0] + _FIRST) & _BITS) ^ lanes[1]) ^ lanes[2]) ^ lanes[3])


@pytest.mark.parametrize("width", [*range(1, 20), 301])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32, np.float64])
def test_a_row_hashes_as_its_bytes_do(width: int, kind: type) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (5, width * np.dtype(kind).itemsize)).astype(np.uint8)
    expected = [hashed(row.tobytes()) for row in rows]
    assert row_hashes(rows.view(kind)).view(np.uint64).tolist() == expected


def test_rows_without_bytes_have_a_hash_too() -> None:
    assert row_hashes(np.zeros((3, 0))).view(np.uint64).tolist() == [hashed(b"")] * 3


def test_one_bit_makes_another_hash() -> None:
    row = np.zeros((1, 301), np.float32)
    seen = {int(row_hashes(row)[0])}
    for place in range(301):
        other = row.copy()
        other.view(np.uint32)[0, place] = 1
        seen.add(int(row_hashes(other)[0]))
    assert len(seen) == 302
