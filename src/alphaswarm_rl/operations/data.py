"""Plain data: what requests, results and events are made of, and how it becomes a JSON document."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeAlias, dataclass_transform

from annotated_types import Ge

from alphaswarm_rl.core.types import JsonObject

#: Whole numbers of requests: one that counts something, and one that counts from 0.
Count: TypeAlias = Annotated[int, Ge(1)]
Index: TypeAlias = Annotated[int, Ge(0)]


@dataclass(frozen=True)
class Form:
    """How a class of data becomes a document, where that is not field by field.

    Attributes:
        only: The one field that is the whole document.
        apart: Fields that the document does not have: they are for whoever shows it to people.
        unless_null: Fields that are left out where they are null.
        merged: The field whose own fields stand among the others.
        keys: Keys that are no Python names, by field.
    """

    only: str | None = None
    apart: Collection[str] = ()
    unless_null: Collection[str] = ()
    merged: str | None = None
    keys: Mapping[str, str] = field(default_factory=dict)

    def document(self, values: Mapping[str, object]) -> object:
        """The document of these values, by field."""
        if self.only is not None:
            return plain(values[self.only])
        document: dict[str, object] = {}
        for name, value in values.items():
            if name == self.merged:
                document |= {str(key): item for key, item in vars(value).items()}
            elif name not in self.apart and not (value is None and name in self.unless_null):
                document[self.keys.get(name, name)] = value
        return plain(document)

    def schema(self, of_fields: JsonObject) -> JsonObject:
        """The JSON schema of such documents, from the one of all fields."""
        known = {name: found for name, found in of_fields["properties"].items() if name not in self.apart}
        if self.only is not None:
            only: JsonObject = known[self.only]
            return only
        left_out = {*self.apart, *self.unless_null, self.merged}
        schema = {
            **of_fields,
            "properties": {self.keys.get(name, name): known[name] for name in known if name != self.merged},
            "required": [self.keys.get(name, name) for name in of_fields.get("required", ()) if name not in left_out],
        }
        return schema if self.merged is None else {"allOf": [known[self.merged], schema]}


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Data:
    """The base of every request, result and event: its subclasses are frozen dataclasses, so that each has a schema."""

    form: ClassVar[Form] = Form()

    def __init_subclass__(cls, *, kw_only: bool = False, **form: Any) -> None:
        if form:
            cls.form = Form(**form)
        dataclass(frozen=True, kw_only=kw_only)(cls)


def plain(value: object) -> object:
    """`value` as data that JSON can hold; a number that is not finite is null, for JSON has no other way to say it."""
    if is_dataclass(value):
        values = {field.name: getattr(value, field.name) for field in fields(value)}
        return value.form.document(values) if isinstance(value, Data) else plain(values)
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
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds():.15g}S"
    return value
