"""The event bus of a run: every event has a sequence number, and every sink sees the same events in the same order."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, TypeAlias

from alphaswarm_rl.core.judgement import JUDGEMENT
from alphaswarm_rl.core.run_listener import Event
from alphaswarm_rl.core.types import JsonMapping, JsonObject
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


#: Columns of a line on a screen, without the level before it.
_COLUMNS = 95
#: Details in the order in which a line has room for them; others come behind, as they are.
_MOST_READ = (
    "phase",
    "timesteps",
    "episodes",
    "mean_reward",
    "total_return",
    "sharpe",
    "max_drawdown",
    "in_sample",
    "model_id",
    "passed",
    "failed",
    "judged",
    "final",
)


def log_sink(event: Event) -> None:
    """Writes an event as a log line: checkpoints, evaluations and the end at info, the rest at debug."""
    level = LEVELS.get(event.stage, logging.DEBUG)
    if _log.isEnabledFor(level):
        hidden = {"traceback", JUDGEMENT, *(SPREAD if event.payload.get("episodes") == 1 else ())}
        if event.stage == "done":
            hidden.add("metrics")  # the line of the evaluation has just said them
        payload = {name: value for name, value in event.payload.items() if name not in hidden}
        shown = {name: _short(value) for name, value in payload.items()}
        beginning = f"run {event.run_id[:8]}: {event.stage}"
        # What is wrong, and what debugging shows, is shown whole.
        whole = level > logging.INFO or _log.isEnabledFor(logging.DEBUG)
        # Of a list, such as the gates that a model failed, a line has room for the length.
        brief = {name: str(len(value)) for name, value in payload.items() if isinstance(value, list | tuple) and value}
        details = shown if whole else _that_fit({**shown, **brief}, _COLUMNS - len(beginning))
        _log.log(level, "%s (%s)", beginning, ", ".join(f"{name} {value}" for name, value in details.items()))


def _that_fit(details: dict[str, str], columns: int) -> dict[str, str]:
    """The details that one line has room for, those that are read most first; the event log has them all."""
    most_read = (name for name in _MOST_READ if name in details)
    chosen, used = [], len("(")
    for name in dict.fromkeys((*most_read, *details)):
        width = len(name) + len(details[name]) + len(" , ")
        if used + width <= columns:
            chosen.append(name)
            used += width
    return {name: details[name] for name in chosen}


def _short(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def file_sink(path: Path, pinned: JsonMapping, *, claim: int) -> Sink:
    """Appends events as JSON lines to a file.

    Args:
        path: The file.
        pinned: The run's row and its spec, which the line of its start has too: the ledger can be rebuilt from them.
        claim: The number of the claim with which the run is written for; lines have it from the second on.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    claimed = {} if claim == 1 else {"claim": claim}

    def write(event: Event) -> None:
        more = {"pinned": pinned} if event.stage == "start" else {}
        line = json.dumps({**event.as_dict(), **claimed, **more}).encode() + b"\n"
        with path.open("ab+") as file:
            # A process that was killed may have left half a line.
            file.write(line if _ends_with_a_line(file) else b"\n" + line)

    return write


def _ends_with_a_line(file: BinaryIO) -> bool:
    if file.seek(0, os.SEEK_END) == 0:
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


@dataclass(frozen=True)
class EventLog:
    """The lines of a run's event log.

    A process that stood still may append a line after another one took its run over, and a ledger that was put back
    from a copy gives numbers again: where a later claim begins, lines of earlier ones count no more.

    Attributes:
        lines: Those that count, by number.
        damaged: How many could not be read.
        newest_claim: The number of the newest claim that wrote one.
    """

    lines: list[JsonObject] = field(default_factory=list)
    damaged: int = 0
    newest_claim: int = 1

    @classmethod
    def read(cls, path: Path) -> EventLog:
        """The log in a file; an empty one where there is none."""
        claims: dict[int, dict[int, JsonObject]] = {}
        damaged = 0
        for text in path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else ():
            try:
                line = json.loads(text)
                datetime.fromisoformat(line["ts"])
                claims.setdefault(int(line.get("claim", 1)), {})[int(line["seq"])] = line
            except (ValueError, KeyError, TypeError):  # half a line, which a killed process left
                damaged += 1
        lines: dict[int, JsonObject] = {}
        for _, written in sorted(claims.items()):
            lines = {seq: line for seq, line in lines.items() if seq < min(written)} | written
        return cls([lines[seq] for seq in sorted(lines)], damaged, max(claims, default=1))

    def stages(self, *names: str) -> list[JsonObject]:
        """The lines of some stages."""
        return [line for line in self.lines if line["stage"] in names]

    def last(self, *names: str) -> JsonObject:
        """The last line of some stages; empty where there is none."""
        return next(iter(self.stages(*names)[::-1]), {})

    @property
    def pinned(self) -> JsonObject:
        """The row and the spec as they were when the run last began; empty in a log of an earlier version."""
        found: JsonObject = self.last("start").get("pinned", {})
        return found

    @property
    def times(self) -> tuple[datetime, datetime]:
        """When its first and its last line were written."""
        moments = [datetime.fromisoformat(line["ts"]) for line in self.lines]
        return moments[0], moments[-1]
