"""The metadata of Parquet files, as far as `parquet_writer` needs it: Thrift's compact protocol and names of fields.

Page headers and the footer of a Parquet file are Thrift structs. In the compact protocol a struct is a row of fields in
ascending order of their numbers: each is the distance from the number before and the type in one byte, then the value.
The classes below name the numbers and values of the format's `parquet.thrift`, under its own names.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Types of a field, and of a list's entries. A boolean field is its type, and has no value.
_TRUE, _I32, _I64, _BINARY, _LIST, _STRUCT = 1, 5, 6, 8, 9, 12

#: Number, type and value of a field.
Field = tuple[int, int, bytes]


class Type:
    """How values are stored."""

    BOOLEAN, INT32, INT64, FLOAT, DOUBLE, BYTE_ARRAY = 0, 1, 2, 4, 5, 6


class Encoding:
    """How the values of a page are written."""

    PLAIN, RLE, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 0, 3, 8, 9


class PageType:
    """What a page holds."""

    DATA_PAGE, DICTIONARY_PAGE = 0, 2


class Repetition:
    """Whether a column has a value in every row, in some, or many in one."""

    REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


class Codec:
    """How pages are compressed."""

    UNCOMPRESSED, ZSTD = 0, 6


class ConvertedType:
    """What values mean, the older way of saying it."""

    UTF8, LIST, TIMESTAMP_MICROS = 0, 3, 10


class LogicalType:
    """What values mean, the newer way; a union."""

    STRING, LIST, TIMESTAMP = 1, 3, 8


class TimestampType:
    """Fields of a timestamp's meaning."""

    IS_ADJUSTED_TO_UTC, UNIT = 1, 2


class TimeUnit:
    """A union."""

    MICROS = 2


class SchemaElement:
    """Fields of a column in the schema."""

    TYPE, REPETITION_TYPE, NAME, NUM_CHILDREN, CONVERTED_TYPE, LOGICAL_TYPE = 1, 3, 4, 5, 6, 10


class FileMetaData:
    """Fields of the footer."""

    VERSION, SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUE_METADATA, CREATED_BY, COLUMN_ORDERS = 1, 2, 3, 4, 5, 6, 7


class ColumnOrder:
    """How values compare; a union."""

    TYPE_ORDER = 1


class KeyValue:
    """Fields of an entry beside the columns."""

    KEY, VALUE = 1, 2


class RowGroup:
    """Fields of a row group."""

    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS, TOTAL_COMPRESSED_SIZE = 1, 2, 3, 6


class ColumnChunk:
    """Fields of a column in a row group."""

    FILE_OFFSET, META_DATA = 2, 3


class ColumnMetaData:
    """Fields of what a column chunk holds."""

    TYPE, ENCODINGS, PATH_IN_SCHEMA, CODEC, NUM_VALUES = 1, 2, 3, 4, 5
    TOTAL_UNCOMPRESSED_SIZE, TOTAL_COMPRESSED_SIZE = 6, 7
    DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET, STATISTICS = 9, 11, 12


class Statistics:
    """Fields of the least and the largest value."""

    NULL_COUNT, MAX_VALUE, MIN_VALUE = 3, 5, 6


class PageHeader:
    """Fields of the header before a page."""

    TYPE, UNCOMPRESSED_PAGE_SIZE, COMPRESSED_PAGE_SIZE, DATA_PAGE_HEADER, DICTIONARY_PAGE_HEADER = 1, 2, 3, 5, 7


class DataPageHeader:
    """Fields of a page of values."""

    NUM_VALUES, ENCODING, DEFINITION_LEVEL_ENCODING, REPETITION_LEVEL_ENCODING = 1, 2, 3, 4


class DictionaryPageHeader:
    """Fields of a page of a dictionary's words."""

    NUM_VALUES, ENCODING = 1, 2


def struct(*fields: Field) -> bytes:
    """A struct, or a union; its fields in ascending order of their numbers."""
    found, before = bytearray(), 0
    for number, type_, value in fields:
        found.append((number - before) << 4 | type_)
        found += value
        before = number
    return bytes(found) + b"\0"


def i32(field: int, value: int) -> Field:
    """A field with a number of up to 32 bits."""
    return field, _I32, _integer(value)


def i64(field: int, value: int) -> Field:
    """A field with a number of up to 64 bits."""
    return field, _I64, _integer(value)


def true(field: int) -> Field:
    """A field that is true."""
    return field, _TRUE, b""


def binary(field: int, value: bytes) -> Field:
    """A field with bytes, or with text as UTF-8."""
    return field, _BINARY, _bytes(value)


def nested(field: int, *fields: Field) -> Field:
    """A field with a struct of those fields."""
    return field, _STRUCT, struct(*fields)


def structs(field: int, entries: Sequence[bytes]) -> Field:
    """A field with a list of structs."""
    return field, _LIST, _list(_STRUCT, entries)


def i32s(field: int, values: Sequence[int]) -> Field:
    """A field with a list of numbers."""
    return field, _LIST, _list(_I32, [_integer(value) for value in values])


def binaries(field: int, values: Sequence[bytes]) -> Field:
    """A field with a list of bytes."""
    return field, _LIST, _list(_BINARY, [_bytes(value) for value in values])


def _varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; the highest bit says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _integer(number: int) -> bytes:
    """A signed number of up to 64 bits."""
    return _varint((number << 1) ^ (number >> 63))


def _bytes(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _list(type_: int, entries: Sequence[bytes]) -> bytes:
    size = len(entries)
    head = bytes([size << 4 | type_]) if size < 15 else bytes([0xF0 | type_]) + _varint(size)
    return head + b"".join(entries)
