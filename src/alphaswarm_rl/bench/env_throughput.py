"""Steps a second of the trading environments, beside the peers'.

One step is one step of one environment with a random action drawn beforehand: the whole `step()` with observation,
reward, terminations, infos and resets. One thread. Contestants take turns; figures are medians of CPU time, so that a
busy machine counts less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from gymnasium.spaces import Discrete

from alphaswarm_rl.bench.fused import FusedStockTrading
from alphaswarm_rl.bench.peer import Peer
from alphaswarm_rl.core.contracts import AnyVectorEnv, EnvRequest
from alphaswarm_rl.core.errors import MissingExtra
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.types import Array
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.envs.trading_env import TradingEnv
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.panel_build import PanelArrays

#: Size of the made-up market.
ASSETS, INDICATORS, BARS = 30, 8, 2_000
_WALK = 1_000

_POOL = 16
_WARM_UP = 20
_WINDOW = 24
_LONG = 100_000
_SHORT = 1_000

Env = TypeVar("Env", bound=AnyVectorEnv)


@dataclass(frozen=True)
class Row:
    """One comparison.

    Attributes:
        name: What was measured.
        num_envs: Environments stepped together.
        steps_per_s: Ours; None where an extra is missing.
        peer: What it is compared with.
        peer_steps_per_s: Its figure; None where it is missing.
        ratio: Ours over the peer's.
        note: Why a figure is missing.
    """

    name: str
    num_envs: int
    steps_per_s: float | None
    peer: str
    peer_steps_per_s: float | None
    ratio: float | None
    note: str = ""


class Contestant:
    """Something that is stepped in rounds.

    Args:
        name: What it is called.
        num_envs: Environments that one call steps.
        step: Steps all of them with the pool's k-th action.
    """

    def __init__(self, name: str, num_envs: int, step: Callable[[int], object]) -> None:
        self.name, self.num_envs = name, num_envs
        self._step = step
        self.speeds: list[float] = []
        for index in range(_WARM_UP):
            step(index % _POOL)

    def measure(self, seconds: float) -> None:
        """One round of about so long."""
        calls, started = 0, time.thread_time()
        spent = 0.0
        while spent < seconds:
            for index in range(_POOL):
                self._step(index)
            calls += _POOL
            spent = time.thread_time() - started
        self.speeds.append(calls * self.num_envs / spent)

    @property
    def speed(self) -> float:
        """The median round."""
        return statistics.median(self.speeds)


class PeerContestant:
    """A peer in a process of its own."""

    def __init__(self, peer: str, num_envs: int) -> None:
        self.name, self.num_envs = peer, num_envs
        self.peer = Peer(peer, num_envs)
        self.speeds: list[float] = []

    def measure(self, seconds: float) -> None:
        """One round of about so long."""
        if self.peer.missing is None:
            steps, _, cpu_seconds = self.peer.run(seconds)
            self.speeds.append(steps / cpu_seconds)

    @property
    def speed(self) -> float | None:
        """The median round; None where the peer is missing."""
        return statistics.median(self.speeds) if self.speeds else None


def stocks(bars: int = BARS, assets: int = ASSETS, features: int = INDICATORS) -> MarketPanel:
    """Daily bars with opens and closes, a random walk each, and indicators that are noise.

    Beyond a thousand bars the same ones come again, so that a longer panel costs more memory and nothing else.
    """
    rng = np.random.default_rng(0)
    walk = 100.0 * np.exp(np.cumsum(rng.normal(0.0, 0.01, (_WALK, assets)), axis=0))
    close = np.resize(walk, (bars, assets))
    arrays: PanelArrays = {
        "timestamps": np.datetime64("2000-01-01", "ns") + np.arange(bars).astype("timedelta64[D]"),
        "assets": [f"S{index:02}" for index in range(assets)],
        "close": close,
        "open": close * np.exp(rng.normal(0.0, 0.002, close.shape)),
    }
    names = [f"indicator{index}" for index in range(features)]
    panel = MarketPanel.from_arrays(arrays, periods_per_year=252.0)
    return panel.with_features({name: rng.normal(size=close.shape) for name in names})


def composed(num_envs: int, panel: MarketPanel, episode_bars: int | None = None) -> TradingEnv:
    """`stock_trading` with its own parts: 30 stocks and 8 indicators make 301 values."""
    env: TradingEnv = make_env("stock_trading", panel=panel, num_envs=num_envs, episode_bars=episode_bars)
    return _reset(env)


def window_task(num_envs: int, panel: MarketPanel) -> TradingEnv:
    """One asset, the last 24 bars, long or flat by one of three actions: what the peers with one asset do."""
    env: TradingEnv = make_env(
        "stock_trading",
        panel=panel,
        num_envs=num_envs,
        action={"class": "discrete_buy_sell_hold"},
        observation={"class": "lookback_stack", "kwargs": {"lookback": _WINDOW}},
        reward={"class": "log_return"},
    )
    return _reset(env)


def anytrading(num_envs: int) -> AnyVectorEnv:
    """The native twin of stocks-v0."""
    component = build_from_config({"class": "anytrading", "kwargs": {"task": "stocks"}}, kind="env")
    return _reset(component.build(EnvRequest(num_envs=num_envs, seed=0)))


def _reset(env: Env) -> Env:
    env.reset()
    return env


def stepper(name: str, env: AnyVectorEnv, step: Callable[[Array], object] | None = None) -> Contestant:
    """An environment with its pool of random actions; `step` may take them in its place."""
    pool, take = action_pool(env), step or env.step
    return Contestant(name, env.num_envs, lambda index: take(pool[index]))


def action_pool(env: AnyVectorEnv) -> list[Array]:
    """Random actions, the same for every environment of that number and space."""
    rng = np.random.default_rng(0)
    space, n = env.single_action_space, env.num_envs
    if isinstance(space, Discrete):
        return list(rng.integers(0, int(space.n), (_POOL, n)))
    return list(rng.uniform(-1.0, 1.0, (_POOL, n, *(space.shape or ()))).astype(np.float32))


def run(sizes: Sequence[int] = (1, 64, 1024, 4096), *, rounds: int = 11, seconds: float = 0.2) -> list[Row]:
    """Measures everything and gives the rows.

    Args:
        sizes: Numbers of environments.
        rounds: How often each contestant has its turn.
        seconds: CPU time of a turn.
    """
    panel, one = stocks(), stocks(bars=10_000, assets=1, features=4)
    largest = 1024 if 1024 in sizes else max(sizes)
    ours = {("stock_trading", n): stepper("stock_trading", composed(n, panel)) for n in sizes}
    ours |= {("window_task", n): stepper("window_task", window_task(n, one)) for n in sizes}
    missing = ""
    try:
        ours |= {("anytrading", n): stepper("anytrading", anytrading(n)) for n in sizes}
    except MissingExtra as error:
        missing = f"anytrading is missing: {error}"
    env = composed(largest, panel)
    fused = stepper("fused Numba step", env, FusedStockTrading(env).step)
    spans = {
        bars: stepper(f"{bars} bars", composed(largest, stocks(bars=bars), episode_bars=252))
        for bars in (_SHORT, _LONG)
    }
    peers = {(name, 1): PeerContestant(name, 1) for name in ("finrl", "gym_anytrading", "gym_trading_env")}
    peers |= {("torchtrade", n): PeerContestant("torchtrade", n) for n in sizes if n > 1}
    _take_turns([*ours.values(), fused, *spans.values()], list(peers.values()), rounds, seconds)
    return [
        *(_against(ours["stock_trading", n], peers["finrl", 1]) for n in sizes),
        _between(ours["stock_trading", largest], fused),
        _between(spans[_LONG], spans[_SHORT]),
        *([Row("anytrading", 1, None, "gym_anytrading", None, None, missing)] if missing else ()),
        *_one_asset_rows(ours, peers),
    ]


def _one_asset_rows(
    ours: dict[tuple[str, int], Contestant], peers: dict[tuple[str, int], PeerContestant]
) -> Iterator[Row]:
    """The tasks with one asset, beside the peers that have one."""
    for (task, n), contestant in ours.items():
        if task == "stock_trading":
            continue
        yield from (_against(contestant, peers[name, 1]) for name in ("gym_anytrading", "gym_trading_env"))
        if n > 1:
            yield _against(contestant, peers["torchtrade", n])


def _take_turns(ours: list[Contestant], peers: list[PeerContestant], rounds: int, seconds: float) -> None:
    try:
        for _ in range(rounds):
            for contestant in ours:
                contestant.measure(seconds)
            for peer in peers:
                peer.measure(seconds)
    finally:
        for peer in peers:
            peer.peer.close()


def _between(first: Contestant, second: Contestant) -> Row:
    return Row(first.name, first.num_envs, first.speed, second.name, second.speed, first.speed / second.speed)


def _against(ours: Contestant, peer: PeerContestant) -> Row:
    speed = peer.speed
    return Row(
        name=ours.name,
        num_envs=ours.num_envs,
        steps_per_s=ours.speed,
        peer=peer.name if peer.num_envs == 1 else f"{peer.name} x {peer.num_envs}",
        peer_steps_per_s=speed,
        ratio=None if speed is None else ours.speed / speed,
        note="" if peer.peer.missing is None else f"{peer.name} is missing: {peer.peer.missing}",
    )
