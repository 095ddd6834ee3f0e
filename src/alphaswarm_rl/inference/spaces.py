"""Gymnasium spaces as plain JSON and back, and as the text that says which spaces are equal.

A Box is `{"type": "Box", "shape": [2], "dtype": "float32", "low": -1.0, "high": [1.0, 2.0]}`: a bound is one number
where it is the same everywhere, otherwise a flat list in C order; JSON has no infinity, so that is "inf" or "-inf".
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import numpy as np
from gymnasium import spaces

from alphaswarm_rl.core.types import AnySpace, Array, JsonObject

#: A space that a file describes has at most so many numbers, and so many spaces inside each other.
MOST_NUMBERS = 1 << 22
MOST_NESTED = 8


def space_to_json(space: AnySpace) -> JsonObject:
    """A space as plain JSON; one of a kind that no agent acts in is a ValueError."""
    kind = type(space).__name__
    if isinstance(space, spaces.Box):
        bounds = {"low": _bound_to_json(space.low), "high": _bound_to_json(space.high)}
        return {"type": kind, "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.Discrete):
        return {"type": kind, "n": int(space.n), "start": int(space.start), "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiDiscrete):
        numbers = {"nvec": space.nvec.tolist(), "start": space.start.tolist()}
        return {"type": kind, **numbers, "dtype": str(space.dtype)}
    if isinstance(space, spaces.MultiBinary):
        return {"type": kind, "shape": list(space.shape)}
    if isinstance(space, spaces.Dict):
        return {"type": kind, "spaces": [[key, space_to_json(part)] for key, part in space.items()]}
    if isinstance(space, spaces.Tuple):
        return {"type": kind, "spaces": [space_to_json(part) for part in space.spaces]}
    raise ValueError(f"a space of the kind {kind} has no JSON form")


def space_from_json(data: object, *, nested: int = 0) -> AnySpace:
    """The space that JSON describes; anything else is a ValueError, and so is one too large to be meant."""
    if nested > MOST_NESTED:
        raise ValueError(f"more than {MOST_NESTED} spaces lie inside each other")
    try:
        if not isinstance(data, Mapping):
            raise TypeError("a space is a mapping")
        return _read(data, nested)
    except (KeyError, TypeError, AssertionError, OverflowError) as error:
        raise ValueError(f"{data!r:.80} describes no space: {error!r}") from error


def _read(data: Mapping[str, object], nested: int) -> AnySpace:
    kind = data["type"]
    if kind == "Box":
        shape, dtype = _shape(data["shape"]), np.dtype(_text(data["dtype"]))
        low, high = (_bound_from_json(data[name], shape, dtype) for name in ("low", "high"))
        return spaces.Box(low, high, shape, dtype.type)
    if kind == "Discrete":
        return spaces.Discrete(_whole(data["n"]), start=_whole(data["start"]), dtype=_integers(data["dtype"]))
    if kind == "MultiDiscrete":
        whole = _integers(data["dtype"])
        nvec, start = (np.array(data[name], whole) for name in ("nvec", "start"))
        return spaces.MultiDiscrete(nvec, dtype=whole, start=start)
    if kind == "MultiBinary":
        return spaces.MultiBinary(_shape(data["shape"]))
    parts = data["spaces"]
    if not isinstance(parts, list) or len(parts) > MOST_NUMBERS:
        raise ValueError("the spaces inside a space are a list")
    if kind == "Dict":
        return spaces.Dict([(_text(key), space_from_json(part, nested=nested + 1)) for key, part in parts])
    if kind == "Tuple":
        return spaces.Tuple([space_from_json(part, nested=nested + 1) for part in parts])
    raise ValueError(f"there is no space of the kind {kind!r:.40}")


def _bound_to_json(bound: Array) -> float | str | list[float | str]:
    first = bound.flat[0] if bound.size else bound.dtype.type(0)
    return _number(first) if (bound == first).all() else [_number(value) for value in bound.flat]


def _number(value: np.generic) -> float | str:
    plain: float = value.item()
    return plain if math.isfinite(plain) else str(plain)


def _bound_from_json(data: object, shape: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    values = data if isinstance(data, list) else [data]
    numbers = [float(value) if isinstance(value, str) else value for value in values]
    if isinstance(data, list):
        return np.array(numbers, dtype).reshape(shape)
    return np.full(shape, numbers[0], dtype)


def _shape(data: object) -> tuple[int, ...]:
    if not isinstance(data, list):
        raise TypeError(f"{data!r:.80} is no shape")
    shape = tuple(map(_whole, data))
    if min(shape, default=1) < 0 or math.prod(shape) > MOST_NUMBERS:
        raise ValueError(f"a space of shape {shape} is too large: it may have {MOST_NUMBERS} numbers")
    return shape


def _whole(data: object) -> int:
    if not isinstance(data, int) or isinstance(data, bool):
        raise TypeError(f"{data!r:.80} is no whole number")
    return data


def _text(data: object) -> str:
    if not isinstance(data, str):
        raise TypeError(f"{data!r:.80} is no text")
    return data


def _integers(data: object) -> type[np.integer]:
    kind = np.dtype(_text(data)).type
    if not issubclass(kind, np.integer):
        raise TypeError(f"{data!r:.80} is no type of whole numbers")
    return kind


def same_numbers(first: AnySpace, second: AnySpace) -> bool:
    """Whether networks for one space fit the other: bounds of numbers may differ, counts and choices may not."""
    if type(first) is not type(second):
        return False
    if isinstance(first, spaces.Dict) and isinstance(second, spaces.Dict):
        return first.keys() == second.keys() and all(same_numbers(first[key], second[key]) for key in first)
    if isinstance(first, spaces.Tuple) and isinstance(second, spaces.Tuple):
        pairs = zip(first.spaces, second.spaces, strict=False)
        return len(first.spaces) == len(second.spaces) and all(same_numbers(*pair) for pair in pairs)
    return first.shape == second.shape if isinstance(first, spaces.Box) else bool(first == second)


def space_signature(space: AnySpace) -> str:
    """A space as text: equal spaces have equal texts, and different ones have different texts."""
    if isinstance(space, spaces.Dict):
        return "Dict(" + ", ".join(f"{key}: {space_signature(part)}" for key, part in sorted(space.items())) + ")"
    if isinstance(space, spaces.Tuple):
        return "Tuple(" + ", ".join(map(space_signature, space.spaces)) + ")"
    if isinstance(space, spaces.Box):
        return f"Box({_values(space.low)}, {_values(space.high)}, {space.shape}, {space.dtype})"
    if isinstance(space, spaces.MultiDiscrete):
        return f"MultiDiscrete({_values(space.nvec)}, from {_values(space.start)}, {space.shape})"
    return str(space)


def _values(values: Array) -> str:
    """One number where all are equal; otherwise a digest, for an array's own text leaves out its middle."""
    first = values.flat[0]
    if (values == first).all():
        return repr(first.item())
    return "sha256:" + hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]
