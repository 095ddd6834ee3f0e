"""A checksum of rows that does not depend on their order, so that files may be merged and it stays.

Each row is folded into 64 bits column by column, and the numbers of all rows are added up. What says whose rows they
are (run, spec, phase) is left out: equal steps have equal checksums in any run.
"""

from __future__ import annotations

import threading

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphaswarm_rl.core.types import Array
from alphaswarm_rl.lake.hashing64 import byte_words, fold, fold_lists, spread
from alphaswarm_rl.lake.run_ends import is_runs, runs

_LEFT_OUT = frozenset({"run_id", "spec_hash", "phase"})
_EVERYWHERE = np.empty(0, np.bool_)
_MINUS_ZERO = np.uint64(1 << 63)
_NO_OTHER_ZERO = np.uint64(0)
#: Rows that are summed up at once.
_AT_ONCE = 1 << 18


class _Scratch(threading.local):
    """Memory that stays: to be given fresh one for every block takes longer than all the sums."""

    def __init__(self) -> None:
        self.sums = np.empty(_AT_ONCE, np.uint64)


_scratch = _Scratch()


def checksum(rows: pa.Table) -> int:
    """The sum over all rows, below 2**64. Columns that are null in every row do not count."""
    total = 0
    for batch in rows.to_batches(max_chunksize=_AT_ONCE):
        total += _sum(batch)
    return total % 2**64


def _sum(batch: pa.RecordBatch) -> int:
    sums: Array | None = None
    lengths: Array | None = None
    for name in batch.schema.names:
        if name in _LEFT_OUT:
            continue
        column = batch.column(name)
        values, counts = runs(column) if is_runs(column.type) else (column, None)
        if values.null_count == len(values):
            continue
        if sums is None:
            # As long as all columns have the same runs, so have the sums.
            lengths = counts
            sums = np.zeros(len(values), np.uint64) if counts is not None else _scratch.sums[: len(values)]
            sums[:] = 0
        elif lengths is not None and (counts is None or not np.array_equal(lengths, counts)):
            short, sums = sums, _scratch.sums[: batch.num_rows]
            spread(short, lengths, sums)
            lengths = None
        folded = values if counts is None or lengths is not None else pc.run_end_decode(column)
        _fold(sums, np.uint64(_seed(name)), folded)
    if sums is None:
        return 0
    weighted = sums if lengths is None else sums * lengths.astype(np.uint64)
    return int(weighted.sum(dtype=np.uint64))


def _seed(name: str) -> int:
    return int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little")


def _fold(sums: Array, seed: np.uint64, column: pa.Array) -> None:
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else _EVERYWHERE
    if pa.types.is_list(column.type):
        offsets = column.offsets.to_numpy()
        numbers, zero = _numbers(column.values[offsets[0] : offsets[-1]])
        fold_lists(sums, seed, offsets - offsets[0], numbers, zero, valid)
        return
    fold(sums, seed, *_numbers(column), valid)


def _numbers(column: pa.Array) -> tuple[Array, np.uint64]:
    """Each value as an integer, and another way to write 0; a string means the same in a dictionary."""
    if pa.types.is_dictionary(column.type):
        known, zero = _numbers(column.dictionary)
        return np.take(known, _filled(column.indices, 0).to_numpy(zero_copy_only=False)), zero
    if pa.types.is_string(column.type):
        column = _filled(column, "")
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        words = np.empty(len(column), np.uint64)
        byte_words(offsets, np.frombuffer(column.buffers()[2] or b"", np.uint8), words)
        return words, _NO_OTHER_ZERO
    if pa.types.is_floating(column.type):
        return _filled(column.cast(pa.float64()), 0.0).to_numpy().view(np.uint64), _MINUS_ZERO
    if pa.types.is_timestamp(column.type):
        column = column.view(pa.int64())
    zero = pa.scalar(0, pa.int64()).cast(column.type)
    return _filled(column, zero).to_numpy(zero_copy_only=False), _NO_OTHER_ZERO


def _filled(column: pa.Array, value: pa.Scalar | float | str) -> pa.Array:
    return column.fill_null(value) if column.null_count else column
