"""The stationary bootstrap against closed forms, published software and its own promises."""

import math

import numpy as np
import pytest

from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.statistics.bootstrap import (
    _window_width,
    bootstrap_difference,
    optimal_block_length,
    resampled_rows,
    stationary_bootstrap,
)

#: Block lengths that the package arch 8.0.0 gives for `recursion(periods, persistence)`.
PUBLISHED_LENGTHS = {
    (100, -0.5): 9.104628340958635,
    (100, 0.7): 6.481709179329502,
    (252, 0.3): 4.9436395216559745,
    (252, 0.9): 14.610170350529916,
    (1000, 0.0): 1.9742947531320267,
    (1000, 0.7): 18.07921804780202,
}


def recursion(periods, persistence):
    """Like AR(1), and without a generator whose numbers might change."""
    values = [0.0]
    for place in range(1, periods):
        values.append(persistence * values[-1] + math.sin(place * place))
    return np.array(values)


def autoregression(rng, periods, persistence):
    noise = rng.standard_normal(periods + 50)
    values = np.zeros(periods + 50)
    for place in range(1, periods + 50):
        values[place] = persistence * values[place - 1] + noise[place]
    return values[50:]


def mean(rows):
    return rows.mean(axis=1)


def test_a_resample_is_made_of_runs_of_the_series_on_a_ring():
    # Blocks much longer than the series: each resample is the series from somewhere on, once around.
    rows = resampled_rows(5, 1e12, 200, generator(0, "rows"))
    assert {tuple(row) for row in rows.tolist()} == {tuple((first + np.arange(5)) % 5) for first in range(5)}
    # Blocks of one period: every row is drawn on its own.
    single = resampled_rows(50, 1.0, 400, generator(0, "rows"))
    follows = (single[:, 1:] == (single[:, :-1] + 1) % 50).mean()
    assert follows == pytest.approx(1 / 50, abs=4 * math.sqrt(0.02 * 0.98 / (400 * 49)))
    assert np.bincount(single.ravel(), minlength=50).min() > 0


@pytest.mark.parametrize(("periods", "length"), [(1, 1.0), (7, 2.2), (300, 12.5)])
def test_a_block_goes_on_row_by_row_from_where_it_begins(periods, length):
    rng = generator(4, "blocks")
    begins, starts = rng.random((9, periods)) < 1.0 / length, rng.integers(periods, size=(9, periods))
    expected = np.empty((9, periods), np.int64)
    for resample in range(9):
        for period in range(periods):
            is_new = period == 0 or begins[resample, period]
            follows = (expected[resample, period - 1] + 1) % periods
            expected[resample, period] = starts[resample, period] if is_new else follows
    np.testing.assert_array_equal(resampled_rows(periods, length, 9, generator(4, "blocks")), expected)


@pytest.mark.parametrize("length", [2.0, 7.5, 20.0])
def test_blocks_have_the_mean_length_that_is_asked_for(length):
    periods, resamples = 100, 1000
    rows = resampled_rows(periods, length, resamples, generator(1, "lengths"))
    breaks = (rows[:, 1:] != (rows[:, :-1] + 1) % periods).mean()
    # A block ends with probability 1 / length, and one of `periods` starts goes on as if it had not.
    expected = (1 - 1 / periods) / length
    assert breaks == pytest.approx(expected, abs=4 * math.sqrt(expected / (resamples * (periods - 1))))


@pytest.mark.parametrize("length", [1.0, 4.0, 15.0])
def test_the_variance_of_the_mean_is_the_closed_form_of_politis_and_romano(length):
    series = recursion(120, 0.6)
    periods, deviations = len(series), series - series.mean()
    circular = [float(deviations @ np.roll(deviations, lag)) / periods for lag in range(periods)]
    weights = [(1 - lag / periods) * (1 - 1 / length) ** lag for lag in range(periods)]
    closed = circular[0] + 2 * sum(weights[lag] * circular[lag] for lag in range(1, periods))
    rows = resampled_rows(periods, length, 20_000, generator(2, "variance"))
    found = series[rows].mean(axis=1).var() * periods
    assert found == pytest.approx(closed, rel=4 * math.sqrt(2 / 20_000))


@pytest.mark.parametrize(("periods", "persistence"), PUBLISHED_LENGTHS)
def test_the_block_length_is_that_of_published_software(periods, persistence):
    found = optimal_block_length(recursion(periods, persistence))
    assert found == pytest.approx(PUBLISHED_LENGTHS[periods, persistence], rel=1e-9)


def test_the_block_length_approaches_the_closed_form_of_an_autoregression():
    # (2 phi / (1 - phi^2))^(2/3) n^(1/3): 66.1 here.
    rng = generator(3, "long")
    found = np.mean([optimal_block_length(autoregression(rng, 40_000, 0.5)) for _ in range(6)])
    assert found == pytest.approx((1 / 0.75) ** (2 / 3) * 40_000 ** (1 / 3), rel=0.2)


def test_block_lengths_have_bounds_and_columns_take_the_longest():
    assert optimal_block_length(np.full(50, 0.01)) == 1.0
    assert optimal_block_length(1.01 ** np.arange(40.0) / 1.01 ** np.arange(40.0) - 0.99) == 1.0
    # What differs in the last bit alone has no autocorrelation, however long its runs.
    assert optimal_block_length(np.repeat([1.0, np.nextafter(1.0, 2.0)], 25)) == 1.0
    assert optimal_block_length(np.arange(7.0)) == 1.0
    # Changes of noise take each other back, their sum has next to no variance: 3 sqrt(n) is the bound, then n / 3.
    assert optimal_block_length(np.diff(recursion(101, 0.0))) == 30.0
    assert optimal_block_length(np.diff(recursion(31, 0.0))) == 10.0
    # A sum that varies by exactly nothing asks for the longest that there may be.
    assert optimal_block_length(np.array([2.0, 0.0, 1.0, 2.0, -1.0, 2.0, 2.0, 0.0])) == 3.0
    # Either bound is rounded up, and eight periods are enough to have a length of their own.
    assert optimal_block_length(np.diff(recursion(92, 0.0))) == 29.0
    assert optimal_block_length(np.arange(8.0)) > 1.0
    short, long = recursion(252, 0.3), recursion(252, 0.9)
    assert optimal_block_length(np.column_stack([short, long])) == optimal_block_length(long)
    assert optimal_block_length(np.column_stack([long, short])) == optimal_block_length(long)


@pytest.mark.parametrize(("errors", "width"), [(1.99, 2), (2.01, 12)])
def test_an_autocorrelation_below_two_standard_errors_is_none(errors, width):
    periods = 100
    correlations = np.full(13, errors * math.sqrt(math.log10(periods) / periods))
    assert _window_width(correlations, 5, periods) == width


def test_intervals_cover_the_truth_of_an_autoregression_and_single_periods_do_not():
    rng = generator(4, "coverage")
    by_data = alone = 0
    for number in range(200):
        series = autoregression(rng, 200, 0.6)
        blocks = stationary_bootstrap(series, mean, resamples=400, seed=number)
        single = stationary_bootstrap(series, mean, resamples=400, seed=number, block_length=1)
        by_data += blocks.low <= 0 <= blocks.high
        alone += single.low <= 0 <= single.high
    assert by_data >= 0.86 * 200
    assert alone <= 0.78 * 200


def test_the_same_seed_gives_the_same_interval_and_a_wider_one_is_surer():
    series = recursion(100, 0.5)
    first = stationary_bootstrap(series, mean, seed=5, resamples=300)
    assert first == stationary_bootstrap(series, mean, seed=5, resamples=300)
    assert first != stationary_bootstrap(series, mean, seed=6, resamples=300)
    assert first.low < first.estimate < first.high
    assert first.estimate == pytest.approx(series.mean())
    assert (first.resamples, first.undefined, first.confidence) == (300, 0, 0.95)
    assert first.block_length == optimal_block_length(series)
    narrow = stationary_bootstrap(series, mean, seed=5, resamples=300, confidence=0.5)
    assert first.low < narrow.low < narrow.high < first.high


def test_the_ends_are_percentiles_of_the_resamples():
    # Whatever is resampled, the measure is 0 to 100 in turn: the quantiles are known.
    given = iter([np.array([7.0]), np.arange(101.0)])
    found = stationary_bootstrap(np.ones(4), lambda rows: next(given), resamples=101, confidence=0.9)
    assert (found.estimate, found.low, found.high) == (7.0, pytest.approx(5.0), pytest.approx(95.0))


def test_undefined_resamples_take_an_end_away_once_they_reach_it():
    def measured(undefined):
        given = iter([np.array([7.0]), np.where(np.arange(101) < undefined, np.nan, np.arange(101.0))])
        return stationary_bootstrap(np.ones(4), lambda rows: next(given), resamples=101, confidence=0.9)

    few, many = measured(4), measured(6)
    assert (few.undefined, many.undefined) == (4, 6)
    assert few.low == pytest.approx(5.0)
    assert few.high == pytest.approx(99.0)  # four of the numbers are above everything
    assert math.isnan(many.low)
    assert math.isnan(many.high)


def test_a_long_series_is_resampled_in_parts_and_as_often_as_asked():
    series, counted = recursion(20_000, 0.0), []

    def measured(rows):
        counted.append(len(rows))
        return mean(rows)

    found = stationary_bootstrap(series, measured, resamples=120, block_length=5.0)
    assert counted[0] == 1  # the series itself
    assert len(counted) > 2
    assert sum(counted[1:]) == found.resamples == 120


def test_a_difference_pairs_the_periods():
    rng = generator(7, "pairs")
    market = rng.normal(0.0, 0.02, 250)
    ahead = market + 0.001
    apart = bootstrap_difference(ahead, market, mean, resamples=500)
    assert (apart.low, apart.estimate, apart.high) == pytest.approx((0.001, 0.001, 0.001))
    alone = stationary_bootstrap(ahead, mean, resamples=500)
    assert alone.low < 0 < alone.high
    swapped = bootstrap_difference(market, ahead, mean, resamples=500)
    assert swapped.estimate == pytest.approx(-0.001)


def test_the_blocks_of_a_difference_are_as_long_as_the_difference_asks_for():
    noise, slow = generator(8, "noise").standard_normal(252), recursion(252, 0.9)
    found = bootstrap_difference(noise + 0.01 * slow, noise, mean, resamples=50)
    assert found.block_length == pytest.approx(optimal_block_length(slow))
    given = bootstrap_difference(noise, slow, mean, resamples=50, block_length=3)
    assert given.block_length == 3.0


@pytest.mark.parametrize(
    ("series", "options", "message"),
    [
        ([], {}, "shape"),
        (np.zeros((2, 2, 2)), {}, "shape"),
        ([1.0, math.nan], {}, "finite"),
        ([1.0, 2.0], {"block_length": 0.5}, "block length"),
        ([1.0, 2.0], {"block_length": math.nan}, "block length"),
        ([1.0, 2.0], {"resamples": 0}, "resamples"),
        ([1.0, 2.0], {"confidence": 1.0}, "confidence"),
        ([1.0, 2.0], {"confidence": 0.0}, "confidence"),
    ],
)
def test_what_cannot_be_resampled_is_refused(series, options, message):
    with pytest.raises(ValueError, match=message):
        stationary_bootstrap(np.asarray(series), mean, **options)
