"""How many bars a year has, and what a moment is."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.arrays.moments import moment
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.calendar import bar_seconds, periods_per_year
from alphaswarm_rl.market.panel import MarketPanel


def stamps(index):
    return index.to_numpy().astype("datetime64[ns]")


def session(days):
    """Hourly bars of a stock exchange, seven a day."""
    return pd.DatetimeIndex([day + pd.Timedelta(hours=14 + hour) for day in days for hour in range(7)])


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        (pd.bdate_range("2020-01-01", periods=300), 252),
        (pd.bdate_range("2020-01-06", periods=3), 252),
        (pd.date_range("2020-01-01", periods=300), 365),
        (pd.date_range("2020-01-03", periods=100, freq="W-FRI"), 52),
        (pd.date_range("2020-01-31", periods=100, freq="ME"), 12),
        (pd.date_range("2020-01-31", periods=100, freq="QE"), 4),
        (pd.date_range("2020-01-01", periods=24 * 30, freq="h"), 365 * 24),
        (pd.date_range("2020-01-01", periods=3 * 60, freq="8h"), 365 * 3),
        (session(pd.bdate_range("2020-01-01", periods=40)), 252 * 7),
        (pd.date_range("2020-01-01", periods=2, freq="4000D"), 1),
    ],
)
def test_periods_per_year(index, expected):
    assert periods_per_year(stamps(index)) == expected


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        # Around a weekend or a holiday: Friday and Monday; Thursday, Monday and Tuesday; Wednesday, Friday, Monday.
        (pd.DatetimeIndex(["2020-01-03", "2020-01-06"]), 252),
        (pd.DatetimeIndex(["2020-04-09", "2020-04-13", "2020-04-14"]), 252),
        (pd.DatetimeIndex(["2020-01-01", "2020-01-03", "2020-01-06"]), 252),
        # A week that is not over: what its weekend shows counts.
        (pd.date_range("2020-01-03", periods=3), 365),  # Friday to Sunday
        (pd.date_range("2020-01-05", periods=2), 365),  # Sunday and Monday
        (pd.DatetimeIndex(["2020-01-03", "2020-01-04", "2020-01-06"]), 313),  # no Sunday
        (pd.bdate_range("2020-01-02", periods=4), 252),  # the weekend is there, without bars
        # Months, quarters and years, whichever they are; a short February is no thirteenth month.
        (pd.DatetimeIndex(["2021-02-01", "2021-03-01"]), 12),
        (pd.DatetimeIndex(["2021-01-29", "2021-02-26", "2021-03-31"]), 12),
        (pd.DatetimeIndex(["2020-12-31", "2021-03-31"]), 4),
        (pd.DatetimeIndex(["2020-06-30", "2021-06-30"]), 1),
        (pd.DatetimeIndex(["2020-01-03", "2020-01-10"]), 52),
        (pd.DatetimeIndex(["2020-01-31", "2020-02-07", "2020-02-14"]), 52),
        # Hours around the clock, although no day is whole, and the hours of one session.
        (pd.date_range("2020-01-03 10:00", periods=30, freq="h"), 365 * 24),  # Friday and Saturday
        (pd.date_range("2020-01-06 10:00", periods=30, freq="h"), 252 * 24),  # Monday and Tuesday
        (session(pd.bdate_range("2020-01-06", periods=2)), 252 * 7),
        (session(pd.bdate_range("2020-01-06", periods=1)), 252 * 7),
    ],
)
def test_a_short_panel_is_judged_by_the_calendar(index, expected):
    assert periods_per_year(stamps(index)) == expected


def test_sunday_evening_does_not_make_a_sixth_day():
    hours = pd.date_range("2020-01-05 22:00", "2020-03-01 21:00", freq="h")
    closed = (hours.day_of_week == 5) | ((hours.day_of_week == 4) & (hours.hour >= 22))
    closed |= (hours.day_of_week == 6) & (hours.hour < 22)
    assert periods_per_year(stamps(hours[~closed])) == 252 * 24


def test_it_can_be_said():
    closes = pd.DataFrame({"A": [1.0, 2.0]}, index=pd.date_range("2020-01-01", periods=2))
    assert MarketPanel.from_closes(closes, periods_per_year=260).periods_per_year == 260
    with pytest.raises(DataError, match="periods_per_year"):
        MarketPanel.from_closes(closes, periods_per_year=-1)


def test_the_length_of_a_bar_is_the_usual_distance():
    assert bar_seconds(stamps(pd.bdate_range("2020-01-01", periods=10))) == 86_400


def test_a_date_that_is_none_is_named():
    with pytest.raises(DataError, match=r"'30.06.2017'.*ISO"):
        moment("30.06.2017")
    assert moment(np.datetime64("2020-01-01")) == moment("2020-01-01T01:00:00+01:00")
