"""Does anything at or before a bar change when everything after it does?

The future is replaced by noise and everything is computed a second time: features by the data pipeline, observations,
rewards, terminations and masks by the environment. What differs at or before the bar has looked ahead. A feature that
comes with the bars cannot be computed again; it is compared with the return that follows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from alphaswarm_rl.audit.noise import MOODS, with_noise_after
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.kinds import DataPipeline
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.market.panel import MarketPanel

Array = np.ndarray[Any, Any]
How = Literal["changes with the future", "tracks the next return"]

#: Correlation with the next return from which on a feature that came with the bars is not believed, and the fewest
#: bars that say so. Over 250 bars of noise, one in a billion features reaches it.
_SUSPICIOUS = 0.4
_FEWEST_BARS = 250


@dataclass(frozen=True)
class Finding:
    """Something that looks ahead.

    Attributes:
        kind: Kind of the component.
        component: Its alias.
        column: The first of its columns that does.
        bar: The bar on which it was seen.
        timestamp: That bar's, ISO.
        how: What gave it away.
        declared: Whether it is declared training_only, or an optimistic fill that says so in the run row.
    """

    kind: str
    component: str
    column: str
    bar: int
    timestamp: str
    how: How = "changes with the future"
    declared: bool = False


def cut_bars(first: int, last: int, count: int = 3) -> list[int]:
    """Bars at which the past is cut off from the future, spread over the window."""
    return sorted({first + (last - first) * (index + 1) // (count + 1) for index in range(count)})


def env_findings(make: Callable[[MarketPanel], TradingEnv], panel: MarketPanel, *, seed: int = 0) -> list[Finding]:
    """What looks ahead in an environment, at most one finding per component.

    Args:
        make: Builds the environment, of one, on a panel of the same shape.
        panel: The true panel.
        seed: Seed of actions and noise.
    """
    plan = make(panel).plan
    found: dict[tuple[str, str], Finding] = {}
    for bar in cut_bars(plan.first_bar, plan.last_bar):
        for mood in MOODS:
            for finding in _env_at(make, panel, with_noise_after(panel, bar, seed, mood), bar, seed):
                found.setdefault((finding.kind, finding.component), finding)
    return list(found.values())


def _env_at(
    make: Callable[[MarketPanel], TradingEnv], panel: MarketPanel, noisy: MarketPanel, bar: int, seed: int
) -> Iterator[Finding]:
    true, other = make(panel), make(noisy)
    space = true.single_action_space
    space.seed(seed)
    plan = true.plan
    columns = [(part, name) for part in plan.builders for name in part.names(panel)]

    def compare_observations(first: Array, second: Array, at: int) -> Iterator[Finding]:
        for index in np.flatnonzero(first[0] != second[0]):
            part, name = columns[index]
            declared = part.training_only or part.rl_alias == "next_open"
            yield Finding("observation", part.rl_alias, name, at, str(panel.timestamps[at]), declared=declared)

    def compare_masks(at: int) -> Iterator[Finding]:
        if hasattr(true, "action_masks") and not np.array_equal(true.action_masks(), other.action_masks()):
            yield Finding("action", plan.action.rl_alias, "mask", at, str(panel.timestamps[at]))

    yield from compare_observations(true.reset()[0], other.reset()[0], plan.first_bar)
    for at in range(plan.first_bar + 1, bar + 1):
        action = np.asarray(space.sample())[None]
        first, second = true.step(action), other.step(action)
        yield from _compare_steps(true, first, second, at, str(panel.timestamps[at]))
        if first[2][0] or first[3][0] or second[2][0] or second[3][0]:
            return
        yield from compare_observations(first[0], second[0], at)
        yield from compare_masks(at)


def _compare_steps(
    env: TradingEnv, first: tuple[Any, ...], second: tuple[Any, ...], at: int, stamp: str
) -> Iterator[Finding]:
    terms = {named.name: named.term for named in env.plan.terms}
    for name, value in first[4]["reward_terms"].items():
        if value[0] != second[4]["reward_terms"][name][0]:
            term = terms[name]
            yield Finding("reward", term.rl_alias, name, at, stamp, declared=term.training_only)
    if first[4].get("reason", [""])[0] != second[4].get("reason", [""])[0]:
        alias = first[4].get("reason", [""])[0] or second[4].get("reason", [""])[0]
        yield Finding("termination", str(alias), "end", at, stamp)
    if first[4]["portfolio_value"][0] != second[4]["portfolio_value"][0]:
        yield Finding("action", env.plan.action.rl_alias, "portfolio_value", at, stamp)


def pipeline_findings(pipeline: DataPipeline, request: DataRequest, *, seed: int = 0) -> list[Finding]:
    """What looks ahead in a data pipeline's features, at most one finding per column.

    Features that a pipeline computes from the bars it loads are computed again on bars with another future. A pipeline
    without `load` is taken as it is.
    """
    alias = pipeline.rl_alias
    panel: MarketPanel = pipeline.build(request)
    found: dict[str, Finding] = {}
    load = getattr(pipeline, "load", None)
    if load is not None:
        bars: MarketPanel = load(request)
        for bar in cut_bars(panel.warmup, panel.num_bars - 1):
            moment = panel.timestamps[bar]
            raw = int(np.searchsorted(bars.timestamps, moment))
            noisy = with_noise_after(bars, raw, seed)
            try:
                pipeline.load = lambda _, noisy=noisy: noisy  # type: ignore[attr-defined]
                other = pipeline.build(request)
            finally:
                del pipeline.load  # type: ignore[attr-defined]
            for finding in _changed_features(alias, panel, other, bar):
                found.setdefault(finding.column, finding)
    for finding in _knowing_features(alias, panel):
        found.setdefault(finding.column, finding)
    return list(found.values())


def _changed_features(alias: str, panel: MarketPanel, other: MarketPanel, bar: int) -> Iterator[Finding]:
    until = slice(0, bar + 1)
    own = (
        (name, panel.features[until, :, k], other.features[until, :, k]) for k, name in enumerate(panel.feature_names)
    )
    market = (
        (name, panel.market_features[until, m, None], other.market_features[until, m, None])
        for m, name in enumerate(panel.market_feature_names)
    )
    for name, first, second in (*own, *market):
        rows = np.flatnonzero((first != second).any(axis=1))
        if len(rows):
            declared = name in panel.training_only_features
            yield Finding("data_pipeline", alias, name, int(rows[0]), str(panel.timestamps[rows[0]]), declared=declared)


def _knowing_features(alias: str, panel: MarketPanel) -> Iterator[Finding]:
    """Features that follow the next bar's return closer than any honest one does."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ahead = panel.close[1:] / panel.close[:-1] - 1.0
    counted = panel.tradable[1:] & panel.tradable[:-1]
    for k, name in enumerate(panel.feature_names):
        values = panel.features[:-1, :, k].astype(np.float64)
        for asset in range(panel.num_assets):
            keep = counted[:, asset] & np.isfinite(ahead[:, asset])
            if keep.sum() >= _FEWEST_BARS and abs(_correlation(values[keep, asset], ahead[keep, asset])) >= _SUSPICIOUS:
                declared = name in panel.training_only_features
                yield Finding(
                    "data_pipeline", alias, name, panel.warmup, str(panel.timestamps[panel.warmup]),
                    how="tracks the next return", declared=declared,
                )  # fmt: skip
                break


def _correlation(first: Array, second: Array) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def undeclared(findings: Iterable[Finding]) -> list[Finding]:
    """Those that nobody said would look ahead."""
    return [finding for finding in findings if not finding.declared]
