"""Writing option values into the plain data of a spec."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from alphaswarm_rl.core.errors import OptionError, UnknownComponent
from alphaswarm_rl.core.hashing import canonical_fields
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.core.wording import agent_name
from alphaswarm_rl.options.sources import Given

if TYPE_CHECKING:
    from alphaswarm_rl.core.component import RLComponent

#: The environment that any Gymnasium id is an id of.
_ANY_GYMNASIUM_ENV = "gymnasium"


@dataclass(frozen=True)
class Written:
    """One value that was written: where, by which face, and what the user should know about it."""

    path: str
    source: str
    notices: tuple[str, ...] = ()


def write_all(data: JsonObject, values: Iterable[Given]) -> list[Written]:
    """Writes the values into the data, in place; a change of class comes before the new class's parameters."""
    ordered = sorted(values, key=lambda given: given.option.path not in {"env", "agent.class"})
    return [_write(data, given) for given in ordered]


def set_value(data: JsonObject, path: str, value: object) -> None:
    """Writes a value at a dotted path, making the mappings on the way."""
    *parents, last = path.split(".")
    for parent in parents:
        data = data.setdefault(parent, {})
    data[last] = value


def value_at(data: JsonMapping, path: str) -> Any:
    """The value at a dotted path."""
    *parents, last = path.split(".")
    for parent in parents:
        data = data[parent]
    return data[last]


def _write(data: JsonObject, given: Given) -> Written:
    path = given.option.path
    if path == "env":
        return _write_env(data, given)
    if path == "agent.class":
        return _write_algorithm(data, given)
    if path.startswith("agent.") and data.get("agent") is None:
        raise OptionError(
            f"option {given.option.key} ({given.source})",
            "the spec has no agent that could take it",
            "Choose one: --algorithm ppo.",
        )
    set_value(data, path, given.value)
    return Written(path, given.source)


def _write_env(data: JsonObject, given: Given) -> Written:
    from alphaswarm_rl.core import catalogue

    old = data.get("env")
    try:
        cls, kwargs = catalogue.expand("env", given.value, {})
        alias, path = cls.rl_alias, "env.kwargs.id" if cls.rl_alias == _ANY_GYMNASIUM_ENV and kwargs else "env.class"
    except UnknownComponent:
        # Whatever the catalogue does not know is a Gymnasium id; that environment says so if it is none.
        alias, kwargs, path = _ANY_GYMNASIUM_ENV, {"id": given.value}, "env.kwargs.id"
    kept = old["kwargs"] if old is not None and old["class"] == alias else {}
    data["env"] = {"class": alias, "kwargs": {**kept, **kwargs}}
    return Written(path, given.source)


def _write_algorithm(data: JsonObject, given: Given) -> Written:
    from alphaswarm_rl.core import catalogue

    try:
        cls, kwargs = catalogue.expand("agent", given.value, {})
        named = catalogue.named("agent", given.value)
    except UnknownComponent as error:
        raise OptionError(
            f"option {given.option.key} ({given.source})", f"{error.what}: {error.why}", error.remedy
        ) from error
    old = data.get("agent")
    kept: JsonObject = {}
    notices: tuple[str, ...] = ()
    if old is not None and old["class"] == cls.rl_alias:
        kept = old["kwargs"]
        if named is not cls and agent_name(old) == named.rl_alias:
            kwargs = {}  # the policy that it runs already, with its parameters
    elif old is not None:
        chosen = _chosen(catalogue.get("agent", old["class"]), old["kwargs"])
        # The same words are the same meaning: n_steps of PPO and of DQN are two things.
        theirs, ours = (_descriptions(each) for each in (catalogue.get("agent", old["class"]), cls))
        kept = {name: value for name, value in chosen.items() if name in ours and ours[name] == theirs[name]}
        left = [f"{name}={value}" for name, value in chosen.items() if name not in kept]
        if left:
            notices = (f"agent {agent_name(old)} -> {named.rl_alias}: left behind {', '.join(left)}",)
    data["agent"] = {"class": cls.rl_alias, "kwargs": {**kept, **kwargs}}
    path = "agent.class" if named is cls else f"agent.kwargs.{named.rl_kind}.class"
    return Written(path, given.source, notices)


def _descriptions(cls: type[RLComponent]) -> dict[str, str]:
    # The first clause says what it is, the rest how this class takes it.
    return {
        info.alias or name: re.split("[:;.]", info.description or "")[0]
        for name, info in cls.Config.model_fields.items()
    }


def _chosen(cls: type[RLComponent], kwargs: JsonObject) -> JsonObject:
    """The parameters that somebody chose: a canonical spec also writes out those at the class's default."""
    required = {info.alias or name for name, info in cls.Config.model_fields.items() if info.is_required()}
    needed = {name: value for name, value in kwargs.items() if name in required}
    defaults = canonical_fields(cls.Config.model_validate(needed))
    return {
        name: value
        for name, value in kwargs.items()
        if name in required or name not in defaults or defaults[name] != value
    }
