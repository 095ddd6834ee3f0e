"""How an observation becomes a window (steps, features), the oldest step first.

A Box of two dimensions is taken as it is. A flat Box is cut into rows: stacked frames (`obs.stack_frames`) and the
observation `lookback_stack` lie there row by row, the oldest first. Nothing is ever padded or cut off. A flat Box in
which something else stands beside the rows, such as a portfolio's state, has no such rows: stack frames instead, each
of which is a whole observation.
"""

from __future__ import annotations

from typing import Any

from alphaswarm_rl.core.errors import ComponentError


def window_shape(space: Any, length: int | None, *, encoder: str) -> tuple[int, int]:
    """Steps and features per step of an observation space; one that has no steps is an error.

    Args:
        space: The space of one observation.
        length: How many rows a flat Box has; None where nobody says.
        encoder: Who wants to know, for errors.
    """
    from gymnasium import spaces

    if not isinstance(space, spaces.Box) or len(space.shape) not in (1, 2):
        raise _misfit(encoder, f"it reads steps of numbers, and the observation space is {space}", "Use `mlp` or `cnn`")
    if len(space.shape) == 2:
        if length not in (None, space.shape[0]):
            raise _misfit(
                encoder,
                f"length is {length}, and the observation has {space.shape[0]} steps of {space.shape[1]} features",
                "Leave length out",
            )
        return int(space.shape[0]), int(space.shape[1])
    width = int(space.shape[0])
    if length is None:
        raise _misfit(
            encoder,
            f"the observation is {width} numbers in one row, and nobody says how many steps that is",
            f"Set obs.stack_frames, or write encoder: {{class: {encoder}, kwargs: {{length: STEPS}}}}",
        )
    if width % length:
        raise _misfit(
            encoder,
            f"{width} numbers cannot be cut into {length} steps of one width",
            "Give a length that divides them",
        )
    return length, width // length


def _misfit(encoder: str, why: str, remedy: str) -> ComponentError:
    return ComponentError(f"encoder {encoder!r}", why, f"{remedy}.")
