"""The differential ratios."""

import numpy as np
import pytest

from alphaswarm_rl.rewards.ratios import DifferentialDownside, DifferentialSharpe
from tests.rewards.episodes import Episode, made

RETURNS = (0.01, -0.02, 0.015, 0.005)


def sharpe(eta=0.1, mean=0.001, second=2e-4, **kwargs):
    return Episode(made(DifferentialSharpe, eta=eta, mean=mean, second_moment=second, warmup_steps=0, **kwargs))


def downside(eta=0.1, mean=0.001, squared=1e-4, **kwargs):
    return Episode(made(DifferentialDownside, eta=eta, mean=mean, squared_loss=squared, warmup_steps=0, **kwargs))


def test_differential_sharpe_of_a_worked_path():
    episode = sharpe()
    assert episode.returns(*RETURNS) == pytest.approx([0.65901017, -1.71357208, 1.05389937, 0.29880085], abs=5e-9)
    assert episode.part.own["mean"][0] == pytest.approx(0.0016151, abs=1e-12)
    assert episode.part.own["second_moment"][0] == pytest.approx(1.9366e-4, abs=5e-9)


def test_differential_downside_of_a_worked_path():
    episode = downside()
    assert episode.returns(*RETURNS) == pytest.approx([0.95, -2.6533852, 1.37681818, 0.4197684], abs=5e-8)
    assert episode.part.own["squared_loss"][0] == pytest.approx(9.801e-5, abs=1e-12)


@pytest.mark.parametrize(("eta", "expected"), [(1e-2, 0.66116276), (1e-3, 0.65922332), (1e-4, 0.65903146)])
def test_it_is_the_limit_of_the_ratios_change_over_eta(eta, expected):
    episode = sharpe(eta)

    def ratio():
        mean, second = episode.part.own["mean"][0], episode.part.own["second_moment"][0]
        return mean / np.sqrt(second - mean**2)

    before = ratio()
    (reward,) = episode.returns(0.01)
    assert (ratio() - before) / eta == pytest.approx(expected, abs=5e-9)
    assert reward == pytest.approx(expected, abs=eta)


@pytest.mark.parametrize("seed", range(5))
def test_both_are_the_numeric_derivative_of_their_ratio(seed):
    rng = np.random.default_rng(seed)
    mean, gained, eta = rng.normal(0, 0.01), rng.normal(0, 0.02), 1e-7
    second, squared = mean**2 + rng.uniform(1e-4, 1e-3), rng.uniform(1e-4, 1e-3)

    def slope(of, *moved):
        return (of(*(old + eta * (new - old) for old, new in moved)) - of(*(old for old, _ in moved))) / eta

    moved = slope(lambda a, b: a / np.sqrt(b - a * a), (mean, gained), (second, gained**2))
    assert sharpe(mean=mean, second=second).returns(gained) == pytest.approx([moved], rel=1e-4, abs=1e-5)
    moved = slope(lambda a, v: a / np.sqrt(v), (mean, gained), (squared, min(gained, 0.0) ** 2))
    assert downside(mean=mean, squared=squared).returns(gained) == pytest.approx([moved], rel=1e-4, abs=1e-5)


def test_differential_downside_is_continuous_where_losses_begin():
    above, below = downside().returns(1e-9), downside().returns(-1e-9)
    assert above == pytest.approx(below, abs=1e-6)


def test_a_target_is_taken_off_every_return():
    assert downside(target=0.002).returns(0.012) == pytest.approx(downside().returns(0.01))


def test_before_the_first_loss_the_downside_ratio_is_0_but_learns():
    episode = downside(squared=0.0, limit=1e6)
    assert episode.returns(0.01, 0.02, -0.01)[:3] == [0.0, 0.0, 0.0]
    assert episode.returns(0.01)[0] != 0.0


def test_without_variance_the_sharpe_ratio_is_0_but_learns():
    episode = sharpe(mean=0.0, second=0.0)
    assert episode.returns(0.0, 0.01) == [0.0, 0.0]
    assert episode.part.own["mean"][0] == pytest.approx(0.001)


@pytest.mark.parametrize("cls", [DifferentialSharpe, DifferentialDownside])
def test_with_defaults_the_first_steps_do_not_explode(cls):
    returns = np.random.default_rng(0).normal(0, 0.01, 200)
    rewards = np.array(Episode(cls()).returns(*returns))
    assert not rewards[:20].any()
    assert np.abs(rewards[20:]).max() < 8.0
    assert np.abs(rewards[20:]).mean() > 0.2


def test_warm_up_averages_are_plain_means():
    episode = Episode(made(DifferentialSharpe, warmup_steps=4, mean=5.0))
    episode.returns(*RETURNS)
    assert episode.part.own["mean"][0] == pytest.approx(np.mean(RETURNS))


@pytest.mark.parametrize("cls", [DifferentialSharpe, DifferentialDownside])
def test_a_tiny_first_loss_cannot_make_a_huge_reward(cls):
    rewards = Episode(made(cls, warmup_steps=0, limit=3.0)).returns(-1e-4, -1e-4, 0.05, -0.05)
    assert max(map(abs, rewards)) <= 3.0
