"""A policy that depends on every bit of what it sees, and one stream of bars played in each way there is."""

from __future__ import annotations

import numpy as np

from alphaswarm_rl import make_env
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.execution.backtest_env import backtest_env
from alphaswarm_rl.execution.bridge import RLAgentBridge
from alphaswarm_rl.execution.engine import BacktestRequest
from alphaswarm_rl.execution.native import NativeEngine
from alphaswarm_rl.market.decider import Decider
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.observer import Observer


class Smoothed(PortfolioStage):
    """Halfway from the weights of the step before."""

    rl_alias = "execution_test_smoothed"
    role = "time"
    asset_state = ("before",)

    def step(self, view, state, out):
        out[...] = 0.5 * (out + state["before"])
        state["before"][...] = out


class MixedPolicy:
    """Actions that mix all that is observed, so that observations which differ lead to others."""

    def __init__(self, observation_space, action_space, seed):
        rng = np.random.default_rng(seed)
        self._space, (features,) = action_space, observation_space.shape
        shape = action_space.shape or (1,)
        self._choices = None
        if action_space.dtype.kind == "i":
            self._choices = np.atleast_1d(action_space.n if hasattr(action_space, "n") else action_space.nvec)
            shape = (len(self._choices), int(self._choices.max()))
        self._mix = rng.normal(size=(features, int(np.prod(shape))))
        self._offset = rng.normal(size=int(np.prod(shape)))

    def act(self, observation, episode_start, *, deterministic, masks):
        mixed = np.sin(7.0 * np.arctan(np.nan_to_num(observation).astype(np.float64)) @ self._mix + self._offset)
        space = self._space
        if self._choices is None:
            scaled = space.low + (mixed + 1.0) / 2.0 * (space.high - space.low)
            return np.clip(scaled, space.low, space.high).astype(space.dtype)
        scores = mixed.reshape(len(observation), len(self._choices), -1)
        for column, choices in enumerate(self._choices):
            scores[:, column, choices:] = -np.inf
        if masks is not None:
            scores[:, 0] = np.where(masks, scores[:, 0], -np.inf)
        chosen = scores.argmax(axis=-1)
        return chosen if space.shape else chosen[:, 0]


def environment(alias, panel, **kwargs):
    """The environment of one account, over all its bars."""
    return make_env(alias, panel=panel, phase="evaluate", **kwargs)


def on_engine(env, engine=None):
    """The same on an engine."""
    request = EnvRequest(num_envs=env.num_envs, seed=0, phase="evaluate")
    return backtest_env(request, env.plan, engine or NativeEngine())


def policy_of(env, seed):
    return MixedPolicy(env.single_observation_space, env.single_action_space, seed)


def played(env, policy):
    """One episode of an environment: account and logged arrays by step, stacked."""
    env.log_trades()
    observation, _ = env.reset(seed=1)
    starts, steps = np.ones(1, bool), []
    masks = getattr(env, "action_masks", None)
    while True:
        legal = None if masks is None else masks()
        action = policy.act(observation, starts, deterministic=True, masks=legal)
        observation, rewards, terminated, truncated, infos = env.step(action)
        numbers = {name: infos[name] for name in ("portfolio_value", "cash", "cost", "carry", "turnover")}
        steps.append({**numbers, **infos["trades"], "reward": rewards})
        if terminated[0] or truncated[0]:
            return {name: np.stack([step[name] for step in steps])[:, 0] for name in steps[0]}


def asked(env, policy, engine=None, **bridge):
    """The engine's result with the bridge, made of the plan without an environment."""
    plan = env.plan
    market = market_of(plan.panel, plan.fill, NUMPY)
    decider = Decider(
        plan.action,
        plan.stages,
        market,
        1,
        turbulence_threshold=plan.turbulence_threshold,
        gates_first_bar=plan.gates_first_bar,
    )
    agent = RLAgentBridge(policy, Observer(plan.builders, market, 1), decider, **bridge)
    return (engine or NativeEngine()).run(BacktestRequest.of_plan(plan, market, decider), agent=agent), agent


def assert_engine_did(ours, result, *, unknown=()):
    """An engine's result is what the environment did, as long as its episode lasted.

    Args:
        ours: The steps of the environment, of `played`.
        result: The engine's.
        unknown: Logged arrays that the strategy does not know.
    """
    steps = len(ours["cash"])  # an episode may end before its bars do
    np.testing.assert_array_equal(ours["portfolio_value"], result.equity[1 : steps + 1])
    np.testing.assert_array_equal(ours["cash"], result.cash[1 : steps + 1])
    np.testing.assert_array_equal(ours["quantity"], result.positions[1 : steps + 1])
    for name, array in result.log.items():
        if name not in unknown:
            np.testing.assert_array_equal(ours[name], array[:steps], err_msg=name)
    for name in ("cost", "carry", "turnover"):
        np.testing.assert_array_equal(ours[name], getattr(result, name)[:steps])
