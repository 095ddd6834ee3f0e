"""Names of types that stand everywhere. Nothing is imported for them: they are for annotations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from gymnasium import Space

#: A NumPy array of any shape and type.
Array: TypeAlias = "np.ndarray[Any, np.dtype[Any]]"
#: A Gymnasium space of anything.
AnySpace: TypeAlias = "Space[Any]"
#: A JSON document's object, as `json.loads` gives it.
JsonObject: TypeAlias = dict[str, Any]
#: The same where it is only read.
JsonMapping: TypeAlias = Mapping[str, Any]
