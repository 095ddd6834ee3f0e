"""Canonical form and hashes: one meaning, one byte string.

Numbers are written as RFC 8785 writes them (1 and 1.0 are one number), keys are sorted, NaN is refused.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.types import JsonObject

#: The largest whole number that every reader of JSON reads as the same.
LARGEST_EXACT_INTEGER = 2**53 - 1


def sha256_text(text: str) -> str:
    """Hex SHA-256 of a text's UTF-8 bytes."""
    return hashlib.sha256(text.encode()).hexdigest()


def canonical_json(value: object) -> str:
    """`value` as RFC 8785 JSON."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return canonical_number(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, list | tuple):
        return "[" + ",".join(canonical_json(item) for item in value) + "]"
    if isinstance(value, Mapping):
        # RFC 8785 orders keys by UTF-16 code units.
        keys = sorted(value, key=lambda key: key.encode("utf-16-be"))
        return (
            "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{canonical_json(value[key])}" for key in keys) + "}"
        )
    raise TypeError(f"{type(value).__name__} has no canonical form")


def canonical_number(value: float) -> str:
    """A number as ECMAScript prints it: the shortest digits that give the same double."""
    if isinstance(value, int) and abs(value) > LARGEST_EXACT_INTEGER:
        raise SpecError(f"the integer {value}", "it is too large to be exact in JSON", "Use one below 2**53.")
    number = float(value)
    if not math.isfinite(number):
        raise SpecError(f"the number {number}", "it is not finite", "Use a finite number or null.")
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    text = "".join(map(str, digits))
    count = len(text)
    point = count + int(exponent)  # position of the decimal point counted from the first digit
    if count <= point <= 21:
        body = text + "0" * (point - count)
    elif 0 < point <= 21:
        body = f"{text[:point]}.{text[point:]}"
    elif -6 < point <= 0:
        body = "0." + "0" * -point + text
    else:
        mantissa = text if count == 1 else f"{text[0]}.{text[1:]}"
        body = f"{mantissa}e{'+' if point > 0 else '-'}{abs(point - 1)}"
    return ("-" if sign else "") + body


def plain_fields(model: BaseModel) -> JsonObject:
    """Every field of a declared model with its value as plain JSON data; reads back as the same model."""
    return model.model_dump(mode="json", by_alias=True)


def canonical_fields(model: BaseModel) -> JsonObject:
    """What is hashed of a declared model: every field with its value, default or not.

    A field added after version 1 carries `since` and the default it was `born` with (`added_field`), and is left out
    while it equals that, so that older hashes stay.
    """
    plain = plain_fields(model)
    result = {}
    for name, field in type(model).model_fields.items():
        key = field.alias or name
        if field.exclude or (is_added(field) and plain[key] == birth_default(field)):
            continue
        result[key] = _canonical_value(getattr(model, name), plain[key])
    return result


def _canonical_value(value: object, plain: object) -> object:
    if isinstance(value, Canonical):
        return value.canonical_form()
    if isinstance(value, BaseModel):
        return canonical_fields(value)
    if isinstance(value, list | tuple) and isinstance(plain, list | tuple):
        return [_canonical_value(*pair) for pair in zip(value, plain, strict=True)]
    return plain


@runtime_checkable
class Canonical(Protocol):
    """Whoever knows better than its fields what is hashed of it."""

    def canonical_form(self) -> JsonObject:
        """Plain data."""


def added_field(since: int, born: object) -> JsonObject:
    """`json_schema_extra` of a field or parameter added in version `since` with the default `born`."""
    return {"since": since, "born": born}


def is_added(field: FieldInfo) -> bool:
    """Whether a field was added after version 1."""
    return isinstance(field.json_schema_extra, dict) and "since" in field.json_schema_extra


def birth_default(field: FieldInfo) -> Any:
    """The default that an added field was born with: what its absence in a stored document means."""
    assert isinstance(field.json_schema_extra, dict)
    return field.json_schema_extra["born"]
