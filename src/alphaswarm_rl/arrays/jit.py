"""Numba, with its cache in the user's cache folder.

Numba's own place for compiled code is beside the source, which may be read-only and belongs to nobody's cache.
`NUMBA_CACHE_DIR` goes before.
"""

from __future__ import annotations

import os
from pathlib import Path

import numba
from numba import njit as njit
from numba import prange as prange


def cache_folder() -> Path | None:
    """Where compiled code is kept; None where Numba must find a place itself."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(given) if given else Path.home() / ".cache") / "alphaswarm-rl" / "numba"
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a user without a home, or whose home cannot be written to
        return None
    return folder if os.access(folder, os.W_OK) else None


if not numba.config.CACHE_DIR and (found := cache_folder()) is not None:
    numba.config.CACHE_DIR = str(found)
