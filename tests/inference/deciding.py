"""Policies that decide, made without training, and the environments that they are compared with."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.run_listener import Checkpoint
from alphaswarm_rl.inference.account import Account
from alphaswarm_rl.inference.builder import Builder, preprocessing_state
from alphaswarm_rl.inference.checkpoints import LoadedCheckpoint
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.market.bar_row import BarRow
from alphaswarm_rl.spec import RLExperimentSpec

NATIVE = {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 16, "n_epochs": 1, "net_arch": [8]}}
ASSETS = ("A", "B", "C")
BARS = 300
START = 270


def frame_of_bars(seed, *, bars=BARS, gaps=True, actions=True):
    """Rows of random bars with gaps, splits and dividends."""
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2020-01-01", periods=bars)
    tables = []
    for asset in ASSETS:
        close = 50 * np.exp(np.cumsum(rng.normal(0, 0.03, bars)))
        opens = close * np.exp(rng.normal(0, 0.01, bars))
        table = pd.DataFrame(
            {
                "date": days,
                "tic": asset,
                "open": opens,
                "high": np.maximum(close, opens) * 1.01,
                "low": np.minimum(close, opens) * 0.99,
                "close": close,
                "volume": rng.uniform(1e4, 1e5, bars),
            }
        )
        if actions:
            table["dividends"] = np.where(rng.random(bars) < 0.1, 0.5, 0.0)
            table["splits"] = np.where(rng.random(bars) < 0.05, 2.0, 1.0)
        keep = np.ones(bars, bool) if not gaps or asset == "A" else rng.random(bars) > 0.1
        keep[:2] = True
        tables.append(table[keep])
    return pd.concat(tables, ignore_index=True)


def spec_of(frame, **changes):
    """A spec that is evaluated from bar `START` on."""
    days = sorted(frame["date"].unique())
    first, end = str(days[START])[:10], str(days[-1] + pd.Timedelta(days=1))[:10]
    env = {"fill": "next_open", "episode_bars": 5, **changes.pop("env_kwargs", {})}
    pipeline = {
        "name": "bars",
        "features": ["macd", "rsi_5", "close_4_sma", "atr_3", "volatility_4"],
        "market_features": ["turbulence"],
        "scaler": "zscore",
        **changes.pop("bars", {}),
    }
    return RLExperimentSpec.from_data(
        {
            "name": "Decides",
            "env": {"class": changes.pop("env", "stock_trading"), "kwargs": env},
            "data_pipeline": {"class": "frame", "kwargs": pipeline},
            "agent": changes.pop("agent", NATIVE),
            "training": {"total_timesteps": 16, "end": first},
            "evaluation": {"start": first, "end": end},
            **changes,
        }
    )


@dataclass
class Scene:
    """A policy that was never trained, the environment of its evaluation, and all bars with their features."""

    spec: RLExperimentSpec
    loaded: LoadedCheckpoint
    env: object
    bars: object
    server: PolicyServer
    start: int

    def account(self):
        """What the environment's account is now."""
        return account_of(self.env.unwrapped.view)

    @property
    def sofar(self):
        """The bars up to the one that the environment stands at."""
        view = self.env.unwrapped.view
        return self.bars.cut(0, self.start + int(view.bar[0] - view.start[0]) + 1)

    def row(self, frame):
        """The bar that the environment stands at, as it comes from outside."""
        return row_of(self.bars, self.sofar.num_bars - 1)


def account_of(view):
    """The account of a view of one, as it comes from outside."""
    average = None if view.average_cost is None else dict(zip(ASSETS, view.average_cost[0].tolist(), strict=True))
    return Account(
        cash=float(view.cash[0]),
        positions=dict(zip(ASSETS, view.positions[0].tolist(), strict=True)),
        peak=float(view.peak[0]),
        value_before=float(view.value_before[0]),
        average_cost=average,
        bars_left=int(view.last[0] - view.bar[0]),
        next_open=next_open_of(view),
    )


def next_open_of(view):
    """The opens of the next bar, where the fill policy shows them."""
    panel, bar = view.market.panel, int(view.bar[0])
    if not view.market.fill.shows_next_open or bar + 1 >= panel.num_bars:
        return None
    return dict(zip(ASSETS, panel.open[bar + 1].tolist(), strict=True))


def row_of(bars, index):
    """A bar of a panel as it comes from outside."""
    columns = {name: getattr(bars, name)[index] for name in ("open", "high", "low", "close", "volume")}
    present = bars.tradable[index]
    given = {name: np.where(present, values, np.nan) for name, values in columns.items()}
    for name in ("dividends", "splits"):
        if getattr(bars, name) is not None:
            given[name] = getattr(bars, name)[index]
    return BarRow(timestamp=bars.timestamps[index], **given)


def scene_of(spec, frame, settings, *, seed=0):
    """The scene of a spec; its policy is what training would begin with."""
    frames = {"bars": frame}
    builder = Builder(spec, seed=seed, device="cpu", frames=frames)
    window = spec.evaluation.window
    env = builder.build_env("evaluate", num_envs=1, phase="evaluate", window=window)
    trained = builder.build_env("train", num_envs=1, phase="train", window=spec.training.window)
    builder.fit_preprocessing(trained)
    learner = builder.build_learner(trained, training=True)
    states = {"learner": learner.get_state(), "data": builder.data.fitted}
    statistics = preprocessing_state(trained)
    if statistics is not None:
        states["preprocessing"] = statistics
        env.load_statistics(statistics)
    plan = builder.policy_plan(env, window, remembers=bool(getattr(learner, "remembers", False)))
    checkpoint = Checkpoint(settings.home / "policy", "0" * 64, 0)
    states = {name: State(dict(state.arrays), dict(state.data)) for name, state in states.items()}
    loaded = LoadedCheckpoint(checkpoint, spec.canonical(), seed, states, plan.to_json())
    offline = settings.model_copy(update={"infer": settings.infer.model_copy(update={"offline": True})})
    server = PolicyServer.of(loaded, offline, frames=frames)
    bars = builder.data.load((window,))
    start = int(np.searchsorted(bars.timestamps, np.datetime64(spec.evaluation.start)))
    return Scene(spec, loaded, env, bars, server, start)
