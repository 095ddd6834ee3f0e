"""Actions that are target weights."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from alphaswarm_rl.actions.continuous_weights import ContinuousWeights
from alphaswarm_rl.actions.softmax_weights import SoftmaxWeights
from alphaswarm_rl.actions.target_position import TargetPosition
from tests.actions.views import decoded, panel_of, view_of


def continuous(**kwargs):
    return ContinuousWeights(ContinuousWeights.Config(**kwargs))


def softmax(**kwargs):
    return SoftmaxWeights(SoftmaxWeights.Config(**kwargs))


def target(**kwargs):
    return TargetPosition(TargetPosition.Config(**kwargs))


def through(action, given):
    given = np.array(given)
    prices = (10.0,) * (given.shape[1] - isinstance(action, SoftmaxWeights))
    return decoded(action, view_of(given, prices=prices))


class TestContinuousWeights:
    def test_weights_below_the_gross_are_left_as_they_are(self):
        assert through(continuous(), [[0.3, 0.2]]).tolist() == [[0.3, 0.2]]

    def test_weights_above_the_gross_are_scaled_down_to_it(self):
        assert through(continuous(), [[1.0, 0.6]]) == pytest.approx(np.array([[0.625, 0.375]]))

    def test_the_gross_counts_absolute_weights(self):
        assert through(continuous(short=True), [[1.0, -1.0]]).tolist() == [[0.5, -0.5]]

    def test_the_cap_comes_before_the_scaling(self):
        # 0.9 and 0.5 become 0.4 and 0.4, which is 0.8 in all, twice the gross.
        assert through(continuous(max_weight=0.4, gross=0.4), [[0.9, 0.5]]) == pytest.approx(np.array([[0.2, 0.2]]))

    def test_negative_weights_are_none_without_shorts(self):
        assert through(continuous(), [[-0.5, 0.25]]).tolist() == [[0.0, 0.25]]

    def test_all_zero_is_all_cash(self):
        assert through(continuous(short=True), [[0.0, 0.0]]).tolist() == [[0.0, 0.0]]

    @pytest.mark.parametrize(("short", "low"), [(False, 0.0), (True, -1.0)])
    def test_the_space_has_one_number_per_asset(self, short, low):
        space = continuous(short=short).space(panel_of(np.ones((3, 4))))
        assert (space.shape, space.low[0], space.high[0], space.dtype) == ((4,), low, 1.0, np.float32)

    def test_encode_clips(self):
        action = continuous(max_weight=0.5)
        view = view_of(np.zeros((1, 2)))
        assert action.encode(view, np.array([[0.75, -0.25]])).tolist() == [[0.5, 0.0]]


class TestSoftmaxWeights:
    def test_equal_numbers_are_equal_weights_and_cash_comes_first(self):
        assert through(softmax(), [[0.0, 0.0, 0.0]]) == pytest.approx(np.full((1, 2), 1 / 3))
        # exp(log 2) : 1 : 1
        assert through(softmax(), [[np.log(2), 0.0, 0.0]]) == pytest.approx(np.full((1, 2), 0.25))

    def test_one_asset_of_thirty_can_have_almost_everything(self):
        numbers = np.full((1, 31), -10.0)
        numbers[0, 7] = 10.0
        assert through(softmax(), numbers)[0, 6] > 0.999

    def test_cash_can_have_almost_everything(self):
        assert through(softmax(), [[10.0, -10.0, -10.0]]).sum() < 1e-8

    @pytest.mark.parametrize("level", [-20.0, 0.0, 20.0])
    def test_the_largest_bound_neither_overflows_nor_vanishes(self, level):
        assert through(softmax(bound=20), [[level] * 3]) == pytest.approx(np.full((1, 2), 1 / 3))

    def test_numbers_beyond_the_bound_count_as_the_bound(self):
        assert (through(softmax(), [[1e30, 0.0, -1e30]]) == through(softmax(), [[10.0, 0.0, -10.0]])).all()

    @given(
        parts=st.lists(st.floats(1e-7, 1.0), min_size=2, max_size=40),
        smallest=st.integers(0, 39),
    )
    def test_decoding_what_was_encoded_gives_the_weights(self, parts, smallest):
        parts[smallest % len(parts)] = 1e-8 * sum(parts)
        weights = (np.array(parts) / sum(parts))[None, 1:]
        action = softmax()
        view = view_of(np.zeros((1, len(parts))), prices=(1.0,) * (len(parts) - 1))
        encoded = action.encode(view, weights)
        assert action.space(view.market.panel).contains(encoded[0])
        assert np.abs(decoded(action, view, encoded) - weights).max() < 1e-6

    def test_equal_weights_are_encoded_as_zeros(self):
        action = softmax()
        view = view_of(np.zeros((1, 3)))
        assert action.encode(view, np.full((1, 2), 1 / 3)) == pytest.approx(np.zeros((1, 3)), abs=1e-6)

    def test_all_in_one_survives_encoding(self):
        action = softmax()
        view = view_of(np.zeros((1, 3)))
        encoded = action.encode(view, np.array([[0.0, 1.0]]))
        assert decoded(action, view, encoded) == pytest.approx(np.array([[0.0, 1.0]]), abs=1e-6)


class TestTargetPosition:
    def test_a_target_is_the_number_times_the_leverage_and_is_not_normalised(self):
        assert through(target(leverage=3.0, short=True), [[1.0, -0.5]]).tolist() == [[3.0, -1.5]]

    def test_without_shorts_the_numbers_begin_at_zero(self):
        action = target(short=False)
        assert action.space(panel_of(np.ones((3, 2)))).low.tolist() == [0.0, 0.0]
        assert through(action, [[-0.5, 2.0]]).tolist() == [[0.0, 1.0]]

    def test_encode_divides_by_the_leverage_and_clips(self):
        action = target(leverage=2.0, short=True)
        view = view_of(np.zeros((1, 2)))
        assert action.encode(view, np.array([[1.0, -3.0]])).tolist() == [[0.5, -1.0]]


@pytest.mark.parametrize(
    ("cls", "kwargs"),
    [(ContinuousWeights, {"max_weight": 1.5}), (SoftmaxWeights, {"bound": 0}), (TargetPosition, {"leverage": 0})],
)
def test_parameters_without_a_meaning_are_refused(cls, kwargs):
    with pytest.raises(ValidationError):
        cls.Config(**kwargs)
