"""A NumPy generator's state as plain JSON data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.types import JsonMapping, JsonObject


def generator_state(generator: np.random.Generator) -> JsonObject:
    """The state of `generator`; its 128-bit numbers are written as text, which every JSON reader keeps exact."""
    numbers = generator.bit_generator.state
    state: JsonObject = _map_numbers(numbers, lambda value: str(value) if isinstance(value, int) else value)
    return state


def set_generator_state(generator: np.random.Generator, state: JsonMapping) -> None:
    """Puts `generator` where `generator_state` found it."""
    kind = type(generator.bit_generator).__name__
    if state.get("bit_generator") != kind:
        raise CheckpointError(
            "the state of a random generator",
            f"it is of {state.get('bit_generator')!r}, the generator is {kind!r}",
            "Load a checkpoint that this version wrote.",
        )
    try:
        generator.bit_generator.state = _map_numbers(
            state, lambda value: int(value) if isinstance(value, str) and value.isdigit() else value
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(
            "the state of a random generator", f"it cannot be read: {error}", "Load a checkpoint that is whole."
        ) from error


def _map_numbers(value: object, convert: Callable[[object], object]) -> Any:
    if isinstance(value, Mapping):
        return {key: _map_numbers(item, convert) for key, item in value.items()}
    return convert(value)
