import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.advantage import functions
from alphaswarm_rl.advantage.estimators import GAEAdvantage
from alphaswarm_rl.core.contracts import RolloutRewards
from alphaswarm_rl.core.errors import ComponentError
from tests.advantage import loops
from tests.advantage.rollouts import in_torch, rollouts, written_out

NAN = np.nan
FRACTIONS = st.floats(0, 1)


def estimator(**kwargs):
    return GAEAdvantage(GAEAdvantage.Config(**kwargs))


def column(*numbers):
    return np.array(numbers, np.float64)[:, None]


def flags(*numbers):
    return np.array(numbers, np.bool_)[:, None]


def one_env(rewards, values, next_values, terminated, truncated, valid=None):
    return functions.gae(
        column(*rewards),
        column(*values),
        column(*next_values),
        flags(*terminated),
        flags(*truncated),
        gamma=0.5,
        lam=0.5,
        valid=None if valid is None else flags(*valid),
    )


def test_worked_example_of_termination_truncation_and_an_episode_that_goes_on():
    """Rewards 1 2 3 4, values 2 4 1 2; the rollout is cut where the next value is 8.

    The episode ends at the second step, the third is the next episode's first. delta_3 = 4 + .5 * 8 - 2 = 6 and
    delta_2 = 3 + .5 * 2 - 1 = 3, so that A_3 = 6 and A_2 = 3 + .25 * 6 = 4.5, whatever happened before.
    """
    rewards, values = (1, 2, 3, 4), (2, 4, 1, 2)
    # terminated: delta_1 = 2 - 4 = -2 and delta_0 = 1 + .5 * 4 - 2 = 1
    advantages, returns = one_env(rewards, values, (4, NAN, 2, 8), (0, 1, 0, 0), (0, 0, 0, 0))
    assert advantages.ravel().tolist() == [0.5, -2, 4.5, 6]
    assert returns.ravel().tolist() == [2.5, 2, 5.5, 8]
    # truncated where the last observation is worth 6: delta_1 = 2 + .5 * 6 - 4 = 1
    advantages, returns = one_env(rewards, values, (4, 6, 2, 8), (0, 0, 0, 0), (0, 1, 0, 0))
    assert advantages.ravel().tolist() == [1.25, 1, 4.5, 6]
    assert returns.ravel().tolist() == [3.25, 5, 5.5, 8]
    # neither: delta_1 = 2 + .5 * 1 - 4 = -1.5, A_1 = -1.5 + .25 * 4.5 = -.375
    advantages, _ = one_env(rewards, values, (4, 1, 2, 8), (0, 0, 0, 0), (0, 0, 0, 0))
    assert advantages.ravel().tolist() == [0.90625, -0.375, 4.5, 6]


def test_worked_example_of_a_hole_in_the_mask():
    """The middle step is passed over: delta_0 = 1 + .5 * 4 - 1 = 2 looks at the value of the third, which terminates.

    delta_2 = 2 - 4 = -2, A_0 = 2 + .25 * -2 = 1.5.
    """
    advantages, returns = one_env((1, NAN, 2), (1, 50, 4), (50, 4, NAN), (0, 0, 1), (0, 0, 0), valid=(1, 0, 1))
    assert advantages.ravel().tolist() == [1.5, 0, -2]
    assert returns.ravel().tolist() == [2.5, 50, 2]


def test_an_end_in_a_step_that_does_not_count_is_an_end():
    """Valid step 0 is followed by an end: by truncation at a value of 6, by termination at 0; step 2 is another's."""
    cut, _ = one_env((1, 9, 3), (2, 9, 7), (9, 6, 8), (0, 0, 0), (0, 1, 0), valid=(1, 0, 1))
    assert cut.ravel().tolist() == [1 + 0.5 * 6 - 2, 0, 3 + 0.5 * 8 - 7]
    over, _ = one_env((1, 9, 3), (2, 9, 7), (9, NAN, 8), (0, 1, 0), (0, 0, 0), valid=(1, 0, 1))
    assert over.ravel().tolist() == [1 - 2, 0, 3 + 0.5 * 8 - 7]


@given(rollouts(), FRACTIONS, FRACTIONS)
def test_it_agrees_with_plain_loops(rollout, gamma, lam):
    valid, _ = written_out(rollout)
    expected, returns = loops.gae(
        rollout.rewards,
        rollout.values,
        rollout.next_values,
        rollout.terminated,
        rollout.truncated,
        valid,
        gamma,
        lam,
    )
    plain = estimator(gamma=gamma, lam=lam, normalize=False).compute(rollout)
    np.testing.assert_allclose(plain.advantages, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(plain.returns, returns, rtol=0, atol=1e-10)
    white = estimator(gamma=gamma, lam=lam).compute(rollout)
    np.testing.assert_allclose(white.advantages, loops.whitened(expected, valid), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(white.returns, returns, rtol=0, atol=1e-10)
    assert white.baselines is rollout.values


@given(rollouts())
def test_torch_gives_what_numpy_gives(rollout):
    one, other = estimator().compute(rollout), estimator().compute(in_torch(rollout))
    np.testing.assert_allclose(other.advantages.numpy(), one.advantages, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(other.returns.numpy(), one.returns, rtol=1e-10, atol=1e-10)


@given(rollouts(masked=st.just(False)), FRACTIONS)
def test_a_mask_that_leaves_nothing_out_changes_no_bit(rollout, lam):
    everything = np.ones(rollout.rewards.shape, np.bool_)
    parts = (rollout.rewards, rollout.values, rollout.next_values, rollout.terminated, rollout.truncated)
    for one, other in zip(
        functions.gae(*parts, gamma=0.9, lam=lam),
        functions.gae(*parts, gamma=0.9, lam=lam, valid=everything),
        strict=True,
    ):
        assert np.array_equal(one, other)


@given(rollouts(), FRACTIONS)
def test_without_bias_the_returns_are_the_discounted_rewards(rollout, gamma):
    """lam = 1: what a critic should learn does not depend on what it said, but for the value at the last end."""
    valid, _ = written_out(rollout)
    result = estimator(gamma=gamma, lam=1.0, normalize=False).compute(rollout)
    for env, sequence in loops.sequences(rollout.terminated, rollout.truncated):
        last = sequence[-1]
        total = 0.0 if rollout.terminated[last, env] else rollout.next_values[last, env]
        for t in reversed(sequence):
            if valid[t, env]:
                total = rollout.rewards[t, env] + gamma * total
                assert result.returns[t, env] == pytest.approx(total, abs=1e-10)


@given(rollouts(masked=st.just(False)))
def test_whitened_advantages_have_mean_0_and_variance_1(rollout):
    advantages = estimator(normalize=False).compute(rollout).advantages
    white = functions.whitened(advantages)
    assert white.mean() == pytest.approx(0, abs=1e-9)
    if advantages.size > 1 and advantages.std() > 0.1:
        assert white.std(ddof=1) == pytest.approx(1, rel=1e-4)


@pytest.mark.parametrize("counting", [0, 1])
def test_no_step_and_one_step_that_count_are_whitened_to_0(counting):
    advantages, valid = np.array([[3.0, 4.0], [5.0, np.inf]]), np.zeros((2, 2), np.bool_)
    valid[0, :counting] = True
    assert functions.whitened(advantages, valid).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_keep_their_type(kind):
    ones, never = np.ones((3, 2), kind), np.zeros((3, 2), np.bool_)
    rollout = RolloutRewards(ones, never, never, ones, ones, valid=~never)
    for each in (rollout, in_torch(rollout)):
        result = estimator().compute(each)
        assert str(result.advantages.dtype).removeprefix("torch.") == kind.__name__
        assert str(result.returns.dtype).removeprefix("torch.") == kind.__name__


def test_a_rollout_without_values_is_refused():
    ones, never = np.ones((3, 2)), np.zeros((3, 2), np.bool_)
    with pytest.raises(ComponentError, match="no values"):
        estimator().compute(RolloutRewards(ones, never, never))


@pytest.mark.parametrize("name", ["terminated", "truncated", "values", "next_values", "valid", "group_ids"])
def test_an_array_of_another_shape_is_refused(name):
    parts = {"rewards": np.ones((3, 2)), "terminated": np.zeros((3, 2), bool), "truncated": np.zeros((3, 2), bool)}
    with pytest.raises(ComponentError, match=f"the {name} of a rollout.*shape"):
        RolloutRewards(**{**parts, name: np.zeros((3, 1), bool)})
    with pytest.raises(ComponentError, match="rewards of a rollout"):
        RolloutRewards(np.ones(3), np.zeros(3, bool), np.zeros(3, bool))
