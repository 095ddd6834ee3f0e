"""Text for terminals and pipes: JSON, and plain columns, which wrap nothing and cut nothing off."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import cast

from alphaswarm_rl.core.control_characters import escaped
from alphaswarm_rl.operations.data import Data, plain
from alphaswarm_rl.operations.events import ArgumentsResolved, Event, Notice, Progress, SpecResolved

#: As many digits of a run's id as tables show.
SHORT_ID = 8


def as_json_text(document: object) -> str:
    """One JSON document."""
    return json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)


def as_json_line(document: object) -> str:
    """One JSON document on one line."""
    return json.dumps(plain(document), ensure_ascii=False, allow_nan=False)


def columns(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    """A table as lines, every column as wide as its widest cell."""
    cells = [[shown(cell) for cell in row] for row in (headers, *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(headers))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def pairs(items: Mapping[str, object] | Data) -> list[str]:
    """Names and values as lines; null and what is empty are left out."""
    if isinstance(items, Data):
        items = cast("Mapping[str, object]", plain(items))
    filled = {
        shown(name): value for name, value in items.items() if value is not None and value not in ("", [], {}, ())
    }
    width = max(map(len, filled), default=0)
    return [f"{name.ljust(width)}  {shown(value)}" for name, value in filled.items()]


def shown(value: object) -> str:
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
        return ", ".join(f"{shown(key)}={shown(item)}" for key, item in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(shown(item) for item in value)
    # Before a table is laid out: an escape is wider than what it stands for.
    return escaped(str(value).replace("\n", " "))


def as_written(value: object) -> str:
    """One value as it stands in a document: lists and mappings as JSON."""
    return as_json_line(value) if isinstance(value, list | dict) else shown(value)


def event_lines(event: Event) -> list[str]:
    """What an operation tells on its way, as lines."""
    if isinstance(event, Notice | Progress):
        return [event.text]
    if isinstance(event, SpecResolved):
        changes = [f"  {path} = {shown(new['value'])}  ({new['source']})" for path, new in event.overrides.items()]
        return [f"spec {event.slug}  spec_hash {event.spec_hash}", *changes]
    if isinstance(event, ArgumentsResolved):
        return [f"  {name} = {given['value']}  ({given['source']})" for name, given in event.arguments.items()]
    value = "" if event.value is None else f" {event.value:.6g}"
    run = "" if event.run_id is None else f"  run {event.run_id[:SHORT_ID]}"
    error = "" if event.error is None else f"  {event.error}"
    params = ", ".join(f"{path}={as_written(param)}" for path, param in event.params.items())
    return [f"trial {event.number}: {event.state}{value}  ({params}){run}{error}"]
