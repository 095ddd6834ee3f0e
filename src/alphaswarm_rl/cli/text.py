"""Text for terminals and pipes: plain columns, which wrap nothing and cut nothing off."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any


def as_json_text(document: Any) -> str:
    """One JSON document."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def as_json_line(document: Any) -> str:
    """One JSON document on one line."""
    return json.dumps(plain(document), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """`value` as data that JSON can hold; a number that is not finite is null, for JSON has no other way to say it."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return value


def columns(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> list[str]:
    """A table as lines, every column as wide as its widest cell."""
    cells = [list(headers), *([shown(cell) for cell in row] for row in rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def pairs(items: Mapping[str, Any]) -> list[str]:
    """Names and values as lines; what is not there (null, empty) is left out."""
    there = {name: value for name, value in items.items() if value is not None and value not in ("", [], {}, ())}
    width = max(map(len, there), default=0)
    return [f"{name.ljust(width)}  {shown(value)}" for name, value in there.items()]


def shown(value: Any) -> str:
    """One value on one line."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ", timespec="seconds").removesuffix("+00:00")
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={shown(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    return str(value).replace("\n", " ")


def size(count: int) -> str:
    """A number of bytes for people."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TiB"
