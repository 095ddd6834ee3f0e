"""A checksum of rows that does not depend on their order, so that files may be merged and it stays.

Each row is folded into 64 bits column by column, and the numbers of all rows are added up. What says whose rows they
are (run, spec, phase) is left out: equal steps have equal checksums in any run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphaswarm_rl.lake.hashing64 import byte_words, fold, fold_lists
from alphaswarm_rl.lake.run_ends import is_runs, runs

Array = np.ndarray[Any, Any]

_LEFT_OUT = frozenset({"run_id", "spec_hash", "phase"})
_EVERYWHERE = np.empty(0, np.bool_)


def checksum(rows: pa.Table) -> int:
    """The sum over all rows, below 2**64. Columns that are null in every row do not count."""
    total = 0
    for batch in rows.to_batches(max_chunksize=1 << 18):
        total += int(_row_sums(batch).sum(dtype=np.uint64))
    return total % 2**64


def _row_sums(batch: pa.RecordBatch) -> Array:
    sums: Array | None = None
    lengths: Array | None = None
    for name in batch.schema.names:
        column = batch.column(name)
        values, its = runs(column) if is_runs(column.type) else (column, None)
        if name in _LEFT_OUT or values.null_count == len(values):
            continue
        if sums is None:
            # As long as all columns have the same runs, so have the sums.
            sums, lengths = np.zeros(len(values), np.uint64), its
        elif lengths is not None and (its is None or not np.array_equal(lengths, its)):
            sums, lengths = np.repeat(sums, lengths), None
        _fold(sums, np.uint64(_seed(name)), values if its is None or lengths is not None else pc.run_end_decode(column))
    if sums is None:
        return np.zeros(batch.num_rows, np.uint64)
    return sums if lengths is None else np.repeat(sums, lengths)


def _seed(name: str) -> int:
    return int.from_bytes(name.encode()[:8].ljust(8, b"\0"), "little")


def _fold(sums: Array, seed: np.uint64, column: pa.Array) -> None:
    valid = column.is_valid().to_numpy(zero_copy_only=False) if column.null_count else _EVERYWHERE
    if pa.types.is_list(column.type):
        offsets = column.offsets.to_numpy()
        own = column.values[offsets[0] : offsets[-1]]
        fold_lists(sums, seed, offsets - offsets[0], _words(own), valid)
        return
    fold(sums, seed, _words(column), valid)


def _words(column: pa.Array) -> Array:
    """Each value as 64 bits; a number means the same in any width, a string the same in a dictionary."""
    if pa.types.is_dictionary(column.type):
        known: Array = _words(column.dictionary)
        taken: Array = np.take(known, _filled(column.indices, 0).to_numpy(zero_copy_only=False))
        return taken
    if pa.types.is_string(column.type):
        column = _filled(column, "")
        offsets = np.frombuffer(column.buffers()[1], np.int32)[column.offset : column.offset + len(column) + 1]
        words = np.empty(len(column), np.uint64)
        byte_words(offsets, np.frombuffer(column.buffers()[2] or b"", np.uint8), words)
        return words
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_floating(column.type):
        values = _filled(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        return np.ascontiguousarray(values + 0.0).view(np.uint64)
    filled = _filled(column.cast(pa.int64()), 0)
    return np.ascontiguousarray(filled.to_numpy(zero_copy_only=False)).view(np.uint64)


def _filled(column: pa.Array, value: Any) -> pa.Array:
    return column.fill_null(value) if column.null_count else column
