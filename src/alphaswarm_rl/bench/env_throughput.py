"""Steps a second of the trading environments, beside the peers'.

One step is one step of one environment with a random action drawn beforehand: the whole `step()` with observation,
reward, terminations, infos and resets. One thread. Contestants take turns; figures are medians of CPU time, so that a
busy machine counts less.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from alphaswarm_rl.bench.fused import FusedStockTrading
from alphaswarm_rl.bench.panels import stocks
from alphaswarm_rl.bench.peer import Peer
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import MissingExtra
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.panel import MarketPanel

_POOL = 16
_WARM_UP = 20
_WINDOW = 24
_LONG = 100_000
_SHORT = 1_000


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

    def __init__(self, name: str, num_envs: int, step: Callable[[int], Any]) -> None:
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


def composed(num_envs: int, panel: MarketPanel, **kwargs: Any) -> Any:
    """`stock_trading` with its own parts: 30 stocks and 8 indicators make 301 values."""
    env = make_env("stock_trading", panel=panel, num_envs=num_envs, **kwargs)
    env.reset()
    return env


def window_task(num_envs: int, panel: MarketPanel) -> Any:
    """One asset, the last 24 bars, long or flat by one of three actions: what the peers with one asset do."""
    env = make_env(
        "stock_trading",
        panel=panel,
        num_envs=num_envs,
        action={"class": "discrete_buy_sell_hold"},
        observation={"class": "lookback_stack", "kwargs": {"lookback": _WINDOW}},
        reward={"class": "log_return"},
    )
    env.reset()
    return env


def anytrading(num_envs: int) -> Any:
    """The native twin of stocks-v0."""
    component = build_from_config({"class": "anytrading", "kwargs": {"task": "stocks"}}, kind="env")
    env = component.build(EnvRequest(num_envs=num_envs, seed=0))
    env.reset()
    return env


def stepper(name: str, env: Any) -> Contestant:
    """An environment with its pool of random actions."""
    pool = pool_of(env)
    return Contestant(name, env.num_envs, lambda index: env.step(pool[index]))


def pool_of(env: Any) -> list[Any]:
    """Random actions, the same for every environment of that number and space."""
    rng = np.random.default_rng(0)
    space, n = env.single_action_space, env.num_envs
    if hasattr(space, "n"):
        return list(rng.integers(0, space.n, (_POOL, n)))
    return list(rng.uniform(-1.0, 1.0, (_POOL, n, *space.shape)).astype(np.float32))


def run(sizes: Sequence[int] = (1, 64, 1024, 4096), *, rounds: int = 11, seconds: float = 0.2) -> list[Row]:
    """Measures everything and gives the rows.

    Args:
        sizes: Numbers of environments.
        rounds: How often each contestant has its turn.
        seconds: CPU time of a turn.
    """
    panel = stocks()
    one = stocks(bars=10_000, assets=1, features=4)
    largest = 1024 if 1024 in sizes else max(sizes)
    ours = {("stock_trading", n): stepper("stock_trading", composed(n, panel)) for n in sizes}
    ours |= {("window_task", n): stepper("window_task", window_task(n, one)) for n in sizes}
    missing = ""
    try:
        ours |= {("anytrading", n): stepper("anytrading", anytrading(n)) for n in sizes}
    except MissingExtra as error:
        missing = f"anytrading is missing: {error}"
    base = composed(largest, panel)
    fused_step, pool = FusedStockTrading(base).step, pool_of(base)
    fused = Contestant("fused Numba step", largest, lambda index: fused_step(pool[index]))
    spans = {
        bars: stepper(f"{bars} bars", composed(largest, stocks(bars=bars), episode_bars=252))
        for bars in (_SHORT, _LONG)
    }
    peers = {
        (name, n): PeerContestant(name, n)
        for name, counts in (
            ("finrl", (1,)),
            ("gym_anytrading", (1,)),
            ("gym_trading_env", (1,)),
            ("torchtrade", tuple(n for n in sizes if n > 1)),
        )
        for n in counts
    }
    try:
        everyone: list[Any] = [*ours.values(), fused, *spans.values(), *peers.values()]
        for _ in range(rounds):
            for contestant in everyone:
                contestant.measure(seconds)
    finally:
        for peer in peers.values():
            peer.peer.close()

    rows = [_against(ours["stock_trading", n], peers["finrl", 1]) for n in sizes]
    rows.append(_between(ours["stock_trading", largest], fused))
    rows.append(_between(spans[_LONG], spans[_SHORT]))
    if missing:
        rows.append(Row("anytrading", 1, None, "gym_anytrading", None, None, missing))
    for task in ("window_task", *(() if missing else ("anytrading",))):
        for n in sizes:
            rows += [_against(ours[task, n], peers[name, 1]) for name in ("gym_anytrading", "gym_trading_env")]
            if n > 1:
                rows.append(_against(ours[task, n], peers["torchtrade", n]))
    return rows


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
