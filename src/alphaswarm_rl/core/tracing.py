"""Spans: nothing until telemetry installs itself.

A component that wants to be seen says `with span("fit"):` or `@span("fit")`. Whether anybody looks is decided when the
block is entered, so a function that was decorated at import time is traced once telemetry comes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ContextDecorator
from types import TracebackType
from typing import Any, TypeVar, overload

from alphaswarm_rl.core.types import JsonMapping

#: Adds attributes to a span that is open; None where it is not kept.
Adder = Callable[[Mapping[str, Any]], None] | None
#: Makes a span of a name and attributes.
SpanFactory = Callable[[str, Mapping[str, Any]], AbstractContextManager[Adder]]

Function = TypeVar("Function", bound=Callable[..., Any])

_factory: SpanFactory | None = None


def install(factory: SpanFactory | None) -> SpanFactory | None:
    """Sets who makes spans, and gives who did; None turns them off."""
    global _factory
    before, _factory = _factory, factory
    return before


class Span(ContextDecorator):
    """A block of work, or each call of a function."""

    __slots__ = ("_add", "_attributes", "_name", "_open")

    def __init__(self, name: str, attributes: JsonMapping) -> None:
        self._name = name
        self._attributes = attributes
        self._open: AbstractContextManager[Adder] | None = None
        self._add: Adder = None

    def set(self, **attributes: object) -> None:
        """Adds what is only known inside."""
        if self._add is not None:
            self._add(attributes)

    def _recreate_cm(self) -> Span:
        # Each call of a decorated function is a span of its own, in recursion and in threads too.
        return Span(self._name, self._attributes)

    def __enter__(self) -> Span:
        if _factory is not None:
            self._open = _factory(self._name, self._attributes)
            self._add = self._open.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        opened, self._open, self._add = self._open, None, None
        if opened is not None:
            opened.__exit__(kind, error, traceback)


@overload
def span(name: str, /, **attributes: object) -> Span: ...


@overload
def span(name: Function, /) -> Function: ...


def span(name: str | Function, /, **attributes: object) -> Span | Function:
    """A span, as a context manager or as a decorator; nothing while nobody looks.

    Args:
        name: What the work is called; few different names, so that they can be compared. `@span` alone takes the
            function's own.
        attributes: What else is known of it: texts, numbers, truth values.
    """
    return Span(name, attributes) if isinstance(name, str) else Span(name.__qualname__, attributes)(name)
