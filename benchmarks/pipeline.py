"""What portfolio stages cost: a step of an environment with them beside the same without, and what is computed before.

    python benchmarks/pipeline.py [--num-envs 4096] [--assets 30] [--rounds 21] [--json]

The environment is `stock_portfolio` as it is, every account at a bar of its own; the stages are the assets of highest
momentum, a softmax over them, a volatility target, and caps on positions and on gross exposure. The two take turns,
figures are CPU time of one thread, and the ratio is the median of the rounds' ratios. Beside it: how long it takes to
allocate for all bars before the first step, by optimisers with the first bar of every month.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time

import numpy as np
from judging import at_most, tell

from alphaswarm_rl import build_from_config, make_env
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.stages import stage_parts

BARS, POOL, STEPS = 2000, 8, 6
MOST_OVER = 0.3
STAGES = [
    {"class": "momentum", "kwargs": {"k": 10, "lookback": 126}},
    {"class": "softmax"},
    {"class": "volatility_target", "kwargs": {"target": 0.1, "lookback": 20}},
    {"class": "position_cap", "kwargs": {"max_position": 0.1}},
    {"class": "gross_exposure", "kwargs": {"max_gross": 1.0}},
]
ALLOCATORS = ("inverse_volatility", "minimum_variance", "mean_variance", "hierarchical_risk_parity")


def panel_of(assets: int) -> MarketPanel:
    """Daily bars of random walks that move with the market."""
    rng = np.random.default_rng(0)
    moves = rng.normal(0.0003, 0.008, (BARS, 1)) + rng.normal(0.0, 0.012, (BARS, assets))
    close = 50 * np.exp(np.cumsum(moves, axis=0))
    days = np.datetime64("2016-01-01") + np.arange(BARS).astype("timedelta64[D]")
    names = [f"S{index:02}" for index in range(assets)]
    panel = MarketPanel.from_arrays({"timestamps": days, "assets": names, "close": close, "open": close * 0.999})
    return panel.with_features({f"f{index}": rng.normal(size=close.shape) for index in range(8)})


class Contestant:
    """An environment, its actions, and the time of each round."""

    def __init__(self, panel: MarketPanel, num_envs: int, stages: list[dict[str, object]]) -> None:
        self.env = make_env("stock_portfolio", panel=panel, num_envs=num_envs, seed=0, portfolio=stages)
        rng, space = np.random.default_rng(0), self.env.single_action_space
        self.actions = [rng.uniform(-2, 2, (num_envs, *space.shape)).astype(np.float32) for _ in range(POOL)]
        self.env.reset()
        self.times: list[float] = []
        self.run()

    def run(self) -> None:
        """Some steps of the whole batch."""
        for number in range(STEPS):
            self.env.step(self.actions[number % POOL])

    def measure(self) -> None:
        """One round."""
        started = time.thread_time()
        self.run()
        self.times.append((time.thread_time() - started) / STEPS)


def seconds_to_allocate(panel: MarketPanel, alias: str) -> float:
    """CPU time of the process for the allocations of all bars."""
    market = market_of(panel, fill_policy("next_open"), NUMPY)
    stage = build_from_config({"class": alias}, kind="portfolio_stage")
    started = time.process_time()
    stage_parts([stage], market, 1)
    return time.process_time() - started


def main() -> int:
    """Prints the figures; fails when stages cost more than they may."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--assets", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    panel = panel_of(arguments.assets)
    plain, staged = (Contestant(panel, arguments.num_envs, stages) for stages in ([], STAGES))
    for _ in range(arguments.rounds):
        plain.measure()
        staged.measure()
    over = statistics.median(two / one - 1.0 for one, two in zip(plain.times, staged.times, strict=True))
    step, with_stages = (1e3 * statistics.median(one.times) for one in (plain, staged))
    what = f"{arguments.num_envs} x {arguments.assets}: {step:.2f} ms a step, {with_stages:.2f} ms with stages"
    lines = [at_most("stages over a step of the environment", over, MOST_OVER, what)]
    print(f"allocations of {BARS} daily bars, {arguments.assets} assets, every month", file=sys.stderr)
    for alias in ALLOCATORS:
        print(f"  {alias:26} {seconds_to_allocate(panel, alias):6.2f} s of CPU", file=sys.stderr)
    return tell(platform.platform(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
