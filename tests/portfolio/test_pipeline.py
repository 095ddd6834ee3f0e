"""The pipeline by itself and in an environment: one order, one history, named errors."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import ComponentError, DataError, EnvError
from alphaswarm_rl.core.kinds import PortfolioStage
from alphaswarm_rl.envs.making import make_env
from alphaswarm_rl.portfolio.pipeline import WeightCentricPipeline
from tests.actions.views import ACCOUNT
from tests.portfolio.stages import panel_for

PIPELINE = [
    {"class": "StaticUniverseSelector", "kwargs": {"symbols": ["A0", "A1", "A2"]}},
    {"class": "MomentumSelector", "kwargs": {"k": 2, "lookback": 5}},
    {"class": "SoftmaxAllocator"},
    {"class": "VolatilityTargetingTimingAdjuster", "kwargs": {"target": 0.2, "lookback": 8}},
    {"class": "PositionCapRiskOverlay", "kwargs": {"max_position": 0.2}},
    {"class": "StackedRiskOverlay", "kwargs": {"max_gross": 0.3, "max_drawdown": 0.02}},
]
NAMES = ["static_universe", "momentum", "softmax", "volatility_target", "position_cap", "risk_limits"]


def environment(portfolio, panel=None, action="continuous_weights", **more):
    panel = panel_for() if panel is None else panel
    parts = {"action": {"class": action}, "observation": ACCOUNT, "portfolio": portfolio, **more}
    return make_env("stock_trading", panel=panel, fill="next_close", episode_bars=None, **parts)


@pytest.mark.parametrize(
    ("name", "alias"),
    [
        ("StaticUniverseSelector", "static_universe"),
        ("LiquiditySelector", "liquidity"),
        ("MomentumSelector", "momentum"),
        ("IdentityAllocator", "identity"),
        ("SoftmaxAllocator", "softmax"),
        ("ConstantTimingAdjuster", "constant"),
        ("TurbulenceTimingAdjuster", "turbulence"),
        ("VolatilityTargetingTimingAdjuster", "volatility_target"),
        ("PositionCapRiskOverlay", "position_cap"),
        ("GrossExposureRiskOverlay", "gross_exposure"),
        ("StackedRiskOverlay", "risk_limits"),
        ("stacked", "risk_limits"),
        ("hrp", "hierarchical_risk_parity"),
    ],
)
def test_stages_are_known_by_the_names_of_other_documents(name, alias):
    assert catalogue.get("portfolio_stage", name).rl_alias == alias


def test_it_gives_weights_and_what_every_stage_made_of_them():
    panel = panel_for()
    pipeline = WeightCentricPipeline(PIPELINE, panel)
    weights = np.array([[0.5, 0.4, 0.3, 0.2, 0.1]])
    state = pipeline.run(weights)
    assert [name for name, _ in state.history] == ["action", *NAMES]
    np.testing.assert_array_equal(state.history[0][1], weights)
    np.testing.assert_array_equal(state.history[-1][1], state.weights)
    assert weights[0, 0] == 0.5
    selected = state.history[2][1][0] != 0
    assert selected.sum() == 2
    np.testing.assert_allclose(state.history[3][1].sum(), 1.0)
    assert (state.weights[0, ~selected] == 0).all()
    assert state.weights.max() <= 0.2
    assert state.weights.sum() <= 0.3 + 1e-12


def test_it_is_what_an_environment_does_bit_for_bit():
    panel = panel_for()
    env = environment(PIPELINE, panel, num_envs=3)
    env.log_trades()
    env.reset()
    pipeline = WeightCentricPipeline(PIPELINE, panel, n=3)
    rng = np.random.default_rng(0)
    for _ in range(env.plan.length - 1):
        view = env.view.rows(np.arange(3))
        infos = env.step(rng.uniform(0, 1, (3, 5)).astype(np.float32))[4]
        state = pipeline.run(infos["rl_pipeline_history"]["continuous_weights"], view)
        for name, made in state.history[1:]:
            np.testing.assert_array_equal(infos["rl_pipeline_history"][name], made)
        measured = infos["trades"]["measured"]
        assert measured.shape == (3, 3)
        assert [bool(breaches) for breaches in state.breaches] == (measured > [0.2, 0.3, 0.02]).any(axis=1).tolist()


def test_breaches_name_the_limit_the_value_and_how_grave_it_is():
    pipeline = WeightCentricPipeline([{"class": "stacked", "kwargs": {"max_gross_exposure": 1.0}}], panel_for(), n=2)
    breaches = pipeline.run(np.array([[1.0, 1.0, 0, 0, 0], [0.5, 0, 0, 0, 0]])).breaches
    assert [(one.kind, one.value, one.limit, one.severity) for one in breaches[0]] == [
        ("max_gross", 2.0, 1.0, "warning")
    ]
    assert breaches[1] == ()


def test_it_remembers_from_run_to_run_and_forgets_when_reset():
    pipeline = WeightCentricPipeline([{"class": "drawdown", "kwargs": {"max_drawdown": 0.1}}], panel_for())
    weights = np.full((1, 5), 0.2)
    assert pipeline.run(weights, pipeline.account(cash=100.0)).weights.sum() > 0
    assert pipeline.run(weights, pipeline.account(cash=80.0)).weights.sum() == 0
    pipeline.reset()
    assert pipeline.run(weights, pipeline.account(cash=80.0)).weights.sum() > 0


def test_more_bars_are_gone_on_with():
    panel = panel_for()
    first = panel.window(end=panel.timestamps[50])
    pipeline, whole = WeightCentricPipeline(PIPELINE, first), WeightCentricPipeline(PIPELINE, panel)
    pipeline.extend(panel)
    weights = np.array([[0.5, 0.4, 0.3, 0.2, 0.1]])
    np.testing.assert_array_equal(pipeline.run(weights).weights, whole.run(weights).weights)


@pytest.mark.parametrize(
    ("weights", "match"),
    [([[0.1, np.nan, 0, 0, 0]], "'A1'"), ([[0.1, 0.2]], "shape"), ([[np.inf, 0, 0, 0, 0]], "'A0'")],
)
def test_weights_that_are_none_are_refused_by_name(weights, match):
    with pytest.raises(EnvError, match=match):
        WeightCentricPipeline([], panel_for()).run(np.array(weights))


def test_a_bar_that_stages_cannot_look_back_from_is_refused():
    pipeline = WeightCentricPipeline(PIPELINE, panel_for())
    with pytest.raises(EnvError, match="look back 8 bars"):
        pipeline.run(np.zeros((1, 5)), pipeline.account(bar=7))
    pipeline.run(np.zeros((1, 5)), pipeline.account(bar=8))


class Greedy(PortfolioStage):
    """Doubles every weight, which no risk stage may."""

    rl_alias = "portfolio_test_greedy"
    role = "risk"

    def step(self, view, state, out):
        out *= 2.0


def test_a_stage_that_raises_weights_is_refused_there():
    with pytest.raises(ComponentError, match=r"'portfolio_test_greedy'.*larger"):
        WeightCentricPipeline([Greedy()], panel_for()).run(np.full((1, 5), 0.1))


def test_a_stage_without_a_role_cannot_be_registered():
    with pytest.raises(
        ComponentError, match=r"'portfolio_test_aimless'.*its role is None.*select, allocate, time, risk"
    ):

        class Aimless(PortfolioStage):
            """Says nothing about its role."""

            rl_alias = "portfolio_test_aimless"

            def step(self, view, state, out):
                """Writes nothing."""

    assert ("portfolio_stage", "portfolio_test_aimless") not in catalogue._components


def test_a_base_needs_no_role():
    class Base(PortfolioStage):
        """Not registered."""

    assert not hasattr(Base, "role")


class Idle(PortfolioStage):
    """Says that it selects and does not."""

    rl_alias = "portfolio_test_idle"
    role = "select"

    def step(self, view, state, out):
        """Writes nothing."""


def test_a_selector_that_selects_nothing_is_refused():
    with pytest.raises(ComponentError, match=r"'portfolio_test_idle'.*selects nothing"):
        WeightCentricPipeline([Idle()], panel_for())


ORDERS = [
    (["position_cap", "softmax"], r"'softmax'.*allocate.*behind 'position_cap'.*risk"),
    (["softmax", "momentum"], r"'momentum'.*select.*behind 'softmax'"),
    (["position_cap", "constant"], r"'constant'.*time.*behind 'position_cap'"),
    (["softmax", "identity"], r"'identity'.*it allocates, and so does 'softmax'"),
]


@pytest.mark.parametrize(("aliases", "match"), ORDERS)
def test_another_order_than_that_of_the_roles_is_refused(aliases, match):
    portfolio = [{"class": alias} for alias in aliases]
    with pytest.raises(EnvError, match=match):
        environment(portfolio)
    with pytest.raises(EnvError, match=match):
        WeightCentricPipeline(portfolio, panel_for())


@pytest.mark.parametrize("action", ["integer_shares", "bracket", "discrete_buy_sell_hold"])
def test_stages_on_actions_that_give_no_weights_are_refused(action):
    panel = panel_for(assets=1)
    with pytest.raises(EnvError, match=rf"'position_cap'.*stages change weights, and the action '{action}' gives none"):
        environment([{"class": "position_cap"}], panel, action=action)


def test_without_selected_assets_an_environment_is_refused():
    with pytest.raises(DataError, match="the universe is empty"):
        environment([{"class": "liquidity", "kwargs": {"min_traded_value": 1e15, "lookback": 3}}])


def test_names_of_stages_that_are_there_twice_are_numbered():
    twice = [{"class": "constant", "kwargs": {"scale": 0.5}}] * 2
    env = environment(twice)
    env.log_trades()
    env.reset()
    history = env.step(np.full((1, 5), 0.1, np.float32))[4]["rl_pipeline_history"]
    assert list(history) == ["continuous_weights", "constant", "constant_2"]
    np.testing.assert_allclose(history["constant_2"], 0.025)


def test_without_stages_nothing_is_logged_of_them():
    env = environment([])
    env.log_trades()
    env.reset()
    infos = env.step(np.full((1, 5), 0.1, np.float32))[4]
    assert "rl_pipeline_history" not in infos
    assert "measured" not in infos["trades"]


def test_in_torch_an_environment_does_the_same():
    here, on_torch = (environment(PIPELINE, num_envs=3, phase="evaluate", backend=one) for one in ("numpy", "torch"))
    for env in (here, on_torch):
        env.log_trades()
        env.reset()
    rng = np.random.default_rng(0)
    for _ in range(here.plan.length - 1):
        action = rng.uniform(0, 1, (3, 5)).astype(np.float32)
        ours, theirs = here.step(action)[4], on_torch.step(on_torch.market.backend.put(action))[4]
        assert list(ours["rl_pipeline_history"]) == list(theirs["rl_pipeline_history"])
        for name, weights in ours["rl_pipeline_history"].items():
            found = theirs["rl_pipeline_history"][name].numpy()
            np.testing.assert_allclose(found, weights, rtol=1e-9, atol=1e-12, err_msg=name)
        measured = theirs["trades"]["measured"].numpy()
        np.testing.assert_allclose(measured, ours["trades"]["measured"], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(theirs["portfolio_value"].numpy(), ours["portfolio_value"], rtol=1e-12)
    assert (ours["rl_pipeline_history"]["risk_limits"] == 0).all()
