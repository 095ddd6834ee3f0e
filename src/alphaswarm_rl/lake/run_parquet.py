"""Parquet files of tables in which most columns repeat their values.

An action log has thirty rows for a step of thirty stocks, and in all of them run, spec, phase, environment, episode,
step and time are the same. pyarrow's writer takes such columns row by row, which is most of what recording costs. This
one takes them as runs (`run_ends`) and writes them as runs, which Parquet has: a dictionary, and how often each of its
entries comes.
"""

# Numba infers the types of jitted code.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from alphaswarm_rl.lake.run_ends import is_runs, runs
from alphaswarm_rl.lake.thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, Field, binary, integer, listed, struct
from alphaswarm_rl.market.jit import njit

Array = np.ndarray[Any, Any]

_MAGIC = b"PAR1"
_INT32, _INT64, _DOUBLE, _BYTE_ARRAY = 1, 2, 5, 6
_PLAIN, _RLE, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 3, 8, 9
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_REQUIRED, _OPTIONAL = 0, 1
_UNCOMPRESSED, _ZSTD = 0, 6
_EMPTY = struct()

#: Physical type, and what readers are told about the meaning: the older way, and the newer one.
_KINDS: dict[pa.DataType, tuple[int, tuple[Field, ...]]] = {
    pa.int32(): (_INT32, ()),
    pa.int64(): (_INT64, ()),
    pa.float64(): (_DOUBLE, ()),
    pa.string(): (_BYTE_ARRAY, ((6, I32, integer(0)), (10, STRUCT, struct((1, STRUCT, _EMPTY))))),
    pa.timestamp("us", tz="UTC"): (
        _INT64,
        (
            (6, I32, integer(10)),
            (10, STRUCT, struct((8, STRUCT, struct((1, TRUE, b""), (2, STRUCT, struct((2, STRUCT, _EMPTY))))))),
        ),
    ),
}

#: Bytes of a column below which compressing them takes longer than it is worth.
_LEAST_COMPRESSED = 1024
#: Runs that are shorter on average are written value by value.
_SHORTEST_RUN = 4


@dataclass(frozen=True)
class _Page:
    """A page before it is compressed."""

    type: int
    body: bytes | Array
    header: Field


@dataclass(frozen=True)
class _Column:
    """A column of one row group."""

    pages: tuple[_Page, ...]
    encodings: tuple[int, ...]
    statistics: tuple[Field, ...]


class RunParquetWriter:
    """Writes tables as row groups of one file.

    Args:
        file: Where to.
        schema: The columns: int32, int64, float64, string or timestamp, as they are or in runs.
        level: zstd's level.
        statistics: Columns of which the least and the largest value are told.
    """

    def __init__(self, file: BinaryIO, schema: pa.Schema, *, level: int, statistics: tuple[str, ...]) -> None:
        self._file = file
        self._schema = schema
        self._codec = pa.Codec("zstd", compression_level=level)
        self._statistics = statistics
        self._metadata: list[bytes] = []
        self._groups: list[bytes] = []
        self._rows = 0
        self._offset = self._put(_MAGIC)

    def __enter__(self) -> RunParquetWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()

    def write_table(self, table: pa.Table) -> None:
        """One row group."""
        chunks, packed, plain = [], 0, 0
        for place in self._schema:
            chunk, its_packed, its_plain = self._chunk(place, table[place.name], table.num_rows)
            chunks.append(chunk)
            packed, plain = packed + its_packed, plain + its_plain
        self._groups.append(
            struct(
                (1, LIST, listed(STRUCT, chunks)),
                (2, I64, integer(plain)),
                (3, I64, integer(table.num_rows)),
                (6, I64, integer(packed)),
            )
        )
        self._rows += table.num_rows

    def add_key_value_metadata(self, entries: Mapping[bytes, bytes]) -> None:
        """What the footer says beside the columns."""
        self._metadata += [struct((1, BINARY, binary(key)), (2, BINARY, binary(its))) for key, its in entries.items()]

    def close(self) -> None:
        """Writes the footer; the file itself stays open."""
        elements = [struct((4, BINARY, binary(b"schema")), (5, I32, integer(len(self._schema))))]
        elements += [_element(place) for place in self._schema]
        order = struct((1, STRUCT, _EMPTY))
        footer = struct(
            (1, I32, integer(2)),
            (2, LIST, listed(STRUCT, elements)),
            (3, I64, integer(self._rows)),
            (4, LIST, listed(STRUCT, self._groups)),
            (5, LIST, listed(STRUCT, self._metadata)),
            (6, BINARY, binary(b"alphaswarm_rl")),
            (7, LIST, listed(STRUCT, [order] * len(self._schema))),
        )
        self._put(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _put(self, data: bytes | pa.Buffer) -> int:
        return self._file.write(data)

    def _chunk(self, place: pa.Field, column: pa.ChunkedArray, rows: int) -> tuple[bytes, int, int]:
        """Writes a column; gives what the footer says of it, and its size compressed and not."""
        written = (_in_runs if is_runs(place.type) else _one_by_one)(place, column, place.name in self._statistics)
        begin, plain, offsets = self._offset, 0, {}
        compressed = sum(len(page.body) for page in written.pages) >= _LEAST_COMPRESSED
        for page in written.pages:
            body = self._codec.compress(page.body) if compressed else pa.py_buffer(page.body)
            sizes = ((2, I32, integer(len(page.body))), (3, I32, integer(body.size)))
            head = struct((1, I32, integer(page.type)), *sizes, page.header)
            offsets[page.type] = self._offset
            self._offset += self._put(head) + self._put(body)
            plain += len(head) + len(page.body)
        described = struct(
            (1, I32, integer(_kind(place.type)[0])),
            (2, LIST, listed(I32, [integer(encoding) for encoding in written.encodings])),
            (3, LIST, listed(BINARY, [binary(place.name.encode())])),
            (4, I32, integer(_ZSTD if compressed else _UNCOMPRESSED)),
            (5, I64, integer(rows)),
            (6, I64, integer(plain)),
            (7, I64, integer(self._offset - begin)),
            (9, I64, integer(offsets[_DATA_PAGE])),
            *([(11, I64, integer(begin))] if _DICTIONARY_PAGE in offsets else []),
            *([(12, STRUCT, struct(*written.statistics))] if written.statistics else []),
        )
        # Readers take the chunk's own offset from its description.
        return struct((2, I64, integer(0)), (3, STRUCT, described)), self._offset - begin, plain


def _kind(type_: pa.DataType) -> tuple[int, tuple[Field, ...]]:
    return _KINDS[type_.value_type if is_runs(type_) else type_]


def _element(place: pa.Field) -> bytes:
    physical, meaning = _kind(place.type)
    return struct(
        (1, I32, integer(physical)),
        (3, I32, integer(_OPTIONAL if place.nullable else _REQUIRED)),
        (4, BINARY, binary(place.name.encode())),
        *meaning,
    )


def _in_runs(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    parts = [runs(chunk) for chunk in column.chunks]
    values = pa.concat_arrays([part[0] for part in parts])
    lengths = np.concatenate([part[1] for part in parts])
    there = values.is_valid().to_numpy(zero_copy_only=False)
    levels = _levels(place, there, lengths)
    kept, times = values.drop_null(), lengths[there]
    rows, found = int(lengths.sum()), int(times.sum())
    if found < _SHORTEST_RUN * len(kept) or not found:
        pages: tuple[_Page, ...] = (_data(_PLAIN, rows, levels, _plain(_repeated(kept, times))),)
        encodings: tuple[int, ...] = (_PLAIN, _RLE)
    else:
        known = kept.dictionary_encode()
        width = max(1, (len(known.dictionary) - 1).bit_length())
        body = bytes([width]) + _hybrid(known.indices.to_numpy(), times, width)
        about = struct((1, I32, integer(len(known.dictionary))), (2, I32, integer(_PLAIN)))
        dictionary = _Page(_DICTIONARY_PAGE, _plain(known.dictionary), (7, STRUCT, about))
        pages = (dictionary, _data(_RLE_DICTIONARY, rows, levels, body))
        encodings = (_PLAIN, _RLE, _RLE_DICTIONARY)
    return _Column(pages, encodings, _bounds(kept, rows - found) if statistics else ())


def _one_by_one(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    values = pa.concat_arrays(column.chunks)
    there = values.is_valid().to_numpy(zero_copy_only=False) if place.nullable else np.ones(1, np.bool_)
    levels = _levels(place, there, np.ones(len(there), np.int64))
    kept = values.drop_null() if values.null_count else values
    split = pa.types.is_floating(place.type)
    body = _split(kept.to_numpy().view(np.uint8)) if split else _plain(kept)
    encoding = _BYTE_STREAM_SPLIT if split else _PLAIN
    bounds = _bounds(kept, values.null_count) if statistics else ()
    return _Column((_data(encoding, len(values), levels, body),), (encoding, _RLE), bounds)


def _repeated(values: pa.Array, times: Array) -> pa.Array:
    return values.take(pa.array(np.repeat(np.arange(len(values)), times)))


def _data(encoding: int, rows: int, levels: bytes, body: bytes | Array) -> _Page:
    encodings = ((2, I32, integer(encoding)), (3, I32, integer(_RLE)), (4, I32, integer(_RLE)))
    # Bodies are large, and copied only where they must be.
    whole = levels + bytes(body) if levels else body
    return _Page(_DATA_PAGE, whole, (5, STRUCT, struct((1, I32, integer(rows)), *encodings)))


def _levels(place: pa.Field, there: Array, lengths: Array) -> bytes:
    """Which rows have a value, where some may not."""
    if not place.nullable:
        return b""
    found = _hybrid(there.astype(np.int32), lengths, 1)
    return len(found).to_bytes(4, "little") + found


def _plain(values: pa.Array) -> bytes | Array:
    if pa.types.is_string(values.type):
        words = [word.encode() for word in values.to_pylist()]
        return b"".join(len(word).to_bytes(4, "little") + word for word in words)
    if pa.types.is_timestamp(values.type):
        values = values.cast(pa.int64())
    numbers: Array = values.to_numpy().view(np.uint8)
    return numbers


def _bounds(values: pa.Array, nulls: int) -> tuple[Field, ...]:
    """How many are null, the largest and the least of the others, as numbers."""
    counted = ((3, I64, integer(nulls)),)
    if not len(values):
        return counted
    numbers = (values.cast(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_numpy()
    return (*counted, (5, BINARY, binary(numbers.max().tobytes())), (6, BINARY, binary(numbers.min().tobytes())))


def _hybrid(numbers: Array, lengths: Array, width: int) -> bytes:
    """Runs of numbers as Parquet's run-length encoding has them: length, and number in whole bytes."""
    size = -(-width // 8)
    # A length takes at most five bytes.
    found = np.empty(len(numbers) * (size + 5), np.uint8)
    return found[: _write_runs(numbers, lengths, size, found)].tobytes()


@njit(cache=True, nogil=True)
def _write_runs(numbers, lengths, size, out):
    place = 0
    k = 0
    while k < len(numbers):
        number, length = numbers[k], lengths[k]
        k += 1
        while k < len(numbers) and numbers[k] == number:
            length += lengths[k]
            k += 1
        head = length << 1
        while head > 127:
            out[place] = head & 127 | 128
            head >>= 7
            place += 1
        out[place] = head
        place += 1
        for byte in range(size):
            out[place] = (number >> (8 * byte)) & 255
            place += 1
    return place


@njit(cache=True, nogil=True)
def _split(data):
    """The first bytes of all numbers of eight bytes, then their second ones, and so on."""
    count = len(data) // 8
    out = np.empty(len(data), np.uint8)
    for row in range(count):
        for byte in range(8):
            out[byte * count + row] = data[8 * row + byte]
    return out
