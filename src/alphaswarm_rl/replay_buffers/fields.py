"""Whether what is handed in fits what is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from alphaswarm_rl.core.contracts import ReplayField
from alphaswarm_rl.core.errors import ComponentError

Array = np.ndarray[Any, Any]


def checked_batch(
    batch: Mapping[str, Any], fields: Mapping[str, ReplayField], leading: tuple[int | None, ...]
) -> dict[str, Array]:
    """The arrays of a batch, refused where a field is missing, unknown, of another shape or would lose its numbers.

    Args:
        batch: The arrays by field.
        fields: What is kept.
        leading: The dimensions before a field's own; None: any number, the same in all fields.
    """
    if batch.keys() != fields.keys():
        raise _unfit(", ".join(sorted(batch.keys() ^ fields.keys())), "only one of batch and buffer has it")
    arrays = {name: np.asarray(batch[name]) for name in fields}
    first = next(iter(arrays.values())).shape[: len(leading)]
    wanted = tuple(size if size is not None else got for size, got in zip(leading, first, strict=False))
    for name, array in arrays.items():
        field = fields[name]
        if array.shape != (*wanted, *field.shape) or len(wanted) != len(leading):
            raise _unfit(name, f"its shape is {array.shape}, not {(*wanted, *field.shape)}")
        # A float in an integer's place would be cut off silently.
        if not np.can_cast(array.dtype, np.dtype(field.dtype), "same_kind"):
            raise _unfit(name, f"it is of type {array.dtype}, and {np.dtype(field.dtype)} is kept")
    return arrays


def _unfit(name: str, why: str) -> ComponentError:
    return ComponentError(f"replay field {name!r}", why, "Hand in the fields that the buffer was built for.")
