"""Values as OpenTelemetry takes them."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def plain(attributes: Mapping[str, Any]) -> dict[str, str | bool | int | float]:
    """Texts, truth values and numbers as they are, a list or mapping as JSON; what is None is left out.

    A number that is not finite is a text: JSON has none.
    """
    return {name: _plain(value) for name, value in attributes.items() if value is not None}


def _plain(value: Any) -> str | bool | int | float:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, str | bool | int | float):
        return value
    if hasattr(value, "item") and getattr(value, "ndim", 1) == 0:
        return _plain(value.item())  # a number of NumPy or torch
    return json.dumps(value, default=str) if isinstance(value, list | tuple | dict) else str(value)
