"""Parquet files of recorded steps, written quickly.

An action log has thirty rows for a step of thirty stocks, and in all of them run, spec, phase, environment, episode,
step and time are the same. pyarrow's writer takes such columns row by row, and lists number by number, which was most
of what recording cost. This one takes columns of runs (`run_ends`) and writes them as runs, which Parquet has: a
dictionary, and how often each of its entries comes. It writes what the six tables need, and nothing else.

A file is the magic word, row groups, the footer, its length and the magic word again. A row group has one chunk per
column; a chunk is a page of dictionary words, where it has a dictionary, and one page of values:

    page      header (Thrift), then the body, compressed by zstd where that pays
    body      levels, then values
    levels    run-length encoded: 0 where a value is null, 1 where it is not; lists have two such parts, the first of
              which says whether an entry begins a row (0) or goes on with it (1)
    values    plain one after the other; indices of dictionary words, run-length encoded; or floating-point numbers
              split into streams of their first bytes, second bytes and so on, which compress better
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
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.lake import parquet_format as pf
from alphaswarm_rl.lake.parquet_format import Encoding, Field, PageType, SchemaElement, Type, i32, i64, nested, struct
from alphaswarm_rl.lake.run_ends import is_runs, runs

_MAGIC = b"PAR1"
_FORMAT_VERSION = 2


def _meaning(converted: int, logical: int, *fields: Field) -> tuple[Field, ...]:
    """What readers are told about the meaning of a column's values: the older way, and the newer one."""
    newer = nested(SchemaElement.LOGICAL_TYPE, nested(logical, *fields))
    return i32(SchemaElement.CONVERTED_TYPE, converted), newer


_UTC_MICROS = (pf.true(pf.TimestampType.IS_ADJUSTED_TO_UTC), nested(pf.TimestampType.UNIT, nested(pf.TimeUnit.MICROS)))
#: Physical type and meaning by Arrow's type.
_TYPES: dict[pa.DataType, tuple[int, tuple[Field, ...]]] = {
    pa.bool_(): (Type.BOOLEAN, ()),
    pa.int32(): (Type.INT32, ()),
    pa.int64(): (Type.INT64, ()),
    pa.float32(): (Type.FLOAT, ()),
    pa.float64(): (Type.DOUBLE, ()),
    pa.string(): (Type.BYTE_ARRAY, _meaning(pf.ConvertedType.UTF8, pf.LogicalType.STRING)),
    pa.timestamp("us", tz="UTC"): (
        Type.INT64,
        _meaning(pf.ConvertedType.TIMESTAMP_MICROS, pf.LogicalType.TIMESTAMP, *_UTC_MICROS),
    ),
}
_LIST_MEANING = _meaning(pf.ConvertedType.LIST, pf.LogicalType.LIST)

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


@dataclass(frozen=True)
class _Chunk:
    """A column of one row group as it was written: what the footer says of it, and its size compressed and not."""

    description: bytes
    size: int
    plain_size: int


class ParquetWriter:
    """Writes tables as row groups of one file.

    Args:
        file: Where to.
        schema: The columns: bool, int32, int64, float32, float64, string or timestamp, as they are, in runs, as
            dictionaries, or lists of numbers.
        levels: zstd's level for numbers that are split into bytes, and for everything else.
        statistics: Columns of numbers whose least and largest value the footer has.
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

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()

    def write_table(self, table: pa.Table) -> None:
        """Writes a table as one row group."""
        chunks = [self._chunk(place, column) for place, column in zip(self._schema, table.columns, strict=True)]
        self._groups.append(
            struct(
                pf.structs(pf.RowGroup.COLUMNS, [chunk.description for chunk in chunks]),
                i64(pf.RowGroup.TOTAL_BYTE_SIZE, sum(chunk.plain_size for chunk in chunks)),
                i64(pf.RowGroup.NUM_ROWS, table.num_rows),
                i64(pf.RowGroup.TOTAL_COMPRESSED_SIZE, sum(chunk.size for chunk in chunks)),
            )
        )
        self._rows += table.num_rows

    def add_key_value_metadata(self, entries: Mapping[bytes, bytes]) -> None:
        """What the footer says beside the columns."""
        self._metadata += [
            struct(pf.binary(pf.KeyValue.KEY, key), pf.binary(pf.KeyValue.VALUE, value))
            for key, value in entries.items()
        ]

    def close(self) -> None:
        """Writes the footer; the file itself stays open."""
        root = struct(pf.binary(SchemaElement.NAME, b"schema"), i32(SchemaElement.NUM_CHILDREN, len(self._schema)))
        elements = [element for place in self._schema for element in _schema_elements(place)]
        order = struct(nested(pf.ColumnOrder.TYPE_ORDER))
        footer = struct(
            i32(pf.FileMetaData.VERSION, _FORMAT_VERSION),
            pf.structs(pf.FileMetaData.SCHEMA, [root, *elements]),
            i64(pf.FileMetaData.NUM_ROWS, self._rows),
            pf.structs(pf.FileMetaData.ROW_GROUPS, self._groups),
            pf.structs(pf.FileMetaData.KEY_VALUE_METADATA, self._metadata),
            pf.binary(pf.FileMetaData.CREATED_BY, b"alphaswarm_rl"),
            pf.structs(pf.FileMetaData.COLUMN_ORDERS, [order] * len(self._schema)),
        )
        self._file.write(footer + len(footer).to_bytes(4, "little") + _MAGIC)

    def _chunk(self, place: pa.Field, column: pa.ChunkedArray) -> _Chunk:
        """Writes a column's pages."""
        written = _encoded(place, column, place.name in self._statistics)
        codec = self._split_codec if Encoding.BYTE_STREAM_SPLIT in written.encodings else self._codec
        begin, plain, offsets = self._offset, 0, {}
        compressed = sum(len(page.body) for page in written.pages) >= _LEAST_COMPRESSED
        for page in written.pages:
            body: Any = codec.compress(page.body) if compressed else page.body
            head = struct(
                i32(pf.PageHeader.TYPE, page.type),
                i32(pf.PageHeader.UNCOMPRESSED_PAGE_SIZE, len(page.body)),
                i32(pf.PageHeader.COMPRESSED_PAGE_SIZE, len(body)),
                page.header,
            )
            offsets[page.type] = self._offset
            self._offset += self._file.write(head) + self._file.write(body)
            plain += len(head) + len(page.body)
        has_dictionary = PageType.DICTIONARY_PAGE in offsets
        metadata = nested(
            pf.ColumnChunk.META_DATA,
            i32(pf.ColumnMetaData.TYPE, _type_of(place.type)[0]),
            pf.i32s(pf.ColumnMetaData.ENCODINGS, written.encodings),
            pf.binaries(pf.ColumnMetaData.PATH_IN_SCHEMA, [name.encode() for name in _path(place)]),
            i32(pf.ColumnMetaData.CODEC, pf.Codec.ZSTD if compressed else pf.Codec.UNCOMPRESSED),
            i64(pf.ColumnMetaData.NUM_VALUES, written.entries),
            i64(pf.ColumnMetaData.TOTAL_UNCOMPRESSED_SIZE, plain),
            i64(pf.ColumnMetaData.TOTAL_COMPRESSED_SIZE, self._offset - begin),
            i64(pf.ColumnMetaData.DATA_PAGE_OFFSET, offsets[PageType.DATA_PAGE]),
            *([i64(pf.ColumnMetaData.DICTIONARY_PAGE_OFFSET, begin)] if has_dictionary else []),
            *([nested(pf.ColumnMetaData.STATISTICS, *written.statistics)] if written.statistics else []),
        )
        # Readers take the chunk's own offset from its metadata.
        return _Chunk(struct(i64(pf.ColumnChunk.FILE_OFFSET, 0), metadata), self._offset - begin, plain)


def _type_of(type_: pa.DataType) -> tuple[int, tuple[Field, ...]]:
    """Physical type and meaning of a column's values."""
    is_nested = is_runs(type_) or pa.types.is_list(type_) or pa.types.is_dictionary(type_)
    return _TYPES[type_.value_type if is_nested else type_]


def _path(place: pa.Field) -> tuple[str, ...]:
    return (place.name, "list", "element") if pa.types.is_list(place.type) else (place.name,)


def _schema_elements(place: pa.Field) -> list[bytes]:
    """A column in the schema; a list is a group in a group."""
    physical, meaning = _type_of(place.type)
    repetition = i32(
        SchemaElement.REPETITION_TYPE, pf.Repetition.OPTIONAL if place.nullable else pf.Repetition.REQUIRED
    )
    name = pf.binary(SchemaElement.NAME, place.name.encode())
    if not pa.types.is_list(place.type):
        return [struct(i32(SchemaElement.TYPE, physical), repetition, name, *meaning)]
    one_child, many = i32(SchemaElement.NUM_CHILDREN, 1), i32(SchemaElement.REPETITION_TYPE, pf.Repetition.REPEATED)
    return [
        struct(repetition, name, one_child, *_LIST_MEANING),
        struct(many, pf.binary(SchemaElement.NAME, b"list"), one_child),
        struct(
            i32(SchemaElement.TYPE, physical),
            i32(SchemaElement.REPETITION_TYPE, pf.Repetition.OPTIONAL),
            pf.binary(SchemaElement.NAME, b"element"),
        ),
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
    levels, kept, times = _no_nulls(place, rows), values, lengths
    if values.null_count:
        valid = _valid(values)
        levels, kept, times = _levels(valid, lengths, 1), values.drop_null(), lengths[valid]
        found = int(times.sum())
    bounds = _bounds(kept, rows - found) if statistics else ()
    if found < _SHORTEST_RUN * len(kept) or not found:
        repeated = kept.take(pa.array(np.repeat(np.arange(len(kept)), times)))
        return _one_page(Encoding.PLAIN, rows, levels + bytes(_plain([repeated])), bounds)
    known = kept.dictionary_encode()
    return _of_dictionary(rows, levels, known.dictionary, known.indices.to_numpy(), times, bounds)


def _indices(place: pa.Field, column: pa.ChunkedArray) -> _Column:
    """Strings of a dictionary; none is null."""
    column = column.unify_dictionaries()
    indices = np.concatenate([chunk.indices.to_numpy() for chunk in column.chunks])
    dictionary = column.chunk(0).dictionary
    once = np.ones(len(indices), np.int64)
    return _of_dictionary(len(indices), _no_nulls(place, len(indices)), dictionary, indices, once, ())


def _of_dictionary(
    rows: int, levels: bytes, dictionary: pa.Array, indices: Array, times: Array, bounds: tuple[Field, ...]
) -> _Column:
    width = max(1, (len(dictionary) - 1).bit_length())
    header = nested(
        pf.PageHeader.DICTIONARY_PAGE_HEADER,
        i32(pf.DictionaryPageHeader.NUM_VALUES, len(dictionary)),
        i32(pf.DictionaryPageHeader.ENCODING, Encoding.PLAIN),
    )
    words = _Page(PageType.DICTIONARY_PAGE, _plain([dictionary]), header)
    data = _data(Encoding.RLE_DICTIONARY, rows, levels + bytes([width]) + _hybrid(indices, times, width))
    return _Column(rows, (words, data), (Encoding.PLAIN, Encoding.RLE, Encoding.RLE_DICTIONARY), bounds)


def _one_by_one(place: pa.Field, column: pa.ChunkedArray, statistics: bool) -> _Column:
    rows, chunks = len(column), column.chunks
    levels = _no_nulls(place, rows)
    if column.null_count:
        valid = np.concatenate([_valid(chunk) for chunk in chunks])
        levels, chunks = _levels(valid, np.ones(rows, np.int64), 1), [chunk.drop_null() for chunk in chunks]
    bounds = _bounds(pa.concat_arrays(chunks), column.null_count) if statistics else ()
    if pa.types.is_floating(place.type):
        return _one_page(Encoding.BYTE_STREAM_SPLIT, rows, _split(chunks, levels), bounds)
    return _one_page(Encoding.PLAIN, rows, levels + bytes(_plain(chunks)), bounds)


def _lists(column: pa.ChunkedArray) -> _Column:
    """Lists of numbers, none of which is null; a whole list may be."""
    if column.null_count == len(column):
        nowhere = _levels(np.zeros(1, np.int32), np.array([len(column)]), 1)
        return _one_page(Encoding.PLAIN, len(column), nowhere + nowhere)
    sizes = np.concatenate([_sizes(chunk) for chunk in column.chunks])
    entries = np.maximum(sizes, 1)
    # The first entry of each row begins it, and the others go on.
    begins, counts = np.tile(_BEGIN_AND_GO_ON, len(entries)), np.stack([np.ones_like(entries), entries - 1], axis=1)
    # Of no list 0, of an empty one 1, of a number 3.
    depths = np.where(sizes > 0, 3, np.where(sizes == 0, 1, 0))
    levels = _levels(begins, counts.reshape(-1), 1) + _levels(depths, entries, 2)
    count = int(entries.sum())
    numbers = _split([chunk.flatten() for chunk in column.chunks], levels)
    return _one_page(Encoding.BYTE_STREAM_SPLIT, count, numbers)


def _sizes(lists: pa.ListArray) -> Array:
    """How many numbers each list has; -1 where it is null."""
    sizes = np.diff(lists.offsets.to_numpy())
    return sizes if lists.null_count == 0 else np.where(_valid(lists), sizes, -1)


def _valid(values: pa.Array) -> Array:
    valid: Array = values.is_valid().to_numpy(zero_copy_only=False)
    return valid


def _one_page(encoding: int, entries: int, body: bytes | Array, bounds: tuple[Field, ...] = ()) -> _Column:
    """A column without a dictionary."""
    return _Column(entries, (_data(encoding, entries, body),), (encoding, Encoding.RLE), bounds)


def _data(encoding: int, entries: int, body: bytes | Array) -> _Page:
    header = nested(
        pf.PageHeader.DATA_PAGE_HEADER,
        i32(pf.DataPageHeader.NUM_VALUES, entries),
        i32(pf.DataPageHeader.ENCODING, encoding),
        i32(pf.DataPageHeader.DEFINITION_LEVEL_ENCODING, Encoding.RLE),
        i32(pf.DataPageHeader.REPETITION_LEVEL_ENCODING, Encoding.RLE),
    )
    return _Page(PageType.DATA_PAGE, body, header)


def _no_nulls(place: pa.Field, rows: int) -> bytes:
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
    counted = i64(pf.Statistics.NULL_COUNT, nulls)
    if not len(values):
        return (counted,)
    numbers = _numbers(values)
    largest = pf.binary(pf.Statistics.MAX_VALUE, numbers.max().tobytes())
    return counted, largest, pf.binary(pf.Statistics.MIN_VALUE, numbers.min().tobytes())


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
