"""The memory of a recurrent policy as arrays and plain data, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import State


def memory_to_state(memory: Any) -> State:
    """What `Learner.predict` gave as memory: nothing, an array, a tensor, or a tuple of them."""
    if memory is None:
        return State(data={"kinds": None})
    parts = memory if isinstance(memory, tuple) else (memory,)
    kinds = ["torch" if hasattr(part, "detach") else "numpy" for part in parts]
    arrays = {
        str(index): np.array(part.detach().cpu().numpy() if kind == "torch" else part)
        for index, (part, kind) in enumerate(zip(parts, kinds, strict=True))
    }
    return State(arrays, {"kinds": kinds, "alone": not isinstance(memory, tuple)})


def memory_from_state(state: State) -> Any:
    """The memory, for the next `Learner.predict`; tensors are on the CPU."""
    kinds = state.data["kinds"]
    if kinds is None:
        return None
    parts = tuple(_part(state.arrays[str(index)], kind) for index, kind in enumerate(kinds))
    return parts[0] if state.data["alone"] else parts


def _part(array: np.ndarray[Any, Any], kind: str) -> Any:
    if kind == "numpy":
        return np.array(array)
    import torch

    return torch.from_numpy(np.array(array))
