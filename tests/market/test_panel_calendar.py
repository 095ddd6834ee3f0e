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
