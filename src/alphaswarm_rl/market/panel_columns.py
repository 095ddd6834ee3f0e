"""Names of columns: one meaning, and the spellings that are read as it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from alphaswarm_rl.core.errors import DataError, nearest

#: Spellings by meaning. Case does not matter, and blanks and hyphens are underscores.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "timestamp": ("timestamp", "date", "datetime", "time", "ts"),
    "asset": ("asset", "tic", "symbol", "ticker"),
    "open": ("open",),
    "high": ("high",),
    "low": ("low",),
    "close": ("close",),
    "adj_close": ("adj_close", "adjusted_close", "adjclose", "adjcp"),
    "volume": ("volume",),
    "dividends": ("dividends", "dividend"),
    "splits": ("splits", "stock_splits", "split"),
    "tradable": ("tradable",),
}

_MEANINGS = {spelling: meaning for meaning, spellings in SPELLINGS.items() for spelling in spellings}


def canonical(name: Any) -> str | None:
    """The meaning of a column's name; None where it has none here."""
    return _MEANINGS.get(str(name).strip().lower().replace(" ", "_").replace("-", "_"))


def by_meaning(names: Iterable[Any]) -> dict[str, Any]:
    """The column of each meaning that is there; two columns of one meaning are an error."""
    found: dict[str, Any] = {}
    for name in names:
        meaning = canonical(name)
        if meaning is None:
            continue
        if meaning in found:
            raise DataError(
                f"columns {str(found[meaning])!r} and {str(name)!r}",
                f"both mean {meaning!r}",
                "Rename or drop one of them.",
            )
        found[meaning] = name
    return found


def require_column(names: Iterable[Any], wanted: str, meaning: str) -> None:
    """Refuses a frame without a column of that name."""
    known = [str(name) for name in names]
    if wanted not in known:
        raise DataError(f"column {wanted!r} ({meaning})", "the data has no such column", nearest(wanted, known))
