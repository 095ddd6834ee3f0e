"""Column types that mean the same on SQLite and on PostgreSQL."""

from __future__ import annotations

import math
import operator
from datetime import UTC, datetime
from typing import Any, SupportsFloat, SupportsIndex

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Double
from sqlalchemy.types import TypeDecorator, TypeEngine


def utc_now() -> datetime:
    """This moment, with its time zone."""
    return datetime.now(UTC)


class UtcTime(TypeDecorator[datetime]):
    """A moment: goes in with any time zone, comes back in UTC. One without a zone is refused."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Turns the moment into UTC; SQLite stores text and would drop the zone silently."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"the moment {value.isoformat()} has no time zone")
        moved = value.astimezone(UTC)
        return moved.replace(tzinfo=None) if dialect.name == "sqlite" else moved

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Gives the zone back; PostgreSQL answers in the zone of its session."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class Number(TypeDecorator[float]):
    """A float. One that is not finite is stored as null, as SQLite does with NaN and as JSON must."""

    impl = Double
    cache_ok = True

    def process_bind_param(self, value: SupportsFloat | None, dialect: Dialect) -> float | None:
        """Takes NumPy's numbers too."""
        if value is None:
            return None
        number = float(value)
        return number if math.isfinite(number) else None


class Whole(TypeDecorator[int]):
    """A 64-bit integer. NumPy's are taken too: sqlite3 would store them as a blob without a word."""

    impl = BigInteger
    cache_ok = True

    def process_bind_param(self, value: SupportsIndex | None, dialect: Dialect) -> int | None:
        """Refuses what is not a whole number."""
        return None if value is None else operator.index(value)


class Json(TypeDecorator[Any]):
    """A JSON document; None is the database's null, and floats that are not finite are null inside it."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """PostgreSQL has a type of its own; its dialect is imported where it is used."""
        if dialect.name != "postgresql":
            return super().load_dialect_impl(dialect)
        from sqlalchemy.dialects.postgresql import JSONB

        return dialect.type_descriptor(JSONB(none_as_null=True))

    def process_bind_param(self, value: object, dialect: Dialect) -> object:
        """PostgreSQL refuses a document with NaN, SQLite would give back something that is not JSON."""
        return finite(value)


def finite(value: object) -> object:
    """`value` as plain JSON types, with null for every float that is not finite."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
