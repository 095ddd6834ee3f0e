"""The base of everything that is declared: frozen, closed to unknown keys, strict about numbers."""

from __future__ import annotations

import math
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.control_characters import control_character
from alphaswarm_rl.core.errors import nearest
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.hashing import LARGEST_EXACT_INTEGER, birth_default, is_added


class FrozenModel(BaseModel):
    """A pydantic model that cannot change, names the nearest key for a wrong one, and takes no NaN."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        validate_default=True,
        populate_by_name=True,
        serialize_by_alias=True,
        protected_namespaces=(),
        # Most classes of a module that is imported are never used: their validators are built when they are.
        defer_build=True,
    )

    @model_validator(mode="before")
    @classmethod
    def _fill_in_births(cls, data: object, info: ValidationInfo) -> Any:
        # A stored document that lacks a field is older than the field: it means what the field was born with, while
        # in a document that somebody writes today it means today's default.
        if isinstance(data, dict) and (info.context or {}).get("stored"):
            births = {
                field.alias or name: birth_default(field) for name, field in cls.model_fields.items() if is_added(field)
            }
            return {**births, **data}
        return data

    @field_validator("*", mode="after")
    @classmethod
    def _refuse_what_nobody_can_mean(cls, value: object) -> Any:
        # Free mappings are typed by nobody; what JSON cannot say would be hashed as something else.
        if isinstance(value, dict | int):
            _check_json(value)
        if isinstance(value, Path):
            _check_path(value)
        return value

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_a_bool_for_a_number(cls, value: object, info: ValidationInfo) -> Any:
        # pydantic reads true as 1; a spec that says `n_envs: true` is wrong, not 1.
        if isinstance(value, bool) and info.field_name is not None:
            kinds = _scalar_types(cls.model_fields[info.field_name].annotation)
            if kinds & {int, float} and bool not in kinds:
                raise PydanticCustomError(
                    "bool_for_number", "a number is needed, not {value}", {"value": str(value).lower()}
                )
        return value


def _plain_text(text: str, info: ValidationInfo) -> str:
    # What was stored before this was checked stays readable.
    why = None if (info.context or {}).get("stored") else control_character(text)
    if why is not None:
        raise PydanticCustomError("control_character", "{why}", {"why": why})
    return text


#: The field for a name: text without control characters.
PlainText = Annotated[str, AfterValidator(_plain_text)]


def _check_json(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise PydanticCustomError("not_json", "a number is not finite", {})
    if isinstance(value, int) and abs(value) > LARGEST_EXACT_INTEGER:
        raise PydanticCustomError("too_large", "a whole number is at most {most}", {"most": LARGEST_EXACT_INTEGER})
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise PydanticCustomError("not_json", "the key {key} is not text", {"key": repr(key)})
            _check_json(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _check_json(item)
    elif not isinstance(value, str | int | float | None | BaseModel):
        raise PydanticCustomError("not_json", "{kind} is not JSON data", {"kind": type(value).__name__})


def _check_path(path: Path) -> None:
    try:
        checked_path(path.expanduser())
    except (ValueError, RuntimeError) as error:  # RuntimeError: the home folder of a user who is not there
        raise PydanticCustomError("path", "{why}", {"why": str(error)}) from error


def _scalar_types(annotation: object) -> set[Any]:
    if get_origin(annotation) in (Union, UnionType):
        return {kind for arg in get_args(annotation) for kind in _scalar_types(arg)}
    return {annotation} if isinstance(annotation, type) else set()


def explain(error: ValidationError, model: type[BaseModel]) -> str:
    """Every mistake in one readable line, each with the path to it; an unknown key with the nearest known one."""
    lines = []
    for detail in error.errors(include_url=False):
        path = ".".join(str(part) for part in detail["loc"] if not str(part).startswith("function-"))
        value = detail.get("input")
        shown = "" if isinstance(value, dict | list) or detail["type"] in _SELF_EXPLAINING else f" (got {_show(value)})"
        message = detail["msg"].removeprefix("Value error, ")
        if detail["type"] == "extra_forbidden":
            *parents, key = detail["loc"]
            path = ".".join(map(str, parents))
            message = f"unknown key {key!r}. {_nearest_key(model, parents, str(key))}".rstrip(".")
        lines.append(f"{path}: {message}{shown}" if path else f"{message}{shown}")
    return "; ".join(dict.fromkeys(lines))


_SELF_EXPLAINING = {"extra_forbidden", "not_json", "bool_for_number", "component", "missing"}


def _nearest_key(model: type[BaseModel], parents: list[int | str], key: str) -> str:
    for part in parents:
        fields = {field.alias or name: field for name, field in model.model_fields.items()}
        if str(part) in fields:
            model = _model_in(fields[str(part)].annotation) or model
    return nearest(key, {field.alias or name for name, field in model.model_fields.items()})


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for found in map(_model_in, get_args(annotation)) if found is not None), None)


def _show(value: object) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return "a number that is not finite"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
