"""What an operation is: one verb as a function from settings and a frozen request to a frozen result.

Every face (command line, REST, MCP, jobs) looks operations up by name, makes the request from what it was given, calls,
and shows the result. Requests and results are frozen dataclasses of plain data, so that each has a JSON schema.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, Generic, ParamSpec, TypeVar, get_type_hints

import alphaswarm_rl.operations
from alphaswarm_rl.core.types import JsonObject

P = ParamSpec("P")
R = TypeVar("R")

_operations: dict[str, Operation[..., Any]] = {}


@dataclass(frozen=True)
class Operation(Generic[P, R]):
    """One verb; calling it runs it.

    Attributes:
        name: What it is called everywhere: the command's words joined by dots, such as `runs.list`.
        run: The function: settings, a request, and what only a live caller can hand in (progress, frames).
        changes: Whether it may change anything: ledger, lake, models, files.
    """

    name: str
    run: Callable[P, R]
    changes: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it."""
        return self.run(*args, **kwargs)

    @property
    def request(self) -> type:
        """The class of its requests."""
        names = list(inspect.signature(self.run).parameters)
        return _hint(self.run, names[1])

    @property
    def result(self) -> type:
        """The class of its results."""
        return _hint(self.run, "return")

    def schemas(self) -> tuple[JsonObject, JsonObject]:
        """The JSON schemas of request and result."""
        from pydantic import TypeAdapter

        request, result = (TypeAdapter(cls).json_schema() for cls in (self.request, self.result))
        return request, result


def operation(name: str, *, changes: bool = False) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Makes an operation of a function `(settings, request, ...) -> result`.

    Args:
        name: What it is called everywhere.
        changes: Whether it may change anything.
    """

    def decorate(function: Callable[P, R]) -> Operation[P, R]:
        assert name not in _operations, name
        made = Operation(name, function, changes)
        _operations[name] = made
        return made

    return decorate


def operations() -> dict[str, Operation[..., Any]]:
    """Every operation by name."""
    for module in iter_modules(alphaswarm_rl.operations.__path__):
        import_module(f"alphaswarm_rl.operations.{module.name}")
    return dict(sorted(_operations.items()))


def _hint(function: Callable[..., Any], name: str) -> type:
    hint: type = get_type_hints(function)[name]
    return hint
