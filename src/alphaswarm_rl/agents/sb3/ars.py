"""Augmented Random Search that can be halted and resumed."""

from __future__ import annotations

from sb3_contrib import ARS
from stable_baselines3.common.callbacks import BaseCallback

from alphaswarm_rl.core.types import Array, JsonObject


class Halted(Exception):
    """A callback asked for the end; raised through the evaluation of a candidate, which knows no other way out."""


class ResumableARS(ARS):
    """ARS as its authors wrote it, but for three things.

    A callback's False ends training (theirs ignores it); a vector step counts once, and not once per environment that
    still plays an episode; the progress that schedules see is that of the whole training, also after a resume.
    """

    #: Rewards of the vector step counted last; the array itself, so that its identity cannot be used again.
    _counted: Array | None = None

    def _trigger_callback(self, _locals: JsonObject, _globals: JsonObject, callback: BaseCallback, n_envs: int) -> None:
        if _locals["rewards"] is self._counted:
            return
        self._counted = _locals["rewards"]
        self.num_timesteps += n_envs
        if not callback.on_step():
            raise Halted

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        super()._update_current_progress_remaining(num_timesteps, self._total_timesteps)

    def learn(self, *args: object, **kwargs: object) -> ResumableARS:
        """Trains until the count is reached or a callback says False."""
        try:
            return super().learn(*args, **kwargs)
        except Halted:
            return self
