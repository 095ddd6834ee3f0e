"""What values options take, and how each is read; one reader serves every face."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from alphaswarm_rl.core.control_characters import control_character
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.spec.init_from import named_weights

T = TypeVar("T")


@dataclass(frozen=True)
class OptionType:
    """The values an option takes.

    Attributes:
        name: How listings call it, such as `integer` or `grpc | http`.
        wants: The same for a sentence, such as "an integer".
        nix: The type of the Nix module system.
        read: From a text or an already typed value to the value; a ValueError says why not.
        choices: Every value, where they can be counted.
    """

    name: str
    wants: str
    nix: str
    read: Callable[[Any], Any]
    choices: tuple[str, ...] = ()

    @property
    def is_boolean(self) -> bool:
        """Whether its flag is a pair `--x/--no-x`."""
        return self is BOOLEAN


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not a text")  # noqa: TRY004  (readers raise ValueError alone)
    if (why := control_character(value)) is not None:
        raise ValueError(why)
    return value


def _path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"{value!r} is not a path")
    return checked_path(value)


def _integer(value: object) -> int:
    try:
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise TypeError
        return int(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{value!r} is not an integer") from error


def _number(value: object) -> float:
    try:
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{value!r} is not a number") from error
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is not finite")
    return number


_WORDS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _boolean(value: object) -> bool:
    word = str(value).strip().lower()
    if word not in _WORDS:
        raise ValueError(f"{value!r} is neither true nor false")
    return _WORDS[word]


def _list(value: object, item: Callable[[object], T]) -> tuple[T, ...]:
    if isinstance(value, str):
        try:
            value = load_json(value)
        except ValueError as error:
            raise ValueError(f"{value!r} is not a JSON list") from error
    if not isinstance(value, list | tuple):
        raise ValueError(f"{value!r} is not a list")  # noqa: TRY004
    return tuple(item(part) for part in value)


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str) and not value.lstrip().startswith("["):
        words = [part.split() for part in value.split(",")]
        if not all(words):
            raise ValueError(f"{value!r} has an empty name in it")
        return tuple(word for part in words for word in part)
    return tuple(part for item in _list(value, _text) for part in _texts(item))


def _integers(value: object) -> tuple[int, ...]:
    return _list(value, _integer)


def _bounds(value: object) -> float | tuple[float, ...]:
    # One number c means the pair [-c, c]; the spec writes the pair out.
    if isinstance(value, list | tuple) or (isinstance(value, str) and value.lstrip().startswith("[")):
        pair = _list(value, _number)
        if len(pair) != 2:
            raise ValueError(f"{value!r} is not a pair")
        return pair
    return _number(value)


def _seed(value: object) -> int | str:
    return "random" if value == "random" else _integer(value)


def _strategy(value: object) -> str:
    # The option was a switch once: on means running statistics, off none.
    word = str(value).strip().lower()
    if word in _WORDS:
        return "running" if _WORDS[word] else "none"
    return _one_of(word, _STRATEGIES)


def _protocol(value: object) -> str:
    # OpenTelemetry writes what is carried over HTTP too.
    word = str(value).strip().lower()
    return "http" if word == "http/protobuf" else _one_of(word, _PROTOCOLS)


def _weights(value: object) -> Any:
    return named_weights(value if isinstance(value, Mapping) else _text(value))


def _one_of(value: object, choices: tuple[str, ...]) -> str:
    for choice in choices:
        if str(value).lower() == choice.lower():
            return choice
    raise ValueError(f"{value!r} is not a choice")


def choice(*choices: str, read: Callable[[object], object] | None = None) -> OptionType:
    """One of a few words, in any case."""
    quoted = " ".join(f'"{word}"' for word in choices)
    return OptionType(
        name=" | ".join(choices),
        wants=f"one of {', '.join(choices)}",
        nix=f"lib.types.enum [ {quoted} ]",
        read=read or (lambda value: _one_of(value, choices)),
        choices=choices,
    )


def or_null(type_: OptionType) -> OptionType:
    """The same values and null, which a text face writes as the word null."""

    def read(value: object) -> Any:
        return None if isinstance(value, str) and value.lower() == "null" else type_.read(value)

    inner = f"({type_.nix})" if " " in type_.nix else type_.nix
    return replace(
        type_, name=f"{type_.name} | null", wants=f"{type_.wants} or null", nix=f"lib.types.nullOr {inner}", read=read
    )


_STRATEGIES = ("none", "running", "fixed")
_PROTOCOLS = ("grpc", "http")

TEXT = OptionType("text", "a text", "lib.types.str", _text)
#: Text in Nix too: its own path type takes absolute paths alone, and ours are read as below the home folder.
PATH = OptionType("path", "a path", "lib.types.str", _path)
INTEGER = OptionType("integer", "an integer", "lib.types.int", _integer)
NUMBER = OptionType("number", "a number", "lib.types.float", _number)
#: Text in Nix, whose number literals know no bare exponent such as 3e-4.
SCIENTIFIC = OptionType("number", "a number such as 3e-4", "lib.types.str", _number)
BOOLEAN = OptionType("boolean", "true or false", "lib.types.bool", _boolean)
#: A flag of it may be given again.
TEXTS = OptionType("list of texts", "names, or a JSON list of them", "lib.types.listOf lib.types.str", _texts)
INTEGERS = OptionType("list of integers", "a JSON list such as [64, 64]", "lib.types.listOf lib.types.int", _integers)
BOUNDS = OptionType(
    "number | pair",
    "a number or a JSON pair such as [-10, 10]",
    "lib.types.either lib.types.float (lib.types.listOf lib.types.float)",
    _bounds,
)
SEED = OptionType(
    "integer | random", "an integer, random", 'lib.types.either lib.types.int (lib.types.enum [ "random" ])', _seed
)
STRATEGY = choice(*_STRATEGIES, read=_strategy)
PROTOCOL = choice(*_PROTOCOLS, read=_protocol)

WEIGHTS = OptionType("run | model:ID | folder", "a run, model:ID or the folder of a checkpoint", TEXT.nix, _weights)

_PLAIN = {str: TEXT, int: INTEGER, float: NUMBER, bool: BOOLEAN, Path: PATH}


def type_of(annotation: type | UnionType | None) -> OptionType:
    """The option type of a declared field's annotation."""
    if get_origin(annotation) in (Union, UnionType):
        (inner,) = (part for part in get_args(annotation) if part is not NoneType)
        return or_null(type_of(inner))
    if get_origin(annotation) is Literal:
        return choice(*get_args(annotation))
    assert isinstance(annotation, type)
    return _PLAIN[annotation]
