"""Steps a peer's environment when told to; run by the Python of `.venv-peers`, which has no `alphaswarm_rl`.

    .venv-peers/bin/python peer_process.py --peer gym_anytrading --num-envs 1

Says `{"ready": true, "name": ..., "version": ..., "num_envs": ...}`, or `{"missing": reason}` and ends. Then each line
`run SECONDS` on standard input is answered by `{"steps": ..., "seconds": ..., "cpu_seconds": ...}`, until `quit`.

One step is one step of one environment with a random action drawn beforehand, resets included; one thread. Each peer is
stepped in the fastest way it documents and left at its defaults where nothing is said here.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import itertools
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pandas as pd

POOL, ROWS = 64, 8  #: Rows of actions drawn beforehand, and rows between two looks at the clock.
BARS, WINDOW = 10_000, 24  #: Of the environments with one asset.
ASSETS, INDICATORS, DAYS = 30, 8, 2_000  #: Of FinRL's.
WARM_UP_SECONDS = 0.2

#: Steps every environment `ROWS` times.
Advance = Callable[[], None]


def bars() -> pd.DataFrame:
    """Hourly bars of one asset, a random walk."""
    rng = np.random.default_rng(0)
    close = 100 * np.exp(np.cumsum(rng.normal(0, 0.005, BARS)))
    opening = np.roll(close, 1)
    opening[0] = close[0]
    high, low = np.maximum(opening, close) * 1.002, np.minimum(opening, close) * 0.998
    index = pd.date_range("2020-01-01", periods=BARS, freq="h")
    columns = {"open": opening, "high": high, "low": low, "close": close, "volume": rng.uniform(1, 10, BARS)}
    return pd.DataFrame(columns, index=index)


def import_bare(*packages: str) -> None:
    """Registers packages without running their `__init__`, which imports what their environments do not need."""
    for name in packages:
        spec = importlib.util.find_spec(name)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {name!r}")
        sys.modules[name] = importlib.util.module_from_spec(spec)


class PeerEnv(Protocol):
    """What is used of a peer's environment, which is Gymnasium's."""

    def reset(self, *, seed: int | None = None) -> object:
        """Starts an episode."""

    def step(self, action: object) -> tuple[object, object, bool, bool, object]:
        """Takes a step."""


def in_turn(envs: Sequence[PeerEnv], actions: Iterable[Iterable[object]]) -> Advance:
    """Steps copies of an environment one after another.

    Args:
        envs: The copies.
        actions: `POOL` rows with one action for each.
    """
    pairs = [list(zip(envs, row, strict=True)) for row in actions]
    chunks = [list(itertools.chain(*pairs[start : start + ROWS])) for start in range(0, POOL, ROWS)]
    turns = itertools.cycle(chunks)
    for env in envs:
        env.reset(seed=0)

    def advance() -> None:
        for env, action in next(turns):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()

    return advance


def gym_anytrading(num_envs: int) -> Advance:
    """`stocks-v0` without the wrappers of `gymnasium.make`."""
    from gym_anytrading.envs import StocksEnv

    frame = bars().rename(columns=str.capitalize)
    envs = [StocksEnv(frame, window_size=WINDOW, frame_bound=(WINDOW, BARS)) for _ in range(num_envs)]
    return in_turn(envs, np.random.default_rng(1).integers(0, 2, (POOL, num_envs)).tolist())


def gym_trading_env(num_envs: int) -> Advance:
    """`TradingEnv`, short, flat or long, four features and no window."""
    from gym_trading_env.environments import TradingEnv

    frame = bars()
    for name in ("open", "high", "low", "close"):
        frame[f"feature_{name}"] = frame[name].pct_change().fillna(0.0)
    envs = [TradingEnv(frame, positions=[-1, 0, 1], initial_position=0, verbose=0) for _ in range(num_envs)]
    return in_turn(envs, np.random.default_rng(1).integers(0, 3, (POOL, num_envs)).tolist())


def torchtrade(num_envs: int) -> Advance:
    """`VectorizedSequentialTradingEnv`, which steps all environments in one call; unlevered, so short means flat."""
    import_bare("torchtrade", "torchtrade.envs")
    import torch
    from torchtrade.envs.offline import VectorizedSequentialTradingEnv, VectorizedSequentialTradingEnvConfig

    torch.set_num_threads(1)
    config = VectorizedSequentialTradingEnvConfig(num_envs=num_envs, window_sizes=WINDOW, seed=0)
    env = VectorizedSequentialTradingEnv(bars().reset_index(names="timestamp"), config)
    actions = itertools.cycle(torch.from_numpy(np.random.default_rng(1).integers(0, 3, (POOL, num_envs))))
    state = env.reset()

    def advance() -> None:
        nonlocal state
        for _ in range(ROWS):
            _, state = env.step_and_maybe_reset(state.set("action", next(actions)))

    return advance


def finrl(num_envs: int) -> Advance:
    """`StockTradingEnv` on a random panel."""
    import_bare("finrl")
    from finrl.meta.env_stock_trading.env_stocktrading import StockTradingEnv

    rng = np.random.default_rng(0)
    indicators = [f"indicator_{number}" for number in range(INDICATORS)]
    days, dates = np.arange(DAYS), pd.bdate_range("2015-01-01", periods=DAYS).strftime("%Y-%m-%d")
    panel = {
        "date": np.repeat(dates, ASSETS),
        "tic": np.tile([f"A{number:02}" for number in range(ASSETS)], DAYS),
        "close": (100 * np.exp(np.cumsum(rng.normal(0, 0.01, (DAYS, ASSETS)), axis=0))).ravel(),
        **{name: rng.normal(size=DAYS * ASSETS) for name in indicators},
    }
    frame = pd.DataFrame(panel, index=np.repeat(days, ASSETS))
    envs = [
        StockTradingEnv(
            frame,
            stock_dim=ASSETS,
            hmax=100,
            initial_amount=1_000_000,
            num_stock_shares=[0] * ASSETS,
            buy_cost_pct=[0.001] * ASSETS,
            sell_cost_pct=[0.001] * ASSETS,
            reward_scaling=1e-4,
            state_space=1 + (2 + INDICATORS) * ASSETS,
            action_space=ASSETS,
            tech_indicator_list=indicators,
        )
        for _ in range(num_envs)
    ]
    return in_turn(envs, rng.uniform(-1, 1, (POOL, num_envs, ASSETS)))


#: By name: the distribution, and what makes the environments.
PEERS: dict[str, tuple[str, Callable[[int], Advance]]] = {
    "gym_anytrading": ("gym-anytrading", gym_anytrading),
    "gym_trading_env": ("gym-trading-env", gym_trading_env),
    "torchtrade": ("torchtrade", torchtrade),
    "finrl": ("finrl", finrl),
}


def measure(advance: Advance, num_envs: int, seconds: float) -> dict[str, float]:
    """Steps for about so long; returns the number of steps, the wall time and the CPU time."""
    steps, started, cpu_started = 0, time.perf_counter(), time.process_time()
    while (elapsed := time.perf_counter() - started) < seconds:
        advance()
        steps += ROWS * num_envs
    return {"steps": steps, "seconds": elapsed, "cpu_seconds": time.process_time() - cpu_started}


def main() -> int:
    """Builds the peer and answers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--num-envs", type=int, default=1)
    arguments = parser.parse_args()
    distribution, build = PEERS[arguments.peer]
    answers = sys.stdout

    def say(**answer: object) -> None:
        answers.write(json.dumps(answer) + "\n")
        answers.flush()

    # Some peers print at episode ends, and gym-trading-env turns warnings into errors wherever it is imported.
    with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stdout(nowhere):
        try:
            with warnings.catch_warnings(action="ignore"):
                advance = build(arguments.num_envs)
            version = importlib.metadata.version(distribution)
        except (ImportError, OSError) as error:
            say(missing=f"{type(error).__name__}: {error}")
            return 0
        measure(advance, arguments.num_envs, WARM_UP_SECONDS)
        say(ready=True, name=arguments.peer, version=version, num_envs=arguments.num_envs)
        for line in sys.stdin:
            command, _, seconds = line.strip().partition(" ")
            if command == "quit":
                break
            if command != "run":
                raise SystemExit(f"unknown command {command!r}: run SECONDS or quit")
            say(**measure(advance, arguments.num_envs, float(seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
