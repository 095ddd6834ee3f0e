"""Hashes of 64 bits for many rows at once: of observations, and of recorded rows.

No cryptography: equal bytes have equal hashes on every machine, and different ones differ by chance only.
"""

# Numba infers the types of jitted code.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from __future__ import annotations

import numpy as np

from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.core.types import Array

_FIRST = np.uint64(0x9E3779B97F4A7C15)
_SECOND = np.uint64(0xBF58476D1CE4E5B9)
_THIRD = np.uint64(0x94D049BB133111EB)
_EMPTY = np.uint64(0xA0761D6478BD642F)


@njit(cache=True, nogil=True, inline="always")
def mix(number):
    """A bijection of 64 bits in which every bit depends on every other (the finaliser of SplitMix64)."""
    number = (number ^ (number >> np.uint64(30))) * _SECOND
    number = (number ^ (number >> np.uint64(27))) * _THIRD
    return number ^ (number >> np.uint64(31))


@njit(cache=True, nogil=True, inline="always")
def _word(halves, k):
    return np.uint64(halves[2 * k]) | (np.uint64(halves[2 * k + 1]) << np.uint64(32))


@njit(cache=True, nogil=True)
def hash_halves(rows, out):
    """Hashes each row of 32-bit halves, two of which are a word; behind an odd last one stand zeros.

    Four lanes, so that multiplications overlap.
    """
    width = rows.shape[1]
    whole, count = width // 2, (width + 1) // 2
    for row in range(rows.shape[0]):
        halves = rows[row]
        rest = np.uint64(halves[width - 1]) if width else np.uint64(0)  # the last word where it is but a half
        a, b, c, d = _FIRST, _SECOND, _THIRD, _EMPTY
        k = 0
        while k + 4 <= count:
            a = (a ^ _word(halves, k)) * _SECOND
            b = (b ^ _word(halves, k + 1)) * _THIRD
            c = (c ^ _word(halves, k + 2)) * _FIRST
            d = (d ^ (_word(halves, k + 3) if k + 3 < whole else rest)) * _SECOND
            a ^= a >> np.uint64(29)
            b ^= b >> np.uint64(31)
            c ^= c >> np.uint64(33)
            d ^= d >> np.uint64(30)
            k += 4
        while k < count:
            a = mix(a ^ (_word(halves, k) if k < whole else rest)) + _FIRST
            k += 1
        out[row] = mix(mix(mix(mix(a + _FIRST) ^ b) ^ c) ^ d)


def row_hashes(rows: Array) -> Array:
    """A 64-bit hash of each row's bytes, as int64; `rows` is an array (n, ...) of any type."""
    out = np.empty(len(rows), np.int64)
    write_row_hashes(rows, out)
    return out


def write_row_hashes(rows: Array, out: Array) -> None:
    """The same into `out`, (n,) int64."""
    if rows.ndim == 2 and rows.itemsize % 4 == 0 and rows.shape[1] and rows.flags.c_contiguous:
        hash_halves(rows.view(np.uint32), out.view(np.uint64))  # nearly always
        return
    raw = np.ascontiguousarray(rows).reshape(len(rows), -1).view(np.uint8).reshape(len(rows), -1)
    if raw.shape[1] % 4:
        padded = np.zeros((len(rows), -(-raw.shape[1] // 4) * 4), np.uint8)
        padded[:, : raw.shape[1]] = raw
        raw = padded
    hash_halves(raw.view(np.uint32), out.view(np.uint64))


@njit(cache=True, nogil=True)
def fold(sums, seed, numbers, zero, valid):
    """Folds one number per row into the rows' hashes; rows without a value stay as they are. No `valid`: all have one.

    A number counts as 64 bits in any width; `zero` is another way to write 0.
    """
    everywhere = len(valid) == 0
    for row in range(len(sums)):
        if everywhere or valid[row]:
            word = np.uint64(numbers[row])
            word = np.uint64(0) if word == zero else word
            sums[row] = mix(sums[row] * _FIRST + (word ^ seed) + _EMPTY)


@njit(cache=True, nogil=True)
def fold_lists(sums, seed, offsets, numbers, zero, valid):
    """Folds a list of numbers per row into the rows' hashes."""
    everywhere = len(valid) == 0
    for row in range(len(sums)):
        if everywhere or valid[row]:
            folded = seed
            for k in range(offsets[row], offsets[row + 1]):
                word = np.uint64(numbers[k])
                word = np.uint64(0) if word == zero else word
                folded = (folded ^ word) * _THIRD + _EMPTY
                folded ^= folded >> np.uint64(32)
            sums[row] = mix(sums[row] * _FIRST + folded + _EMPTY)


@njit(cache=True, nogil=True)
def spread(sums, lengths, out):
    """Each number as often as its run is long."""
    row = 0
    for run in range(len(sums)):
        for _ in range(lengths[run]):
            out[row] = sums[run]
            row += 1


@njit(cache=True, nogil=True)
def byte_words(offsets, data, out):
    """One word for each string of bytes, of which eight are taken at a time."""
    for row in range(len(out)):
        k, end = offsets[row], offsets[row + 1]
        folded = _EMPTY + np.uint64(end - k)
        while k + 8 <= end:
            word = np.uint64(0)
            for place in range(8):
                word |= np.uint64(data[k + place]) << np.uint64(8 * place)
            folded = (folded ^ word) * _THIRD
            folded ^= folded >> np.uint64(32)
            k += 8
        while k < end:
            folded = (folded ^ np.uint64(data[k])) * _THIRD
            folded ^= folded >> np.uint64(32)
            k += 1
        out[row] = mix(folded)
