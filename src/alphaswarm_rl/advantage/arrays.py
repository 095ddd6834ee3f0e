"""One spelling for NumPy and torch."""

from __future__ import annotations

from typing import Any

import numpy as np


def namespace(array: Any) -> Any:
    """The library that an array belongs to: NumPy or torch."""
    if isinstance(array, np.ndarray | np.generic):
        return np
    import torch

    return torch
