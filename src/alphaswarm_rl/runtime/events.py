"""The event bus of a run: every event has a sequence number, and every sink sees the same events in the same order."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.ledger import Ledger

_log = logging.getLogger(__name__)

#: The stages in the order in which a run can pass them.
STAGES = (
    "start",
    "data.loaded",
    "env.built",
    "agent.built",
    "train.step",
    "train.checkpoint",
    "eval.step",
    "model.validated",
    "done",
    "error",
    "halted",
)


#: A receiver of events.
Sink: TypeAlias = Callable[[Event], None]


class EventBus:
    """Numbers events and hands them to the sinks.

    Args:
        run_id: The run they belong to.
        first_seq: Number of the next event; a resumed run goes on where it stopped.
        sinks: Who sees them; the first one is the ledger, so nothing is shown that is not stored.
    """

    def __init__(self, run_id: str, *, first_seq: int, sinks: list[Sink]) -> None:
        self.run_id = run_id
        self.trace_id: str | None = None
        self._next = first_seq
        self._sinks = sinks

    def add(self, sink: Sink) -> None:
        """One more sink, for what comes from now on."""
        self._sinks.append(sink)

    def emit(self, stage: str, **payload: object) -> None:
        """Sends one event."""
        if stage not in STAGES:
            raise ValueError(f"unknown stage {stage!r}")
        event = Event(self.run_id, self._next, stage, datetime.now(UTC), payload, self.trace_id)
        self._next += 1
        for sink in self._sinks:
            sink(event)


def ledger_sink(ledger: Ledger) -> Sink:
    """Stores events in the ledger."""

    def store(event: Event) -> None:
        ledger.append_event(event.run_id, event.seq, event.stage, event.ts, dict(event.payload))

    return store


#: How an event is logged; what is not here is for those who debug.
LEVELS = {
    "train.checkpoint": logging.INFO,
    "eval.step": logging.INFO,
    "model.validated": logging.INFO,
    "done": logging.INFO,
    "halted": logging.WARNING,
    "error": logging.ERROR,
}


#: Metrics of an evaluation that say nothing beside the mean where there was one episode.
SPREAD = ("std_reward", "min_reward", "max_reward")


def log_sink(event: Event) -> None:
    """Writes an event as a log line: checkpoints, evaluations and the end at info, the rest at debug."""
    level = LEVELS.get(event.stage, logging.DEBUG)
    if _log.isEnabledFor(level):
        hidden = {"traceback", *(SPREAD if event.payload.get("episodes") == 1 else ())}
        if event.stage == "done":
            hidden.add("metrics")  # the line of the evaluation has just said them
        details = ", ".join(f"{name} {_short(value)}" for name, value in event.payload.items() if name not in hidden)
        _log.log(level, "run %s: %s (%s)", event.run_id[:8], event.stage, details)


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def file_sink(path: Path) -> Sink:
    """Appends events as JSON lines to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def write(event: Event) -> None:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(event.as_dict()) + "\n")

    return write
