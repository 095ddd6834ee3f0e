"""How often the default gates pass policies that have an edge, and how often policies that have none.

python benchmarks/gates.py [--noise N] [--good N] [--steps N] [--json]

Every policy is a training of its own (`ppo_inhouse`, four assets, costs) on bars of its own, judged on two years that
follow. On noise there is nothing to learn: a martingale with a feature that says nothing, geometric Brownian motion
without drift, and with a drift that whoever holds gets. With an edge: prices that return to their mean, and bars whose
next return is shown.
"""

from __future__ import annotations

import argparse
import platform
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from judging import Line, at_least, at_most, tell
from scipy.stats import beta

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import ValidationRow
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec

BARS = {"n_assets": 4, "n_bars": 1500}
LOOKBACKS = ["returns_1", "returns_5", "returns_10"]
NOISE: dict[str, JsonObject] = {
    "martingale with a meaningless feature": {"model": "noise"},
    "gbm without drift": {"model": "gbm", "drift": 0.0, "features": LOOKBACKS},
    "gbm with drift": {"model": "gbm", "drift": 0.05, "features": LOOKBACKS},
}
GOOD: dict[str, JsonObject] = {
    "ou": {"model": "ou", "mean_reversion": 60.0, "features": LOOKBACKS},
    "oracle": {"model": "oracle"},
}
#: The first day that is judged, after some four years.
SPLIT = "2023-10-02"
#: Cheap enough that an edge of days is worth trading.
COSTS = {"commission_rate": 0.0001, "half_spread_bps": 0.5}
#: Most that the upper bound of false passes may be, and least share of good policies that pass.
MOST_FALSE, LEAST_GOOD = 0.05, 0.8


def spec_of(name: str, bars: JsonObject, seed: int, steps: int) -> tuple[RLExperimentSpec, dict[str, object]]:
    """A training on such bars, and the frames that it needs."""
    pipeline: JsonObject = {"class": "synthetic", "kwargs": {**BARS, **bars, "seed": seed, "scaler": "zscore"}}
    frames: dict[str, object] = {}
    if bars["model"] == "oracle":
        # As an ordinary column: what is marked as hindsight cannot be judged.
        frames = {"bars": shown_future(seed)}
        pipeline = {"class": "frame", "kwargs": {"name": "bars", "feature_columns": ["signal"], "scaler": "zscore"}}
    agent = {"n_steps": 64, "batch_size": 128, "n_epochs": 4, "net_arch": [16], "learning_rate": 0.003}
    data = {
        "name": f"{name} {seed}",
        "data_pipeline": pipeline,
        "env": {"class": "stock_portfolio", "kwargs": {"costs": COSTS}},
        "observation": {"class": "technical_indicators"},
        "agent": {"class": "ppo_inhouse", "kwargs": agent},
        "training": {"total_timesteps": steps, "n_envs": 8, "end": SPLIT, "seed": seed},
        "evaluation": {"start": SPLIT, "episodes": 1},
        "trajectory_store": {"enabled": False},
    }
    return RLExperimentSpec.from_data(data), frames


def shown_future(seed: int) -> pd.DataFrame:
    """The bars of `oracle`, with the next return as a column."""
    pipeline = reference({"class": "synthetic", "kwargs": {**BARS, "model": "oracle", "seed": seed}}, "data_pipeline")
    panel = pipeline.build().build(DataRequest())
    bars, assets = panel.close.shape
    columns = {name: getattr(panel, name).ravel() for name in ("open", "high", "low", "close", "volume")}
    return pd.DataFrame(
        {
            "date": np.repeat(panel.timestamps, assets),
            "tic": np.tile(panel.assets, bars),
            **columns,
            "signal": panel.features[:, :, 0].ravel(),
        }
    )


def judged(settings: Settings, name: str, bars: JsonObject, seed: int, steps: int) -> ValidationRow:
    """What the gates say of one policy."""
    spec, frames = spec_of(name, bars, seed, steps)
    result = RLRuntime(spec, settings, frames=frames).train()
    with ModelRegistry.open(settings) as registry:
        (row,) = (row for row in registry.list() if row.run_id == result.run_id and row.mean_reward is not None)
        return registry.validations(row.id)[-1]


def counted(settings: Settings, markets: dict[str, JsonObject], each: int, steps: int) -> dict[str, list[bool]]:
    """Which policies passed, by market; those that failed are told with the gates that refused them."""
    passed: dict[str, list[bool]] = {}
    for name, bars in markets.items():
        refused: Counter[str] = Counter()
        for seed in range(each):
            found = judged(settings, name, bars, seed, steps)
            passed.setdefault(name, []).append(found.passed)
            refused.update(check.gate for check in found.checks if not check.passed)
        gates = ", ".join(f"{gate} {count}" for gate, count in refused.most_common())
        print(f"{name}: {sum(passed[name])} of {each} passed; refused by {gates or 'none'}", flush=True)
    return passed


def main() -> int:
    """Counts, and says whether the shares are within their bounds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--noise", type=int, default=34, help="policies on each market of noise")
    parser.add_argument("--good", type=int, default=10, help="policies on each market with an edge")
    parser.add_argument("--steps", type=int, default=15_000, help="transitions of a training")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as home:
        settings = Settings(home=Path(home))
        good = counted(settings, GOOD, given.good, given.steps)
        noise = counted(settings, NOISE, given.noise, given.steps)
    falsely, policies = sum(map(sum, noise.values())), sum(map(len, noise.values()))
    bound = float(beta.ppf(0.95, falsely + 1, policies - falsely))
    lines: list[Line] = [
        at_most("false passes on noise, 95 % bound", bound, MOST_FALSE, f"{falsely} of {policies} policies passed"),
        *(
            at_least(f"passes on {name}", sum(found) / len(found), LEAST_GOOD, f"{sum(found)} of {len(found)} policies")
            for name, found in good.items()
        ),
    ]
    machine = f"{platform.machine()}, {given.steps:,} transitions a training, {time.perf_counter() - started:.0f} s"
    return tell(machine, lines, as_json=given.json)


if __name__ == "__main__":
    sys.exit(main())
