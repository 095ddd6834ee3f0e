"""What surrounds every verb: the run row, its events, its end."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from alphaswarm_rl.core.errors import AlphaSwarmError, RunError
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.runtime.events import Event, EventBus, Sink, file_sink, ledger_sink, log_sink
from alphaswarm_rl.runtime.halting import HaltWatcher, halt_on_signals
from alphaswarm_rl.runtime.observers import Observers, Watched, observing
from alphaswarm_rl.runtime.result import RunResult
from alphaswarm_rl.runtime.rollout import PORTFOLIO_COLUMNS
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec


class RunFailed(RunError):
    """A run that ended in an error which is not the user's."""

    exit_code = 1


@dataclass
class RunScope:
    """A run that is under way."""

    run: RunRow
    bus: EventBus
    watcher: HaltWatcher
    observers: Observers


@contextmanager
def run_scope(
    ledger: Ledger,
    run: RunRow,
    spec: RLExperimentSpec,
    settings: Settings,
    sinks: Sequence[Sink],
    stop_when: Callable[[Event], str | None] | None = None,
) -> Iterator[RunScope]:
    """Surrounds the work of one run: whatever happens inside, the row and the events tell it."""
    bus = EventBus(
        run.id,
        first_seq=ledger.next_seq(run.id),
        sinks=[ledger_sink(ledger), file_sink(settings.logs_path / f"{run.id}.jsonl"), log_sink, *sinks],
    )
    with (
        HaltWatcher(ledger, run.id, settings.ledger, checks=run.halt_checks) as watcher,
        halt_on_signals(watcher),
        ExitStack() as observed,
        # Observers hear of an error before they are closed; one that cannot be opened is an error itself.
        _told(ledger, run, bus, watcher),
    ):
        observers = observed.enter_context(observing(Watched(run, spec, settings, ledger, bus)))
        bus.trace_id = observers.trace_id
        bus.add(observers.event)
        if stop_when is not None:
            bus.add(_stopping(watcher, stop_when))
        yield RunScope(run, bus, watcher, observers)


def _stopping(watcher: HaltWatcher, stop_when: Callable[[Event], str | None]) -> Sink:
    """A sink that halts the run once somebody has a reason."""

    def look(event: Event) -> None:
        reason = stop_when(event)
        if reason is not None:
            watcher.request(reason)

    return look


@contextmanager
def _told(ledger: Ledger, run: RunRow, bus: EventBus, watcher: HaltWatcher) -> Iterator[None]:
    """Has the row and the events tell of an error."""
    try:
        yield
    except KeyboardInterrupt:
        ledger.finish_run(run.id, "halted", halt_reason="interrupted at once", halt_checks=watcher.checks)
        bus.emit("halted", reason="interrupted at once")
        raise
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        ledger.finish_run(run.id, "failed", error=reason, halt_checks=watcher.checks)
        bus.emit("error", error=reason, traceback=traceback.format_exc())
        if isinstance(error, AlphaSwarmError):
            error.add_note(run.id)
            raise
        failed = RunFailed(
            f"run {run.id}",
            f"it failed with {reason}",
            f"See: rl runs events {run.id}; --debug shows the traceback.",
        )
        failed.add_note(run.id)
        raise failed from error


def finish(ledger: Ledger, scope: RunScope, *, metrics: dict[str, Any], timesteps: int, **columns: Any) -> None:
    """Ends a run as it ended: halted when a halt was asked for, completed otherwise."""
    halted = scope.watcher.reason
    row = ledger.finish_run(
        scope.run.id,
        "halted" if halted else "completed",
        timesteps=timesteps,
        halt_checks=scope.watcher.checks,
        halt_reason=halted,
        result_summary=metrics,
        mean_reward=metrics.get("mean_reward"),
        total_reward=metrics.get("total_reward"),
        **{name: metrics.get(name) for name in PORTFOLIO_COLUMNS},
        **columns,
    )
    if halted:
        scope.bus.emit("halted", reason=halted, timesteps=timesteps)
    else:
        judged = _judged(row)
        which = {} if judged is None else {"judged": judged, "best_checkpoint": row.best_checkpoint}
        scope.bus.emit("done", timesteps=timesteps, **which, metrics=metrics)


def result_of(run: RunRow) -> RunResult:
    """The answer that a run's row gives."""
    return RunResult(
        run_id=run.id,
        parent_run_id=run.parent_run_id,
        version_id=run.version_id,
        spec_hash=run.spec_hash,
        exec_hash=run.exec_hash,
        target=run.target,
        status=run.status,
        seed=run.seed,
        timesteps=run.timesteps,
        metrics=run.result_summary or {},
        checkpoint=run.checkpoint,
        checkpoint_sha256=run.checkpoint_sha256,
        best_checkpoint=run.best_checkpoint,
        judged=_judged(run),
        halt_reason=run.halt_reason,
        notices=list(run.notices or []),
        overrides=dict(run.overrides or {}),
    )


def _judged(run: RunRow) -> str | None:
    """Which model the metrics of a training run are of; judging verbs say it by their checkpoint."""
    return "last checkpoint" if run.target == "train" and "episodes" in (run.result_summary or {}) else None
