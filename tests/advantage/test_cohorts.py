"""Estimators that compare the episodes of a cohort."""

import logging
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.advantage import functions
from alphaswarm_rl.advantage.estimators import GRPOAdvantage, ReinforcePlusPlusAdvantage
from alphaswarm_rl.advantage.functions import episode_samples, group_statistics
from alphaswarm_rl.core.contracts import RolloutRewards
from tests.advantage import loops
from tests.advantage.rollouts import in_torch, rollouts, written_out

ESTIMATORS = [GRPOAdvantage, ReinforcePlusPlusAdvantage]
every_estimator = pytest.mark.parametrize("cls", ESTIMATORS)


def statistics(rewards, groups=None, valid=None, *, leave_one_out=True):
    rewards = np.asarray(rewards, np.float64)
    groups = np.zeros(len(rewards), np.int64) if groups is None else np.asarray(groups)
    valid = np.ones(len(rewards), np.bool_) if valid is None else np.asarray(valid, np.bool_)
    return group_statistics(rewards, groups, valid, leave_one_out=leave_one_out)


def rows(*columns, ends=()):
    """A rollout of these rewards, one column per environment; episodes terminate at the (step, environment) given."""
    rewards = np.array(columns, np.float64).T
    terminated = np.zeros(rewards.shape, np.bool_)
    for end in ends:
        terminated[end] = True
    return RolloutRewards(rewards, terminated, np.zeros(rewards.shape, np.bool_))


def test_worked_example_of_three_in_a_cohort():
    """Rewards 1 2 6, each compared with the others: means 4, 3.5, 1.5, variances 8, 12.5, 0.5."""
    found = statistics([1, 2, 6])
    np.testing.assert_allclose(found.baseline, [4, 3.5, 1.5], rtol=1e-14)
    np.testing.assert_allclose(found.std, np.sqrt([8, 12.5, 0.5]), rtol=1e-14)
    advantages, _ = functions.grpo(np.array([1.0, 2, 6]), np.zeros(3, int), np.ones(3, bool))
    expected = [-3 / (math.sqrt(8) + 1e-6), -1.5 / (math.sqrt(12.5) + 1e-6), 4.5 / (math.sqrt(0.5) + 1e-6)]
    np.testing.assert_allclose(advantages, expected, rtol=1e-14)
    whole = statistics([1, 2, 6], leave_one_out=False)
    assert whole.baseline.tolist() == [3, 3, 3]
    np.testing.assert_allclose(whole.std, [math.sqrt(7)] * 3, rtol=1e-14)


def test_a_cohort_of_one_has_advantage_0():
    found = statistics([5.0, 7.0], groups=[1, 2])
    assert found.baseline.tolist() == [5, 7]
    assert found.std.tolist() == [0, 0]
    for leave_one_out in (True, False):
        assert functions.grpo(np.array([5.0]), np.zeros(1, int), np.ones(1, bool), leave_one_out=leave_one_out)[0] == 0


def test_a_cohort_of_two_that_leaves_one_out_is_not_scaled():
    advantages, found = functions.grpo(np.array([1.0, 5.0]), np.zeros(2, int), np.ones(2, bool))
    assert found.std.tolist() == [0, 0]
    assert advantages.tolist() == [-4, 4]
    plain, _ = functions.grpo(np.array([1.0, 5.0]), np.zeros(2, int), np.ones(2, bool), leave_one_out=False)
    np.testing.assert_allclose(plain, np.array([-2, 2]) / (math.sqrt(8) + 1e-6), rtol=1e-14)


def test_invalid_samples_count_for_nobody():
    """Of four, the third is invalid: the others are compared among themselves, and it is compared with them."""
    found = statistics([1, 2, 1000, 6], valid=[1, 1, 0, 1])
    np.testing.assert_allclose(found.baseline, [4, 3.5, 3, 1.5], rtol=1e-14)
    np.testing.assert_allclose(found.std, np.sqrt([8, 12.5, 7, 0.5]), rtol=1e-14)
    assert statistics([1, 2], valid=[1, 0]).baseline.tolist() == [1, 2]
    assert statistics([1, 2], valid=[0, 0]).baseline.tolist() == [1, 2]


@pytest.mark.parametrize("constant", [0.1, 1 / 3, 1e8, -7.7])
@pytest.mark.parametrize("count", [3, 7, 64])
def test_equal_rewards_have_exactly_no_spread(constant, count):
    """Rounding must not make a tiny spread of none: dividing by it would blow an advantage up."""
    for leave_one_out in (True, False):
        assert not statistics([constant] * count, leave_one_out=leave_one_out).std.any()
    alone = statistics([constant] * count + [constant + 5])
    assert alone.std[-1] == 0
    assert (alone.std[:-1] > 0).all()


def test_one_far_away_does_not_drown_the_spread_of_the_others():
    rewards = [1.0, 1.0 + 1e-6, 1.0, 1.0 + 3e-6, 1e6]
    others = np.array(rewards[:4])
    assert statistics(rewards).std[-1] == pytest.approx(others.std(ddof=1), rel=1e-9)


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 3), st.booleans()), min_size=1, max_size=30))
def test_leaving_one_out_is_n_over_n_minus_1_times_the_distance_from_the_mean(samples):
    rewards, groups, _ = (np.array(column) for column in zip(*samples, strict=True))
    left_out = rewards - statistics(rewards, groups).baseline
    plain = rewards - statistics(rewards, groups, leave_one_out=False).baseline
    sizes = np.array([(groups == group).sum() for group in groups])
    expected = np.where(sizes > 1, sizes / np.maximum(sizes - 1, 1) * plain, 0)
    np.testing.assert_allclose(left_out, expected, rtol=1e-10, atol=1e-10)


@given(st.lists(st.tuples(st.floats(-100, 100), st.integers(0, 3), st.booleans()), min_size=1, max_size=40))
def test_statistics_agree_with_plain_loops(samples):
    rewards, groups, valid = (np.array(column) for column in zip(*samples, strict=True))
    for leave_one_out in (True, False):
        found = statistics(rewards, groups, valid, leave_one_out=leave_one_out)
        expected = [loops.cohort(rewards, groups, valid, i, leave_one_out) for i in range(len(rewards))]
        np.testing.assert_allclose(found.baseline, [mean for mean, _ in expected], rtol=0, atol=1e-10)
        np.testing.assert_allclose(found.std, [std for _, std in expected], rtol=1e-10, atol=1e-10)


def test_episodes_and_pieces_of_episodes_are_samples():
    """Environment 0 ends at step 1, environment 1 nowhere: three samples, of rewards 3, 3 and 30."""
    samples = episode_samples(rows([1, 2, 3], [5, 10, 15], ends=[(1, 0)]))
    assert samples.rewards.tolist() == [3, 3, 30]
    assert samples.numbers.tolist() == [[0, 2], [0, 2], [1, 2]]
    assert samples.spread(np.array([7, 8, 9])).tolist() == [[7, 9], [7, 9], [8, 9]]


def test_an_episode_is_of_the_cohort_of_its_last_step():
    rollout = rows([1, 2, 3], [5, 10, 15], ends=[(1, 0)])
    groups = np.array([[9, 9], [4, 9], [6, 5]])
    moved = RolloutRewards(rollout.rewards, rollout.terminated, rollout.truncated, group_ids=groups)
    assert episode_samples(moved).groups.tolist() == [4, 6, 5]


@given(rollouts(), st.booleans(), st.booleans())
def test_grpo_agrees_with_plain_loops(rollout, leave_one_out, normalize):
    valid, groups = written_out(rollout)
    ends = (rollout.terminated, rollout.truncated)
    expected = loops.grpo(rollout.rewards, *ends, valid, groups, leave_one_out, normalize)
    config = GRPOAdvantage.Config(leave_one_out=leave_one_out, normalize=normalize)
    found = GRPOAdvantage(config).compute(rollout)
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-10, atol=1e-10)
    assert found.returns is None
    assert (found.std is None) == (not normalize)


@given(rollouts(), st.booleans(), st.booleans(), st.booleans())
def test_reinforce_plus_plus_agrees_with_plain_loops(rollout, minus_baseline, normalize, leave_one_out):
    valid, groups = written_out(rollout)
    ends = (rollout.terminated, rollout.truncated)
    expected = loops.reinforce_plus_plus(
        rollout.rewards, *ends, valid, groups, minus_baseline, normalize, leave_one_out
    )
    config = ReinforcePlusPlusAdvantage.Config(
        minus_baseline=minus_baseline, global_normalization=normalize, leave_one_out=leave_one_out
    )
    found = ReinforcePlusPlusAdvantage(config).compute(rollout)
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-10, atol=1e-10)


@every_estimator
@given(rollout=rollouts())
def test_torch_gives_what_numpy_gives(cls, rollout):
    one, other = cls().compute(rollout), cls().compute(in_torch(rollout))
    np.testing.assert_allclose(other.advantages.numpy(), one.advantages, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(other.baselines.numpy(), one.baselines, rtol=1e-10, atol=1e-10)


@every_estimator
def test_every_step_has_its_episodes_advantage_also_where_it_does_not_count(cls):
    rollout = rows([1, 2, 3], [5, 10, 15], ends=[(1, 0)])
    valid = np.array([[1, 1], [0, 1], [1, 1]], np.bool_)
    masked = RolloutRewards(rollout.rewards, rollout.terminated, rollout.truncated, valid=valid)
    advantages = cls().compute(masked).advantages
    assert advantages[0, 0] == advantages[1, 0] != 0
    assert len(set(advantages[:, 1].tolist())) == 1


def normalized(rewards, groups, leave_one_out):
    """REINFORCE++ of episodes of one step each."""
    rollout = RolloutRewards(
        np.array([rewards], np.float64),
        np.ones((1, len(rewards)), np.bool_),
        np.zeros((1, len(rewards)), np.bool_),
        group_ids=np.array(groups),
    )
    config = ReinforcePlusPlusAdvantage.Config(leave_one_out=leave_one_out)
    return ReinforcePlusPlusAdvantage(config).compute(rollout).advantages[0]


def test_with_equal_cohorts_leaving_one_out_makes_no_difference_after_the_normalisation():
    rewards = [1, 2, 6, 3, -1, 4]
    equal, unequal = [0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 1, 1]
    np.testing.assert_allclose(normalized(rewards, equal, True), normalized(rewards, equal, False), atol=1e-12)
    assert np.abs(normalized(rewards, unequal, True) - normalized(rewards, unequal, False)).max() > 0.01


def test_the_baseline_is_local_and_the_scale_is_global():
    """Two cohorts of spread 1 and 10: their advantages keep that ratio."""
    advantages = normalized([0, 2, 100, 120], [0, 0, 1, 1], leave_one_out=False)
    np.testing.assert_allclose(advantages[2:] / advantages[:2], 10, rtol=1e-12)
    assert advantages.mean() == pytest.approx(0, abs=1e-12)
    assert advantages.std() == pytest.approx(1, rel=1e-12)


def test_long_episodes_weigh_more():
    """Rewards 0 over three steps and 4 over one: the mean over steps is 1, the variance 3."""
    rollout = rows([0, 0, 0], [4, 0, 0])
    valid = np.array([[1, 1], [1, 0], [1, 0]], np.bool_)
    rollout = RolloutRewards(rollout.rewards, rollout.terminated, rollout.truncated, valid=valid)
    config = ReinforcePlusPlusAdvantage.Config(minus_baseline=False)
    advantages = ReinforcePlusPlusAdvantage(config).compute(rollout).advantages
    np.testing.assert_allclose(advantages[0], [-1 / math.sqrt(3), 3 / math.sqrt(3)], rtol=1e-12)


@every_estimator
def test_where_nothing_counts_every_advantage_is_finite(cls):
    rollout = rows([1, 2, 3], [5, 10, 15])
    nothing = RolloutRewards(rollout.rewards, rollout.terminated, rollout.truncated, valid=np.zeros((3, 2), np.bool_))
    assert np.isfinite(cls().compute(nothing).advantages).all()


@every_estimator
def test_cohorts_of_one_give_0_and_one_warning(cls, caplog):
    rollout = rows([1, 2, 3], [5, 10, 15])
    lonely = RolloutRewards(rollout.rewards, rollout.terminated, rollout.truncated, group_ids=np.array([0, 1]))
    estimator = cls()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert not estimator.compute(lonely).advantages.any()
    assert [record.message for record in caplog.records if "no cohort has two episodes" in record.message] == [
        caplog.records[0].message
    ]
    caplog.clear()
    cls().compute(rollout)
    assert not caplog.records
