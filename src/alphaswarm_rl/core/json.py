"""JSON of others, and the limits of all documents of others: in depth, in the size of integers, in their text."""

from __future__ import annotations

import json
from typing import Any

#: Mappings and lists that may lie inside each other; no document of ours comes near.
MOST_NESTED = 64
#: Bits of an integer: those of generators have 128.
_MOST_BITS = 256

_TOO_DEEP = f"it is nested too deeply: {MOST_NESTED} lists and mappings inside each other are the most"


def load_json(content: str | bytes) -> Any:
    """The data in a JSON document; one that is none, or beyond the limits, is a ValueError."""
    try:
        data = json.loads(content)
    except RecursionError as error:
        raise ValueError(_TOO_DEEP) from error
    refuse_excess(data)
    return data


def refuse_excess(data: object) -> None:
    """Refuses plain data that is nested too deeply, has integers of too many digits, or text that is not Unicode."""
    level = [data]
    for _ in range(MOST_NESTED + 1):
        inside: list[object] = []
        for value in level:
            if isinstance(value, dict):
                inside += value
                inside += value.values()
            elif isinstance(value, list):
                inside += value
            elif isinstance(value, str):
                _refuse_lone_surrogates(value)
            elif isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ValueError(f"it has an integer of {value.bit_length()} bits, and {_MOST_BITS} are the most")
        if not inside:
            return
        level = inside
    raise ValueError(_TOO_DEEP)


def _refuse_lone_surrogates(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"the text {text!a:.60} is not Unicode: it holds half of a character") from error
