"""The future-noise test over the whole catalogue, and what it catches."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl import build_from_config, make_env
from alphaswarm_rl.actions.masked_discrete import MaskedDiscrete
from alphaswarm_rl.actions.softmax_weights import SoftmaxWeights
from alphaswarm_rl.audit.lookahead import Finding, env_findings, last_reached, pipeline_findings, undeclared
from alphaswarm_rl.audit.noise import MOODS, with_noise_after
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import DataRequest, PolicyRequest
from alphaswarm_rl.core.errors import DataError, EnvError
from alphaswarm_rl.core.kinds import ObservationBuilder, PortfolioStage, RewardTerm, Termination
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, PipelineConfig
from alphaswarm_rl.envs.trading import TradingComponent
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.portfolio.allocate import BarAllocator
from alphaswarm_rl.portfolio.select import SelectStage
from tests.envs.panels import random_panel
from tests.lake.bars import append, snapshots
from tests.portfolio.stages import KWARGS as STAGES

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
    **{("portfolio_stage", alias): kwargs for alias, kwargs in STAGES.items()},
    ("policy", "minimum_variance"): {"lookback": 10, "rebalance_bars": 3},
    ("policy", "mean_variance"): {"lookback": 10, "rebalance_bars": 3},
    ("policy", "frozen"): {"model": 1},
}
#: Weights of both signs and of more than the equity, so that every limit has something to cut.
WIDE = {"margin": {"initial": 0.5, "maintenance": 0.0}}
MARGIN = {"margin": {"initial": 0.5}, "action": {"class": "softmax_weights"}}
#: What looks ahead by its nature, and says so.
DECLARED = {("observation", "next_open"), ("reward", "hindsight")}


def panel_for(assets=4, bars=60):
    rng = np.random.default_rng(0)
    panel = random_panel(2, bars=bars, assets=assets, actions=True)
    fundamentals = {name: rng.normal(size=panel.close.shape) for name in FUNDAMENTALS}
    market = {"turbulence": np.abs(rng.normal(size=bars)), "vix": 20 + rng.normal(size=bars)}
    return panel.with_features(fundamentals).with_market_features(market)


def kinds(kind):
    found = [cls for cls in catalogue.listing() if cls.rl_kind == kind and cls.__module__.startswith(SOURCES)]
    return pytest.mark.parametrize("alias", [cls.rl_alias for cls in found if cls.rl_alias != "stacked"])


def findings(alias="stock_trading", *, assets=4, panel=None, **parts):
    panel = panel_for(assets) if panel is None else panel

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
    fill = "cheat_on_open" if alias == "next_open" else "next_open"
    expect("observation", alias, findings(observation=ref("observation", alias), fill=fill))


@kinds("reward")
def test_rewards_are_blind(alias):
    margin = MARGIN if alias == "margin_call" else {}
    expect("reward", alias, findings(reward=ref("reward", alias), **margin))


@kinds("termination")
def test_terminations_are_blind(alias):
    margin = MARGIN if alias == "margin_call" else {}
    expect("termination", alias, findings(terminations=[ref("termination", alias)], **margin))


@kinds("action")
def test_actions_are_blind(alias):
    single = alias in {"discrete_buy_sell_hold", "masked_discrete", "bracket"}
    expect("action", alias, findings(action=ref("action", alias), assets=1 if single else 4))


@kinds("portfolio_stage")
def test_portfolio_stages_are_blind(alias):
    action = {"class": "continuous_weights"}
    stages = [ref("portfolio_stage", alias)]
    role = catalogue.get("portfolio_stage", alias).role
    # What a stage makes of a selection is looked at too.
    if role in ("allocate", "time"):
        stages = [{"class": "momentum", "kwargs": {"k": 3, "lookback": 4}}, *stages]
    expect("portfolio_stage", alias, findings(action=action, portfolio=stages, **WIDE))


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


class Trained:
    """What a frozen policy is handed: here one that acts by the observation alone."""

    def __init__(self, env):
        self.observation_space, self.action_space = env.single_observation_space, env.single_action_space

    def seed(self, seed, env):
        pass

    def act(self, observation, episode_start, *, deterministic, masks):
        assert deterministic
        return np.tanh(observation[:, : self.action_space.shape[0]])


@kinds("policy")
def test_policies_are_blind(alias):
    panel, bar = panel_for(), 40
    actions = []
    for market in (panel, with_noise_after(panel, bar)):
        env = make_env("stock_portfolio", panel=market, phase="evaluate", fill="next_close", lookback=5)
        observation, _ = env.reset()
        policy = build_from_config(ref("policy", alias), kind="policy")
        runner = policy.build(
            PolicyRequest(
                env.single_observation_space,
                env.single_action_space,
                num_envs=1,
                seed=0,
                env=env,
                load_policy=lambda _, env=env: Trained(env),
            )
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
    "iceberg": {"table": "silver.bars", "features": FEATURES},
    "medallion_replay": {"table": "silver.bars", "features": FEATURES},
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
def test_data_pipelines_are_blind(alias, files, settings):
    root, frame = files
    kwargs = OFFLINE[alias]
    if "table" in kwargs:
        with Lake(settings) as lake:
            append(lake, kwargs["table"], frame)
            (snapshot,) = snapshots(lake, kwargs["table"])
        kwargs = {**kwargs, "snapshot_id": snapshot.snapshot_id}
    pipeline = build_from_config({"class": alias, "kwargs": kwargs}, kind="data_pipeline")
    request = DataRequest(root=root, frames={"bars": frame}, lake=lake_of(settings))
    assert pipeline_findings(pipeline, request) == []


def test_every_pipeline_without_a_network_is_among_them():
    known = {cls.rl_alias for cls in catalogue.listing() if issubclass(cls, PanelPipeline)}
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


class HopefulTermination(Termination):
    """Ends after ten steps unless the next bar is missing, which is a leak on purpose."""

    rl_alias = "hopeful_termination"

    def step(self, view, state, out):
        out[...] = (view.steps >= 10) & view.market.tradable[np.minimum(view.bar + 1, view.last)].any(axis=-1)


class Foreknowledge(ObservationBuilder):
    """What the panel says about later bars apart from prices, which is a leak on purpose."""

    rl_alias = "foreknowledge"

    class Config(ComponentConfig):
        """Which of it."""

        what: str

    def names(self, panel):
        return tuple(f"{self.config.what}:{asset}" for asset in panel.assets)

    def prepare(self, panel):
        if self.config.what == "bars_left":
            return {"table": (panel.last_bar - np.arange(panel.num_bars)[:, None]).astype(np.float64)}
        values = getattr(panel, self.config.what).astype(np.float64)
        return {"table": np.concatenate([values[1:], values[-1:]])}

    def step(self, view, state, out):
        view.take(state["table"], out)


class LeakingAction(SoftmaxWeights):
    """Buys what rises next, which is a leak on purpose."""

    rl_alias = "leaking_action"

    class Config(SoftmaxWeights.Config):
        """How far it sees."""

        ahead: int = 1

    def step(self, view, state, out):
        super().step(view, state, out)
        out *= rises(view, self.config.ahead)


class LeakingMask(MaskedDiscrete):
    """Allows nothing before prices fall, which is a leak on purpose."""

    rl_alias = "leaking_mask"

    def mask(self, view, state):
        return super().mask(view, state) & rises(view, 1)


class LeakingStage(PortfolioStage):
    """Keeps what rises next, which is a leak on purpose."""

    rl_alias = "leaking_stage"
    role = "risk"

    class Config(ComponentConfig):
        """How far it sees."""

        ahead: int = 1

    def step(self, view, state, out):
        out *= rises(view, self.config.ahead)


class LeakingSelector(SelectStage):
    """Selects what rises next, which is a leak on purpose."""

    rl_alias = "leaking_selector"

    class Config(ComponentConfig):
        """How far it sees."""

        ahead: int = 1

    def selects(self, panel, bars):
        later = np.minimum(bars + self.config.ahead, panel.num_bars - 1)
        return np.nan_to_num(panel.close[later]) > np.nan_to_num(panel.close[bars])


class LeakingAllocator(BarAllocator):
    """Gives all to what rises most, which is a leak on purpose."""

    rl_alias = "leaking_allocator"

    def weights(self, panel, bar, selected):
        gain = np.nan_to_num(panel.close[min(bar + 1, panel.num_bars - 1)] / panel.close[bar])
        return np.eye(panel.num_assets)[int(np.argmax(gain))]


def rises(view, ahead):
    return view.market.close[np.minimum(view.bar + ahead, len(view.market.close) - 1)] > view.close


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


@pytest.mark.parametrize("what", ["tradable", "splits", "dividends", "bars_left"])
def test_gaps_ends_splits_and_dividends_of_later_bars_are_no_secret_channel(what):
    (finding,) = findings(observation={"class": "foreknowledge", "kwargs": {"what": what}})
    assert (finding.component, finding.column.partition(":")[0]) == ("foreknowledge", what)


FILLS = pytest.mark.parametrize("fill", ["next_open", "next_close", "same_close"])
AHEAD = pytest.mark.parametrize("ahead", [1, 3])


def blamed(found):
    return [(finding.kind, finding.component, finding.column) for finding in found]


@FILLS
@AHEAD
def test_a_leaking_action_is_caught_and_nothing_else_is_blamed(fill, ahead):
    found = findings(fill=fill, action={"class": "leaking_action", "kwargs": {"ahead": ahead}})
    assert blamed(found) == [("action", "leaking_action", "wanted")]


@FILLS
@AHEAD
def test_a_leaking_portfolio_stage_is_caught_and_nothing_else_is_blamed(fill, ahead):
    stages = [{"class": "identity"}, {"class": "leaking_stage", "kwargs": {"ahead": ahead}}]
    found = findings(fill=fill, action={"class": "softmax_weights"}, portfolio=stages)
    assert blamed(found) == [("portfolio_stage", "leaking_stage", "wanted")]


@FILLS
@pytest.mark.parametrize(
    "leaking",
    [
        {"class": "leaking_selector", "kwargs": {"ahead": 1}},
        {"class": "leaking_selector", "kwargs": {"ahead": 3}},
        {"class": "leaking_allocator"},
    ],
)
def test_a_leaking_table_of_a_stage_is_caught_and_what_stands_behind_it_is_not_blamed(fill, leaking):
    stages = [leaking, {"class": "constant"}, {"class": "position_cap"}]
    found = findings(fill=fill, action={"class": "softmax_weights"}, portfolio=stages)
    assert blamed(found) == [("portfolio_stage", leaking["class"], "wanted")]


def test_a_leaking_mask_is_caught():
    found = findings(action={"class": "leaking_mask"}, assets=1)
    assert blamed(found) == [("action", "leaking_mask", "mask")]


def horizon(steps):
    return {"terminations": [{"class": "horizon", "kwargs": {"steps": steps}}]}


def test_where_episodes_end_early_the_bars_before_are_looked_at():
    panel = panel_for()

    def make(market):
        return make_env("stock_trading", panel=market, episode_bars=None, **horizon(8))

    first = make(panel).plan.first_bar
    assert last_reached(make, panel) == first + 7
    assert {finding.component for finding in findings(observation={"class": "leaking_observation"}, **horizon(8))} == {
        "leaking_observation"
    }


def test_an_end_that_depends_on_what_follows_is_caught():
    (finding,) = findings(terminations=[{"class": "hopeful_termination"}])
    assert (finding.kind, finding.component, finding.column) == ("termination", "hopeful_termination", "end")


def test_without_an_early_end_all_bars_are_looked_at():
    panel = panel_for()
    assert last_reached(lambda market: make_env("stock_trading", panel=market, episode_bars=None), panel) == 59


def test_episodes_that_end_at_once_cannot_be_audited():
    with pytest.raises(EnvError, match="end with their first step"):
        findings(**horizon(1))


def test_bars_on_which_nothing_trades_are_not_called_clean():
    panel = panel_for()
    tradable = panel.tradable.copy()
    tradable[:40] = False
    late = replace(panel, tradable=tradable)
    assert undeclared(findings(panel=late)) == []
    with pytest.raises(DataError, match="no asset can be traded"):
        findings(panel=late, **horizon(20))
    with pytest.raises(DataError):
        findings(panel=replace(panel, tradable=np.zeros_like(tradable)))


def test_a_leaking_pipeline_is_caught_by_its_column():
    (finding,) = pipeline_findings(LeakingPipeline(LeakingPipeline.Config()), DataRequest())
    assert isinstance(finding, Finding)
    assert (finding.component, finding.column, finding.bar) == ("leaking_pipeline", "centred", 0)


def _split_bars():
    """Two stocks, one of which splits three times."""
    import pandas as pd

    panel = random_panel(5, bars=400, assets=2, gaps=True)
    splits = np.zeros(panel.close.shape)
    splits[[60, 180, 300], 0] = (2.0, 3.0, 0.5)
    units = np.cumprod(np.where(splits == 0, 1.0, splits), axis=0)
    columns = {name: getattr(panel, name) / units for name in ("open", "high", "low", "close")}
    columns |= {"volume": panel.volume, "splits": splits}
    frames = []
    for k, asset in enumerate(panel.assets):
        rows = panel.tradable[:, k] | (splits[:, k] > 0)
        own = {name: values[rows, k] for name, values in columns.items()}
        frames.append(pd.DataFrame({"date": panel.timestamps[rows], "tic": asset, **own}))
    return pd.concat(frames)


def test_indicators_over_splits_are_blind():
    pipeline = build_from_config(
        {"class": "frame", "kwargs": {"name": "bars", "features": FEATURES}}, kind="data_pipeline"
    )
    request = DataRequest(frames={"bars": _split_bars()})
    assert pipeline.load(request).splits.max() == 3.0
    assert pipeline_findings(pipeline, request) == []


def test_prices_adjusted_by_all_splits_of_the_sample_are_caught(monkeypatch):
    """As most data come: in the units of the end, which the splits that are still to come decide."""
    from alphaswarm_rl.data_pipelines import features
    from alphaswarm_rl.market.unit_factor import unit_factor

    def in_last_units(panel, named):
        units = unit_factor(panel)
        return features.indicator(panel, named) * units / units[-1]

    monkeypatch.setattr(features, "_carried", in_last_units)
    pipeline = build_from_config(
        {"class": "frame", "kwargs": {"name": "bars", "features": ["close_10_sma"]}}, kind="data_pipeline"
    )
    (finding,) = pipeline_findings(pipeline, DataRequest(frames={"bars": _split_bars()}))
    assert (finding.column, finding.how) == ("close_10_sma", "changes with the future")


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


BAR = 30
COLUMNS = ("close", "open", "high", "low", "volume", "dividends", "splits", "tradable", "features", "market_features")


@pytest.fixture(params=MOODS)
def noise(request):
    panel = panel_for()
    return panel, with_noise_after(panel, BAR, seed=3, mood=request.param)


def test_noise_leaves_the_past_alone(noise):
    panel, noisy = noise
    for name in COLUMNS:
        np.testing.assert_array_equal(getattr(panel, name)[: BAR + 1], getattr(noisy, name)[: BAR + 1])


def test_noise_leaves_no_later_number_as_it_was(noise):
    panel, noisy = noise
    for name in ("close", "open", "high", "low", "volume"):
        later = panel.tradable[BAR + 1 :]
        assert (getattr(panel, name)[BAR + 1 :][later] != getattr(noisy, name)[BAR + 1 :][later]).all()
    for name in ("features", "market_features"):
        assert (getattr(panel, name)[BAR + 1 :] != getattr(noisy, name)[BAR + 1 :]).all()


def test_noise_only_takes_bars_away_and_carries_closes_over_the_gaps(noise):
    panel, noisy = noise
    assert not (noisy.tradable & ~panel.tradable).any()
    rows, assets = np.nonzero(~noisy.tradable[BAR + 1 :])
    rows += BAR + 1
    for name in ("close", "open", "high", "low"):
        np.testing.assert_array_equal(getattr(noisy, name)[rows, assets], noisy.close[rows - 1, assets])
    assert (noisy.volume[rows, assets] == 0).all()
    assert (noisy.dividends[rows, assets] == 0).all()
    assert (noisy.splits[rows, assets] == 1).all()
    assert (noisy.volume[noisy.tradable] > 0).all()


def test_noise_ends_assets_earlier_and_never_at_or_before_the_bar(noise):
    panel, noisy = noise
    assert (noisy.last_bar < panel.last_bar).all()
    assert (noisy.last_bar > BAR).all()
    for asset, last in enumerate(noisy.last_bar):
        assert np.flatnonzero(noisy.tradable[:, asset])[-1] == last


def test_an_asset_without_later_bars_stays_as_it_is():
    panel = random_panel(2, bars=60)
    bar = int(panel.last_bar[3])
    assert bar < panel.num_bars - 2
    for mood in MOODS:
        noisy = with_noise_after(panel, bar, mood=mood)
        assert noisy.last_bar[3] == bar
        np.testing.assert_array_equal(noisy.close[:, 3], panel.close[:, 3])
        np.testing.assert_array_equal(noisy.tradable[:, 3], panel.tradable[:, 3])


def test_the_next_bar_is_missing_in_one_mood_and_there_in_the_others():
    panel = panel_for()
    missing, up, down = (with_noise_after(panel, BAR, mood=mood) for mood in MOODS)
    assert panel.tradable[BAR + 1].all()
    assert not missing.tradable[BAR + 1].any()
    for noisy in (up, down):
        assert noisy.tradable[BAR + 1].all()
        assert (noisy.splits[BAR + 1] != 1).all()
        assert (noisy.dividends[BAR + 1] > 0).all()
    assert (up.close[BAR + 1] > panel.close[BAR + 1]).all()
    assert (down.close[BAR + 1] < panel.close[BAR + 1]).all()


def test_noise_is_the_same_for_the_same_seed():
    panel = panel_for()
    first, again, other = (with_noise_after(panel, BAR, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first.close, again.close)
    assert (first.close != other.close).any()


@pytest.mark.parametrize("bar", [0, 1, 57, 58])
def test_noise_keeps_a_valid_panel_at_the_edges(bar):
    panel = panel_for()
    for mood in MOODS:
        noisy = with_noise_after(panel, bar, mood=mood)
        assert noisy.tradable.any(axis=0).all()
        np.testing.assert_array_equal(noisy.close[: bar + 1], panel.close[: bar + 1])
