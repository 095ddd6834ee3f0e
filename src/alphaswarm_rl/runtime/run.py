"""One run from its first event to its last: its spec and settings, its row, its events and its listeners.

`open_run` surrounds the work of every verb. Inside, the `Run` emits events (stored in the ledger first, then shown),
watches for a halt, and reports to its listeners. Whatever happens inside, the row and the events say it.
"""

from __future__ import annotations

import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Literal

from alphaswarm_rl.core.claims import Claim, StaleClaim, UnknownClaim
from alphaswarm_rl.core.contracts import OpenStore
from alphaswarm_rl.core.errors import AlphaSwarmError, LedgerBusy
from alphaswarm_rl.core.run_listener import Event, RunFacts, RunListener
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.db.types import finite
from alphaswarm_rl.execution.engine_choice import EngineChoice
from alphaswarm_rl.inference.builder import Builder, builder_for
from alphaswarm_rl.lake.tables import KINDS, identifier
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.recording.run_recorder import RunRecorder
from alphaswarm_rl.runtime.events import EventBus, Sink, file_sink, ledger_sink, log_sink
from alphaswarm_rl.runtime.halting import HaltWatcher, halt_on_signals
from alphaswarm_rl.runtime.listeners import open_listeners
from alphaswarm_rl.runtime.result import RunFailed, judged_model
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

Verb = Literal["train", "evaluate", "replay", "backtest"]

#: Metrics of trading that runs and evaluations have a column of their own for.
PORTFOLIO_COLUMNS = ("sharpe", "max_drawdown", "final_value", "total_return")


@dataclass(frozen=True)
class RunSetup:
    """What is run, where, and who looks on: the same for all runs of one `RLRuntime`.

    Attributes:
        spec: What is run.
        settings: Where it is run.
        overrides: What flags and environment variables changed, with the source of each.
        progress: Whether a progress bar is shown.
        sinks: More receivers of the run's events.
        frames: Data frames that the caller handed in, by name.
        stop_when: Hears every event of a training; a text that it returns halts the run, as its reason.
        engine: What plays the accounts in place of the environment's own decision step; None: nothing does.
        stores: The trajectory stores of the runs so far, by run.
    """

    spec: RLExperimentSpec
    settings: Settings
    overrides: JsonMapping
    progress: bool
    sinks: tuple[Sink, ...]
    frames: Mapping[str, object] = field(default_factory=dict)
    stop_when: Callable[[Event], str | None] | None = None
    engine: EngineChoice | None = None
    stores: dict[str, OpenStore] = field(default_factory=dict)

    def builder(self, *, seed: int, device: str) -> Builder:
        """The builder of this spec for one run."""
        return builder_for(self.spec, self.settings, seed=seed, device=device, frames=self.frames, engine=self.engine)


class Run:
    """A run under way; its listeners reach it as a `core.run_listener.RunHandle`.

    Args:
        setup: What is run, where, and who looks on.
        ledger: Where its row is.
        row: Its row as it began.
    """

    def __init__(self, setup: RunSetup, ledger: Ledger, row: RunRow) -> None:
        self.setup = setup
        self.spec = setup.spec
        self.settings = setup.settings
        self.ledger = ledger.holding(row.claim)
        self.row = row
        self.id = row.id
        played = [row.parent_run_id] if row.parent_run_id is not None and row.target != "train" else []
        self.watcher = HaltWatcher(self.ledger, [row.id, *played], self.settings.ledger, checks=row.halt_checks)
        self.listeners: tuple[RunListener, ...] = ()
        file = self.settings.logs_path / f"{row.id}.jsonl"
        self.bus = EventBus(
            row.id,
            first_seq=ledger.next_seq(row.id),
            sinks=[
                ledger_sink(self.ledger),
                file_sink(file, self._pinned(), claim=row.claim.number),
                log_sink,
                *setup.sinks,
            ],
        )

    def _pinned(self) -> JsonObject:
        return {"row": finite(self.row.as_dict()), "spec": self.spec.as_data()}

    @property
    def claim(self) -> Claim:
        """The claim with which this process writes for it."""
        return self.row.claim

    def facts(self) -> RunFacts:
        """What its row says now."""
        return RunFacts.of(self.ledger.run(self.id))

    def update(self, **columns: object) -> None:
        """Writes columns of its row."""
        self.ledger.update_run(self.id, **columns)

    def add_notices(self, notices: Sequence[str]) -> None:
        """Adds what a user should know to its row; what stands there already is not repeated."""
        if not notices:
            return
        known = self.ledger.run(self.id).notices or []
        self.update(notices=[*known, *(notice for notice in notices if notice not in known)])

    def emit(self, stage: str, **payload: object) -> None:
        """Emits an event."""
        self.bus.emit(stage, **payload)

    def recorded_rows(self) -> dict[str, int]:
        """How many of its recorded rows are in their tables, by kind of table."""
        counts: Counter[str] = Counter()
        for ref in self.ledger.refs(self.id):
            counts[f"{ref.iceberg_namespace}.{ref.iceberg_table}"] += ref.row_count
        return {kind: counts[identifier(kind, self.settings.trajectory)] for kind in KINDS}

    def training_curve(self, run_id: str, until: int | None) -> list[tuple[int, float]]:
        """Transitions and return of the episodes of any training run, up to `until` transitions."""
        return self.ledger.training_curve(run_id, until)

    def open_recorder(self) -> RunRecorder:
        """The recorder of its steps; its store answers for rows as long as the runtime lives."""
        recorder = RunRecorder.open(self.spec, self.settings, self.ledger, self.row)
        if recorder.store is not None:
            self.setup.stores[self.id] = recorder.store
        return recorder

    def wait_if_halted(self) -> None:
        """Waits, where the run is halted, until the ledger can be told so: another process may keep it locked."""
        if self.watcher.reason:
            self.ledger.wait_for_lock()

    def finish(self, *, metrics: JsonObject, timesteps: int, in_sample: bool | None) -> None:
        """Ends the run: halted when a halt was requested, completed otherwise."""
        halted = self.watcher.reason
        row = self.ledger.finish_run(
            self.id,
            "halted" if halted else "completed",
            timesteps=timesteps,
            halt_checks=self.watcher.checks,
            halt_reason=halted,
            result_summary=metrics,
            mean_reward=metrics.get("mean_reward"),
            total_reward=metrics.get("total_reward"),
            in_sample=in_sample,
            **{name: metrics.get(name) for name in PORTFOLIO_COLUMNS},
        )
        if halted:
            self.emit("halted", reason=halted, timesteps=timesteps)
        else:
            judged = judged_model(row)
            model = {} if judged is None else {"judged": judged, "best_checkpoint": row.best_checkpoint}
            self.emit("done", timesteps=timesteps, **model, metrics=metrics)


@contextmanager
def open_run(setup: RunSetup, ledger: Ledger, row: RunRow) -> Iterator[Run]:
    """Surrounds the work of one run: whatever happens inside, the row and the events say it."""
    run = Run(setup, ledger, row)
    with (
        run.watcher,
        halt_on_signals(run.watcher),
        ExitStack() as listening,
        # Listeners hear of an error before they are closed; one that cannot be opened is an error itself.
        _recording_errors(run),
    ):
        run.listeners = listening.enter_context(open_listeners(run))
        run.bus.trace_id = next((each.trace_id for each in run.listeners if each.trace_id is not None), None)
        for listener in run.listeners:
            run.bus.add(listener.on_event)
        if setup.stop_when is not None and row.target == "train":
            stop_when = setup.stop_when
            run.bus.add(lambda event: run.watcher.request(stop_when(event)))
        yield run


@contextmanager
def _recording_errors(run: Run) -> Iterator[None]:
    """Writes an error into the row and the events; a process that lost the run or its row leaves them as they are."""
    try:
        yield
    except (StaleClaim, UnknownClaim) as error:
        error.add_note(run.id)
        raise
    except KeyboardInterrupt:
        run.ledger.finish_run(run.id, "halted", halt_reason="interrupted at once", halt_checks=run.watcher.checks)
        run.emit("halted", reason="interrupted at once")
        raise
    except (Exception, SystemExit) as error:
        if isinstance(error, LedgerBusy) and run.watcher.should_halt():
            # The loop waited for the ledger until a halt came: the row says halted as soon as it can be written.
            run.wait_if_halted()
            halted = {"halt_reason": run.watcher.reason, "halt_checks": run.watcher.checks}
            run.ledger.finish_run(run.id, "halted", **halted)
            run.emit("halted", reason=run.watcher.reason)
            error.add_note(run.id)
            raise
        reason = f"{type(error).__name__}: {error}"
        run.ledger.finish_run(run.id, "failed", error=reason, halt_checks=run.watcher.checks)
        run.emit("error", error=reason, traceback=traceback.format_exc())
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
