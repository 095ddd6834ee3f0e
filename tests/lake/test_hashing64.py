"""Hashes of rows depend on their bytes alone."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl.lake.hashing64 import hash_words, row_hashes


@pytest.mark.parametrize("width", [*range(1, 20), 301])
@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.float32, np.float64])
def test_a_row_hashes_as_its_bytes_do_with_zeros_behind_them(width: int, kind: type) -> None:
    rows = np.random.default_rng(width).integers(0, 256, (5, width * np.dtype(kind).itemsize)).astype(np.uint8)
    words = np.zeros((5, -(-rows.shape[1] // 8) * 8), np.uint8)
    words[:, : rows.shape[1]] = rows
    expected = np.empty(5, np.uint64)
    hash_words(words.view(np.uint64), expected)
    assert (row_hashes(rows.view(kind)).view(np.uint64) == expected).all()


def test_one_bit_makes_another_hash() -> None:
    row = np.zeros((1, 301), np.float32)
    seen = {int(row_hashes(row)[0])}
    for place in range(301):
        other = row.copy()
        other.view(np.uint32)[0, place] = 1
        seen.add(int(row_hashes(other)[0]))
    assert len(seen) == 302
