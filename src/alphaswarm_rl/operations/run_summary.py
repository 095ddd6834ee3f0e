"""A run in a few named values, for whoever shows it to people."""

from __future__ import annotations

from pathlib import Path

from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.runtime.result import RunResult

__all__ = ["PORTFOLIO_METRICS", "RunResult", "summarize", "window_text"]

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


def summarize(result: RunResult) -> JsonObject:
    """What there is to say of a run, in order; null where there is nothing."""
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
        "judged_on": window_text(result.metrics),
        **{name: result.metrics[name] for name in _METRICS if name in result.metrics and name not in hidden},
        "recording": result.metrics.get("recording"),
        "checkpoint": result.checkpoint,
        "sha256": result.checkpoint_sha256,
        "best": result.best_checkpoint,
    }


def window_text(values: JsonMapping) -> str | None:
    """The window of metrics or of a row, as text; None where there are no dates."""
    start, end = values.get("window_start"), values.get("window_end")
    return None if start is None and end is None else f"{start or '...'} to {end or '...'}"


def _judged(result: RunResult) -> str | None:
    """Which model the metrics are of, and where there is a better one."""
    best = result.best_checkpoint
    if result.judged is None or best is None:
        return result.judged
    if best == result.checkpoint:
        return f"{result.judged}, the best by validation"
    step = int(Path(best).name)
    return f"{result.judged}; best by validation: step {step} (rl evaluate {result.run_id[:8]} --checkpoint best)"
