"""The future-noise test over the whole catalogue, and what it catches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from alphaswarm_rl import build_from_config, make_env
from alphaswarm_rl.audit.lookahead import Finding, env_findings, last_reached, pipeline_findings, undeclared
from alphaswarm_rl.audit.noise import with_noise_after
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import DataRequest, PolicyRequest
from alphaswarm_rl.core.kinds import ObservationBuilder, RewardTerm, Termination
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, PipelineConfig
from alphaswarm_rl.envs.trading import TradingComponent
from tests.envs.panels import random_panel

SOURCES = "alphaswarm_rl."  #: Components of this package; tests define others.
FUNDAMENTALS = ("pe", "pb", "debt_to_equity", "roa", "roe", "ebitda_margin")
KWARGS: dict[tuple[str, str], dict[str, Any]] = {
    ("observation", "covariance"): {"lookback": 5},
    ("observation", "microstructure"): {"lookback": 5},
    ("reward", "composite"): {"terms": [{"class": "log_return"}, {"class": "turnover_penalty"}]},
    ("reward", "risk_parity"): {"lookback": 5},
    ("reward", "volatility_penalty"): {},
    ("termination", "risk_breach"): {"max_gross": 0.9},
    ("termination", "turbulence"): {"threshold": 2.5},
    ("termination", "horizon"): {"steps": 20},
    ("termination", "drawdown"): {"limit": 0.05},
    ("env", "stock_portfolio"): {"lookback": 5},
    ("policy", "minimum_variance"): {"lookback": 10, "rebalance_bars": 3},
    ("policy", "mean_variance"): {"lookback": 10, "rebalance_bars": 3},
}
#: What looks ahead by its nature, and says so.
DECLARED = {("observation", "next_open"), ("reward", "hindsight")}


def panel_for(assets=4, bars=60):
    rng = np.random.default_rng(0)
    panel = random_panel(2, bars=bars, assets=assets)
    fundamentals = {name: rng.normal(size=panel.close.shape) for name in FUNDAMENTALS}
    market = {"turbulence": np.abs(rng.normal(size=bars)), "vix": 20 + rng.normal(size=bars)}
    return panel.with_features(fundamentals).with_market_features(market)


def kinds(kind):
    found = [cls for cls in catalogue.listing() if cls.rl_kind == kind and cls.__module__.startswith(SOURCES)]
    return pytest.mark.parametrize("alias", [cls.rl_alias for cls in found if cls.rl_alias != "stacked"])


def findings(alias="stock_trading", *, assets=4, **parts):
    panel = panel_for(assets)

    def make(market):
        return make_env(alias, panel=market, seed=1, episode_bars=None, **parts)

    return env_findings(make, panel, last_reached(make, panel))


def ref(kind, alias):
    return {"class": alias, "kwargs": KWARGS.get((kind, alias), {})}


def expect(kind, alias, found):
    if (kind, alias) in DECLARED:
        assert found, "it must be flagged"
    assert not undeclared(found), found


@kinds("observation")
def test_observations_are_blind(alias):
    expect("observation", alias, findings(observation=ref("observation", alias)))


@kinds("reward")
def test_rewards_are_blind(alias):
    margin = {"margin": {"initial": 0.5}} if alias == "margin_call" else {}
    expect("reward", alias, findings(reward=ref("reward", alias), **margin))


@kinds("termination")
def test_terminations_are_blind(alias):
    margin = {"margin": {"initial": 0.5}} if alias == "margin_call" else {}
    expect("termination", alias, findings(terminations=[ref("termination", alias)], **margin))


@kinds("action")
def test_actions_are_blind(alias):
    single = alias in {"discrete_buy_sell_hold", "masked_discrete", "bracket"}
    expect("action", alias, findings(action=ref("action", alias), assets=1 if single else 4))


@kinds("portfolio_stage")
def test_portfolio_stages_are_blind(alias):
    action = {"class": "softmax_weights"}
    expect("portfolio_stage", alias, findings(action=action, portfolio=[ref("portfolio_stage", alias)]))


TRADING = [cls.rl_alias for cls in catalogue.listing() if issubclass(cls, TradingComponent)]


@pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close", "cheat_on_open"])
@pytest.mark.parametrize("alias", TRADING)
def test_environments_are_blind(alias, fill):
    assets = 1 if alias == "tradesim_algotrading" else 4
    found = findings(alias, assets=assets, fill=fill, **KWARGS.get(("env", alias), {}))
    assert not undeclared(found), found
    declared = {finding.component for finding in found}
    assert declared == ({"next_open"} if fill == "cheat_on_open" else set()) | (
        {"hindsight"} if alias == "tradesim_algotrading" else set()
    )


@kinds("policy")
def test_policies_are_blind(alias):
    panel, bar = panel_for(), 40
    actions = []
    for market in (panel, with_noise_after(panel, bar)):
        env = make_env("stock_portfolio", panel=market, phase="evaluate", fill="next_close", lookback=5)
        observation, _ = env.reset()
        policy = build_from_config(ref("policy", alias), kind="policy")
        runner = policy.build(
            PolicyRequest(env.single_observation_space, env.single_action_space, num_envs=1, seed=0, env=env)
        )
        taken = []
        for _ in range(env.plan.first_bar, bar + 1):
            taken.append(runner.act(observation, deterministic=True))
            observation = env.step(taken[-1])[0]
        actions.append(np.stack(taken))
    np.testing.assert_array_equal(*actions)


FEATURES = ["macd", "boll_ub", "rsi_14", "cci_14", "dx_14", "close_10_sma", "atr_14", "returns_1", "volatility_10"]
OFFLINE = {
    "synthetic": {"n_assets": 3, "n_bars": 400, "features": FEATURES, "market_features": ["turbulence_60"]},
    "bundled": {"dataset": "googl_daily", "features": FEATURES},
    "csv": {"path": "bars.csv", "features": FEATURES},
    "parquet": {"path": "bars.parquet", "features": FEATURES},
    "frame": {"name": "bars", "features": FEATURES},
}


@pytest.fixture
def files(tmp_path):
    import pandas as pd

    panel = random_panel(5, bars=400, assets=2, gaps=False)
    columns = ("open", "high", "low", "close", "volume")
    frames = [
        pd.DataFrame({"date": panel.timestamps, "tic": asset, **{name: getattr(panel, name)[:, k] for name in columns}})
        for k, asset in enumerate(panel.assets)
    ]
    frame = pd.concat(frames)
    frame.to_csv(tmp_path / "bars.csv", index=False)
    frame.to_parquet(tmp_path / "bars.parquet", index=False)
    return tmp_path, frame


@pytest.mark.parametrize("alias", sorted(OFFLINE))
def test_data_pipelines_are_blind(alias, files):
    root, frame = files
    pipeline = build_from_config({"class": alias, "kwargs": OFFLINE[alias]}, kind="data_pipeline")
    request = DataRequest(root=root, frames={"bars": frame})
    assert pipeline_findings(pipeline, request) == []


def test_every_pipeline_without_a_network_is_among_them():
    known = {cls.rl_alias for cls in catalogue.listing() if cls.rl_kind == "data_pipeline"}
    assert {name for name in known if name not in {"yahoo", "alpaca"} and not name.startswith("leaking")} == set(
        OFFLINE
    )


def test_the_oracle_is_flagged_and_declared():
    pipeline = build_from_config(
        {"class": "synthetic", "kwargs": {"model": "oracle", "n_bars": 400}}, kind="data_pipeline"
    )
    (finding,) = pipeline_findings(pipeline, DataRequest())
    assert (finding.column, finding.how, finding.declared) == ("next_return", "tracks the next return", True)


class LeakingObservation(ObservationBuilder):
    """Tomorrow's return beside today's price, which is a leak on purpose."""

    rl_alias = "leaking_observation"

    def names(self, panel):
        return ("honest", "tomorrow")

    def step(self, view, state, out):
        later = np.minimum(view.bar + 1, len(view.market.close) - 1)
        out[:, 0] = view.close[:, 0]
        out[:, 1] = view.market.close[later][:, 0]


class LeakingReward(RewardTerm):
    """The next close, which is a leak on purpose."""

    rl_alias = "leaking_reward"

    def step(self, view, state, out):
        out[...] = view.market.close[np.minimum(view.bar + 1, view.last)][:, 0]


class LeakingTermination(Termination):
    """Ends before prices fall, which is a leak on purpose."""

    rl_alias = "leaking_termination"

    def step(self, view, state, out):
        later = np.minimum(view.bar + 1, view.last)
        out[...] = view.market.close[later][:, 0] < 0.8 * view.close[:, 0]


class LeakingPipeline(PanelPipeline):
    """A feature centred over the whole sample, which is a leak on purpose."""

    rl_alias = "leaking_pipeline"

    class Config(PipelineConfig):
        """No parameters of its own."""

    def load(self, request):
        return random_panel(4, bars=300, gaps=False, features=0)

    def build(self, request):
        panel = self.load(request)
        centred = panel.close - panel.close.mean(axis=0)
        return panel.with_features({"honest": panel.close, "centred": centred})


def test_a_leaking_observation_is_caught_by_name_and_first_column():
    stacked = {
        "class": "stacked",
        "kwargs": {"parts": [{"class": "portfolio_state"}, {"class": "leaking_observation"}]},
    }
    (finding,) = findings(observation=stacked)
    assert (finding.kind, finding.component, finding.column) == ("observation", "leaking_observation", "tomorrow")
    assert not finding.declared


def test_a_leaking_reward_is_caught_by_its_term():
    terms = [{"class": "pnl"}, {"class": "leaking_reward", "name": "greed"}]
    (finding,) = findings(reward={"class": "composite", "kwargs": {"terms": terms}})
    assert (finding.kind, finding.component, finding.column) == ("reward", "leaking_reward", "greed")


def test_a_leaking_termination_is_caught():
    found = findings(terminations=[{"class": "leaking_termination"}])
    assert [(finding.kind, finding.component) for finding in found] == [("termination", "leaking_termination")]


def test_a_leaking_pipeline_is_caught_by_its_column():
    (finding,) = pipeline_findings(LeakingPipeline(LeakingPipeline.Config()), DataRequest())
    assert isinstance(finding, Finding)
    assert (finding.component, finding.column, finding.bar) == ("leaking_pipeline", "centred", 0)


def test_a_feature_from_a_file_that_knows_tomorrow_is_caught(tmp_path):
    import pandas as pd

    close = 100 * np.exp(np.cumsum(np.random.default_rng(0).normal(0, 0.01, 400)))
    frame = pd.DataFrame({"date": pd.bdate_range("2020-01-01", periods=400), "tic": "KO", "close": close})
    frame["signal"] = frame.close.shift(-1) / frame.close - 1
    frame["honest"] = frame.close.pct_change()
    frame = frame.iloc[1:-1]
    pipeline = build_from_config(
        {"class": "frame", "kwargs": {"name": "bars", "feature_columns": ["honest", "signal"]}}, kind="data_pipeline"
    )
    (finding,) = pipeline_findings(pipeline, DataRequest(frames={"bars": frame}, window=Window()))
    assert (finding.column, finding.how, finding.declared) == ("signal", "tracks the next return", False)


def test_noise_leaves_the_past_and_the_gaps_alone():
    panel = panel_for()
    noisy = with_noise_after(panel, 30)
    for name in ("close", "open", "high", "low", "volume", "features", "market_features"):
        first, second = getattr(panel, name), getattr(noisy, name)
        np.testing.assert_array_equal(first[:31], second[:31])
        later = panel.tradable[31:] if first.ndim > 1 and first.shape[1:] == panel.tradable.shape[1:] else slice(None)
        assert (first[31:][later] != second[31:][later]).mean() > 0.99
    np.testing.assert_array_equal(panel.tradable, noisy.tradable)
