"""gym-anytrading's environments, by dates."""

from __future__ import annotations

import gymnasium
import numpy as np
import pandas
import pytest
from gym_anytrading.datasets import FOREX_EURUSD_1H_ASK, STOCKS_GOOGL

from alphaswarm_rl.core.contracts import EnvRequest, Window
from alphaswarm_rl.core.errors import EnvError, SpecError

from .contract import check_vector_env
from .toys import build, component

CLOSES = STOCKS_GOOGL["Close"].to_numpy(np.float32)
DATES = STOCKS_GOOGL.index


def in_window(env_id, start=None, end=None, **kwargs):
    return component(env_id, kwargs=kwargs).build(EnvRequest(num_envs=2, seed=0, window=Window(start, end)))


def test_the_contract():
    def short(request):
        window = Window("2010-01-01", "2010-03-01")
        return component("stocks-v0").build(EnvRequest(**{**vars(request), "window": window}))

    check_vector_env(short)


@pytest.mark.parametrize("env_id", ["forex-v0", "stocks-v0"])
def test_without_a_window_it_is_the_registered_environment(env_id):
    ours, single = build(env_id), gymnasium.make(env_id)
    observation, _ = ours.reset()
    expected, _ = single.reset(seed=1)
    assert observation.shape == (2, expected.size)
    np.testing.assert_array_equal(observation[0], expected.reshape(-1))
    rng = np.random.default_rng(0)
    for action in rng.integers(0, 2, 300):
        observation, rewards, _, _, infos = ours.step(np.array([action, 0]))
        expected, reward, _, _, info = single.step(action)
        np.testing.assert_array_equal(observation[0], expected.reshape(-1))
        assert rewards[0] == reward
        assert infos["env_infos"][0] == info


def test_a_window_begins_and_ends_where_it_says():
    env = in_window("stocks-v0", "2012-01-01", "2012-03-01")
    first = DATES.searchsorted(pandas.Timestamp("2012-01-01"))
    end = DATES.searchsorted(pandas.Timestamp("2012-03-01"))
    observation, _ = env.reset()
    shown = observation[0].reshape(30, 2)[:, 0]
    np.testing.assert_array_equal(shown, CLOSES[first - 29 : first + 1])
    steps = 0
    truncated = np.zeros(2, bool)
    while not truncated[0]:
        _, _, _, truncated, infos = env.step(np.zeros(2, int))
        steps += 1
    assert steps == end - first - 1
    np.testing.assert_array_equal(infos["final_obs"][0].reshape(30, 2)[:, 0], CLOSES[end - 30 : end])


def test_forex_dates_are_day_month_year():
    env = in_window("forex-v0", "2017-02-01", "2017-02-03")
    closes = FOREX_EURUSD_1H_ASK["Close"].to_numpy(np.float32)
    first = FOREX_EURUSD_1H_ASK.index.get_loc("01.02.2017 00:00:00.000")
    observation, _ = env.reset()
    assert observation[0].reshape(24, 2)[-1, 0] == closes[first]
    bounds = env.envs[0].unwrapped.frame_bound
    assert FOREX_EURUSD_1H_ASK.index[bounds[1]] == "03.02.2017 00:00:00.000"


def test_bars_before_the_frame_has_enough_are_warm_up():
    env = in_window("stocks-v0", "2009-05-22", "2009-12-31")
    assert env.envs[0].unwrapped.frame_bound[0] == 30


def test_a_moment_with_a_zone_is_read_in_utc():
    plain, zoned = in_window("forex-v0", "2017-02-01T05:00:00"), in_window("forex-v0", "2017-02-01T07:00:00+02:00")
    assert plain.envs[0].unwrapped.frame_bound == zoned.envs[0].unwrapped.frame_bound


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2019-01-01", None),
        (None, "2009-01-01"),
        ("2012-01-03", "2012-01-04"),
        (None, "2009-06-01"),
    ],
)
def test_a_window_without_bars_names_the_dates_there_are(start, end):
    with pytest.raises(EnvError, match=r"2009-05-22.*2018-08-29"):
        in_window("stocks-v0", start, end)


def test_two_bars_are_enough_for_an_episode_of_one_step():
    env = in_window("stocks-v0", "2012-01-03", "2012-01-05")
    env.reset()
    assert env.step(np.zeros(2, int))[3].tolist() == [True, True]


def test_a_date_that_is_none_is_an_error():
    with pytest.raises(SpecError, match="ISO"):
        in_window("stocks-v0", "03.01.2012")


def test_kwargs_pass_through():
    env = build("stocks-v0", window_size=50)
    assert env.single_observation_space.shape == (100,)
    assert env.envs[0].unwrapped.frame_bound == (50, len(CLOSES))
    assert build("stocks-v0", frame_bound=[40, 90]).envs[0].unwrapped.frame_bound == (40, 90)
    assert build("forex-v0", unit_side="right").envs[0].unwrapped.unit_side == "right"


@pytest.mark.parametrize(
    "kwargs",
    [
        {"frame_bound": [10, 90]},
        {"frame_bound": [40, 99999]},
        {"frame_bound": [90, 40]},
        {"frame_bound": [40, 41]},
        {"frame_bound": "all"},
        {"window_size": 0},
        {"window_size": 5000},
        {"window_size": 2.5},
    ],
)
def test_bounds_outside_the_bars_are_refused(kwargs):
    with pytest.raises(EnvError, match="stocks: "):
        build("stocks-v0", **kwargs)


def test_bars_are_chosen_by_dates_or_by_index_not_by_both():
    with pytest.raises(EnvError, match="Leave out one"):
        in_window("stocks-v0", "2012-01-01", frame_bound=[40, 90])


def test_the_fingerprint_is_that_of_the_bars_shown():
    stocks, forex = component("stocks-v0"), component("forex-v0")
    window = Window("2012-01-01", "2012-03-01")
    prints = [
        stocks.data_fingerprint(window),
        stocks.data_fingerprint(Window("2012-01-01", "2012-03-02")),
        stocks.data_fingerprint(Window()),
        component("stocks-v0", kwargs={"window_size": 20}).data_fingerprint(window),
        forex.data_fingerprint(Window()),
    ]
    assert len(set(prints)) == len(prints)
    assert all(len(text) == 64 for text in prints)
    # The last day of 2011 and the first two of 2012 are no trading days.
    assert stocks.data_fingerprint(Window("2012-01-02", "2012-03-01T00:00:00")) == prints[0]


def test_in_sample_is_acting_on_a_common_bar():
    stocks = component("stocks-v0")
    assert stocks.slots() == {"window"}
    first, second = Window("2012-01-01", "2012-06-01"), Window("2012-06-01", "2013-01-01")
    assert stocks.in_sample(second, (first,)) is False
    assert stocks.in_sample(second, (first, Window("2012-12-01", "2014-01-01"))) is True
    assert stocks.in_sample(Window(), (first,)) is True
    assert stocks.in_sample(first, ()) is False
