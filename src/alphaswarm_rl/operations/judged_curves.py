"""How a run was judged: the evaluation that counts of it, and the account's curve in it, from the tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.queries import steps_of_run
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.ledger import EvaluationRow, Ledger, RunRow

#: The phases that judge a run of a verb, the one that counts first.
JUDGED_PHASES = {
    "train": ("evaluate", "validation"),
    **{verb: (verb,) for verb in ("evaluate", "replay", "backtest")},
}
NO_ACCOUNT = "there is no account"
#: More rows than this no evaluation has that anybody would look at.
_MOST_ROWS = 2_000_000


@dataclass(frozen=True)
class JudgedCurves:
    """The account in the episodes of an evaluation.

    Attributes:
        times: The bar's time of every value behind the first, of the first curve; None where there are none.
        curves: The values of each episode, the initial one first; episodes that repeat an earlier one are left out.
        why_none: Why there are no curves, where there are none.
    """

    times: tuple[str | None, ...] = ()
    curves: tuple[Array, ...] = ()
    why_none: str | None = None


def judged_evaluation(ledger: Ledger, run: RunRow) -> EvaluationRow:
    """The evaluation that a run is known by: its newest of the phase that judges runs of its verb.

    Raises:
        RunError: The run was never judged.
    """
    evaluations = ledger.evaluations(run.id)
    for phase in JUDGED_PHASES.get(run.target, ()):
        of_phase = [row for row in evaluations if row.phase == phase]
        if of_phase:
            return of_phase[-1]
    why = f"it was never judged: it is a run of {run.target}, {run.status}"
    raise RunError(f"run {run.id}", why, f"Judge its policy, if it has one: rl evaluate {run.id[:8]}.")


def judged_curves(lake: Lake, run: RunRow, evaluation: EvaluationRow, initial: float | None) -> JudgedCurves:
    """The account's curves in an evaluation, from the recorded steps.

    Args:
        lake: Where steps are.
        run: The run.
        evaluation: Its evaluation.
        initial: What episodes began with; None where there is no account.
    """
    if run.removed_at is not None:
        return JudgedCurves(why_none="the run was removed")
    if initial is None:
        return JudgedCurves(why_none=NO_ACCOUNT)
    found = steps_of_run(lake, run, "equity_curves", {"phase": evaluation.phase}, _MOST_ROWS)
    of_episode: dict[int, list[tuple[object, float]]] = {}
    number, time, value = (found.columns.index(name) for name in ("episode", "ts", "portfolio_value"))
    for row in found.rows:
        of_episode.setdefault(int(str(row[number])), []).append((row[time], float(str(row[value]))))
    played = sorted(of_episode)[-evaluation.episodes :]
    if len(played) < evaluation.episodes:
        return JudgedCurves(why_none=_why_missing(lake, run, any_rows=bool(played)))
    curves = [np.array([initial, *(value for _, value in of_episode[episode])]) for episode in played]
    stamps = tuple(None if stamp is None else str(stamp) for stamp, _ in of_episode[played[0]])
    return JudgedCurves(stamps, _distinct(curves))


def _why_missing(lake: Lake, run: RunRow, *, any_rows: bool) -> str:
    if waiting := len(spooled(lake.spool, run.id)):
        return f"{waiting} segments of its steps are not in the tables yet: rl lake commit"
    return "not all of its steps are in the tables" if any_rows else "its steps were not recorded"


def _distinct(curves: Sequence[Array]) -> tuple[Array, ...]:
    return tuple({values.tobytes(): values for values in curves}.values())
