"""How many bars a second the native engine plays, beside Backtrader with the same strategy.

    python benchmarks/backtest.py [--assets 30] [--bars 1000] [--rounds 5] [--json]

The strategy holds the `k` assets that gained most over the last 20 bars, in equal parts, and looks again at every bar;
its weights are worked out before, so that what is measured is the engine. One run at a time. The peer is a plain
Backtrader strategy with `order_target_percent`, without any of our code; beside it stands our engine `backtrader`.
Contestants take turns, figures are medians of CPU time of the process, and what they leave in cash must agree.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import time
from datetime import datetime

import backtrader as bt
import numpy as np

from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.execution.backtest_result import BacktestResult
from alphaswarm_rl.execution.backtrader import BacktraderEngine
from alphaswarm_rl.execution.decision import Decision
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.market.costs import CostModel
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.sizing import SizingRules

#: Assets held, and how much of the equity they are together: what the next open makes dearer can still be paid.
HELD, INVESTED, LOOKBACK = 10, 0.9, 20
#: What the native engine promises to be faster by.
PROMISED = 50.0
CASH, COMMISSION = 1_000_000.0, 0.0005


def bars(count: int, assets: int) -> MarketPanel:
    """Random walks without gaps."""
    rng = np.random.default_rng(0)
    close = 50.0 * np.exp(np.cumsum(rng.normal(0.0002, 0.015, (count, assets)), axis=0))
    opens = close * np.exp(rng.normal(0.0, 0.003, close.shape))
    return MarketPanel.from_arrays(
        {
            "timestamps": np.datetime64("2015-01-01") + np.arange(count).astype("timedelta64[D]"),
            "assets": [f"A{index:03d}" for index in range(assets)],
            "open": opens,
            "high": np.maximum(opens, close),
            "low": np.minimum(opens, close),
            "close": close,
        }
    )


def momentum(panel: MarketPanel) -> np.ndarray:
    """The weights by bar."""
    weights = np.zeros(panel.close.shape)
    held = min(HELD, panel.num_assets)
    for bar in range(LOOKBACK, panel.num_bars):
        gained = panel.close[bar] / panel.close[bar - LOOKBACK]
        weights[bar, np.argsort(-gained)[:held]] = INVESTED / held
    return weights


class PlainStrategy(bt.Strategy):
    """The strategy as a user of Backtrader writes it."""

    params = (("weights", None),)

    def next(self) -> None:
        """Rebalances: what shrinks first."""
        targets = self.p.weights[len(self) - 1]
        value = self.broker.getvalue()
        held = [self.getposition(data).size * data.close[0] / value for data in self.datas]
        for asset in np.argsort(targets - held):
            self.order_target_percent(data=self.datas[asset], target=float(targets[asset]))


class FractionalFees(bt.CommInfoBase):
    """A commission in percent, and sizes in fractions."""

    params = (
        ("stocklike", True),
        ("commtype", bt.CommInfoBase.COMM_PERC),
        ("percabs", True),
        ("commission", COMMISSION),
    )

    def getsize(self, price: float, cash: float) -> float:
        """Units for that money."""
        return cash / price


class ArrayFeed(bt.feed.DataBase):
    """Bars of one asset from arrays."""

    def __init__(self, rows: list[tuple[float, ...]]) -> None:
        super().__init__()
        self._rows = iter(rows)

    def _load(self) -> bool:
        row = next(self._rows, None)
        if row is None:
            return False
        lines = self.lines
        lines.datetime[0], lines.open[0], lines.high[0], lines.low[0], lines.close[0] = row
        lines.volume[0] = lines.openinterest[0] = 0.0
        return True


def plain(panel: MarketPanel, weights: np.ndarray) -> float:
    """The value that plain Backtrader ends with."""
    cerebro = bt.Cerebro(stdstats=False)
    cerebro.broker.set_cash(CASH)
    cerebro.broker.set_checksubmit(False)
    stamps = [bt.date2num(stamp) for stamp in panel.timestamps.astype("datetime64[us]").astype(datetime)]
    for asset, symbol in enumerate(panel.assets):
        prices = (getattr(panel, name)[:, asset].tolist() for name in ("open", "high", "low", "close"))
        cerebro.adddata(ArrayFeed(list(zip(stamps, *prices, strict=True))), name=symbol)
        cerebro.broker.addcommissioninfo(FractionalFees(), name=symbol)
    cerebro.addstrategy(PlainStrategy, weights=weights)
    cerebro.run()
    return float(cerebro.broker.getvalue())


def played(engine: NativeEngine | BacktraderEngine, panel: MarketPanel, weights: np.ndarray) -> BacktestResult:
    """The same on one of our engines."""
    market = market_of(panel, fill_policy("next_open"), NUMPY)
    costs = CostModel(commission_rate=COMMISSION, half_spread_bps=0.0, borrow_rate=0.0)
    request = BacktestRequest(market, costs=costs, sizing=SizingRules(), cash=CASH)
    decisions = [Decision.of_weights(row) for row in weights]
    return engine.run(request, lambda account, _: decisions[account.bar[0]])


def measure(count: int, assets: int, rounds: int) -> dict[str, float]:
    """Bars per second of each contestant, and by how much the native engine is faster than plain Backtrader."""
    panel = bars(count, assets)
    weights = momentum(panel)
    contestants = {
        "native": lambda: float(played(NativeEngine(), panel, weights).equity[-1]),
        "backtrader": lambda: plain(panel, weights),
        "engine backtrader": lambda: float(played(BacktraderEngine(), panel, weights).equity[-1]),
    }
    contestants["native"]()  # compiles
    speeds: dict[str, list[float]] = {name: [] for name in contestants}
    ends: dict[str, float] = {}
    for _ in range(rounds):
        for name, play in contestants.items():
            times = 10 if name == "native" else 1
            started = time.process_time()
            for _ in range(times):
                ends[name] = play()
            speeds[name].append(times * (count - 1) / (time.process_time() - started))
    apart = max(ends.values()) / min(ends.values()) - 1.0
    if apart > 1e-9:
        raise SystemExit(f"the contestants end with other values: {ends}")
    figures = {name: statistics.median(found) for name, found in speeds.items()}
    return {**figures, "faster": figures["native"] / figures["backtrader"]}


def main() -> int:
    """Measures and prints; fails where the native engine is not as fast as it promises."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--assets", type=int, default=30)
    parser.add_argument("--bars", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = measure(given.bars, given.assets, given.rounds)
    if given.json:
        print(json.dumps({"machine": platform.machine(), "assets": given.assets, **figures}))
    else:
        for name in ("native", "backtrader", "engine backtrader"):
            print(f"{name:20} {figures[name]:12,.0f} bars/s")
        print(f"{'native is faster by':20} {figures['faster']:12.0f} times ({given.assets} assets)")
    return 0 if figures["faster"] >= PROMISED else 1


if __name__ == "__main__":
    sys.exit(main())
