"""What an operation is: one verb as a function from settings and a frozen request to a frozen result.

Every face (command line, REST, MCP, jobs) makes the request from what it was given, calls, and shows the result.
Requests and results are frozen dataclasses of plain data, so that each has a JSON schema. What only a caller in the
same process can hand in (a listener, environment variables, lines of standard input) are keyword arguments.

A module of operations may import what it works on at its top; faces import the module when the verb is called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import alphaswarm_rl.operations
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import disk_error
from alphaswarm_rl.core.files import checked_path
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.operations.data import Data, Form

if TYPE_CHECKING:
    from alphaswarm_rl.settings import Settings

#: The first argument of an operation that may do without settings: reading wrong ones must not fail it.
LazySettings: TypeAlias = "Callable[[], Settings]"

P = ParamSpec("P")
R = TypeVar("R")

_operations: dict[str, Operation[..., Any]] = {}


class RequestError(ValueError):
    """Fields of a request that do not go together; each face reports it as a mistake in what it was given."""


@dataclass(frozen=True)
class Operation(Generic[P, R]):
    """One verb; calling it runs it.

    Attributes:
        name: What it is called everywhere: the command's words joined by dots, such as `runs.list`.
        run: The function: settings, a request, and what only a caller in the same process can hand in.
        changes: Whether it may change anything: ledger, lake, models, files.
    """

    name: str
    run: Callable[P, R]
    changes: bool

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Runs it.

        Raises:
            RequestError: A field of the request is not what its schema says.
            DiskError: A disk is full, fails, or may not be written to.
        """
        request = args[1] if len(args) > 1 else kwargs.get("request")
        if request is not None:
            self._check(request)
        # Settings that are read only where they are needed name their plug-ins then.
        catalogue.load_plugins(getattr(args[0] if args else kwargs.get("settings"), "plugins", ()))
        try:
            return self.run(*args, **kwargs)
        except OSError as error:
            ours = disk_error(error)
            if ours is None:
                raise
            for note in getattr(error, "__notes__", ()):
                ours.add_note(note)
            raise ours from error

    @property
    def purpose(self) -> str:
        """What it does, in one line."""
        return inspect.cleandoc(self.run.__doc__ or "").partition("\n")[0]

    @property
    def request(self) -> type:
        """The class of its requests."""
        return self._hint(list(inspect.signature(self.run).parameters)[1])

    @property
    def result(self) -> type:
        """The class of its results; of one item where it gives an iterator of them."""
        result = self._hint("return")
        return get_args(result)[0] if self.streams else result

    @property
    def streams(self) -> bool:
        """Whether it gives results one after the other, as an iterator."""
        return get_origin(self._hint("return")) is Iterator

    def schemas(self) -> tuple[JsonObject, JsonObject]:
        """The JSON schemas of request and result: of the documents that `plain` makes of them."""
        from pydantic import TypeAdapter
        from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
        from pydantic_core.core_schema import DataclassSchema

        class Documents(GenerateJsonSchema):
            def dataclass_schema(self, schema: DataclassSchema) -> JsonSchemaValue:
                made = super().dataclass_schema(schema)
                form = getattr(schema["cls"], "form", None)
                return form.schema(made) if isinstance(form, Form) else made

        request, result = (
            TypeAdapter(cls).json_schema(schema_generator=Documents) for cls in (self.request, self.result)
        )
        return request, result

    def _check(self, request: object) -> None:
        from pydantic import TypeAdapter, ValidationError

        from alphaswarm_rl.core.hashing import LARGEST_EXACT_INTEGER

        try:
            TypeAdapter(self.request).validate_python(vars(request))
        except ValidationError as error:
            first = error.errors()[0]
            raise RequestError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
        for name, value in vars(request).items():
            if isinstance(value, int) and abs(value) > LARGEST_EXACT_INTEGER:
                raise RequestError(f"{name}: a whole number is at most {LARGEST_EXACT_INTEGER}")
            if isinstance(value, Path):
                try:
                    checked_path(value)
                except ValueError as error:
                    raise RequestError(f"{name}: {error}") from error

    def _hint(self, name: str) -> type:
        # One annotation alone: those of other parameters may name what their modules import for type checkers only.
        alone = SimpleNamespace(__annotations__={name: self.run.__annotations__[name]})
        hint: type = get_type_hints(alone, vars(import_module(self.run.__module__)))[name]
        return hint


class NoArguments(Data):
    """The request of an operation that has nothing to be asked but to run."""


NO_ARGUMENTS = NoArguments()


class NamedRun(Data):
    """A run by its id, the beginning of it, or latest."""

    run: str


class NamedRuns(Data):
    """Runs by their ids, beginnings of them, or latest; none means all of them."""

    runs: tuple[str, ...] = ()


def operation(name: str, *, changes: bool = False) -> Callable[[Callable[P, R]], Operation[P, R]]:
    """Makes an operation of a function `(settings, request, *, ...) -> result`.

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
