"""Closed bars of coarser timeframes."""

import numpy as np
import pytest
from pydantic import ValidationError

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.market.timeframes import coarse_bars
from alphaswarm_rl.observations.multi_timeframe import MultiTimeframe
from tests.observations.panels import at, observed, sample_panel

MINUTE = np.timedelta64(1, "m")


def minutes(close, start="2024-01-01T10:00", stamp="open", columns=True):
    """One-minute bars of KO and PEP: opens a cent below the close, highs one above, lows two below, volumes t + 1."""
    close = np.asarray(close, float)
    times = np.datetime64(start, "ns") + np.arange(len(close)) * MINUTE
    volume = np.tile(np.arange(1.0, len(close) + 1)[:, None], 2)
    more = {"open": close - 0.01, "high": close + 0.01, "low": close - 0.02, "volume": volume} if columns else {}
    return MarketPanel.from_arrays({"timestamps": times, "assets": ["KO", "PEP"], "close": close, **more}, stamp=stamp)


def ramp(n=12):
    """KO from 100 upwards with a hole at minutes 3 and 4, PEP at 50 from minute 6 on."""
    close = np.stack([100.0 + np.arange(n), np.full(n, 50.0)], axis=1)
    close[3:5, 0] = np.nan
    close[:6, 1] = np.nan
    return close


def built(**kwargs):
    return MultiTimeframe(MultiTimeframe.Config(**kwargs))


def test_a_coarser_bar_is_shown_when_it_is_over_and_not_before():
    builder, panel = built(timeframes=["5m"], bars=1), minutes(ramp())
    # The bar labelled 10:03 ends at 10:04; the one labelled 10:04 ends with the five minutes.
    assert at(builder, panel, 3)["real:KO:5m"] == 0
    assert at(builder, panel, 4)["real:KO:5m"] == 1
    # Until 10:09 has ended, the bar of 10:00 stays the newest.
    assert {at(builder, panel, bar)["volume:KO:5m-0"] for bar in range(4, 9)} == {0}
    closes = [at(builder, panel, bar)["close:KO:5m-0"] for bar in range(12)]
    # KO's last price of the first five minutes is 102, of the second 109; the hole carries 102.
    current = [100, 101, 102, 102, 102, 105, 106, 107, 108, 109, 110, 111]
    shown = [None] * 4 + [102] * 5 + [109] * 3
    expected = [0 if price is None else price / now - 1 for price, now in zip(shown, current, strict=True)]
    assert closes == pytest.approx(expected, abs=1e-7)


def test_values_by_hand_with_a_gap_and_an_asset_that_starts_late():
    builder, panel = built(timeframes=["5m"], bars=2), minutes(ramp())
    shown = at(builder, panel, 10)
    # KO now at 110. First five minutes: bars 100, 101, 102 with volumes 1, 2, 3; then 105 to 109 with 6 to 10.
    ko = {
        "open:KO:5m-1": 99.99 / 110 - 1,
        "high:KO:5m-1": 102.01 / 110 - 1,
        "low:KO:5m-1": 99.98 / 110 - 1,
        "close:KO:5m-1": 102 / 110 - 1,
        "volume:KO:5m-1": 6 / 23 - 1,
        "open:KO:5m-0": 104.99 / 110 - 1,
        "high:KO:5m-0": 109.01 / 110 - 1,
        "low:KO:5m-0": 104.98 / 110 - 1,
        "close:KO:5m-0": 109 / 110 - 1,
        "volume:KO:5m-0": 40 / 23 - 1,
        "real:KO:5m": 1,
    }
    # PEP has bars 6 to 9 of the second alone; its only volume is its mean.
    pep = {
        **{f"{name}:PEP:5m-1": 0 for name in ("open", "high", "low", "close", "volume")},
        "open:PEP:5m-0": 49.99 / 50 - 1,
        "high:PEP:5m-0": 50.01 / 50 - 1,
        "low:PEP:5m-0": 49.98 / 50 - 1,
        "close:PEP:5m-0": 0,
        "volume:PEP:5m-0": 0,
        "real:PEP:5m": 0.5,
    }
    assert shown == pytest.approx({**ko, **pep}, abs=1e-7)


def test_names_run_by_timeframe_bar_asset_and_column():
    names = built(timeframes=["5m", "1h"], bars=2).names(minutes(ramp(), columns=False))
    assert names == (
        *("close:KO:5m-1", "close:PEP:5m-1", "close:KO:5m-0", "close:PEP:5m-0", "real:KO:5m", "real:PEP:5m"),
        *("close:KO:1h-1", "close:PEP:1h-1", "close:KO:1h-0", "close:PEP:1h-0", "real:KO:1h", "real:PEP:1h"),
    )


def test_labels_of_closes_give_the_same_as_labels_of_opens():
    opens, closes = minutes(ramp()), minutes(ramp(), start="2024-01-01T10:01", stamp="close")
    builder = built(timeframes=["5m", "2m"])
    assert observed(builder, opens).tobytes() == observed(builder, closes).tobytes()


def test_a_first_bar_that_the_panel_has_in_part_is_not_real():
    builder = built(timeframes=["5m"], bars=1)
    cut = minutes(ramp(), start="2024-01-01T09:58")
    # 09:58 and 09:59 are the end of 09:55, whose beginning nobody knows.
    assert [at(builder, cut, bar)["real:KO:5m"] for bar in (1, 2, 5, 6)] == [0, 0, 0, 1]
    assert at(builder, cut, 6)["open:KO:5m-0"] == pytest.approx(101.99 / 106 - 1)


def test_where_the_panel_was_cut_makes_no_difference():
    whole = sample_panel(200, minutes=1)
    builder = built(timeframes=["5m", "15m"])
    cut = whole.window(str(whole.timestamps[100]), warmup_bars=63)
    first = whole.num_bars - cut.num_bars
    same = observed(builder, whole, np.arange(100, 200))
    assert same.tobytes() == observed(builder, cut, np.arange(100, 200) - first).tobytes()


@pytest.mark.parametrize("bar", [0, 3, 4, 5, 13, 14, 15, 59, 60])
def test_minutes_do_not_see_the_future_of_their_hour(bar):
    builder = built(timeframes=["5m", "1h"])
    before, after = (observed(builder, panel) for panel in (sample_panel(90, 1), sample_panel(90, 1, noise_after=bar)))
    assert before[: bar + 1].tobytes() == after[: bar + 1].tobytes()
    assert before[bar + 1 :].tobytes() != after[bar + 1 :].tobytes()


def test_weeks_begin_on_monday_and_end_with_the_sunday():
    # Business days from Monday 2024-01-01 on.
    days = np.array([day for day in np.arange("2024-01-01", "2024-01-20", dtype="datetime64[D]") if np.is_busday(day)])
    close = np.arange(10.0, 10 + len(days))[:, None]
    panel = MarketPanel.from_arrays({"timestamps": days.astype("datetime64[ns]"), "assets": ["KO"], "close": close})
    weeks = coarse_bars(panel, "1w")
    assert weeks.columns["close"][:, 0].tolist() == [14, 19, 24]
    assert weeks.real.all()
    # On Friday nobody knows yet that no more bars come before Monday.
    assert weeks.newest.tolist() == [-1] * 5 + [0] * 5 + [1] * 5


def test_a_timeframe_that_does_not_fit_is_an_error():
    panel = sample_panel(10, minutes=2)
    with pytest.raises(DataError, match="timeframe '5m': it is not a multiple of the panel's bar of 120 seconds"):
        built(timeframes=["5m"]).prepare(panel)
    with pytest.raises(DataError, match="not a multiple"):
        built(timeframes=["1m"]).prepare(panel)
    with pytest.raises(DataError, match="Write it as 5m or 1h"):
        coarse_bars(panel, "5 minutes")
    for wrong in (["5 minutes"], [], ["1h", "1h"]):
        with pytest.raises(ValidationError):
            MultiTimeframe.Config(timeframes=wrong)


def test_warmup_is_the_users():
    assert built().warmup_bars() == 0
    assert built(warmup=180).warmup_bars() == 180
