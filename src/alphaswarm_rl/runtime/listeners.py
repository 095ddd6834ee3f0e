"""Who listens to a run: telemetry, the model registry and a tracker, as the settings say."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from alphaswarm_rl.core.claims import StaleClaim, UnknownClaim
from alphaswarm_rl.core.contracts import AnyVectorEnv
from alphaswarm_rl.core.run_listener import RunListener, StepListener
from alphaswarm_rl.core.types import Batch, JsonObject
from alphaswarm_rl.envs.base import WatchedEnv
from alphaswarm_rl.inference.policy_plan import env_id_of, scope_of
from alphaswarm_rl.recording.steps import as_numpy
from alphaswarm_rl.runtime import events
from alphaswarm_rl.telemetry import is_exporting

if TYPE_CHECKING:
    from alphaswarm_rl.runtime.run import Run

#: Verbs whose scores are none of a model's evaluations: they are about other data, or another way to trade.
_NO_MODELS = ("replay", "backtest")


@contextmanager
def open_listeners(run: Run) -> Iterator[tuple[RunListener, ...]]:
    """The listeners of a run as long as it lasts; they hear of its end, and are closed whatever happened."""
    with ExitStack() as stack:
        listeners: list[RunListener] = []
        for listener in _enabled_listeners(run):
            stack.callback(listener.close)
            listeners.append(listener)
        try:
            yield tuple(listeners)
        except (StaleClaim, UnknownClaim):
            raise  # the run goes on elsewhere, and ends there; or no row tells how it ended
        except BaseException:
            _report_end(run, listeners)
            raise
        _report_end(run, listeners)


def _report_end(run: Run, listeners: Sequence[RunListener]) -> None:
    facts = run.facts()
    if facts.status != "running":
        for listener in listeners:
            listener.on_end(facts)


def _enabled_listeners(run: Run) -> Iterator[RunListener]:
    """One after the other: each is closed even when the next cannot be opened. Telemetry is first and closes last."""
    spec, settings = run.spec, run.settings
    if is_exporting(settings, os.environ):
        from alphaswarm_rl.telemetry.listener import TelemetryListener

        yield TelemetryListener(
            run,
            settings,
            attributes={"algorithm": "none" if spec.agent is None else spec.agent.label, "env": env_id_of(spec)},
            levels={"start": logging.INFO, **events.LEVELS},
            quiet=(events.__name__,),
        )
    if settings.registry.enable and run.row.target not in _NO_MODELS:
        from alphaswarm_rl.models.listener import ModelListener

        yield ModelListener(run, spec, settings, scope_of=partial(scope_of, spec))
    from alphaswarm_rl.tracking.listener import TrackingListener

    yield TrackingListener(run, spec, settings)


def report_steps(env: AnyVectorEnv, listeners: tuple[RunListener, ...]) -> AnyVectorEnv:
    """The training environment as it is, or one that reports every step to those who listen for it."""
    for listener in listeners:
        if listener.step_listener is not None:
            env = _StepReportingEnv(env, listener.step_listener)
    return env


class _StepReportingEnv(WatchedEnv):
    """Passes everything through and reports resets and steps.

    Args:
        env: The environment.
        listener: Who hears of its steps.
    """

    def __init__(self, env: AnyVectorEnv, listener: StepListener) -> None:
        super().__init__(env)
        self._listener = listener

    def reset(self, *, seed: int | None = None, options: JsonObject | None = None) -> tuple[Batch, JsonObject]:
        """Starts every environment; the episodes in progress end here."""
        result = self.env.reset(seed=seed, options=options)
        self._listener.reset()
        return result

    def step(self, actions: Batch, **storage: Batch) -> tuple[Batch, Batch, Batch, Batch, JsonObject]:
        """One step of all environments; `storage` is that of a caller whose environment is on a device."""
        began = time.time_ns()
        result = self.env.step(actions, **storage)
        ended = time.time_ns()
        rewards, terminated, truncated = map(as_numpy, result[1:4])
        self._listener.step(began, ended, rewards, terminated | truncated)
        return result
