"""The torch form of the trading environment does what the NumPy form does."""

import warnings
from functools import partial
from importlib import import_module
from pkgutil import iter_modules

import numpy as np
import pytest
import torch
from gymnasium.error import ResetNeeded
from torch._subclasses import FakeTensorMode

from alphaswarm_rl.core.contracts import EnvRequest
from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.core.kinds import ObservationBuilder, RewardTerm, Termination
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.envs import stock_trading
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.envs.trading_torch import TorchTradingEnv
from tests.envs.contract import check_vector_env
from tests.envs.panels import random_panel
from tests.portfolio.stages import KWARGS as STAGES

#: The environment that is composed here; named so that its alias is known.
ALIAS = stock_trading.StockTrading.rl_alias
STEPS = 256
DEAR = {"commission_rate": 0.001, "sell_commission_rate": 0.002, "commission_minimum": 1.0, "impact": 0.1}


class CountingObservation(ObservationBuilder):
    """Shows how often it was asked in the episode, and the sum of the returns it saw."""

    rl_alias = "torch_test_counting"

    def init(self, n, xp):
        return {"asked": xp.zeros(n, dtype=xp.int64), "sum": xp.zeros((n, 2), dtype=xp.float64) + 0.5}

    def names(self, panel):
        return ("asked", "sum", "part")

    def step(self, view, state, out):
        state["asked"][...] = state["asked"] + 1
        state["sum"][...] = state["sum"] + view.portfolio_return[:, None]
        out[:, 0] = state["asked"]
        out[:, 1] = state["sum"][:, 1]
        # A quotient of whole numbers is float64 in NumPy, and must be in torch.
        out[:, 2] = view.steps / (view.last - view.start)


class SlowReward(RewardTerm):
    """A running mean of returns, and a part of the episode's length."""

    rl_alias = "torch_test_slow"

    def init(self, n, xp):
        return {"mean": xp.zeros(n, dtype=xp.float64)}

    def step(self, view, state, out):
        state["mean"][...] = 0.9 * state["mean"] + 0.1 * view.portfolio_return
        out[...] = state["mean"] + view.steps / (view.last - view.start)


class EveryFifth(Termination):
    """Ends episodes on each fifth bar of the panel, without failure."""

    rl_alias = "torch_test_every_fifth"

    def step(self, view, state, out):
        out[...] = view.bar // 5 * 5 == view.bar


def twins(panel, alias=ALIAS, num_envs=16, **kwargs):
    """The same environment on NumPy and on torch."""
    shared = {"panel": panel, "num_envs": num_envs, "seed": 3, **kwargs}
    return make_env(alias, **shared), make_env(alias, **shared, backend="torch")


def actions_of(env, rng):
    space = env.single_action_space
    if space.dtype.kind == "f":
        return rng.uniform(-1.0, 1.0, (env.num_envs, *space.shape)).astype(space.dtype)
    highest = space.n if hasattr(space, "n") else space.nvec
    return rng.integers(0, highest, (env.num_envs, *space.shape))


def assert_same_step(found, expected, reasons, terms):
    observations, rewards, terminated, truncated, infos = expected
    np.testing.assert_allclose(found[0].numpy(), observations, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(found[1].numpy(), rewards, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(found[2].numpy(), terminated)
    np.testing.assert_array_equal(found[3].numpy(), truncated)
    others = found[4]
    for name in ("portfolio_value", "cash", "cost", "carry", "turnover"):
        np.testing.assert_allclose(others[name].numpy(), infos[name], rtol=1e-9, atol=1e-6, err_msg=name)
    for name in ("nav_return", "drawdown"):
        np.testing.assert_allclose(others[name].numpy(), infos[name], rtol=0, atol=1e-9, err_msg=name)
    np.testing.assert_array_equal(others["step_idx"].numpy(), infos["step_idx"])
    np.testing.assert_array_equal(others["timestamp"].numpy().astype("datetime64[ns]"), infos["timestamp"])
    np.testing.assert_array_equal(others["improper_stop"].numpy(), infos["improper_stop"])
    assert list(others["reward_terms"]) == list(infos["reward_terms"]) == terms
    for name, term in infos["reward_terms"].items():
        np.testing.assert_allclose(others["reward_terms"][name].numpy(), term, rtol=1e-9, atol=1e-12, err_msg=name)
    ended = terminated | truncated
    np.testing.assert_array_equal(others["_reason"].numpy(), ended)
    np.testing.assert_array_equal(others["_final_obs"].numpy(), ended)
    named = [reasons[code] for code in others["reason"].tolist()]
    assert named == list(infos.get("reason", [""] * len(ended)))
    assert torch.isfinite(others["final_obs"]).all()
    if ended.any():
        final = others["final_obs"].numpy()[ended]
        np.testing.assert_allclose(final, infos["final_obs"][ended], rtol=1e-6, atol=1e-6)


def assert_same_run(expected, found, *, steps=STEPS, whole, seed=0):
    """Runs both with the same actions; whole units are to be the same exactly."""
    rng = np.random.default_rng(seed)
    np.testing.assert_allclose(found.reset()[0].numpy(), expected.reset()[0], rtol=1e-6, atol=1e-6)
    terms = [named.name for named in expected.plan.terms]
    for _ in range(steps):
        actions = actions_of(expected, rng)
        assert_same_step(found.step(torch.from_numpy(actions)), expected.step(actions), found.reasons, terms)
        same = np.testing.assert_array_equal if whole else partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
        same(found.view.positions.numpy(), expected.view.positions)
        for name in ("bar", "start", "last"):
            np.testing.assert_array_equal(getattr(found.view, name).numpy(), getattr(expected.view, name))
        np.testing.assert_array_equal(found.episode_numbers.numpy(), expected.episode_numbers)
    assert found.episode_numbers.min() >= 1, "no episode ended, so that nothing was tested about ends"


@pytest.mark.parametrize("costs", [{}, DEAR], ids=["cheap", "dear"])
@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close", "cheat_on_open"])
def test_whole_shares_equal_numpys_under_every_fill(fill, costs):
    panel = random_panel(1, bars=60, assets=5, actions=True)
    env = twins(panel, fill=fill, costs=costs, episode_bars=17, initial_cash=20_000.0)
    assert_same_run(*env, whole=True)


def test_fractions_of_shares_equal_numpys():
    action = {"class": "integer_shares", "kwargs": {"whole": False, "hmax": 40.5}}
    env = twins(random_panel(2), action=action, costs=DEAR, episode_bars=13, initial_cash=5_000.0)
    assert_same_run(*env, whole=False)


@pytest.mark.parametrize("costs", [{}, DEAR], ids=["cheap", "dear"])
def test_weights_on_margin_equal_numpys(costs):
    env = twins(
        random_panel(4, bars=50, assets=3),
        action={"class": "continuous_weights"},
        margin={"initial": 0.3, "maintenance": 0.29},
        terminations=[{"class": "drawdown", "kwargs": {"limit": 0.1}}],
        costs={**costs, "funding_rate": 1e-4},
        episode_bars=20,
    )
    assert_same_run(*env, whole=False)


@pytest.mark.parametrize("fill", ["next_open", "same_close"])
@pytest.mark.parametrize("margin", [None, {"initial": 0.3, "maintenance": 0.29}], ids=["cash", "margin"])
def test_orders_that_decisions_make_of_weights_equal_numpys(margin, fill):
    env = twins(
        random_panel(4, bars=50, assets=3, actions=True),
        action={"class": "continuous_weights", "kwargs": {"short": margin is not None, "gross": 1.0}},
        margin=margin,
        fill=fill,
        costs=DEAR,
        episode_bars=20,
        sizing="at_decision",
        order_rules={"lot": 1, "rebalance_threshold": 0.01, "min_notional": 100},
    )
    # Splits make halves of units, which are exact too.
    assert_same_run(*env, whole=True)


@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
@pytest.mark.parametrize("action", ["discrete_buy_sell_hold", "masked_discrete", "bracket"])
def test_positions_in_one_asset_equal_numpys(action, fill):
    # A panel whose first asset falls and rises enough for brackets to close positions inside the bar.
    panel = random_panel(5, bars=80, actions=True)
    env = twins(panel, action={"class": action, "kwargs": {"asset": "A0"}}, fill=fill, episode_bars=31)
    assert_same_run(*env, steps=100, whole=False)


#: Parameters of parts that have none by themselves; None for those that hold other parts.
PARAMETERS = {
    "bracket": {"asset": "A0"},
    "discrete_buy_sell_hold": {"asset": "A0"},
    "masked_discrete": {"asset": "A0"},
    "risk_breach": {"max_gross": 0.5},
    "fundamentals": {"fields": ["f1"]},
    "composite": None,
    "stacked": None,
}


def every_part():
    """(kind, alias) of every small component of the project."""
    for folder in ("actions", "observations", "rewards", "terminations", "portfolio"):
        package = import_module(f"alphaswarm_rl.{folder}")
        for module in iter_modules(package.__path__):
            name = f"alphaswarm_rl.{folder}.{module.name}"
            for cls in vars(import_module(name)).values():
                own = isinstance(cls, type) and cls.__module__ == name and "rl_alias" in vars(cls)
                if own and PARAMETERS.get(cls.rl_alias, {}) is not None:
                    yield cls.rl_kind, cls.rl_alias


@pytest.mark.parametrize(("kind", "alias"), sorted(every_part()))
def test_every_part_equals_its_numpy_form(kind, alias):
    rng, panel = np.random.default_rng(0), random_panel(3, bars=120, actions=True)
    market = {"turbulence": rng.uniform(0.0, 3.0, panel.num_bars), "vix": rng.uniform(10.0, 30.0, panel.num_bars)}
    reference = {"class": alias, "kwargs": PARAMETERS.get(alias, {})}
    if kind == "termination":
        slot = {"terminations": [reference]}
    elif kind == "portfolio_stage":
        stage = {"class": alias, "kwargs": STAGES.get(alias, {})}
        slot = {"action": {"class": "continuous_weights"}, "portfolio": [stage]}
    else:
        slot = {kind: reference}
    if alias == "next_open":
        slot["fill"] = "cheat_on_open"
    env = twins(panel.with_market_features(market), num_envs=7, episode_bars=15, **slot)
    assert_same_run(*env, steps=40, whole=False)


def test_parts_with_arrays_of_their_own_equal_numpys():
    parts = [{"class": "torch_test_counting"}, {"class": "portfolio_state"}]
    env = twins(
        random_panel(6, bars=50),
        observation={"class": "stacked", "kwargs": {"parts": parts}},
        reward={"class": "torch_test_slow"},
        terminations=[{"class": "torch_test_every_fifth"}, {"class": "drawdown", "kwargs": {"limit": 0.03}}],
        episode_bars=23,
    )
    assert_same_run(*env, whole=True)


def test_the_average_cost_and_the_stops_on_it_equal_numpys():
    env = twins(random_panel(7), action={"class": "stop_loss_shares", "kwargs": {"stop": 0.97}}, episode_bars=20)
    assert_same_run(*env, whole=True)
    np.testing.assert_allclose(env[1].view.average_cost.numpy(), env[0].view.average_cost, rtol=1e-9)


def test_turbulence_sells_everything_as_on_numpy():
    panel = random_panel(8)
    turbulence = np.where(np.arange(panel.num_bars) % 7 == 3, 5.0, 1.0)
    panel = panel.with_market_features({"turbulence": turbulence})
    assert_same_run(*twins(panel, turbulence_threshold=4.0, episode_bars=15), whole=True)


def test_evaluations_start_where_numpys_do_and_run_over_the_whole_window():
    env = twins(random_panel(9, bars=20), phase="evaluate")
    assert_same_run(*env, steps=60, whole=True)


class AsNumpy:
    """The torch form behind NumPy's arrays, for checks that are written for those."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)

    @property
    def episode_numbers(self):
        return self.env.episode_numbers.numpy()

    def reset(self, **kwargs):
        observation, infos = self.env.reset(**kwargs)
        return observation.numpy(), infos

    def step(self, actions):
        observation, rewards, terminated, truncated, infos = self.env.step(torch.from_numpy(np.asarray(actions)))
        infos = {name: infos[name].numpy() for name in ("final_obs", "_final_obs")}
        if not infos["_final_obs"].any():
            infos = {}
        return observation.numpy(), rewards.numpy(), terminated.numpy(), truncated.numpy(), infos


def component(**kwargs):
    return build_from_config({"class": ALIAS, "kwargs": kwargs}, kind="env")


def built(request, *, compiled=None, **kwargs):
    """An environment of that request, with a panel where it has none."""
    parts = {"panel": random_panel(10), **request.parts}
    request = EnvRequest(**{**vars(request), "parts": parts, "backend": "torch"})
    return TorchTradingEnv(request, component(**{"episode_bars": 12, **kwargs}).plan(request), compile=compiled)


def test_it_is_a_vector_environment():
    check_vector_env(lambda request: AsNumpy(built(request)))


def test_states_can_be_exchanged_with_numpys():
    expected, found = twins(random_panel(11), reward={"class": "torch_test_slow"}, episode_bars=15)
    rng = np.random.default_rng(0)
    expected.reset()
    for _ in range(20):
        expected.step(actions_of(expected, rng))
    saved = expected.get_state()
    found.set_state(saved)
    mine = found.get_state()
    assert mine.data == saved.data
    assert set(mine.arrays) == set(saved.arrays)
    for name, array in saved.arrays.items():
        assert mine.arrays[name].dtype == array.dtype, name
        np.testing.assert_array_equal(mine.arrays[name], array, err_msg=name)
    for _ in range(20):
        actions = actions_of(expected, rng)
        observations, rewards = found.step(torch.from_numpy(actions))[:2]
        after = expected.step(actions)
        np.testing.assert_allclose(observations.numpy(), after[0], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(rewards.numpy(), after[1], rtol=1e-9, atol=1e-12)
    expected.set_state(found.get_state())


@pytest.mark.parametrize("action", ["integer_shares", "continuous_weights"])
def test_an_environment_alone_and_in_company_agree_to_the_last_bit(action):
    panel, rng = random_panel(12), np.random.default_rng(1)
    one, many = (
        make_env(ALIAS, panel=panel, num_envs=n, backend="torch", action={"class": action}, episode_bars=9)
        for n in (1, 64)
    )
    assert torch.equal(one.reset()[0][0], many.reset()[0][0])
    for _ in range(60):
        actions = torch.from_numpy(actions_of(many, rng))
        alone, company = one.step(actions[:1]), many.step(actions)
        for mine, theirs in zip(alone[:4], company[:4], strict=True):
            assert torch.equal(mine[0], theirs[0])
        assert torch.equal(one.view.positions[0], many.view.positions[0])
        assert torch.equal(one.view.cash[0], many.view.cash[0])


def test_what_is_not_a_number_counts_as_no_order():
    env = built(EnvRequest(2, 0))
    env.reset()
    actions = torch.full((2, 4), torch.nan)
    actions[1] = torch.inf
    env.step(actions)
    assert torch.equal(env.view.positions, torch.zeros(2, 4).double())


def test_a_discrete_action_out_of_range_counts_as_the_nearest():
    action = {"class": "discrete_buy_sell_hold", "kwargs": {"asset": "A0"}}
    env = make_env(ALIAS, panel=random_panel(5), num_envs=4, backend="torch", action=action)
    env.reset()
    last = env.single_action_space.n - 1
    env.step(torch.tensor([-5, 0, 99, last]))
    positions = env.view.positions
    assert torch.equal(positions[0], positions[1])
    assert torch.equal(positions[2], positions[3])


@pytest.mark.parametrize(
    "actions",
    [torch.zeros(2, 3), torch.zeros(3, 4), np.zeros((2, 4)), torch.zeros(2, 4, device="meta")],
    ids=["assets", "environments", "numpy", "device"],
)
def test_actions_of_another_shape_or_place_are_refused(actions):
    env = built(EnvRequest(2, 0))
    env.reset()
    with pytest.raises(EnvError, match="one action per environment"):
        env.step(actions)


def test_a_step_before_a_reset_is_refused():
    with pytest.raises(ResetNeeded):
        built(EnvRequest(2, 0)).step(torch.zeros(2, 4))


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises(EnvError, match="torch has none"):
        built(EnvRequest(2, 0, device="cuda:99"))


def test_observations_go_into_the_callers_storage():
    env, other = built(EnvRequest(3, 0)), built(EnvRequest(3, 0))
    width = env.reset()[0].shape[1]
    other.reset()
    storage = torch.full((5, 3, width), torch.nan)
    for index in range(5):
        actions = torch.rand(3, 4) * 2 - 1
        observation = env.step(actions, out=storage[index])[0]
        assert observation.data_ptr() == storage[index].data_ptr()
        assert torch.equal(observation, other.step(actions)[0])
    with pytest.raises(EnvError, match="the observation is of shape"):
        env.step(actions, out=storage[0].double())


def test_last_observations_go_into_the_callers_storage():
    env, other = built(EnvRequest(3, 0), episode_bars=4), built(EnvRequest(3, 0), episode_bars=4)
    storage = torch.zeros_like(env.reset()[0])
    other.reset()
    ends = 0
    for _ in range(9):
        actions = torch.rand(3, 4) * 2 - 1
        infos, expected = env.step(actions, final_out=storage)[4], other.step(actions)[4]
        ended = infos["_final_obs"]
        assert infos["final_obs"].data_ptr() == storage.data_ptr()
        assert torch.equal(storage[ended], expected["final_obs"][ended])
        ends += int(ended.sum())
    assert ends == 6


def test_a_step_looks_at_no_tensor():
    """A fake tensor has no values: whatever looked at one, and so waited for the device, would fail."""
    env = built(EnvRequest(3, 0))
    env.reset()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        env._state = {name: mode.from_tensor(tensor) for name, tensor in env._state.items()}
        observation, rewards, *_, infos = env.step(mode.from_tensor(torch.zeros(3, 4)))
    assert observation.shape == infos["final_obs"].shape == (3, len(env.feature_names))
    assert rewards.shape == (3,)


def test_the_compiled_step_is_one_graph_with_the_same_numbers(monkeypatch):
    graphs = []

    def count(graph, inputs):
        graphs.append(graph)
        return graph

    monkeypatch.setattr(torch, "compile", lambda graph, options=None, **kwargs: COMPILE(graph, backend=count, **kwargs))
    plain, compiled = built(EnvRequest(4, 0), compiled=False), built(EnvRequest(4, 0), compiled=True)
    assert torch.equal(plain.reset()[0], compiled.reset()[0])
    storage = torch.empty_like(plain.reset(seed=5)[0])
    compiled.reset(seed=5)
    generator = torch.Generator().manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for index in range(40):
            actions = torch.rand(4, 4, generator=generator) * 2 - 1
            expected = plain.step(actions)
            found = compiled.step(actions, out=storage if index % 2 else None)
            for mine, theirs in zip(found[:4], expected[:4], strict=True):
                assert torch.equal(mine, theirs)
            assert torch.equal(found[4]["final_obs"], expected[4]["final_obs"])
        compiled.reset(seed=9)
        compiled.step(actions)
    assert compiled.compiled
    assert len(graphs) == 1, "neither the caller's storage nor a new seed needs another"


COMPILE = torch.compile


def test_where_compilation_fails_the_plain_step_runs_and_says_so_once(monkeypatch):
    def fail(*arguments, **kwargs):
        raise RuntimeError("no such compiler")

    monkeypatch.setattr(torch, "compile", fail)
    env = built(EnvRequest(2, 0), compiled=True)
    env.reset()
    with pytest.warns(UserWarning, match="not compiled.*no such compiler"):
        env.step(torch.zeros(2, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        env.step(torch.zeros(2, 4))


def test_nothing_is_compiled_on_the_cpu_unless_asked_for():
    assert not built(EnvRequest(2, 0)).compiled
