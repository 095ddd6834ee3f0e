"""Every evaluation says its window, and a run says what is not there of its windows or has changed under it."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.files import CsvPipeline
from alphaswarm_rl.observations.technical_indicators import TechnicalIndicators
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import DataSettings
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import BARS, LATER, TRAINING_END, trading

#: The 300 weekdays from 2020-01-01 on end here.
LAST_BAR = "2021-02-23"
VALIDATED = {
    "eval_during_training": True,
    "eval_freq": 64,
    "validation_start": TRAINING_END,
    "validation_end": "2020-09-01",
}
JUDGED = {"start": "2020-09-01", "end": "2020-11-02"}


def dates(metrics):
    return metrics["window_start"], metrics["window_end"]


def frame(closes, assets=("AAA",)):
    """A long table of weekdays from 2020-01-01 on; a missing close is no bar."""
    closes = np.asarray(closes, dtype=float).reshape(-1, len(assets))
    days = pd.bdate_range("2020-01-01", periods=len(closes))
    table = pd.DataFrame(closes, index=days, columns=list(assets)).rename_axis("date").reset_index()
    return table.melt("date", var_name="tic", value_name="close").dropna()


def by_frame(**changes):
    return trading(data_pipeline={"class": "frame", "kwargs": {"name": "prices", "features": ["macd"]}}, **changes)


# -- the window of an evaluation ------------------------------------------------------------------------------------


def test_every_evaluation_says_the_first_and_the_last_bar_it_traded(settings, ledger):
    trained = RLRuntime(trading(training=VALIDATED, evaluation=JUDGED), settings).train()
    # 2020-09-01 is a Tuesday, the end is excluded, and the Friday before 2020-11-02 is 2020-10-30.
    assert dates(trained.metrics) == ("2020-09-01", "2020-10-30")
    found = {(row.phase, dates(row.metrics)) for row in ledger.evaluations(trained.run_id)}
    assert found == {
        ("validation", ("2020-08-03", "2020-08-31")),
        ("evaluate", ("2020-09-01", "2020-10-30")),
    }
    events = [event.payload for event in ledger.events(trained.run_id) if event.stage == "eval.step"]
    assert {(event["phase"], dates(event)) for event in events} == found
    replayed = RLRuntime.from_run(trained.run_id, settings).replay(LATER)
    assert dates(replayed.metrics) == ("2020-11-02", "2020-12-31")
    assert dates(ledger.run(replayed.run_id).result_summary) == ("2020-11-02", "2020-12-31")


def test_an_open_window_is_resolved_to_the_bars_there_are(settings):
    spec = trading(agent={"class": "random"}, evaluation={"start": None, "end": None})
    assert dates(RLRuntime(spec, settings).evaluate().metrics) == ("2020-01-01", LAST_BAR)


def test_bars_that_parts_must_look_back_on_are_not_traded(settings, monkeypatch):
    monkeypatch.setattr(TechnicalIndicators, "warmup_bars", lambda self: 7)
    spec = trading(agent={"class": "random"}, evaluation={"start": None, "end": None})
    # No bar lies before the data: the first 7 weekdays, 2020-01-01 to 2020-01-09, are only looked at.
    assert dates(RLRuntime(spec, settings).evaluate().metrics)[0] == "2020-01-10"


def test_an_environment_with_data_of_its_own_says_the_dates_it_was_given(settings):
    spec = tiny(
        env={"class": "anytrading", "kwargs": {"task": "stocks"}},
        agent={"class": "random"},
        evaluation={"start": "2012-01-01", "end": "2012-03-01", "episodes": 1},
    )
    assert dates(RLRuntime(spec, settings).evaluate().metrics) == ("2012-01-01", "2012-03-01")


def test_without_dates_the_window_is_null(train):
    assert dates(train().metrics) == (None, None)


# -- windows and assets that the data does not reach ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "notices"),
    [
        (Window("2020-11-02", "2040-01-01"), [f"the replay window ends at 2040-01-01 and the data at {LAST_BAR}"]),
        (Window("1990-01-01", "2020-03-02"), ["the replay window starts at 1990-01-01 and the data at 2020-01-01"]),
        (Window("2019-12-30", "2021-02-26"), []),  # no further than a weekend
        (LATER, []),
        (Window(), []),
    ],
    ids=["late", "early", "weekend", "inside", "open"],
)
def test_a_window_that_sticks_out_of_the_data_is_noticed(settings, ledger, window, notices):
    spec = trading(agent={"class": "random"})
    replayed = RLRuntime(spec, settings).replay(window)
    assert replayed.notices == ledger.run(replayed.run_id).notices == notices
    (loaded,) = [event.payload for event in ledger.events(replayed.run_id) if event.stage == "data.loaded"]
    assert loaded["notices"] == notices


def test_a_training_notices_each_of_its_windows(settings):
    spec = trading(
        training={**VALIDATED, "start": "1990-01-01", "validation_end": "2031-01-01"},
        evaluation={"start": "2020-09-01", "end": "2040-01-01"},
    )
    assert RLRuntime(spec, settings).train().notices == [
        "the training window starts at 1990-01-01 and the data at 2020-01-01",
        f"the validation window ends at 2031-01-01 and the data at {LAST_BAR}",
        f"the evaluation window ends at 2040-01-01 and the data at {LAST_BAR}",
    ]


def test_assets_without_a_bar_in_a_window_are_named(settings):
    early = 100 + np.sin(np.arange(300) / 9)
    late = np.where(np.arange(300) < 200, np.nan, 50 + np.cos(np.arange(300) / 7))  # from 2020-10-07 on
    prices = frame(np.stack([early, late], axis=1), assets=("EARLY", "LATE"))
    runtime = RLRuntime(by_frame(agent={"class": "random"}), settings, frames={"prices": prices})
    assert runtime.train().notices == ["no bar of LATE in the training window"]
    assert runtime.evaluate(window=LATER).notices == []
    assert runtime.evaluate(window=Window(None, "2020-03-02")).notices == ["no bar of LATE in the evaluation window"]


def test_an_asset_that_ends_inside_a_window_is_noticed_with_its_date(settings):
    price = 100 + np.sin(np.arange(300) / 9)
    ends = np.where(np.arange(300) > 100, np.nan, price)  # its last bar is that of 2020-05-20
    prices = frame(np.stack([price, ends], axis=1), assets=("STAYS", "ENDS"))
    runtime = RLRuntime(by_frame(agent={"class": "random"}), settings, frames={"prices": prices})
    assert runtime.evaluate(window=Window(None, "2020-07-01")).notices == [
        "assets that end in the evaluation window, and are closed then: ENDS (2020-05-20)"
    ]
    assert runtime.evaluate(window=Window(None, "2020-05-21")).notices == []


# -- data that changed under a run ----------------------------------------------------------------------------------


def changed(trained):
    return f"the bars of the training window are not those that run {trained.run_id} was trained on"


@pytest.mark.parametrize("verb", ["evaluate", "replay"])
@pytest.mark.parametrize(("bar", "noticed"), [(10, True), (250, False)], ids=["in training", "after it"])
def test_other_bars_in_the_training_window_are_noticed(settings, verb, bar, noticed):
    closes = 100 + np.sin(np.arange(300) / 9)
    other = closes.copy()
    other[bar] += 1
    trained = RLRuntime(by_frame(), settings, frames={"prices": frame(closes)}).train()
    for prices, notices in ((closes, []), (other, [changed(trained)] if noticed else [])):
        runtime = RLRuntime.from_run(trained.run_id, settings, frames={"prices": frame(prices)})
        judged = getattr(runtime, verb)()
        assert judged.notices == notices
        again = RLRuntime.from_run(judged.run_id, settings, frames={"prices": frame(prices)}).replay(LATER)
        assert again.notices == notices  # of the training run, however many replays lie between


def test_bars_that_are_gone_are_noticed_too(settings):
    prices = frame(100 + np.sin(np.arange(300) / 9))
    trained = RLRuntime(by_frame(), settings, frames={"prices": prices}).train()
    later = prices[prices["date"] >= "2020-11-02"]
    assert RLRuntime.from_run(trained.run_id, settings, frames={"prices": later}).replay(LATER).notices == [
        changed(trained)
    ]


def test_the_comparison_reads_a_file_no_second_time(settings, tmp_path, monkeypatch):
    frame(100 + np.sin(np.arange(300) / 9)).to_csv(tmp_path / "prices.csv", index=False)
    with_data = settings.model_copy(update={"data": DataSettings(root=tmp_path)})
    spec = trading(data_pipeline={"class": "csv", "kwargs": {"path": "prices.csv", "features": ["macd"]}})
    trained = RLRuntime(spec, with_data).train()
    frame(100 + np.cos(np.arange(300) / 9)).to_csv(tmp_path / "prices.csv", index=False)
    reads = []
    real = CsvPipeline.load
    monkeypatch.setattr(CsvPipeline, "load", lambda self, request: reads.append(request) or real(self, request))
    assert RLRuntime.from_run(trained.run_id, with_data).replay(Window("2020-03-02", "2020-06-01")).notices == [
        changed(trained)
    ]
    assert len(reads) == 1


@pytest.mark.parametrize("own_seed", [None, 1], ids=["the run's", "its own"])
def test_bars_that_another_seed_makes_are_no_change(settings, own_seed):
    trained = RLRuntime(trading(bars={**BARS, "seed": own_seed}), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    assert [runtime.replay(LATER, seed=seed).notices for seed in (None, 7)] == [[], []]


def test_a_checkpoint_under_a_spec_with_other_data_is_no_change(settings):
    trained = RLRuntime(trading(), settings).train()
    elsewhere = RLRuntime(trading(bars={"seed": 2}), settings).evaluate(checkpoint=trained.checkpoint)
    assert elsewhere.notices == []
