"""Small markets and trading environments without costs."""

from __future__ import annotations

from typing import Any

import numpy as np

import alphaswarm_rl.actions.continuous_weights
import alphaswarm_rl.actions.integer_shares
import alphaswarm_rl.actions.softmax_weights
import alphaswarm_rl.agents.policy_agent
import alphaswarm_rl.envs.stock_trading
import alphaswarm_rl.observations.portfolio_state
import alphaswarm_rl.policies.baselines
import alphaswarm_rl.rewards.pnl  # noqa: F401
from alphaswarm_rl.core.contracts import AgentRequest, PolicyRequest
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.market.panel import MarketPanel

CASH = 1_000_000.0
FREE = {"commission_rate": 0.0, "half_spread_bps": 0.0, "borrow_rate": 0.0}
ORDERS = {"class": "integer_shares", "kwargs": {"hmax": 1e6, "whole": False}}
POLICIES = ("equal_weight", "buy_and_hold", "minimum_variance", "mean_variance")
#: Parameters with which the policies do something on a few bars.
QUICK: dict[str, dict[str, Any]] = {
    "equal_weight": {"rebalance_bars": 3},
    "buy_and_hold": {},
    "minimum_variance": {"lookback": 5, "rebalance_bars": 4},
    "mean_variance": {"lookback": 5, "rebalance_bars": 4},
}


def panel_of(close: Any, **columns: Any) -> MarketPanel:
    """A daily panel of those closes, (T, A)."""
    close = np.asarray(close, np.float64)
    days = np.arange(len(close)).astype("timedelta64[D]") + np.datetime64("2020-01-01", "ns")
    assets = [f"A{i}" for i in range(close.shape[1])]
    return MarketPanel.from_arrays({"timestamps": days, "assets": assets, "close": close, **columns})


def random_panel(bars: int = 30, assets: int = 3, seed: int = 0) -> MarketPanel:
    """A panel of random walks."""
    steps = np.random.default_rng(seed).normal(0, 0.02, (bars, assets))
    return panel_of(100 * np.exp(np.cumsum(steps, axis=0)))


def env_of(panel: MarketPanel, *, action: Any = ORDERS, fill: str = "same_close", phase: str = "evaluate", **kwargs):
    """A trading environment of that panel, without costs."""
    return make_env(
        "stock_trading",
        panel=panel,
        action=action,
        observation={"class": "portfolio_state"},
        fill=fill,
        phase=phase,
        initial_cash=CASH,
        costs=FREE,
        **kwargs,
    )


def runner_of(policy: str, env: Any, **kwargs: Any) -> Any:
    """The policy, built for that environment."""
    request = PolicyRequest(env.single_observation_space, env.single_action_space, env.num_envs, 0, env)
    return build_from_config({"class": policy, "kwargs": kwargs}, kind="policy").build(request)


def learner_of(policy: str, env: Any, **kwargs: Any) -> Any:
    """The agent that runs the policy, built for that environment."""
    config = {"class": "policy", "kwargs": {"policy": {"class": policy, "kwargs": kwargs}}}
    return build_from_config(config, kind="agent").build(AgentRequest.for_env(env, 0))


def play(policy: str, env: Any, steps: int | None = None, **kwargs: Any) -> dict[str, np.ndarray]:
    """One episode of environment 0 (or so many steps): values after, units bought, weights before each decision."""
    runner, trading = runner_of(policy, env, **kwargs), env.unwrapped
    observation, _ = env.reset(seed=0)
    seen: dict[str, list[Any]] = {"value": [], "traded": [], "action": [], "weights": []}
    # An ended episode is followed at once by the next, so the episode's last step is told by its own infos.
    for _ in range(steps or trading.plan.length):
        seen["weights"].append(trading.view.weights[0].copy())
        action = runner.act(observation, deterministic=True)
        held = trading.view.positions[0].copy()
        observation, _, _, _, infos = env.step(action)
        seen["action"].append(action[0].copy())
        seen["value"].append(infos["portfolio_value"][0])
        seen["traded"].append(trading.view.positions[0] - held)
    return {name: np.array(values) for name, values in seen.items()}
