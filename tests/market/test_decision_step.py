"""Observer, decider and decision step without an environment do to the bit what they do inside one."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
import torch

from alphaswarm_rl import make_env
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import Trade
from alphaswarm_rl.core.kinds import ObservationBuilder, PortfolioStage
from alphaswarm_rl.core.view import ARRAYS, View
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.market.decider import Decider, turbulence_gate
from alphaswarm_rl.market.decision_step_numpy import NumpyDecisionStep
from alphaswarm_rl.market.decision_step_torch import TorchDecisionStep
from alphaswarm_rl.market.fills import fill_policy
from alphaswarm_rl.market.market import market_of
from alphaswarm_rl.market.observer import Observer
from tests.envs.panels import random_panel

TRADING = [cls.rl_alias for cls in catalogue.listing() if issubclass(cls, TradingComponent)]
KWARGS = {"stock_portfolio": {"lookback": 10}}
STEPS = 30


class RememberingObservation(ObservationBuilder):
    """Shows how often it was asked in the episode."""

    rl_alias = "decision_test_remembering"

    def init(self, n, xp):
        return {"times": xp.zeros(n, dtype=xp.int64)}

    def names(self, panel):
        return ("times",)

    def step(self, view, state, out):
        state["times"][...] = state["times"] + 1
        out[:, 0] = state["times"]


class SmoothingStage(PortfolioStage):
    """Halfway from the weights of the step before."""

    rl_alias = "decision_test_smoothing"
    role = "time"
    asset_state = ("before",)

    def step(self, view, state, out):
        out[...] = 0.5 * (out + state["before"])
        state["before"][...] = out


#: Environments whose parts remember, beside those of the catalogue as they are.
REMEMBERING = {
    "weights": {
        "action": {"class": "continuous_weights"},
        "observation": {
            "class": "stacked",
            "kwargs": {"parts": [{"class": "decision_test_remembering"}, {"class": "portfolio_state"}]},
        },
        "portfolio": [{"class": "decision_test_smoothing"}],
        "turbulence_threshold": 60.0,
    },
    "pipeline": {
        "action": {"class": "continuous_weights", "kwargs": {"short": True, "gross": 1.5}},
        "margin": {"initial": 0.5},
        "portfolio": [
            {"class": "momentum", "kwargs": {"k": 3, "lookback": 5}},
            {"class": "liquidity", "kwargs": {"min_traded_value": 1e6, "lookback": 4, "rebalance": "week"}},
            {"class": "identity"},
            {"class": "turbulence", "kwargs": {"threshold": 80.0, "scale": 0.2, "cooldown_bars": 2}},
            {"class": "volatility_target", "kwargs": {"target": 0.3, "lookback": 6}},
            {"class": "position_cap", "kwargs": {"max_position": 0.4}},
            {"class": "risk_limits", "kwargs": {"max_turnover": 0.4, "max_net": 0.5, "max_daily_loss": 0.03}},
            {"class": "drawdown", "kwargs": {"max_drawdown": 0.1, "cooldown_bars": 3}},
        ],
    },
    "allocated": {
        "action": {"class": "continuous_weights"},
        "portfolio": [{"class": "hrp", "kwargs": {"lookback": 10, "rebalance": "week"}}, {"class": "concentration"}],
    },
    "bracket": {"action": {"class": "bracket", "kwargs": {"asset": "A0"}}, "turbulence_threshold": 60.0},
    "shares": {"turbulence_threshold": 60.0},
}
CASES = {alias: (alias, KWARGS.get(alias, {})) for alias in TRADING} | {
    name: ("stock_trading", kwargs) for name, kwargs in REMEMBERING.items()
}


def panel_of(alias):
    panel = random_panel(3, bars=60, assets=1 if alias == "tradesim_algotrading" else 4, actions=True)
    turbulence = np.random.default_rng(0).uniform(0.0, 100.0, panel.num_bars)
    return panel.with_market_features({"turbulence": turbulence})


def until(panel, bar):
    """The panel's bars up to that one; a panel has two at least."""
    last = max(bar, 1)
    return panel if last == panel.num_bars - 1 else panel.window(end=panel.timestamps[last + 1])


def actions_of(env, rng):
    space = env.single_action_space
    if space.dtype.kind == "f":
        return rng.uniform(-1.0, 1.0, (env.num_envs, *space.shape)).astype(space.dtype)
    return rng.integers(0, space.n if hasattr(space, "n") else space.nvec, (env.num_envs, *space.shape))


def numbers(array):
    """A copy of an array or a tensor, as NumPy's."""
    return array.numpy().copy() if isinstance(array, torch.Tensor) else array.copy()


def account_of(view, market):
    """An account as somebody else holds it: copies of the numbers, and a market of the bars so far."""
    arrays = {name: numbers(getattr(view, name)) for name in ARRAYS if getattr(view, name) is not None}
    return View.of(market, view.initial_cash, {name: market.backend.put(array) for name, array in arrays.items()})


@pytest.fixture
def decided(monkeypatch):
    """The targets of every decision, in order."""
    targets, decide = [], Decider.decide

    def recorded(self, *arguments):
        result = decide(self, *arguments)
        targets.append(numbers(result))
        return result

    monkeypatch.setattr(Decider, "decide", recorded)
    return targets


def built(name, n, backend):
    """An environment whose accounts all start on the first bar, and its arrays' library."""
    alias, kwargs = CASES[name]
    env = make_env(alias, panel=panel_of(alias), num_envs=n, seed=1, backend=backend, phase="evaluate", **kwargs)
    return env, NUMPY if backend == "numpy" else TorchBackend("cpu")


def apart(plan, market, n):
    """An observer and a decider of the plan's components, made without an environment."""
    threshold = plan.turbulence_threshold
    decider = Decider(plan.action, plan.stages, market, n, turbulence_threshold=threshold)
    return Observer(plan.builders, market, n), decider


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("n", [1, 8])
@pytest.mark.parametrize("name", CASES)
def test_bars_so_far_and_an_account_give_the_environments_observations_and_targets(name, n, backend, decided):
    env, arrays = built(name, n, backend)
    plan, rng = env.plan, np.random.default_rng(2)
    with nullcontext() if backend == "numpy" else float64_by_default():
        observation, _ = env.reset()
        observer, decider = apart(plan, market_of(until(plan.panel, plan.first_bar), plan.fill, arrays), n)
        for _ in range(min(STEPS, plan.length - 1)):
            market = market_of(until(plan.panel, int(env.view.bar[0])), plan.fill, arrays)
            observer.extend(market)
            decider.extend(market)
            view = account_of(env.view, market)
            assert np.array_equal(numbers(observer.observe(view)), numbers(observation))
            actions = arrays.put(actions_of(env, rng))
            decider.decide(view, actions)
            observation, _, terminated, truncated, _ = env.step(actions)
            assert np.array_equal(decided[-1], decided[-2], equal_nan=True)
            if bool((terminated | truncated).any()):
                break
    assert len(decided) > 10
    assert observer.feature_names == env.feature_names
    assert (observer.space, decider.space) == (env.single_observation_space, env.single_action_space)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("name", CASES)
def test_the_decision_step_alone_moves_accounts_as_the_environment_does(name, backend):
    env, arrays = built(name, 3, backend)
    plan, rng = env.plan, np.random.default_rng(2)
    with nullcontext() if backend == "numpy" else float64_by_default():
        env.reset()
        market = market_of(plan.panel, plan.fill, arrays)
        view, (_, decider) = account_of(env.view, market), apart(plan, market, 3)
        if backend == "numpy":
            step = NumpyDecisionStep(view, decider, plan.costs, plan.margin).step
        else:
            step = partial(TorchDecisionStep(market, decider, plan.costs, plan.margin).step, view, decider)
        for _ in range(min(STEPS, plan.length - 1)):
            actions = arrays.put(actions_of(env, rng))
            step(actions)
            _, _, terminated, truncated, _ = env.step(actions)
            if bool((terminated | truncated).any()):
                break
            for field in ("bar", "cash", "positions", "value", "value_before", "peak", "cost", "carry", "turnover"):
                assert np.array_equal(numbers(getattr(view, field)), numbers(getattr(env.view, field))), field
    assert int(view.bar[0]) > plan.first_bar + 5


def test_the_gate_sells_everything_in_turmoil_whatever_is_traded():
    market = market_of(panel_of("stock_trading"), fill_policy("next_open"), NUMPY)
    view = View(market, 1000.0, 2)
    view.bar[:] = np.argmax(market.turbulence), np.argmin(market.turbulence)
    view.positions[:] = 3.0
    for way, flat in (("shares", -3.0), ("weights", 0.0), ("position", 0.0)):
        targets = np.full(2 if way == "position" else (2, 4), 0.25)
        turbulence_gate(view, Trade(way), 50.0, targets)
        assert (targets[0] == flat).all(), way
        assert (targets[1] == 0.25).all(), way


@pytest.mark.parametrize("name", CASES)
def test_no_result_of_a_torch_step_shares_memory_with_the_state(name):
    """A step writes over the tensors of the state: what it hands out must not be among them."""
    env, arrays = built(name, 3, "torch")
    env.reset()
    rng = np.random.default_rng(2)
    with torch.no_grad(), float64_by_default():
        for _ in range(3):
            results = env.run(env.checked(arrays.put(actions_of(env, rng))))
            state = {tensor.data_ptr() for tensor in env._state.values()}
            assert not state & {tensor.data_ptr() for tensor in results}
