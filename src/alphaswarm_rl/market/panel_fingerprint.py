"""The fingerprint of a panel: SHA-256 over canonical bytes.

Two panels have one fingerprint exactly when they hold the same names, times and numbers; how they lie in memory, and
what they were read from, plays no part.

The bytes are, in this order: the line `alphaswarm-rl/panel/1`; one line of JSON with sorted keys that holds names,
flags and the shape of every array (null where it is absent); the arrays in the order of `ARRAYS`, row by row,
little-endian, with every NaN in one form and no negative zero.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from alphaswarm_rl.market.panel import MarketPanel

#: Arrays of a panel in the order in which they are hashed.
ARRAYS = (
    "timestamps",
    "close",
    "open",
    "high",
    "low",
    "volume",
    "dividends",
    "splits",
    "tradable",
    "last_bar",
    "features",
    "feature_from",
    "market_features",
    "market_feature_from",
)

_HEADER = b"alphaswarm-rl/panel/1\n"
#: Rows turned into bytes at a time, so that hashing needs no second copy of a large panel.
_CHUNK = 4096


def fingerprint(panel: MarketPanel) -> str:
    """SHA-256 of a panel, in hexadecimal."""
    arrays = {name: getattr(panel, name) for name in ARRAYS}
    facts = {
        "assets": list(panel.assets),
        "feature_names": list(panel.feature_names),
        "market_feature_names": list(panel.market_feature_names),
        "training_only_features": sorted(panel.training_only_features),
        "adjusted": panel.adjusted,
        "periods_per_year": panel.periods_per_year,
        "bar_seconds": panel.bar_seconds,
        "stamp": panel.stamp,
        "warmup": panel.warmup,
        "arrays": {
            name: None if array is None else [_little(array).str, *array.shape] for name, array in arrays.items()
        },
    }
    digest = hashlib.sha256(_HEADER)
    digest.update(json.dumps(facts, sort_keys=True, separators=(",", ":"), allow_nan=False).encode() + b"\n")
    for array in arrays.values():
        if array is not None:
            for start in range(0, len(array), _CHUNK):
                digest.update(_canonical(array[start : start + _CHUNK]))
    return digest.hexdigest()


def _little(array: np.ndarray[Any, Any]) -> np.dtype[Any]:
    little: np.dtype[Any] = array.dtype.newbyteorder("<")
    return little


def _canonical(rows: np.ndarray[Any, Any]) -> bytes:
    if rows.dtype.kind == "f":
        rows = np.where(np.isnan(rows), rows.dtype.type(np.nan), rows + rows.dtype.type(0))
    return np.ascontiguousarray(rows, dtype=_little(rows)).tobytes()
