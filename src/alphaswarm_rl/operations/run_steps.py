"""A run's recorded steps: its account, rewards by term, actions by component, and whole trajectories."""

from __future__ import annotations

from typing import Literal

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.queries import steps_of_run
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.lake.tables import Kind
from alphaswarm_rl.lake.views import has_rows
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Count, Data, Index
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.settings import Settings

Phase = Literal["train", "validation", "evaluate", "replay", "paper"]

#: Why a run that was recorded may have no rows of a kind.
_NONE_OF_A_KIND = {
    "equity_curves": "the environment has no account",
    "action_logs": "its actions have no components",
    "reward_decomposition": "the environment's reward does not consist of terms",
}


class StepQuery(NamedRun):
    """Which steps of which run.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        phase: Only steps of that phase.
        episode: Only that episode, counted from 0.
        env_idx: Only that environment, counted from 0.
        limit: At most that many rows.
    """

    phase: Phase | None = None
    episode: Index | None = None
    env_idx: Index | None = None
    limit: Count = 1000

    @property
    def chosen(self) -> dict[str, str | int]:
        """The conditions that were given, by column."""
        conditions = {"phase": self.phase, "episode": self.episode, "env_idx": self.env_idx}
        return {name: value for name, value in conditions.items() if value is not None}


class Steps(Data, apart=("columns", "why_empty")):
    """Rows of a run's steps, in order.

    Attributes:
        run_id: The run.
        columns: The names of the columns.
        rows: The rows by column, as values that JSON can hold.
        more: Whether there are more rows than these.
        undelivered: How many segments of the run are not in the tables yet.
        why_empty: Why there are no rows, where there are none.
    """

    run_id: str
    columns: list[str]
    rows: list[JsonObject]
    more: bool
    undelivered: int
    why_empty: str | None


@operation("runs.equity")
def equity(settings: Settings, request: StepQuery) -> Steps:
    """A run's account, step by step: value, drawdown, cash."""
    return _steps(settings, "equity_curves", request)


@operation("runs.rewards")
def rewards(settings: Settings, request: StepQuery) -> Steps:
    """What each term gave to a run's rewards, step by step."""
    return _steps(settings, "reward_decomposition", request)


@operation("runs.actions")
def actions(settings: Settings, request: StepQuery) -> Steps:
    """A run's actions, step by step, one row per component."""
    return _steps(settings, "action_logs", request)


@operation("runs.trajectories")
def trajectories(settings: Settings, request: StepQuery) -> Steps:
    """A run's steps: action, reward, and how each ended."""
    return _steps(settings, "trajectories", request)


def _steps(settings: Settings, kind: Kind, request: StepQuery) -> Steps:
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
    with Lake(settings) as lake:
        found = steps_of_run(lake, run.id, kind, request.chosen, request.limit)
        undelivered = len(spooled(lake.spool, run.id))
        why_empty = None if found.rows else _why_empty(lake, run, kind, request.chosen, undelivered)
    rows = [dict(zip(found.columns, values, strict=True)) for values in found.rows]
    return Steps(run.id, found.columns, rows, found.more, undelivered, why_empty)


def _why_empty(lake: Lake, run: RunRow, kind: Kind, chosen: dict[str, str | int], undelivered: int) -> str:
    """Why a run has no rows of a kind, as far as that can be known."""
    if run.removed_at is not None:
        return "the run was removed"
    if chosen and has_rows(lake, kind, run.id):
        return f"the run has others, but none of {', '.join(f'{name} {value}' for name, value in chosen.items())}"
    if kind in _NONE_OF_A_KIND and has_rows(lake, "trajectories", run.id):
        return _NONE_OF_A_KIND[kind]
    if undelivered:
        return "they are not in the tables yet"
    if run.recording.get("store") == "memory":
        return "they were kept in memory and ended with the run"
    if run.status in LIVE:
        return "the run has delivered none yet"
    return "nothing of the run was recorded, or its tables have other names now"
