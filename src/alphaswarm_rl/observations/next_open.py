"""The price that orders will fill at."""

from __future__ import annotations

from typing import ClassVar

from alphaswarm_rl.core.kinds import ObservationBuilder
from alphaswarm_rl.core.types import Array, BackendArray, NamedArrays
from alphaswarm_rl.core.view import Panel, View


class NextOpen(ObservationBuilder):
    """The next bar's open over the current close minus 1, of every asset: it looks ahead, on purpose.

    It is there for the fill policy `cheat_on_open` alone, whose agent decides when it has seen the open that it trades
    at; that policy brings it along and marks the run as optimistic. 0 on the last bar, and where an asset has no price.
    """

    rl_alias = "next_open"
    rl_category = "market"

    needs: ClassVar[tuple[str, ...]] = ("open",)
    #: Evaluation shows it as training does: the open it looks ahead to is the premise of the fill policy, which marks
    #: the run, and not a secret of training.
    training_only: ClassVar[bool] = False

    def names(self, panel: Panel) -> tuple[str, ...]:
        """`next_open:KO`, ..."""
        return tuple(f"next_open:{asset}" for asset in panel.assets)

    def prepare(self, panel: Panel) -> NamedArrays:
        """The change over each bar's end."""
        import numpy as np

        assert panel.open is not None
        table = np.zeros(panel.close.shape, np.float32)
        table[:-1] = self.changes(panel.open[1:], panel.close[:-1])
        return {"table": table}

    @staticmethod
    def changes(opens: Array, closes: Array) -> Array:
        """What is shown of opens that follow closes."""
        import numpy as np

        changes: Array = np.nan_to_num(opens / closes - 1.0, nan=0.0)
        return changes

    def step(self, view: View, state: NamedArrays, out: BackendArray) -> None:
        """Writes the change that follows each environment's bar."""
        view.take(state["table"], out)
