"""How the answer of a run is shown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from alphaswarm_rl.cli.reporting import HALTED
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import pairs, shown

if TYPE_CHECKING:
    from alphaswarm_rl.options import EffectiveSpec
    from alphaswarm_rl.runtime import RunResult

#: How an account did, in the order in which it is shown.
PORTFOLIO_METRICS = (
    "total_return",
    "annual_return",
    "sharpe",
    "sortino",
    "max_drawdown",
    "volatility",
    "turnover",
    "cost",
    "final_value",
)
_METRICS = (
    "episodes",
    "mean_reward",
    "std_reward",
    "min_reward",
    "max_reward",
    "mean_length",
    "best_reward",
    *PORTFOLIO_METRICS,
    "in_sample",
)


def say_spec(session: Session, effective: EffectiveSpec) -> None:
    """Says which spec is about to run and what changed it."""
    spec = effective.spec
    session.say(f"spec {spec.slug}  spec_hash {spec.spec_hash}")
    for path, override in effective.sources.items():
        session.say(f"  {path} = {shown(override['value'])}  ({override['source']})")
    for notice in effective.notices:
        session.notice(notice)


def give_result(session: Session, result: RunResult, **more: Any) -> None:
    """Gives the answer of a run; a halted one ends the command with the exit code that says so.

    Args:
        session: This call.
        result: The answer.
        **more: What else there is to say.
    """
    for notice in result.notices:
        session.notice(notice)
    session.answer({**result.as_dict(), **more}, pairs({**_rows(result), **more}))
    if result.status == "halted":
        raise click.exceptions.Exit(HALTED)


def dates(values: Mapping[str, Any]) -> str | None:
    """A window as text, of metrics or of a row; None where there are no dates."""
    start, end = values.get("window_start"), values.get("window_end")
    return None if start is None and end is None else f"{start or '...'} to {end or '...'}"


def _rows(result: RunResult) -> Mapping[str, Any]:
    from alphaswarm_rl.runtime.events import SPREAD

    hidden = SPREAD if result.metrics.get("episodes") == 1 else ()
    return {
        "run": result.run_id,
        "parent": result.parent_run_id,
        "version": result.version_id,
        "spec_hash": result.spec_hash,
        "status": result.status if result.halt_reason is None else f"{result.status} ({result.halt_reason})",
        "seed": result.seed,
        "timesteps": result.timesteps,
        "judged": _judged(result),
        "judged_on": dates(result.metrics),
        **{name: result.metrics[name] for name in _METRICS if name in result.metrics and name not in hidden},
        "recording": result.metrics.get("recording"),
        "checkpoint": result.checkpoint,
        "sha256": result.checkpoint_sha256,
        "best": result.best_checkpoint,
    }


def _judged(result: RunResult) -> str | None:
    """Which model the metrics are of, and where there is a better one."""
    best = result.best_checkpoint
    if result.judged is None or best is None:
        return result.judged
    if best == result.checkpoint:
        return f"{result.judged}, the best by validation"
    step = int(Path(best).name)
    return f"{result.judged}; best by validation: step {step} (rl evaluate {result.run_id[:8]} --checkpoint best)"
