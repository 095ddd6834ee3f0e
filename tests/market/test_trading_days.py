"""Which days trade, and which are missing."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.market.trading_days import new_york_holidays, run_lengths, trading_days


def moments(days):
    return np.asarray(days, "datetime64[ns]")


def new_york(first="2015-01-01", last="2019-12-31"):
    days = pd.bdate_range(first, last).to_numpy().astype("datetime64[D]")
    special = np.array(["2018-12-05"], "datetime64[D]")
    return days[~np.isin(days, new_york_holidays(2015, 2019)) & ~np.isin(days, special)]


def found(days):
    return [(each.defect, each.count, each.place) for each in trading_days(moments(days)).findings]


def test_the_holidays_of_new_york_are_known():
    holidays = {str(day) for day in new_york_holidays(2021, 2023)}
    # As the exchange published them.
    expected = """
        2021-01-01 2021-01-18 2021-02-15 2021-04-02 2021-05-31 2021-07-05 2021-09-06 2021-11-25 2021-12-24
        2022-01-17 2022-02-21 2022-04-15 2022-05-30 2022-06-20 2022-07-04 2022-09-05 2022-11-24 2022-12-26
        2023-01-02 2023-01-16 2023-02-20 2023-04-07 2023-05-29 2023-06-19 2023-07-04 2023-09-04 2023-11-23 2023-12-25
    """
    assert holidays == set(expected.split())


def test_a_whole_calendar_of_new_york_is_recognised_and_lacks_nothing():
    days = trading_days(moments(new_york()))
    assert (days.bar, days.days, days.exchange) == ("1 day", "Monday to Friday", "New York")
    assert days.findings == ()


def test_a_single_missing_day_is_known_where_the_calendar_is():
    days = new_york()
    assert found(np.delete(days, 500)) == [("calendar_gap", 1, str(days[500]))]


def test_one_bar_on_a_holiday_is_another_calendar():
    days = np.sort(np.append(new_york(), np.datetime64("2016-12-26")))
    assert trading_days(moments(days)).exchange is None
    assert found(days) == []
    assert found(np.delete(days, 500)) == []


@pytest.mark.parametrize(("lacking", "named"), [(10, []), (11, [11])])
def test_elsewhere_only_what_no_holiday_explains_is_missing(lacking, named):
    days = pd.bdate_range("2015-01-01", "2019-12-31").to_numpy().astype("datetime64[D]")
    gap = np.delete(days, slice(500, 500 + lacking))
    assert [count for _, count, _ in found(gap)] == named


def test_fifty_days_of_one_year_are_missing_wherever_that_is():
    days = pd.bdate_range("2015-01-01", "2017-12-31").to_numpy().astype("datetime64[D]")
    assert found(np.delete(days, np.arange(300, 500, 4))) == [("calendar_gap", 50, str(days[300]))]


def test_every_day_counts_where_all_seven_trade():
    days = np.arange("2020-01-01", "2021-01-01", dtype="datetime64[D]")
    assert trading_days(moments(days)).days == "all seven days"
    assert found(days) == []
    assert found(np.delete(days, 40)) == [("calendar_gap", 1, "2020-02-10")]


def test_weeks_and_months_have_gaps_too():
    weeks = np.arange("2020-01-06", "2022-01-01", 7, dtype="datetime64[D]")
    assert found(weeks) == []
    assert found(np.delete(weeks, [10, 11])) == [("calendar_gap", 2, "2020-03-09")]


def test_a_few_bars_at_weekends_are_odd():
    days = np.sort(np.append(new_york(), np.array(["2016-01-02", "2016-01-10"], "datetime64[D]")))
    assert found(days) == [("odd_day", 2, "2016-01-02")]


def test_the_sunday_evening_of_currencies_is_not_odd():
    hours = pd.date_range("2020-01-05T22:00", "2020-06-26T21:00", freq="h")
    hours = hours[(hours.dayofweek < 4) | ((hours.dayofweek == 4) & (hours.hour < 22)) | (hours.dayofweek == 6)]
    hours = hours[(hours.dayofweek < 6) | (hours.hour >= 22)]
    days = trading_days(moments(hours))
    assert (days.bar, days.findings) == ("1 hour", ())


def test_runs_are_counted_where_they_end():
    flags = np.array([[True, False], [True, True], [False, True], [True, True]])
    assert run_lengths(flags).tolist() == [[1, 0], [2, 1], [0, 2], [1, 3]]
