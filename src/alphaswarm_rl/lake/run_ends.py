"""Columns in Arrow's run-end encoding (a value once, with how often it repeats), beside ordinary columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from alphaswarm_rl.core.types import Array


def is_runs(type_: pa.DataType) -> bool:
    """Whether such a column consists of runs."""
    return isinstance(type_, pa.RunEndEncodedType)


def run_type(values: pa.DataType) -> pa.DataType:
    """The type of a column of runs of such values."""
    return pa.run_end_encoded(pa.int32(), values)


def repeated(values: pa.Array, times: int) -> pa.RunEndEncodedArray:
    """Each value that many times in a row."""
    ends = np.arange(times, (len(values) + 1) * times, times, dtype=np.int32)
    return pa.RunEndEncodedArray.from_arrays(pa.array(ends), values)


def runs(column: pa.RunEndEncodedArray) -> tuple[pa.Array, Array]:
    """The values, and how often each comes."""
    first, count = column.find_physical_offset(), column.find_physical_length()
    ends = column.run_ends.to_numpy()[first : first + count].astype(np.int64) - column.offset
    return column.values.slice(first, count), np.diff(np.minimum(ends, len(column)), prepend=0)


def distinct_parts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Every value of a column at least once: in runs, each once a run."""
    if not is_runs(column.type):
        return column
    return pa.chunked_array([runs(chunk)[0] for chunk in column.chunks], column.type.value_type)


def as_type(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """The same values as another type, with runs or without."""
    if column.type == type_:
        return column
    if is_runs(type_) and pa.types.is_dictionary(column.type):
        return pa.chunked_array([_runs_of_words(chunk) for chunk in column.chunks], type_)
    plain = pc.run_end_decode(column) if is_runs(column.type) else column
    if not is_runs(type_):
        return plain.cast(type_)
    return pc.run_end_encode(plain.cast(type_.value_type), run_end_type=type_.run_end_type)


def _runs_of_words(words: pa.DictionaryArray) -> pa.RunEndEncodedArray:
    numbers = pc.run_end_encode(words.indices, run_end_type=pa.int32())
    return pa.RunEndEncodedArray.from_arrays(numbers.run_ends, words.dictionary.take(numbers.values))
