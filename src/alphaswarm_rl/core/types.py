"""Names of types that stand everywhere. Nothing is imported for them: they are for annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space
    from torch import Tensor

#: A NumPy array of any shape and type.
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
#: An array of NumPy's or a tensor of torch's: code for both uses what they have in common.
BackendArray: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | Tensor"
#: Such arrays by name: the state of a part, or what it prepared from the panel.
NamedArrays: TypeAlias = "dict[str, BackendArray]"
#: What environments show and policies are asked: an array, or one per key of a Dict space.
AnyObservation: TypeAlias = "BackendArray | Mapping[str, BackendArray]"
#: A Gymnasium space of anything.
AnySpace: TypeAlias = "Space[Any]"
#: A JSON document's object, as `json.loads` gives it.
JsonObject: TypeAlias = dict[str, Any]
#: The same where it is only read.
JsonMapping: TypeAlias = Mapping[str, Any]
#: One step's values of all environments: an array, a tensor, or a mapping or tuple of those.
Batch: TypeAlias = Any
#: What an evaluation is part of: the search for the best model of a training, or a verb that judges a policy.
EvaluationPhase: TypeAlias = Literal["validation", "evaluate", "replay", "backtest"]
#: Which discrete choices are legal, one row per environment; None: all.
Masks: TypeAlias = "np.ndarray[Any, np.dtype[Any]] | None"
