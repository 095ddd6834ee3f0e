"""A run's recorded steps: account, rewards by term, actions, whole trajectories, positions, fills and holdings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import Literal, cast

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.queries import Rows, days_of_run, holdings_of_run, steps_of_run
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.lake.tables import Kind
from alphaswarm_rl.lake.views import has_rows
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Count, Data, Index
from alphaswarm_rl.operations.judged_curves import JUDGED_PHASES
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.settings import Settings

Phase = Literal["train", "validation", "evaluate", "replay", "backtest", "paper"]

#: More steps than this no episode has that anybody would draw.
_LONGEST_EPISODE = 1_000_000
#: Why a run that was recorded may have no rows of a kind.
_NONE_OF_A_KIND = {
    "equity_curves": "the environment has no account",
    "action_logs": "its actions have no components",
    "reward_decomposition": "the environment's reward does not consist of terms",
    "fills": "nothing was traded",
}


#: What says which step a row is of.
_OF_A_STEP = ("phase", "env_idx", "episode", "step", "ts")
_A_DAY = "2020-03-23"


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


class TradesQuery(StepQuery):
    """Which trades of which run.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        phase: Only steps of that phase.
        episode: Only that episode, counted from 0.
        env_idx: Only that environment, counted from 0.
        limit: At most that many rows.
        asof: A day, or a moment in ISO form, UTC where it names no zone.
    """

    asof: str | None = None


class HoldingsQuery(NamedRun):
    """Which step of which run.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        asof: A day, or a moment in ISO form, UTC where it names no zone; None: the end of the episode.
        phase: The phase; None: the one that the policy is reported by.
        episode: The episode, counted from 0; None: the first that there is.
        env_idx: The environment, counted from 0; None: that of the episode.
    """

    asof: str | None = None
    phase: Phase | None = None
    episode: Index | None = None
    env_idx: Index | None = None


class Holdings(Data, apart=("why_empty",)):
    """What a run held after one step, why, and at what cost.

    Attributes:
        run_id: The run.
        phase: The phase of the step; None where there is none.
        env_idx: Its environment.
        episode: Its episode.
        step: Its number.
        ts: The time of its bar.
        equity: The account's value.
        cost: What its fills cost.
        carry: Borrow and funding that were paid in it.
        stages: What targets come from, in order.
        targets: What targets are: weights, shares or a position.
        holdings: For cash and each asset: quantity, price, value, weight, the target after each stage, the action, what
            was bought in the step and why, and what it cost, in the step and since the episode began.
        undelivered: How many segments of the run are not in the tables yet.
        why_empty: Why there are none, where there are none.
    """

    run_id: str
    phase: Phase | None
    env_idx: int | None
    episode: int | None
    step: int | None
    ts: datetime | None
    equity: float | None
    cost: float | None
    carry: float | None
    stages: list[str]
    targets: str | None
    holdings: list[JsonObject]
    undelivered: int
    why_empty: str | None


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


class EquityQuery(StepQuery):
    """Which steps of which run's account, and whether one episode of it is drawn.

    Attributes:
        plot: Whether the curve of one episode is given as well: of the phase, environment and episode that were asked
            for, else of the first one of the phase that judges the run.
    """

    plot: bool = False


class AccountCurve(Data):
    """The account in one episode.

    Attributes:
        title: Which episode that is, in words.
        times: The bar's time of each value; null where there are none.
        values: The account's value behind each step.
        drawdowns: How far each is below the highest until then, relative to it: 0 or less.
    """

    title: str
    times: tuple[str | None, ...]
    values: tuple[float, ...]
    drawdowns: tuple[float, ...]


class Equity(Steps, apart=("columns", "why_empty"), unless_null=("curve",)):
    """Rows of a run's account, and the curve of one episode where it was asked for."""

    curve: AccountCurve | None = None


@operation("runs.equity")
def equity(settings: Settings, request: EquityQuery) -> Equity:
    """A run's account, step by step: value, drawdown, cash."""
    found = _steps(settings, "equity_curves", request)
    curve = account_curve(settings, request) if request.plot and found.rows else None
    return Equity(**vars(found), curve=curve)


def account_curve(settings: Settings, request: EquityQuery) -> AccountCurve | None:
    """The curve of one episode of a run; None where it has no such steps."""
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
    with Lake(settings) as lake:
        first = _first_step(lake, run, request)
        if first is None:
            return None
        found = steps_of_run(lake, run, "equity_curves", first, _LONGEST_EPISODE)
    time, value = (found.columns.index(name) for name in ("ts", "portfolio_value"))
    values = [float(cast(float, row[value])) for row in found.rows]
    times = [row[time] for row in found.rows]
    highest = list(accumulate(values, max))
    return AccountCurve(
        f"run {run.id[:8]}, {first['phase']}, episode {first['episode']}",
        tuple(stamp.isoformat() if isinstance(stamp, datetime) else None for stamp in times),
        tuple(values),
        tuple(now / top - 1.0 if top > 0 else 0.0 for now, top in zip(values, highest, strict=True)),
    )


def _first_step(lake: Lake, run: RunRow, request: EquityQuery) -> dict[str, str | int] | None:
    """Phase, environment and episode of the first step that was asked for; of the phase that judges, if none was."""
    phases = JUDGED_PHASES.get(run.target, ()) if request.phase is None else ()
    for chosen in (*({**request.chosen, "phase": phase} for phase in phases), request.chosen):
        found = steps_of_run(lake, run, "equity_curves", chosen, 1)
        for row in found.rows:
            values = dict(zip(found.columns, row, strict=True))
            return {name: cast("str | int", values[name]) for name in ("phase", "env_idx", "episode")}
    return None


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


@operation("runs.positions")
def positions(settings: Settings, request: TradesQuery) -> Steps:
    """A run's positions, step by step; as of a day those of each episode's last step until then."""
    return _steps(settings, "positions", request, when=_moment(request.asof))


@operation("runs.fills")
def fills(settings: Settings, request: TradesQuery) -> Steps:
    """A run's fills, step by step; as of a day those until then, of more than the limit the newest."""
    return _steps(settings, "fills", request, when=_moment(request.asof))


@operation("runs.holdings")
def holdings(settings: Settings, request: HoldingsQuery) -> Holdings:
    """What a run held on a day, why, and at what cost."""
    when = _moment(request.asof)
    conditions = {"phase": request.phase, "episode": request.episode, "env_idx": request.env_idx}
    chosen: dict[str, str | int] = {name: value for name, value in conditions.items() if value is not None}
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
    with Lake(settings) as lake:
        undelivered = len(spooled(lake.spool, run.id))
        found = holdings_of_run(lake, run, chosen, when)
        why_empty = None if found.rows else _why_not_then(lake, run, chosen, undelivered)
    return _held(run, found, undelivered, why_empty)


def _held(run: RunRow, found: Rows, undelivered: int, why_empty: str | None) -> Holdings:
    rows: list[JsonObject] = [dict(zip(found.columns, values, strict=True)) for values in found.rows]
    stages = run.recording.get("stages", [])
    sums = {name: sum(row[name] for row in rows) if rows else None for name in ("value", "cost", "carry")}
    step: JsonObject = {name: rows[0][name] if rows else None for name in _OF_A_STEP}
    held = [{name: value for name, value in row.items() if name not in _OF_A_STEP} for row in rows]
    for row in held:
        # By the names of the stages, where the run's row has them.
        if row["targets"] is not None and len(stages) == len(row["targets"]):
            row["targets"] = dict(zip(stages, row["targets"], strict=True))
    return Holdings(
        run_id=run.id,
        **step,
        equity=sums["value"],
        cost=sums["cost"],
        carry=sums["carry"],
        stages=stages,
        targets=run.recording.get("targets"),
        holdings=held,
        undelivered=undelivered,
        why_empty=why_empty,
    )


def _moment(asof: str | None) -> tuple[datetime, datetime] | None:
    """A day or a moment: from when, and until when, without; None for none."""
    if asof is None:
        return None
    try:
        moment = datetime.fromisoformat(asof)
        since = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return since, since + (timedelta(days=1) if len(asof) <= len(_A_DAY) else timedelta(microseconds=1))
    except (ValueError, OverflowError) as error:
        raise OptionError(f"the day {asof!r}", "it is not a date", f"Give one like {_A_DAY}.") from error


def _why_not_then(lake: Lake, run: RunRow, chosen: dict[str, str | int], undelivered: int) -> str:
    """Why it is not known what a run held then."""
    days = days_of_run(lake, run.id, "positions", chosen)
    if days is None:
        return _why_empty(lake, run, "positions", chosen, undelivered)
    return f"its steps are from {days[0]} to {days[1]}"


def _steps(
    settings: Settings, kind: Kind, request: StepQuery, *, when: tuple[datetime, datetime] | None = None
) -> Steps:
    with Ledger.open(settings) as ledger:
        run = ledger.run(request.run)
    until, asked = None, dict(request.chosen)
    if when is not None:
        until, asked = when[1], {**asked, "asof": f"{when[0]:%Y-%m-%d}"}
    last = until is not None and kind == "positions"
    with Lake(settings) as lake:
        found = steps_of_run(lake, run, kind, request.chosen, request.limit, until=until, last=last)
        undelivered = len(spooled(lake.spool, run.id))
        why_empty = None if found.rows else _why_empty(lake, run, kind, asked, undelivered)
    rows = [dict(zip(found.columns, values, strict=True)) for values in found.rows]
    return Steps(run.id, found.columns, rows, found.more, undelivered, why_empty)


def _why_empty(lake: Lake, run: RunRow, kind: Kind, chosen: dict[str, str | int], undelivered: int) -> str:
    """Why a run has no rows of a kind, as far as that can be known."""
    if run.removed_at is not None:
        return "the run was removed"
    if chosen and has_rows(lake, kind, run.id):
        return f"the run has others, but none of {', '.join(f'{name} {value}' for name, value in chosen.items())}"
    recorded = has_rows(lake, "trajectories", run.id)
    if recorded and kind in ("positions", "fills") and not has_rows(lake, "positions", run.id):
        return _why_no_trades(run)
    if recorded and kind in _NONE_OF_A_KIND:
        return _NONE_OF_A_KIND[kind]
    if undelivered:
        return "they are not in the tables yet"
    if run.recording.get("store") == "memory":
        return "they were kept in memory and ended with the run"
    if run.status in LIVE:
        return "the run has delivered none yet"
    return "nothing of the run was recorded, or its tables have other names now"


def _why_no_trades(run: RunRow) -> str:
    """Why a run with recorded steps has neither positions nor fills."""
    mode = run.recording.get("positions")
    if mode is None:
        return "it was recorded before there were positions and fills"
    if mode == "none":
        return "record.positions is none"
    if "assets" not in run.recording:
        return "the environment has no account on the decision step"
    return "record.positions is judged, and it has only training steps"
