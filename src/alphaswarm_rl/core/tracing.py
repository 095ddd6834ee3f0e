"""Spans: nothing until telemetry installs itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

SpanFactory = Callable[..., AbstractContextManager[Any]]

_factory: SpanFactory | None = None


def install(factory: SpanFactory | None) -> None:
    """Sets who makes spans; None turns them off."""
    global _factory
    _factory = factory


def span(name: str, **attributes: Any) -> AbstractContextManager[Any]:
    """A span around a block of work."""
    return nullcontext() if _factory is None else _factory(name, **attributes)
