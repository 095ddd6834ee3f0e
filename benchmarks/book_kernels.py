"""How many accounts a second the Book's kernels step, for each way to trade.

    python benchmarks/book_kernels.py [--rounds 11] [--assets 30] [--torch] [--json]

One step is one trade and one mark of one account; random actions on random walks, default costs; `mark` is the mark
alone. Contestants take turns, figures are medians of CPU time, so that a busy machine does not count. `shares` has cash
for every buy; in `shares_starved` cash runs out in every step, so that buys are sorted.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time

import numpy as np

from alphaswarm_rl.market import kernels_numba
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.margin import CASH_ACCOUNT, Margin

BARS, POOL, SIZES = 1000, 16, (64, 1024, 4096)
RATES = CostModel().rates(252)
WAYS = ("shares", "shares_starved", "weights", "position", "mark")


class Contestant:
    """Accounts that trade one way, and the time they took."""

    def __init__(self, way: str, count: int, assets: int) -> None:
        rng = np.random.default_rng(0)
        self.name, self.way, self.count = way, way, count
        self.prices = 50 * np.exp(np.cumsum(rng.normal(0, 0.01, (BARS, assets)), axis=0))
        self.tradable = np.ones(self.prices.shape, bool)
        self.margin = Margin() if way == "position" else CASH_ACCOUNT
        self.actions = [self._action(rng, assets) for _ in range(POOL)]
        self.cash = np.full(count, 1e5 if way == "shares_starved" else 1e9)
        self.positions = np.full((count, assets), 10.0 if way == "mark" else 0.0)
        self.asset = np.zeros(count, np.int64)
        self.time = np.zeros(count, np.int64)
        self.cost, self.turnover, self.traded = np.zeros(count), np.zeros(count), np.zeros((count, assets))
        self.equity, self.carry, self.called = np.zeros(count), np.zeros(count), np.zeros(count, bool)
        self.speeds: list[float] = []
        self.bar = 0
        self.run(steps=200)

    def _action(self, rng: np.random.Generator, assets: int) -> np.ndarray:
        if self.way == "weights":
            return rng.dirichlet(np.ones(assets), self.count)
        if self.way == "position":
            return rng.integers(-1, 2, self.count).astype(float)
        return rng.uniform(-100, 100, (self.count, assets))

    def run(self, steps: int) -> None:
        """Steps all accounts."""
        accounts = (0, self.count, self.cash, self.positions)
        market = (self.time, self.prices, self.tradable, np.empty((0, 0)), np.array(RATES))
        limits, marked = (self.margin.initial, self.margin.short), (self.equity, self.carry, self.called)
        for _ in range(steps):
            self.bar += 1
            self.time[:] = self.bar % BARS
            action = self.actions[self.bar % POOL]
            out = (self.cost, self.turnover, self.traded)
            if self.way.startswith("shares"):
                kernels_numba.trade_shares(*accounts, action, *market, True, *out)
            elif self.way == "weights":
                kernels_numba.trade_to_weights(*accounts, action, *market, *limits, *out)
            elif self.way == "position":
                one = (self.cost, self.turnover, self.traded[:, 0])
                kernels_numba.trade_to_position(*accounts, action, self.asset, *market, *limits, 0.5, False, *one)
            kernels_numba.mark(*accounts, self.time, self.prices, market[-1], self.margin.maintenance, *marked)

    def measure(self) -> None:
        """One round."""
        steps = max(5, 100_000 // self.count)
        started = time.thread_time()
        self.run(steps)
        self.speeds.append(self.count * steps / (time.thread_time() - started))

    def row(self) -> dict[str, object]:
        """The figures."""
        return {"name": self.name, "num_envs": self.count, "steps_per_s": statistics.median(self.speeds)}


class TorchShares(Contestant):
    """The share rule in torch on the CPU, as it is and compiled."""

    def __init__(self, count: int, assets: int, *, compiled: bool) -> None:
        import torch

        from alphaswarm_rl.market import kernels_torch

        torch.set_num_threads(1)

        def step(cash, positions, orders, moment, prices, tradable):
            rows = kernels_torch.MarketRows(moment, prices, tradable, None)
            done = kernels_torch.trade_shares(cash, positions, orders, rows, RATES, whole=True)
            marked = kernels_torch.mark(done.cash, done.positions, moment, prices, RATES, CASH_ACCOUNT)
            return marked.cash, done.positions

        self._torch, self._step = torch, torch.compile(step) if compiled else step
        super().__init__("shares", count, assets)
        self.name = f"shares_torch{'_compiled' if compiled else ''}"

    def run(self, steps: int) -> None:
        """Steps all accounts."""
        tensor = self._torch.from_numpy
        cash, positions = tensor(self.cash), tensor(self.positions)
        for _ in range(min(steps, 20)):
            self.bar += 1
            moment = self._torch.full((self.count,), self.bar % BARS)
            action = tensor(self.actions[self.bar % POOL])
            cash, positions = self._step(cash, positions, action, moment, tensor(self.prices), tensor(self.tradable))
        self.cash, self.positions = cash.numpy(), positions.numpy()

    def measure(self) -> None:
        """One round, of at most 20 steps."""
        steps = min(20, max(5, 100_000 // self.count))
        started = time.thread_time()
        self.run(steps)
        self.speeds.append(self.count * steps / (time.thread_time() - started))


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--assets", type=int, default=30)
    parser.add_argument("--torch", action="store_true", help="the share rule in torch as well")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    contestants: list[Contestant] = []
    for count in SIZES:
        for way in WAYS:
            contestants.append(Contestant(way, count, 1 if way == "position" else arguments.assets))
        if arguments.torch:
            contestants += [TorchShares(count, arguments.assets, compiled=compiled) for compiled in (False, True)]
    for _ in range(arguments.rounds):
        for contestant in contestants:
            contestant.measure()
    rows = [contestant.row() for contestant in contestants]
    if arguments.json:
        print(json.dumps({"machine": platform.processor() or platform.machine(), "rows": rows}))
    else:
        for row in rows:
            print(f"{row['name']:24} N={row['num_envs']:<6} {row['steps_per_s'] / 1e6:8.2f} M/s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
