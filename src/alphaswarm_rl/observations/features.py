"""Features of a panel by name, for the observations that show them."""

from __future__ import annotations

from collections.abc import Sequence

from alphaswarm_rl.core.errors import DataError, nearest
from alphaswarm_rl.core.view import Panel


def feature_indices(panel: Panel, names: Sequence[str], *, shown_by: str, remedy: str) -> list[int]:
    """Where these features stand among the panel's; one that is not there is an error.

    Args:
        panel: The bars.
        names: Features, in the order in which they are wanted.
        shown_by: Alias of the observation.
        remedy: How to get a feature that is missing.
    """
    for name in names:
        if name not in panel.feature_names:
            raise DataError(
                f"feature {name!r}",
                f"the observation {shown_by!r} shows it and the panel has none",
                f"{remedy} {nearest(name, panel.feature_names)}",
            )
    return [panel.feature_names.index(name) for name in names]
