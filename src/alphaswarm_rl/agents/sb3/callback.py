"""What tells the runtime how training goes, as a Stable-Baselines3 callback."""

from __future__ import annotations

from collections.abc import Callable

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from alphaswarm_rl.core.contracts import TrainingHooks


class HooksCallback(BaseCallback):
    """Asks for a halt on every vector step, and reports each state that is whole.

    A rollout starts when the update after the one before is done: the state is whole then.

    Args:
        hooks: The runtime's hooks.
        mark: Called at each whole state, before the runtime hears of it.
    """

    def __init__(self, hooks: TrainingHooks, mark: Callable[[], None]) -> None:
        super().__init__()
        self.halted = False
        self._should_halt = hooks.should_halt
        self._boundary = hooks.boundary
        self._decided = hooks.decided
        self._mark = mark
        self._whole_at = 0

    def _init_callback(self) -> None:
        self._whole_at = self.model.num_timesteps

    def _on_step(self) -> bool:
        values = self.locals.get("values")
        if values is not None:  # on-policy algorithms know them, the others do not
            self._decided(values, self.locals["log_probs"])
        if self._should_halt():
            self.halted = True
        return not self.halted

    def _on_rollout_start(self) -> None:
        self.report()

    def report(self) -> None:
        """Tells of a whole state, unless nothing happened since the last one."""
        if self.model.num_timesteps != self._whole_at:
            self._whole_at = self.model.num_timesteps
            self._mark()
            self._boundary(_take_metrics(self.model))


def _take_metrics(model: BaseAlgorithm) -> dict[str, float]:
    logger = model.logger
    metrics = {name: float(value) for name, value in logger.name_to_value.items()}
    logger.name_to_value.clear()
    logger.name_to_count.clear()
    logger.name_to_excluded.clear()
    return metrics
