import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.replay_buffers.priority import SumTree
from tests.replay_buffers.steps import buffer, steps


def filled(count=10, **kwargs):
    found = buffer("prioritized", **{"capacity": 2 * count, **kwargs})
    found.append(steps(count))
    return found


UPDATES = st.lists(
    st.lists(st.tuples(st.integers(0, 36), st.floats(0, 1e6)), min_size=1, max_size=20), min_size=1, max_size=10
)


@given(UPDATES, st.integers(1, 37))
def test_the_root_is_the_sum_of_the_leaves_after_any_updates(updates, count):
    """For every number of leaves, not only powers of two; of a leaf that is set twice at once the last counts."""
    sums, expected = SumTree(count), np.zeros(count)
    for update in updates:
        indices = np.array([index % count for index, _ in update])
        numbers = np.array([number for _, number in update])
        sums.update(indices, numbers)
        for index, number in zip(indices, numbers, strict=True):
            expected[index] = number
        assert np.array_equal(sums.leaves, expected)
        assert sums.root == pytest.approx(expected.sum(), rel=1e-12)
    fresh = SumTree(count)
    fresh.fill(expected)
    assert fresh.root == sums.root  # bit for bit: nothing drifts


@given(st.lists(st.integers(0, 5), min_size=1, max_size=40).filter(any))
def test_a_sum_is_found_where_the_running_sum_passes_it(numbers):
    tree = SumTree(len(numbers))
    tree.fill(np.array(numbers, np.float64))
    sums = np.arange(sum(numbers))
    assert tree.find(sums).tolist() == np.searchsorted(np.cumsum(numbers), sums, side="right").tolist()
    beyond = tree.find(np.array([float(sum(numbers)), sum(numbers) * 1.5]))
    assert all(numbers[leaf] > 0 for leaf in beyond)


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0])
def test_transitions_are_drawn_as_often_as_their_priorities_say(alpha):
    found = filled(alpha=alpha)
    errors = np.linspace(0.05, 3, 20)
    found.update_priorities(np.arange(20), errors)
    expected = (errors + 1e-6) ** alpha
    expected *= 64 * 2000 / expected.sum()
    counts = np.zeros(20)
    for _ in range(2000):
        counts += np.bincount(found.sample(64).indices, minlength=20)
    # Strata make the counts spread less than independent draws would: the test can only be stricter than it says.
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(0.999, df=19)


def test_single_draws_are_independent_and_pass_the_same_test():
    found = filled()
    errors = np.linspace(0.05, 3, 20)
    found.update_priorities(np.arange(20), errors)
    expected = (errors + 1e-6) ** 0.6
    expected *= 10_000 / expected.sum()
    counts = np.bincount(np.concatenate([found.sample(1).indices for _ in range(10_000)]), minlength=20)
    statistic = ((counts - expected) ** 2 / expected).sum()
    assert chi2.ppf(0.0005, df=19) < statistic < chi2.ppf(0.9995, df=19)


def test_weights_are_n_p_to_the_minus_beta_over_the_largest_in_the_sample():
    found = filled(beta=0.5, beta_increment=0.0)
    found.update_priorities(np.arange(20), np.linspace(0.1, 5, 20))
    chances = found.priorities / found.priorities.sum()
    every = (20 * chances) ** -0.5
    sample = found.sample(12)
    np.testing.assert_allclose(sample.weights, every[sample.indices] / every[sample.indices].max(), rtol=1e-12)
    assert sample.weights.max() == 1


def test_one_well_known_transition_does_not_silence_the_others():
    """Over the largest weight in the buffer all of these would count a thousandth."""
    found = filled(beta=1.0)
    found.update_priorities(np.arange(20), np.array([1e-6] + [1.0] * 19))
    assert np.median(found.sample(4).weights) == 1


def test_weights_make_up_for_the_priorities():
    """With beta 1 a weighted mean over samples is the plain mean over the buffer, each sample's largest put back."""
    found = filled(beta=1.0)
    found.update_priorities(np.arange(20), np.linspace(0.1, 5, 20))
    values = np.arange(20.0)
    drawn = [found.sample(64) for _ in range(2000)]
    weights = np.concatenate([each.weights / found.priorities[each.indices].min() for each in drawn])
    chosen = values[np.concatenate([each.indices for each in drawn])]
    assert (weights * chosen).sum() / weights.sum() == pytest.approx(values.mean(), rel=0.01)


def test_beta_grows_with_every_sample_up_to_1():
    found = filled(beta=0.4, beta_increment=0.25)
    betas = []
    for _ in range(5):
        betas.append(found.beta)
        found.sample(2)
    assert betas == [0.4, 0.65, 0.9, 1.0, 1.0]


def test_what_is_appended_has_the_largest_priority():
    """Public trees forgot to insert it, so that nothing new was ever drawn."""
    found = filled(5, capacity=40)
    assert found.priorities.tolist() == [1.0] * 10
    found.update_priorities(np.array([3]), np.array([7.0]))
    found.append(steps(1, first=5))
    assert found.priorities[10:].tolist() == [(7 + 1e-6) ** 0.6] * 2
    found.update_priorities(np.arange(10), np.full(10, 1e-5))
    assert set(found.sample(4).indices.tolist()) <= {10, 11}


def test_a_transition_that_is_written_over_loses_its_priority():
    found = filled(10)
    found.update_priorities(np.arange(20), np.full(20, 0.01))
    found.append(steps(1, first=10))
    assert found.priorities[:2].tolist() == [1.0, 1.0]
    assert (found.priorities[2:] < 0.1).all()


def test_errors_are_cut_off_below_and_above():
    found = filled()
    found.update_priorities(np.arange(4), np.array([0.0, -1e-9, 1e9, -np.inf]))
    assert found.priorities[:4].tolist() == [(2e-6) ** 0.6] * 2 + [(10 + 1e-6) ** 0.6] * 2
    with pytest.raises(ComponentError, match="not a number"):
        found.update_priorities(np.array([0]), np.array([np.nan]))


@pytest.mark.parametrize("count", [1, 3, 5, 100])
def test_nothing_beyond_what_is_there_is_ever_drawn(count):
    """A capacity that is no power of two, filled in part."""
    found = buffer("prioritized", num_envs=1, capacity=101)
    found.append(steps(count, num_envs=1))
    drawn = np.concatenate([found.sample(50).indices for _ in range(40)])
    assert drawn.min() >= 0
    assert drawn.max() < count


def test_a_plain_buffers_state_is_refused():
    plain = buffer("general", capacity=20)
    plain.append(steps(3))
    with pytest.raises(CheckpointError, match="priority"):
        buffer("prioritized", capacity=20).set_state(plain.get_state())


def test_the_smallest_error_lies_below_the_largest():
    with pytest.raises(ComponentError, match="below largest_error"):
        buffer("prioritized", smallest_error=2, largest_error=1)
