"""The weight pipeline by itself: from weights to target weights, stage by stage, as an environment does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.errors import ComponentError, EnvError
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.risk_limits import TOLERANCE, LimitBreach, breaches_of
from alphaswarm_rl.core.types import Array, JsonMapping
from alphaswarm_rl.core.view import View
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.stages import extend_stages, stage_parts

#: What the weights that come in are called in the history.
RAW = "action"


@dataclass(frozen=True, eq=False)
class PipelineState:
    """What a run of the pipeline gives.

    Attributes:
        weights: The target weights, (n, A).
        history: The weights after the action and after each stage, with its alias.
        breaches: The limits that were reached, for each of the n accounts.
    """

    weights: Array
    history: tuple[tuple[str, Array], ...]
    breaches: tuple[tuple[LimitBreach, ...], ...]


class WeightCentricPipeline:
    """Select, allocate, time, limit risk: the stages of an environment without the environment.

    Stages that remember, such as a drawdown limit, remember from run to run; `reset` forgets.

    Args:
        stages: Stages, or references to them, in the order of their roles.
        panel: The bars so far.
        n: Number of accounts.
    """

    def __init__(self, stages: Sequence[PortfolioStage | JsonMapping], panel: MarketPanel, n: int = 1) -> None:
        built = [
            one if isinstance(one, PortfolioStage) else build_from_config(one, kind=PortfolioStage.rl_kind)
            for one in stages
        ]
        self._market = market_of(panel, fill_policy("next_close"), NUMPY)
        self._n = n
        self._parts = stage_parts(built, self._market, n)
        self.warmup_bars = max((stage.warmup_bars() for stage in built), default=0)

    def reset(self) -> None:
        """Begins anew for all accounts."""
        for part in self._parts:
            part.begin(np.arange(self._n))

    def extend(self, panel: MarketPanel) -> None:
        """Goes on with more bars."""
        self._market = market_of(panel, self._market.fill, NUMPY)
        extend_stages(self._parts, self._market)

    def account(self, *, bar: int = -1, cash: float = 1.0) -> View:
        """N accounts that hold nothing but cash at a bar; the last one where none is given."""
        view = View(self._market, cash, self._n)
        view.bar[:] = range(self._market.panel.num_bars)[bar]
        view.start[:] = view.bar
        for name in ("cash", "value", "value_before", "peak"):
            getattr(view, name)[:] = cash
        return view

    def run(self, weights: Array, view: View | None = None) -> PipelineState:
        """The target weights of weights (n, A), which stay as they are.

        Args:
            weights: What the policy wants.
            view: The accounts; None: they hold nothing, at the last bar.
        """
        view = self.account() if view is None else view
        out = self._checked(weights, view)
        history = [(RAW, out.copy())]
        breaches: list[tuple[LimitBreach, ...]] = [()] * self._n
        for part in self._parts:
            limits = part.stage.limits()
            if limits is not None:
                found = breaches_of(limits.set_limits().items(), part.measured(view, out))
                breaches = [before + more for before, more in zip(breaches, found, strict=True)]
            before = out.copy()
            part.step(view, out)
            _check_stage(part.stage, before, out)
            history.append((part.stage.rl_alias, out.copy()))
        return PipelineState(out, tuple(history), tuple(breaches))

    def _checked(self, weights: Array, view: View) -> Array:
        """A copy of the weights; what cannot be weights is an error that names the asset."""
        given = np.array(weights, np.float64)
        assets = self._market.panel.assets
        if given.shape != (self._n, len(assets)):
            raise EnvError(
                f"weights of shape {given.shape}",
                f"the pipeline takes ({self._n}, {len(assets)}): one weight per account and asset",
                "Give those.",
            )
        if not np.isfinite(given).all():
            row, column = np.argwhere(~np.isfinite(given))[0]
            raise EnvError(
                f"the weight of {assets[column]!r} of account {row}", "it is not a finite number", "Mend the policy."
            )
        if int(view.bar.min()) < self.warmup_bars:
            raise EnvError(
                f"bar {int(view.bar.min())}",
                f"the stages look back {self.warmup_bars} bars",
                "Give a later bar, or bars before it.",
            )
        return given


def _check_stage(stage: PortfolioStage, before: Array, after: Array) -> None:
    """Refuses what a stage of that role must not do."""
    grown = np.abs(after) > np.abs(before) * (1.0 + TOLERANCE) + TOLERANCE
    if not np.isfinite(after).all() or (stage.role != "allocate" and grown.any()):
        raise ComponentError(
            f"portfolio stage {stage.rl_alias!r}",
            f"its role is {stage.role}, and it gives weights that are larger than before, or no numbers",
            "Mend the stage: only an allocator may raise a weight.",
        )
