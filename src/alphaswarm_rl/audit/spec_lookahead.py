"""The look-ahead audit of a whole spec."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from alphaswarm_rl.audit.lookahead import (
    Finding,
    env_findings,
    last_reached,
    pipeline_findings,
    undeclared,
    universe_findings,
)
from alphaswarm_rl.core.contracts import EnvRequest, TableReader
from alphaswarm_rl.core.errors import SpecError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.spec import RLExperimentSpec


@dataclass(frozen=True)
class Report:
    """What an audit found.

    Attributes:
        bars: Bars of the training window that were looked at: those that episodes reach.
        window_bars: All bars of the training window that can be decided on.
        checked: The components that were, as kind:alias.
        findings: What looks ahead.
    """

    bars: int
    window_bars: int
    checked: tuple[str, ...]
    findings: tuple[Finding, ...]

    @property
    def clean(self) -> bool:
        """Whether nothing looks ahead that does not say so."""
        return not undeclared(self.findings)


def audit_spec(
    spec: RLExperimentSpec,
    *,
    root: Path = Path(),
    frames: JsonMapping | None = None,
    lake: Callable[[], TableReader] | None = None,
    seed: int = 0,
) -> Report:
    """Audits all that a spec shows, chooses and decides on its training window: from data pipeline to terminations.

    Args:
        spec: The spec.
        root: Folder that paths of data are relative to.
        frames: Data frames by name.
        lake: Gives the reader of the lake's tables.
        seed: Seed of made data, actions and noise.
    """
    return audit_built(Builder(spec, seed=seed, device="cpu", root=root, frames=frames, lake=lake), seed=seed)


def audit_built(builder: Builder, *, seed: int = 0) -> Report:
    """The same of what a builder builds; of its data only what it loads for the training window.

    Args:
        builder: Builds what the spec describes.
        seed: Seed of actions and noise.
    """
    spec = builder.spec
    if builder.data is None or not isinstance(builder.env, TradingComponent):
        raise SpecError(
            f"the env {builder.env.rl_alias!r}",
            "it has no market data whose future could be replaced",
            "Audit a spec with a trading environment and a data pipeline.",
        )
    window = spec.training.window
    panel = builder.data.seen(window)
    # The whole window in one episode, with the reward of training: that is where hindsight may stand.
    component = type(builder.env)(builder.env.config.model_copy(update={"episode_bars": None}))

    def make(market: MarketPanel) -> TradingEnv:
        parts = {**builder.parts, "panel": market}
        coefficient = spec.training.stop_properly_penalty_coef
        env = component.build(EnvRequest(num_envs=1, seed=seed, parts=parts, stop_properly=coefficient))
        assert isinstance(env, TradingEnv)
        return env

    plan = component.plan(EnvRequest(num_envs=1, seed=seed, parts={**builder.parts, "panel": panel}))
    request = replace(builder.data.request, window=window)
    pipeline = builder.data.pipeline
    universe = builder.data.universe
    checked = (pipeline, *(() if universe is None else (universe.model,)), *plan.parts())
    last = last_reached(make, panel, seed=seed)
    return Report(
        bars=last - plan.first_bar + 1,
        window_bars=plan.last_bar - plan.first_bar + 1,
        checked=tuple(dict.fromkeys(f"{part.rl_kind}:{part.rl_alias}" for part in checked)),
        findings=(
            *(() if universe is None else universe_findings(pipeline, builder.data.candidates, universe, seed=seed)),
            *pipeline_findings(pipeline, request, seed=seed),
            *env_findings(make, panel, last, seed=seed),
        ),
    )
