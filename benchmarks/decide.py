"""How long a decision takes: the first one, and each new bar with carried features.

    python benchmarks/decide.py [--json] [--bars 250] [--assets 30 --assets 500]

A new bar means: the bar comes in, its features are computed, the policy answers, orders are made. The policy is what
training would begin with: a network of two layers, whose weights play no part in the time it takes.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from judging import at_most, tell

_BARS = 2520
_P50_MS = 5.0
#: Up to so many assets the bound holds; more are shown.
_JUDGED_ASSETS = 30
_FEATURES = ["macd", "boll_ub", "boll_lb", "rsi_30", "cci_30", "dx_30", "close_30_sma", "close_60_sma"]


def frame_of(symbols: int, bars: int) -> pd.DataFrame:
    """Bars of a random walk, one row per bar and symbol."""
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (bars, symbols)), axis=0))
    opened = close * np.exp(rng.normal(0, 0.003, close.shape))
    return pd.DataFrame(
        {
            "date": np.repeat(pd.bdate_range("2014-01-02", periods=bars), symbols),
            "tic": np.tile([f"S{symbol:03}" for symbol in range(symbols)], bars),
            "open": opened.ravel(),
            "high": np.maximum(opened, close).ravel() * 1.002,
            "low": np.minimum(opened, close).ravel() / 1.002,
            "close": close.ravel(),
            "volume": rng.uniform(1000, 10**6, close.size),
        }
    )


def measured(symbols: int, new_bars: int) -> dict[str, float]:
    """Milliseconds: p50 and p99 of a new bar, and of the first decision from nothing but a loaded checkpoint."""
    from alphaswarm_rl.core.run_listener import Checkpoint
    from alphaswarm_rl.inference.account import Account
    from alphaswarm_rl.inference.builder import Builder
    from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint
    from alphaswarm_rl.inference.policy_server import PolicyServer
    from alphaswarm_rl.market.bar_row import BarRow
    from alphaswarm_rl.settings import Settings
    from alphaswarm_rl.spec import RLExperimentSpec

    frame = frame_of(symbols, _BARS)
    days = frame["date"].unique()
    start = str(days[_BARS - new_bars - 10])[:10]
    network = {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [64, 64]}
    spec = RLExperimentSpec.from_data(
        {
            "name": "Benchmark",
            "env": {
                "class": "stock_portfolio",
                "kwargs": {
                    "sizing": "at_decision",
                    "portfolio": [{"class": "volatility_target"}, {"class": "position_cap"}],
                },
            },
            "data_pipeline": {
                "class": "frame",
                "kwargs": {
                    "name": "bars",
                    "features": _FEATURES,
                    "market_features": ["turbulence"],
                    "scaler": "zscore",
                },
            },
            "observation": {
                "class": "stacked",
                "kwargs": {"parts": [{"class": "portfolio_state"}, {"class": "technical_indicators"}]},
            },
            "action": {"class": "softmax_weights"},
            "agent": {"class": "ppo_inhouse", "kwargs": network},
            "training": {"total_timesteps": 16, "end": start},
            "evaluation": {"start": start},
        }
    )
    frames = {"bars": frame}
    builder = Builder(spec, seed=0, device="cpu", frames=frames)
    bars = builder.data.load((spec.training.window, spec.evaluation.window))
    env = builder.build_env("train", num_envs=1, phase="train", window=spec.training.window)
    learner = builder.build_learner(env, training=True)
    states = {"learner": learner.get_state(), "data": builder.data.fitted}
    plan = builder.policy_plan(env, spec.training.window, remembers=False).to_json()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home))
        loaded = LoadedCheckpoint(Checkpoint(Path(home), "0" * 64, 0), spec.canonical(), 0, states, plan)
        account = Account(cash=1e6, positions=dict.fromkeys(bars.assets, 100.0))
        first = bars.num_bars - new_bars
        began = time.perf_counter()
        with PolicyServer.of(loaded, settings, frames=frames) as server:
            stream = server.decision_stream(bars.cut(0, first))
            stream.decide(account)
            cold = time.perf_counter() - began
            began = time.perf_counter()
            server.decide(bars.cut(0, first), account)
            once = time.perf_counter() - began
            times = []
            for index in range(first, bars.num_bars):
                row = BarRow(
                    timestamp=bars.timestamps[index],
                    **{name: getattr(bars, name)[index] for name in ("open", "high", "low", "close", "volume")},
                )
                began = time.perf_counter()
                stream.add(row)
                decided = stream.decide(account)
                times.append(time.perf_counter() - began)
                account = replace(account, cash=account.cash)
    assert decided.bar == bars.timestamps[-1]
    p50, p99 = np.percentile(times, [50, 99])
    return {"p50": p50 * 1e3, "p99": p99 * 1e3, "cold": cold * 1e3, "once": once * 1e3}


def main() -> int:
    """Prints the figures; fails when one is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bars", type=int, default=250, help="new bars that are measured")
    parser.add_argument("--assets", type=int, action="append", help="numbers of assets; default 30 and 500")
    arguments = parser.parse_args()
    lines = []
    for symbols in arguments.assets or (30, 500):
        bound = _P50_MS if symbols <= _JUDGED_ASSETS else float("inf")
        found = measured(symbols, arguments.bars)
        what = f"{symbols} assets, {len(_FEATURES)} indicators and turbulence, {_BARS} bars of history"
        figures = f"p99 {found['p99']:.1f} ms; from a loaded checkpoint to the first decision {found['cold']:.0f} ms"
        text = f"{what}; {figures}; decided at once, without a stream, {found['once']:.0f} ms"
        lines.append(at_most("a new bar with carried features, p50 in ms", found["p50"], bound, text))
    return tell(platform.platform(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
