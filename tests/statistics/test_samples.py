"""Figures of samples against closed forms."""

import math

import pytest

from alphaswarm_rl.statistics.samples import episodes_lower_bound, lower_bound, mean_of, sample_std, thinned, trend


def test_the_lower_bound_is_students():
    # Of a population's 2 in 9 episodes: 2 * sqrt(9 / 8) is the sample's; t(0.95, 8) = 1.859548.
    assert lower_bound(9, -10.0, 2.0, None) == pytest.approx(-10 - 1.8595480 * 2 * math.sqrt(9 / 8) / 3)
    assert lower_bound(1, 5.0, 0.0, [5.0]) is None
    assert lower_bound(5, None, 1.0, None) is None
    assert lower_bound(5, 1.0, None, None) is None


def test_what_is_not_finite_is_none():
    assert mean_of([1e308, 1e308, 1e308]) is None
    assert mean_of([math.inf, -math.inf]) is None
    assert mean_of([1.0, 2.0]) == 1.5
    assert sample_std(2, None, [1.0, None]) is None
    assert sample_std(3, None, [1.0, 2.0, 3.0]) == 1.0


def test_points_are_thinned_to_means_of_neighbours():
    points = [(float(x), 2.0 * x) for x in range(10)]
    assert thinned(points, 5) == [(0.5, 1.0), (2.5, 5.0), (4.5, 9.0), (6.5, 13.0), (8.5, 17.0)]
    assert thinned(points, 100) == points
    assert thinned([], 5) == []


def test_a_trend_is_a_line_with_its_interval():
    line = trend([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)], 0.9)
    assert (line.slope, line.margin, line.rise, line.is_flat) == (2.0, 0.0, 4.0, False)
    # Residuals 1/3, -2/3, 1/3 around 2/3: error sqrt(2/3 / 2), t(0.95, 1) = 6.3137515.
    bent = trend([(0.0, 1.0), (1.0, 0.0), (2.0, 1.0)], 0.9)
    assert (bent.slope, bent.is_flat) == (0.0, True)
    assert bent.margin == pytest.approx(6.313751515 * math.sqrt(2 / 3 / 2))
    with pytest.raises(ValueError, match="three points"):
        trend([(0.0, 1.0), (1.0, 3.0)], 0.9)
    assert trend([(0.0, -1e308), (1.0, 0.0), (2.0, 1e308)], 0.9) is None


@pytest.mark.parametrize(("episodes", "bound"), [(2, None), (9, None), (10, 5.0)])
def test_few_returns_that_are_all_equal_prove_nothing(episodes, bound):
    assert episodes_lower_bound(episodes, 5.0, 0.0, [5.0] * episodes) == bound
    assert episodes_lower_bound(episodes, 5.0, 0.0, None) == bound
    assert episodes_lower_bound(2, 5.0, None, [5.0, 5.5]) is not None
    assert lower_bound(episodes, 5.0, 0.0, None) == 5.0
