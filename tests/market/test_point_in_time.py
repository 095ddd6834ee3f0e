"""Values as they were known at each bar."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.market.calendar import join_as_of
from alphaswarm_rl.market.panel import MarketPanel


def hours(n=6, stamp="open"):
    """Hourly bars of KO and PEP from 10:00 on; PEP starts at 12:00, KO has no bar at 13:00."""
    close = np.ones((n, 2))
    close[:2, 1] = close[3, 0] = np.nan
    times = np.datetime64("2024-01-01T10:00", "ns") + np.arange(n) * np.timedelta64(1, "h")
    return MarketPanel.from_arrays({"timestamps": times, "assets": ["KO", "PEP"], "close": close}, stamp=stamp)


def joined(panel, *rows):
    assets, moments, values = zip(*rows, strict=True)
    return join_as_of(panel, assets, np.array([f"2024-01-01T{time}" for time in moments], "datetime64[ns]"), values)


def test_a_row_counts_from_the_first_bar_that_is_over_at_its_moment():
    out = joined(hours(), ("KO", "12:00", 1.0), ("KO", "13:30", 2.0))
    # The bar labelled 11:00 is over at 12:00; the one labelled 13:00 at 14:00. A gap in the bars is no gap in facts.
    np.testing.assert_array_equal(out[:, 0], [np.nan, 1, 1, 2, 2, 2])
    assert np.isnan(out[:, 1]).all()


def test_a_moment_later_is_a_bar_later():
    np.testing.assert_array_equal(joined(hours(), ("KO", "12:00:01", 1.0))[:, 0], [np.nan, np.nan, 1, 1, 1, 1])


def test_bars_that_are_labelled_by_their_close_are_over_then():
    np.testing.assert_array_equal(joined(hours(stamp="close"), ("KO", "12:00", 1.0))[:3, 0], [np.nan, np.nan, 1])


def test_rows_come_in_any_order_and_a_missing_value_replaces_nothing():
    rows = [
        ("PEP", "13:00", 7.0),
        ("KO", "14:00", np.nan),
        ("KO", "13:00", 2.0),
        ("XOM", "09:00", 9.0),
        ("KO", "10:00", 1.0),
    ]
    out = joined(hours(), *rows)
    np.testing.assert_array_equal(out[:, 0], [1, 1, 2, 2, 2, 2])
    np.testing.assert_array_equal(out[:, 1], [np.nan, np.nan, 7, 7, 7, 7])
    np.testing.assert_array_equal(joined(hours(), *reversed(rows)), out)


def test_rows_of_the_future_change_nothing_before_it():
    rows = [("KO", "11:00", 1.0), ("KO", "13:00", 2.0)]
    np.testing.assert_array_equal(joined(hours(), rows[0])[:2], joined(hours(), *rows)[:2])


def test_two_values_of_one_moment_are_refused():
    with pytest.raises(DataError, match=r"rows 0 and 2 \(asset 'KO', 2024-01-01T12:00:00\): two values"):
        joined(hours(), ("KO", "12:00", 1.0), ("PEP", "12:00", 1.0), ("KO", "12:00", 2.0))
    with pytest.raises(DataError, match="one of each per row"):
        join_as_of(hours(), ["KO"], np.zeros(2, "datetime64[ns]"), [1.0])
