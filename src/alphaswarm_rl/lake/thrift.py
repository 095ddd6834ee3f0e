"""Thrift's compact protocol, as far as the footers and page headers of Parquet need it to be written."""

from __future__ import annotations

from collections.abc import Sequence

#: Types of a field, and of a list's entries. A boolean field is its type, and has no value.
TRUE, I32, I64, BINARY, LIST, STRUCT = 1, 5, 6, 8, 9, 12

#: Number, type and value of a field.
Field = tuple[int, int, bytes]


def varint(number: int) -> bytes:
    """Seven bits to a byte, the lowest first; the highest bit says that there are more."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def integer(number: int) -> bytes:
    """A signed number of up to 64 bits."""
    return varint((number << 1) ^ (number >> 63))


def binary(data: bytes) -> bytes:
    """Bytes, or text as UTF-8."""
    return varint(len(data)) + data


def listed(type_: int, entries: Sequence[bytes]) -> bytes:
    """A list of entries of one type."""
    size = len(entries)
    head = bytes([size << 4 | type_]) if size < 15 else bytes([0xF0 | type_]) + varint(size)
    return head + b"".join(entries)


def struct(*fields: Field) -> bytes:
    """A struct, or a union; its fields in ascending order of their numbers."""
    found, before = bytearray(), 0
    for number, type_, value in fields:
        found.append((number - before) << 4 | type_)
        found += value
        before = number
    return bytes(found) + b"\0"
