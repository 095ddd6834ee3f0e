"""Does anything at or before a bar change when everything after it does?

The future is replaced by noise and everything is computed a second time: features by the data pipeline, the assets by
the universe's model, observations, masks, decisions, rewards and terminations by the environment. What differs at or
before the bar has looked ahead. A feature that comes with the bars cannot be computed again; it is compared with the
return that follows instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Literal

import numpy as np

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.audit.noise import MOODS, with_noise_after
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError, EnvError
from alphaswarm_rl.core.kinds import DataPipeline, SmallComponent
from alphaswarm_rl.core.types import Array, JsonMapping
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.inference.universe import Universe
from alphaswarm_rl.market.panel import MarketPanel

Make = Callable[[MarketPanel], TradingEnv]
How = Literal["changes with the future", "tracks the next return"]

#: Correlation with the next return from which on a feature that came with the bars is not believed, and the fewest
#: bars that say so. Over 250 bars of noise, one in a billion features reaches it.
_SUSPICIOUS = 0.4
_FEWEST_BARS = 250
#: Actions that are tried at the bar itself: not every one shows what a decision knows.
_TRIED = 8


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
        declared: Whether it is declared training_only, or by an optimistic fill that the run row names. A decision
            never is: it is made in every phase.
    """

    kind: str
    component: str
    column: str
    bar: int
    timestamp: str
    how: How = "changes with the future"
    declared: bool = False


def cut_bars(first: int, last: int, count: int = 3) -> list[int]:
    """Bars at which the past is cut off from the future, spread over those from `first` to `last`."""
    return sorted({first + (last - first) * (index + 1) // (count + 1) for index in range(count)})


def last_reached(make: Make, panel: MarketPanel, *, seed: int = 0) -> int:
    """The last bar before the first episode ends, with the actions that the audit takes.

    Args:
        make: Builds the environment, of one, on a panel of the same shape.
        panel: The true panel.
        seed: Seed of actions.
    """
    env = make(panel)
    plan, actions = env.plan, _actions(env, seed)
    env.reset()
    bar, ended = plan.first_bar, False
    while not ended:
        _, _, terminated, truncated, _ = env.step(next(actions))
        bar, ended = bar + 1, bool(terminated[0] or truncated[0])
    # Where the bars run out, none is left out.
    last = bar if bar == plan.last_bar else bar - 1
    if last == plan.first_bar:
        raise EnvError(
            "the look-ahead audit", "episodes end with their first step", "Mend the terminations, or try another seed."
        )
    if not panel.tradable[plan.first_bar : last + 1].any():
        raise DataError(
            f"the {last - plan.first_bar + 1} bars that episodes reach",
            "no asset can be traded in them, so that nothing can be seen",
            "Audit another window, or other assets.",
        )
    return last


def env_findings(make: Make, panel: MarketPanel, last: int, *, seed: int = 0) -> list[Finding]:
    """What looks ahead in an environment, at most one finding per component.

    Args:
        make: Builds the environment, of one, on a panel of the same shape.
        panel: The true panel.
        last: The last bar to look at; see `last_reached`.
        seed: Seed of actions and noise.
    """
    found: dict[tuple[str, str], Finding] = {}
    plan = make(panel).plan
    # Where something ends the episode, that bar too: whether it ends there may depend on what follows.
    ends = [last + 1] if last < plan.last_bar else []
    for bar in cut_bars(plan.first_bar, last) + ends:
        for mood in MOODS:
            pair = _Pair(make(panel), make(with_noise_after(panel, bar, seed, mood)))
            for finding in pair.findings(bar, seed):
                found.setdefault((finding.kind, finding.component), finding)
    return list(found.values())


def _actions(env: TradingEnv, seed: int) -> Iterator[Array]:
    env.single_action_space.seed(seed)
    while True:
        yield np.asarray(env.single_action_space.sample())[None]


class _Pair:
    """Two environments with the same actions: one on the true panel, one on a panel with another future."""

    def __init__(self, true: TradingEnv, other: TradingEnv) -> None:
        self.true = true
        self.other = other
        self.plan = true.plan
        self._columns = [(part, name) for part in self.plan.builders for name in part.names(self.plan.panel)]

    def findings(self, bar: int, seed: int) -> Iterator[Finding]:
        """What differs at or before `bar`.

        Where a decision or an account differs it ends: all that comes after follows from it.
        """
        actions = _actions(self.true, seed)
        shown = self.true.reset()[0], self.other.reset()[0]
        for at in range(self.plan.first_bar, bar + 1):
            yield from self._compare_shown(*shown, at)
            tried = list(islice(actions, _TRIED if at == bar else 1))
            deciding = next((part for action in tried for part in self._deciding_otherwise(action)), None)
            if deciding is not None:
                yield self._finding(deciding, "wanted", at)
            if deciding is not None or at == bar:
                return
            first, second = self.true.step(tried[0]), self.other.step(tried[0])
            yield from self._compare_steps(first[4], second[4], at + 1)
            if _accounts_differ(first[4], second[4]) or "reason" in first[4] or "reason" in second[4]:
                return
            shown = first[0], second[0]

    def _compare_steps(self, first: JsonMapping, second: JsonMapping, at: int) -> Iterator[Finding]:
        """What differs in the infos of one step: the account, else rewards and the reason of an end."""
        if _accounts_differ(first, second):
            yield self._finding(self.plan.action, "portfolio_value", at)
            return
        for named in self.plan.terms:
            if first["reward_terms"][named.name][0] != second["reward_terms"][named.name][0]:
                yield self._finding(named.term, named.name, at, declared=named.term.training_only)
        reason, other = (infos.get("reason", [""])[0] for infos in (first, second))
        if reason != other:
            ending = next(part for part in self.plan.terminations if part.rl_alias == (other or reason))
            yield self._finding(ending, "end", at)

    def _compare_shown(self, first: Array, second: Array, at: int) -> Iterator[Finding]:
        for index in np.flatnonzero(first[0] != second[0]):
            part, name = self._columns[index]
            declared = part.training_only or (part.rl_alias == "next_open" and self.plan.fill.shows_next_open)
            yield self._finding(part, name, at, declared=declared)
        masked = hasattr(self.true, "action_masks")
        if masked and not np.array_equal(self.true.action_masks(), self.other.action_masks()):
            yield self._finding(self.plan.action, "mask", at)

    def _deciding_otherwise(self, action: Array) -> Iterator[SmallComponent]:
        """The parts that make another decision of the same action, and those that it reaches."""
        for (part, first), (_, second) in zip(_decided(self.true, action), _decided(self.other, action), strict=True):
            if not np.array_equal(first, second, equal_nan=True):
                yield part

    def _finding(self, part: SmallComponent, column: str, at: int, *, declared: bool = False) -> Finding:
        stamp = str(self.plan.panel.timestamps[at])
        return Finding(part.rl_kind, part.rl_alias, column, at, stamp, declared=declared)


def _accounts_differ(first: JsonMapping, second: JsonMapping) -> bool:
    return bool(first["portfolio_value"][0] != second["portfolio_value"][0])


def _decided(env: TradingEnv, action: Array) -> Iterator[tuple[SmallComponent, Array]]:
    """What the action and then each stage make of the agent's output, from copies of their arrays; nothing is done."""
    shape = (env.num_envs,) if env.trade.way == "position" else (env.num_envs, env.market.assets)
    targets = np.zeros(shape)
    env.view.action = action
    for part in (env.decider.action, *env.decider.stages):
        part.holding({name: array.copy() for name, array in part.own.items()}).step(env.view, targets)
        yield part.component, targets.copy()


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
        for bar, mood in zip(cut_bars(panel.warmup, panel.num_bars - 1), MOODS, strict=False):
            moment = panel.timestamps[bar]
            raw = int(np.searchsorted(bars.timestamps, moment))
            with _loading(pipeline, with_noise_after(bars, raw, seed, mood)):
                other = pipeline.build(request)
            for finding in _changed_features(alias, panel, other, bar):
                found.setdefault(finding.column, finding)
    for finding in _knowing_features(alias, panel):
        found.setdefault(finding.column, finding)
    return list(found.values())


def universe_findings(
    pipeline: DataPipeline, request: DataRequest, universe: Universe, *, seed: int = 0
) -> list[Finding]:
    """Whether other assets are chosen where what follows the moment of the choice is another; one finding at most.

    Only a pipeline with `load` can be given other bars; another is taken as it is.
    """
    load = getattr(pipeline, "load", None)
    if load is None:
        return []
    chosen = universe.choose(pipeline, request).symbols
    bars: MarketPanel = load(request)
    # The last bar that is over then.
    bar = int(np.searchsorted(bars.known_at, moment(universe.moment), side="right")) - 1
    if bar >= bars.num_bars - 1:
        return []
    for mood in MOODS:
        with _loading(pipeline, with_noise_after(bars, bar, seed, mood)):
            other = universe.choose(pipeline, request).symbols
        if other != chosen:
            model = universe.model
            return [Finding(model.rl_kind, model.rl_alias, "assets", bar, str(bars.timestamps[bar]))]
    return []


@contextmanager
def _loading(pipeline: DataPipeline, bars: MarketPanel) -> Iterator[None]:
    """While the pipeline loads these bars, whatever its source has."""
    try:
        pipeline.load = lambda _: bars  # type: ignore[attr-defined]
        yield
    finally:
        del pipeline.load  # type: ignore[attr-defined]


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
            yield _feature_finding(alias, panel, name, int(rows[0]), "changes with the future")


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
                yield _feature_finding(alias, panel, name, panel.warmup, "tracks the next return")
                break


def _feature_finding(alias: str, panel: MarketPanel, name: str, bar: int, how: How) -> Finding:
    declared = name in panel.training_only_features
    return Finding("data_pipeline", alias, name, bar, str(panel.timestamps[bar]), how, declared)


def _correlation(first: Array, second: Array) -> float:
    if first.std() == 0 or second.std() == 0:
        return 0.0
    return float(np.corrcoef(first, second)[0, 1])


def undeclared(findings: Iterable[Finding]) -> list[Finding]:
    """Those that nobody said would look ahead."""
    return [finding for finding in findings if not finding.declared]
