"""The assets of a run are chosen from what was known when training starts, and by nothing later."""

import json

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.audit.lookahead import universe_findings
from alphaswarm_rl.audit.noise import MOODS, with_noise_after
from alphaswarm_rl.audit.spec_lookahead import audit_spec
from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError, SpecError
from alphaswarm_rl.core.kinds import UniverseModel
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.inference.universe import Universe, known_bars
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import RLExperimentSpec

START, SPLIT, END = "2020-06-01", "2020-10-01", "2020-12-01"
ASSETS = [f"S{index}" for index in range(8)]


def bars(seed=0, count=260):
    """Eight stocks whose volumes change places in the course of the year; S7 begins in July."""
    rng = np.random.default_rng(seed)
    days = pd.bdate_range("2020-01-01", periods=count)
    frames = []
    for index, asset in enumerate(ASSETS):
        close = 50 * np.exp(np.cumsum(rng.normal(0, 0.02, count)))
        volume = 1000.0 * (index + 1 + np.linspace(0, 3 * (8 - 2 * index), count).clip(0))
        frame = pd.DataFrame({"date": days, "tic": asset, "open": close, "close": close, "volume": volume})
        frames.append(frame[frame.date >= "2020-07-01"] if asset == "S7" else frame)
    return pd.concat(frames, ignore_index=True)


def spec(model=None, **changes):
    data = {
        "name": "Chosen",
        "universe": {"model": model or {"class": "top_traded_value", "kwargs": {"n": 3, "lookback": 20}}},
        "env": {"class": "stock_portfolio", "kwargs": {"episode_bars": 20, "fill": "next_close"}},
        "observation": {"class": "portfolio_state"},
        "data_pipeline": {"class": "frame", "kwargs": {"name": "bars", "market_features": ["turbulence_20"]}},
        "agent": {"class": "equal_weight"},
        "training": {"total_timesteps": 64, "n_envs": 2, "start": START, "end": SPLIT},
        "evaluation": {"start": SPLIT, "end": END},
    }
    for key, value in changes.items():
        data[key] = {**data[key], **value} if isinstance(value, dict) else value
    return RLExperimentSpec.from_data(data)


def builder(spec, frame=None):
    return Builder(spec, seed=3, device="cpu", frames={"bars": bars() if frame is None else frame})


def most_traded(frame, date, count=20, n=3):
    """By pandas alone."""
    known = frame[frame.date < date]
    newest = known.date.drop_duplicates().nlargest(count)
    money = known[known.date.isin(newest)].assign(money=known.close * known.volume).groupby("tic").money.sum()
    return tuple(money.nlargest(n).index)


def test_the_most_traded_at_the_start_are_the_assets_of_every_window():
    frame, data = bars(), builder(spec()).data
    expected = most_traded(frame, START)
    assert expected != most_traded(frame, END)
    for window in (Window(START, SPLIT), Window(SPLIT, END), Window("2020-11-02", None)):
        assert data.raw(window).assets == expected


def test_chosen_is_as_if_written():
    """Features of the market too are those of the chosen assets."""
    chosen = builder(spec()).data
    written = builder(spec(universe={"model": None, "symbols": list(chosen.choice.symbols)})).data
    assert chosen.raw(Window(START, END)).fingerprint == written.raw(Window(START, END)).fingerprint


def test_symbols_are_those_that_may_be_chosen():
    frame = bars()
    data = builder(spec(universe={"symbols": ["S1", "S2.NYSE", "S3", "S4"]})).data
    assert data.choice.symbols == most_traded(frame[frame.tic.isin(["S1", "S2", "S3", "S4"])], START)
    assert data.choice.candidates == 4


@pytest.mark.parametrize("alias", ["top_traded_value", "screened", "static"])
def test_no_bar_at_or_after_the_start_is_seen(alias):
    """Replaced by nothing, by noise or by other prices: the choice is the same."""
    kwargs = {
        "top_traded_value": {"n": 4},
        "screened": {"min_bars": 80, "min_price": 45, "min_traded_value": 100_000},
        "static": {"symbols": ["S2", "S1"]},
    }[alias]
    frame, chosen = bars(), spec({"class": alias, "kwargs": kwargs})
    symbols = builder(chosen, frame).data.choice.symbols
    assert 0 < len(symbols) < 8
    later = frame.date >= START
    rng = np.random.default_rng(1)
    others = frame.assign(
        close=frame.close.where(~later, rng.uniform(1, 500, len(frame))),
        open=frame.close.where(~later, rng.uniform(1, 500, len(frame))),
        volume=frame.volume.where(~later, rng.uniform(0, 1e9, len(frame))),
    )
    others["open"] = others.close
    assert builder(chosen, others).data.choice.symbols == symbols
    gone = frame[~later | ((frame.tic == "S0") | (frame.tic == "S7"))]
    assert builder(chosen, gone).data.choice.symbols == symbols


@pytest.mark.parametrize("mood", MOODS)
def test_the_future_noise_test_holds_at_the_very_bar(mood):
    pipeline = build_from_config({"class": "frame", "kwargs": {"name": "bars"}}, kind="data_pipeline")
    request = DataRequest(frames={"bars": bars()})
    universe = Universe(
        build_from_config({"class": "top_traded_value", "kwargs": {"n": 3}}, kind="universe_model"), START
    )
    whole = pipeline.load(request)
    bar = int(np.searchsorted(whole.timestamps, np.datetime64(START))) - 1
    noisy = with_noise_after(whole, bar, 0, mood)
    known = known_bars(pipeline, request, START)
    pipeline.load = lambda _: noisy
    assert known_bars(pipeline, request, START).fingerprint == known.fingerprint
    assert universe.choose(pipeline, request).symbols == tuple(most_traded(bars(), START, 63))


def test_a_bar_that_is_not_over_at_the_start_is_not_known():
    """A weekly bar that began on Monday is not known on Wednesday."""
    weeks = pd.date_range("2020-01-06", periods=40, freq="7D")
    frame = pd.concat(
        [
            pd.DataFrame({"date": weeks, "tic": name, "close": 10.0, "volume": volume})
            for name, volume in (("A", [1.0] * 40), ("B", [0.5] * 20 + [1000.0] * 20))
        ]
    )
    pipeline = build_from_config({"class": "frame", "kwargs": {"name": "bars"}}, kind="data_pipeline")
    request = DataRequest(frames={"bars": frame})
    first_loud = weeks[20]
    wednesday, next_monday = first_loud + pd.Timedelta(days=2), first_loud + pd.Timedelta(days=7)
    model = build_from_config({"class": "top_traded_value", "kwargs": {"n": 1}}, kind="universe_model")
    assert known_bars(pipeline, request, str(wednesday.date())).num_bars == 20
    assert known_bars(pipeline, request, str(next_monday.date())).num_bars == 21
    assert Universe(model, str(wednesday.date())).choose(pipeline, request).symbols == ("A",)
    assert Universe(model, str(next_monday.date())).choose(pipeline, request).symbols == ("B",)


class Clairvoyant(UniverseModel):
    """The assets by what the source, asked again, says that they will have earned, the best first."""

    rl_alias = "clairvoyant"

    class Config(ComponentConfig):
        """No parameters."""

    source = None

    def choose(self, known):
        close = self.source().close
        earned = np.nan_to_num(close[-1] / close[0])
        return tuple(known.assets[place] for place in np.argsort(-earned, kind="stable"))


def test_the_audit_names_a_model_that_looks_further():
    pipeline = build_from_config({"class": "frame", "kwargs": {"name": "bars"}}, kind="data_pipeline")
    request = DataRequest(frames={"bars": bars()})
    model = Clairvoyant(Clairvoyant.Config())
    model.source = lambda: pipeline.load(request)
    (finding,) = universe_findings(pipeline, request, Universe(model, START))
    assert (finding.kind, finding.component, finding.column) == ("universe_model", "clairvoyant", "assets")
    assert finding.timestamp.startswith("2020-05-29")


def test_the_audit_of_a_spec_looks_at_its_universe():
    report = audit_spec(spec(), frames={"bars": bars()})
    assert "universe_model:top_traded_value" in report.checked
    assert report.clean


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened


# -- runs ------------------------------------------------------------------------------------------------------------


def test_a_run_says_what_was_chosen_and_replays_on_it(settings, ledger):
    frames = {"bars": bars()}
    trained = RLRuntime(spec(), settings, frames=frames).train()
    expected = list(most_traded(frames["bars"], START))
    (event,) = [each for each in ledger.events(trained.run_id) if each.stage == "data.loaded"]
    assert event.payload["universe"] == {
        "model": "top_traded_value",
        "known_at": START,
        "candidates": 8,
        "symbols": expected,
    }
    assert not [notice for notice in ledger.run(trained.run_id).notices if "universe" in notice]
    replayed = RLRuntime.from_run(trained.run_id, settings, frames=frames).replay(Window("2020-11-02", END))
    (event,) = [each for each in ledger.events(replayed.run_id) if each.stage == "data.loaded"]
    assert event.payload["universe"]["symbols"] == expected


def test_a_window_before_the_choice_is_said_to_be_chosen_with_hindsight():
    data = builder(spec()).data
    assert data.choice.notices("evaluation", Window(START, None)) == []
    for early in (Window("2020-05-29", SPLIT), Window(None, SPLIT)):
        (notice,) = data.choice.notices("evaluation", early)
        assert "2020-06-01" in notice
        assert "hindsight" in notice
    assert any("hindsight" in notice for notice in data.notices("evaluation", Window("2020-03-02", SPLIT)))


def test_adjusted_prices_are_said_to_know_later_days():
    adjusted = {"class": "frame", "kwargs": {"name": "bars", "adjusted": True}}
    windows = {"training": Window(START, SPLIT), "evaluation": Window(SPLIT, END)}
    notices = builder(spec(data_pipeline=adjusted)).notices(judges=True, windows=windows)
    assert len([notice for notice in notices if "they contain dividends and splits that came later" in notice]) == 1
    named = {"class": "static", "kwargs": {"symbols": ["S1"]}}
    assert not [
        notice
        for notice in builder(spec(named, data_pipeline=adjusted)).notices(judges=True, windows=windows)
        if "came later" in notice
    ]


def test_a_model_needs_a_start_and_bars_before_it():
    with pytest.raises(SpecError, match=r"universe\.model.*training\.start"):
        builder(spec(training={"start": None}))
    with pytest.raises(DataError, match="2 are needed"):
        builder(spec(training={"start": "2020-01-02"})).data.raw(Window())


def test_an_asset_that_is_not_there_is_refused_by_name():
    with pytest.raises(DataError, match=r"symbol 'S9'.*no such asset"):
        builder(spec({"class": "static", "kwargs": {"symbols": ["S1", "S9"]}})).data.raw(Window())


def test_the_model_and_its_parameters_are_hashed_with_its_version(monkeypatch):
    one, two = spec(), spec({"class": "top_traded_value", "kwargs": {"n": 4, "lookback": 20}})
    assert one.spec_hash != two.spec_hash
    assert one.component_versions["universe_model:top_traded_value"] == 1
    written_out = spec({"class": "TopTradedValue", "kwargs": {"silent_bars": 5, "n": 3, "lookback": 20}})
    assert written_out.spec_hash == one.spec_hash
    assert json.dumps(one.canonical()["universe"]["model"]).count("lookback") == 1
