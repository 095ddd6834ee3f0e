"""How long `rl data check` takes for 500 symbols and ten years of daily bars, and what the check costs a run.

    python benchmarks/data_check.py [--json]

The file is CSV, the slowest form. What a run pays is the check alone, without reading: its bars are loaded anyway.
"""

from __future__ import annotations

import argparse
import platform
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
from judging import at_most, tell

from alphaswarm_rl.market.bar_findings import Bars, check_bars_of
from alphaswarm_rl.market.panel import MarketPanel

_SYMBOLS, _BARS = 500, 2520
_MOST_SECONDS, _MOST_OF_A_RUN = 10.0, 1.5


def frame_of(symbols: int, bars: int) -> pd.DataFrame:
    """Bars of a random walk, one row per bar and symbol."""
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.01, (bars, symbols)), axis=0))
    opened = close * np.exp(rng.normal(0, 0.003, close.shape))
    names = [f"S{symbol:03}" for symbol in range(symbols)]
    return pd.DataFrame(
        {
            "date": np.repeat(pd.bdate_range("2014-01-02", periods=bars).strftime("%Y-%m-%d"), symbols),
            "symbol": np.tile(names, bars),
            "open": opened.ravel(),
            "high": np.maximum(opened, close).ravel() * 1.002,
            "low": np.minimum(opened, close).ravel() / 1.002,
            "close": close.ravel(),
            "volume": rng.integers(1000, 10**6, close.size),
        }
    )


def main() -> int:
    """Prints the figures; fails when one is beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "bars.csv")
        frame_of(_SYMBOLS, _BARS).to_csv(file, index=False, float_format="%.4f")
        size = file.stat().st_size / 2**20
        began = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "alphaswarm_rl.cli", "data", "check", str(file)], check=False)
        command = time.perf_counter() - began
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert done.returncode == 0, "the bars are clean"
        panel = MarketPanel.from_csv(file)
    bars = Bars.of_panel(panel)
    times = []
    for _ in range(5):
        began = time.perf_counter()
        check_bars_of(bars)
        times.append(time.perf_counter() - began)
    cpu = spent.ru_utime + spent.ru_stime
    what = f"{_SYMBOLS} symbols, {_BARS} bars"
    lines = [
        at_most(
            "rl data check FILE.csv, seconds", command, _MOST_SECONDS, f"{what}, {size:.0f} MiB, {cpu:.1f} s of CPU"
        ),
        at_most("check of loaded bars, seconds", float(np.median(times)), _MOST_OF_A_RUN, f"{what}, median of 5"),
    ]
    return tell(platform.platform(), lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
