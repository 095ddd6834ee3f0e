"""Parquet files of recorded steps, written quickly.

An action log has thirty rows for a step of thirty stocks, and in all of them run, spec, phase, environment, episode,
step and time are the same. pyarrow's writer takes such columns row by row, and lists number by number, which was most
of what recording cost. This one takes columns of runs (`run_ends`) and writes them as runs, which Parquet has: a
dictionary, and how often each of its entries comes. It writes what the four tables need, and nothing else.
"""

# Numba infers the types of jitted code.
# mypy: disable-error-code="no-untyped-def, untyped-decorator, misc"

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from alphaswarm_rl.arrays.jit import njit
from alphaswarm_rl.lake.run_ends import is_runs, runs
from alphaswarm_rl.lake.thrift import BINARY, I32, I64, LIST, STRUCT, TRUE, Field, binary, integer, listed, struct

Array = np.ndarray[Any, Any]

_MAGIC = b"PAR1"
_BOOLEAN, _INT32, _INT64, _FLOAT, _DOUBLE, _BYTE_ARRAY = 0, 1, 2, 4, 5, 6
_PLAIN, _RLE, _RLE_DICTIONARY, _BYTE_STREAM_SPLIT = 0, 3, 8, 9
_DATA_PAGE, _DICTIONARY_PAGE = 0, 2
_REQUIRED, _OPTIONAL, _REPEATED = 0, 1, 2
_UNCOMPRESSED, _ZSTD = 0, 6
_EMPTY = struct()

#: Physical type, and what readers are told about the meaning: the older way, and the newer one.
_KINDS: dict[pa.DataType, tuple[int, tuple[Field, ...]]] = {
    pa.bool_(): (_BOOLEAN, ()),
    pa.int32(): (_INT32, ()),
    pa.int64(): (_INT64, ()),
    pa.float32(): (_FLOAT, ()),
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
_A_LIST: tuple[Field, ...] = ((6, I32, integer(3)), (10, STRUCT, struct((3, STRUCT, _EMPTY))))

#: Numbers that are split at once.
_AT_ONCE = 1024
_BEGIN_AND_GO_ON = np.array([0, 1], np.int32)

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
    """A column of one row group.

    Attributes:
        entries: Its values, nulls and empty lists.
    """

    entries: int
    pages: tuple[_Page, ...]
    encodings: tuple[int, ...]
    statistics: tuple[Field, ...] = ()


class ParquetWriter:
    """Writes tables as row groups of one file.

    Args:
        file: Where to.
        schema: The columns: bool, int32, int64, float32, float64, string or timestamp, as they are, in runs, as
            dictionaries, or lists of numbers.
        levels: zstd's level for numbers that are split into bytes, and for everything else.
        statistics: Columns of numbers of which the least and the largest are told.
    """

    def __init__(
        self, file: BinaryIO, schema: pa.Schema, *, levels: tuple[int, int], statistics: Sequence[str]
    ) -> None:
        self._file = file
        self._schema = schema
        self._split_codec, self._codec = (pa.Codec("zstd", compression_level=level) for level in levels)
        self._statistics = frozenset(statistics)
        self._metadata: list[bytes] = []
        self._groups: list[bytes] = []
        self._rows = 0
        self._offset = self._file.write(_MAGIC)

    def __enter__(self) -> ParquetWriter:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()

    def write_table(self, table: pa.Table) -> None:
        """One row group."""
        chunks, packed, plain = [], 0, 0
        for place, column in zip(self._schema, table.columns, strict=True):
            chunk, its_packed, its_plain = self._chunk(place, column)
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
        elements += [element for place in self._schema for element in _elements(place)]
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
        self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _chunk(self, place: pa.Field, column: pa.ChunkedArray) -> tuple[bytes, int, int]:
        """Writes a column; gives what the footer says of it, and its size compressed and not."""
        written = _encoded(place, column, place.name in self._statistics)
        codec = self._split_codec if _BYTE_STREAM_SPLIT in written.encodings else self._codec
        begin, plain, offsets = self._offset, 0, {}
        compressed = sum(len(page.body) for page in written.pages) >= _LEAST_COMPRESSED
        for page in written.pages:
            body: Any = codec.compress(page.body) if compressed else page.body
            sizes = ((2, I32, integer(len(page.body))), (3, I32, integer(len(body))))
            head = struct((1, I32, integer(page.type)), *sizes, page.header)
            offsets[page.type] = self._offset
            self._offset += self._file.write(head) + self._file.write(body)
            plain += len(head) + len(page.body)
        described = struct(
            (1, I32, integer(_kind(place.type)[0])),
            (2, LIST, listed(I32, [integer(encoding) for encoding in written.encodings])),
            (3, LIST, listed(BINARY, [binary(name.encode()) for name in _path(place)])),
            (4, I32, integer(_ZSTD if compressed else _UNCOMPRESSED)),
            (5, I64, integer(written.entries)),
            (6, I64, integer(plain)),
            (7, I64, integer(self._offset - begin)),
            (9, I64, integer(offsets[_DATA_PAGE])),
            *([(11, I64, integer(begin))] if _DICTIONARY_PAGE in offsets else []),
            *([(12, STRUCT, struct(*written.statistics))] if written.statistics else []),
        )
        # Readers take the chunk's own offset from its description.
        return struct((2, I64, integer(0)), (3, STRUCT, described)), self._offset - begin, plain


def _kind(type_: pa.DataType) -> tuple[int, tuple[Field, ...]]:
    nested = is_runs(type_) or pa.types.is_list(type_) or pa.types.is_dictionary(type_)
    return _KINDS[type_.value_type if nested else type_]


def _path(place: pa.Field) -> tuple[str, ...]:
    return (place.name, "list", "element") if pa.types.is_list(place.type) else (place.name,)


def _elements(place: pa.Field) -> list[bytes]:
    """A column in the schema; a list is a group in a group."""
    physical, meaning = _kind(place.type)
    there = (3, I32, integer(_OPTIONAL if place.nullable else _REQUIRED))
    name = (4, BINARY, binary(place.name.encode()))
    if not pa.types.is_list(place.type):
        return [struct((1, I32, integer(physical)), there, name, *meaning)]
    one = (5, I32, integer(1))
    return [
        struct(there, name, one, *_A_LIST),
        struct((3, I32, integer(_REPEATED)), (4, BINARY, binary(b"list")), one),
        struct((1, I32, integer(physical)), (3, I32, integer(_OPTIONAL)), (4, BINARY, binary(b"element"))),
    ]


def _encoded(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    if is_runs(place.type):
        return _in_runs(place, column, statistics)
    if pa.types.is_list(place.type):
        return _lists(column)
    if pa.types.is_dictionary(place.type):
        return _indices(place, column)
    return _one_by_one(place, column, statistics)


def _in_runs(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    parts = [runs(chunk) for chunk in column.chunks]
    values = pa.concat_arrays([part[0] for part in parts])
    lengths = np.concatenate([part[1] for part in parts])
    rows = found = int(lengths.sum())
    levels, kept, times = _all_there(place, rows), values, lengths
    if values.null_count:
        there = _valid(values)
        levels, kept, times = _levels(there, lengths, 1), values.drop_null(), lengths[there]
        found = int(times.sum())
    bounds = _bounds(kept, rows - found) if statistics else ()
    if found < _SHORTEST_RUN * len(kept) or not found:
        repeated = kept.take(pa.array(np.repeat(np.arange(len(kept)), times)))
        return _Column(rows, (_data(_PLAIN, rows, levels + bytes(_plain([repeated]))),), (_PLAIN, _RLE), bounds)
    known = kept.dictionary_encode()
    return _of_dictionary(rows, levels, known.dictionary, known.indices.to_numpy(), times, bounds)


def _indices(place: pa.Field, column: pa.ChunkedArray) -> _Column:
    """Strings of a dictionary; all are there."""
    column = column.unify_dictionaries()
    indices = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    dictionary = column.chunk(0).dictionary
    once = np.ones(len(indices), np.int64)
    return _of_dictionary(len(indices), _all_there(place, len(indices)), dictionary, indices, once, ())


def _of_dictionary(
    rows: int, levels: bytes, dictionary: pa.Array, indices: Array, times: Array, bounds: tuple[Field, ...]
) -> _Column:
    width = max(1, (len(dictionary) - 1).bit_length())
    about = struct((1, I32, integer(len(dictionary))), (2, I32, integer(_PLAIN)))
    words = _Page(_DICTIONARY_PAGE, _plain([dictionary]), (7, STRUCT, about))
    data = _data(_RLE_DICTIONARY, rows, levels + bytes([width]) + _hybrid(indices, times, width))
    return _Column(rows, (words, data), (_PLAIN, _RLE, _RLE_DICTIONARY), bounds)


def _one_by_one(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    rows, chunks = len(column), column.chunks
    levels = _all_there(place, rows)
    if column.null_count:
        there = np.concatenate([_valid(chunk) for chunk in chunks])
        levels, chunks = _levels(there, np.ones(rows, np.int64), 1), [chunk.drop_null() for chunk in chunks]
    bounds = _bounds(pa.concat_arrays(chunks), column.null_count) if statistics else ()
    if pa.types.is_floating(place.type):
        page = _data(_BYTE_STREAM_SPLIT, rows, _split(chunks, levels))
        return _Column(rows, (page,), (_BYTE_STREAM_SPLIT, _RLE), bounds)
    return _Column(rows, (_data(_PLAIN, rows, levels + bytes(_plain(chunks))),), (_PLAIN, _RLE), bounds)


def _lists(column: pa.ChunkedArray) -> _Column:
    """Lists of numbers that are there; a whole list may be null."""
    if column.null_count == len(column):
        nowhere = _levels(np.zeros(1, np.int32), np.array([len(column)]), 1)
        return _Column(len(column), (_data(_PLAIN, len(column), nowhere + nowhere),), (_PLAIN, _RLE))
    sizes = np.concatenate([_sizes(chunk) for chunk in column.chunks])
    entries = np.maximum(sizes, 1)
    # The first entry of each row begins it, and the others go on.
    begins, counts = np.tile(_BEGIN_AND_GO_ON, len(entries)), np.stack([np.ones_like(entries), entries - 1], axis=1)
    # Of no list 0, of an empty one 1, of a number 3.
    depths = np.where(sizes > 0, 3, np.where(sizes == 0, 1, 0))
    levels = _levels(begins, counts.reshape(-1), 1) + _levels(depths, entries, 2)
    count = int(entries.sum())
    page = _data(_BYTE_STREAM_SPLIT, count, _split([chunk.flatten() for chunk in column.chunks], levels))
    return _Column(count, (page,), (_BYTE_STREAM_SPLIT, _RLE))


def _sizes(lists: pa.ListArray) -> Array:
    """How many numbers each list has; -1 where there is none."""
    sizes = np.diff(lists.offsets.to_numpy())
    return sizes if lists.null_count == 0 else np.where(_valid(lists), sizes, -1)


def _valid(values: pa.Array) -> Array:
    there: Array = values.is_valid().to_numpy(zero_copy_only=False)
    return there


def _data(encoding: int, entries: int, body: bytes | Array) -> _Page:
    encodings = ((2, I32, integer(encoding)), (3, I32, integer(_RLE)), (4, I32, integer(_RLE)))
    return _Page(_DATA_PAGE, body, (5, STRUCT, struct((1, I32, integer(entries)), *encodings)))


def _all_there(place: pa.Field, rows: int) -> bytes:
    return _levels(np.ones(1, np.int32), np.array([rows]), 1) if place.nullable else b""


def _levels(numbers: Array, lengths: Array, width: int) -> bytes:
    """How deep values are, or whether they begin a list, with how many bytes that takes."""
    found = _hybrid(numbers, lengths, width)
    return len(found).to_bytes(4, "little") + found


def _plain(chunks: Sequence[pa.Array]) -> bytes | Array:
    """Values one after the other."""
    type_ = chunks[0].type
    if pa.types.is_string(type_):
        return _strings(pa.concat_arrays(chunks))
    if pa.types.is_boolean(type_):
        truths = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
        return np.packbits(np.concatenate(truths), bitorder="little")
    numbers = [_numbers(chunk) for chunk in chunks]
    return (numbers[0] if len(numbers) == 1 else np.concatenate(numbers)).view(np.uint8)


def _numbers(values: pa.Array) -> Array:
    found: Array = (values.view(pa.int64()) if pa.types.is_timestamp(values.type) else values).to_numpy()
    return found


def _strings(values: pa.Array) -> Array:
    """Each with its length before it."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]
    out = np.empty(int(offsets[-1] - offsets[0]) + 4 * len(values), np.uint8)
    _write_strings(offsets, np.frombuffer(values.buffers()[2] or b"", np.uint8), out)
    return out


def _split(chunks: Sequence[pa.Array], before: bytes) -> Array:
    """What comes before; the first bytes of all numbers, then their second ones, and so on."""
    count = sum(map(len, chunks))
    width = chunks[0].type.bit_width // 8
    out = np.empty(len(before) + width * count, np.uint8)
    out[: len(before)] = np.frombuffer(before, np.uint8)
    streams, first = out[len(before) :].reshape(width, count), 0
    for chunk in chunks:
        _write_split(chunk.to_numpy().view(f"u{width}"), streams, first)
        first += len(chunk)
    return out


def _bounds(values: pa.Array, nulls: int) -> tuple[Field, ...]:
    """How many are null, the largest and the least of the others, as numbers."""
    counted = ((3, I64, integer(nulls)),)
    if not len(values):
        return counted
    numbers = _numbers(values)
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
        while k < len(numbers) and (numbers[k] == number or lengths[k] == 0):
            length += lengths[k]
            k += 1
        if length == 0:
            continue
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
def _write_strings(offsets, data, out):
    place = 0
    for row in range(len(offsets) - 1):
        size = offsets[row + 1] - offsets[row]
        for byte in range(4):
            out[place + byte] = (size >> (8 * byte)) & 255
        place += 4
        for k in range(offsets[row], offsets[row + 1]):
            out[place] = data[k]
            place += 1


@njit(cache=True, nogil=True)
def _write_split(numbers, streams, first):
    """Byte by byte over parts that fit the cache: a loop of that form is turned into wide instructions."""
    for begin in range(0, len(numbers), _AT_ONCE):
        part = numbers[begin : begin + _AT_ONCE]
        for byte in range(streams.shape[0]):
            stream = streams[byte, first + begin : first + begin + len(part)]
            for row in range(len(part)):
                stream[row] = part[row] >> (8 * byte)
