import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.contracts import ReplayBufferField
from alphaswarm_rl.core.errors import ComponentError
from tests.replay_buffers.steps import FIELDS, buffer, contents, steps


def nstep(n_steps, gamma=0.99, capacity=10_000, **kwargs):
    return buffer(
        "nstep_info",
        n_steps=n_steps,
        gamma=gamma,
        storage={"class": "general", "kwargs": {"capacity": capacity}},
        **kwargs,
    )


def brute_force(batch, n_steps, gamma):
    """Every complete window, found by looking ahead from each step; sorted by (step, environment)."""
    ended = batch["terminated"] | batch["truncated"]
    count, num_envs = ended.shape
    windows = []
    for t in range(count):
        for e in range(num_envs):
            total, used = 0.0, 0
            while used < n_steps and t + used < count:
                total += gamma**used * batch["reward"][t + used, e]
                used += 1
                if ended[t + used - 1, e]:
                    break
            last = t + used - 1
            if used == n_steps or ended[last, e]:
                first = {name: batch[name][t, e] for name in ("observation", "info", "action")}
                names = ("next_observation", "next_info", "terminated", "truncated")
                windows.append({**first, **{name: batch[name][last, e] for name in names}})
                windows[-1].update(reward=total, discount=gamma**used)
    return windows


@given(
    count=st.integers(1, 25),
    num_envs=st.integers(1, 4),
    n_steps=st.integers(1, 6),
    ends=st.sampled_from([0.0, 0.1, 0.4, 1.0]),
    seed=st.integers(0, 100),
    cuts=st.integers(1, 5),
)
def test_windows_are_those_of_a_brute_force_search_and_never_cross_an_episode(
    count, num_envs, n_steps, ends, seed, cuts
):
    """Whatever the pieces in which steps are handed in."""
    batch = steps(count, num_envs=num_envs, ends=ends, seed=seed)
    found = nstep(n_steps, num_envs=num_envs)
    for piece in np.array_split(np.arange(count), cuts):
        if len(piece):
            found.append({name: array[piece] for name, array in batch.items()})
    expected = brute_force(batch, n_steps, 0.99)
    held = contents(found)
    assert len(found) == len(expected)
    for name in held:
        values = np.array([window[name] for window in expected]).reshape(held[name].shape)
        np.testing.assert_allclose(held[name], values, rtol=1e-12, atol=1e-12)
        if name not in ("reward", "discount"):
            assert np.array_equal(held[name], values)


def test_worked_example_of_an_episode_that_terminates():
    """Rewards 1 2 4, gamma 1/2, windows of up to 2: 1 + 2/2 = 2, 2 + 4/2 = 4, and 4 alone at the end."""
    batch = steps(3, num_envs=1)
    batch["reward"][:, 0] = [1, 2, 4]
    batch["terminated"][2] = True
    found = nstep(2, gamma=0.5, num_envs=1)
    found.append(batch)
    held = contents(found)
    assert held["reward"].tolist() == [2, 4, 4]
    assert held["discount"].tolist() == [0.25, 0.25, 0.5]
    assert held["terminated"].tolist() == [False, True, True]
    assert held["observation"][:, 0].tolist() == [0, 1, 2]
    assert held["next_observation"][:, 0].tolist() == [2, 3, 3]


def test_an_end_completes_every_open_window_at_once():
    """An episode of three steps with windows of ten: three windows, all of the last step's end."""
    batch = steps(3, num_envs=2)
    batch["truncated"][2, 0] = True
    found = nstep(10)
    found.append(batch)
    held = contents(found)
    assert held["observation"].tolist() == [[0, 0], [1, 0], [2, 0]]
    assert held["next_observation"][:, 0].tolist() == [3, 3, 3]
    np.testing.assert_allclose(held["discount"], 0.99 ** np.array([3, 2, 1]), rtol=1e-14)


def test_a_truncated_window_is_closed_but_not_over():
    """Its value goes on in the last observation of its episode; done is the last step's, not the first's."""
    batch = steps(4, num_envs=1)
    batch["truncated"][1] = True
    found = nstep(3, num_envs=1)
    found.append(batch)
    held = contents(found)
    assert held["observation"][:, 0].tolist() == [0, 1]
    assert held["next_observation"][:, 0].tolist() == [2, 2]
    assert held["truncated"].tolist() == [True, True]
    assert not held["terminated"].any()
    assert (held["discount"] > 0).all()


def test_infos_keep_their_numbers():
    """Kept as bytes they would lose signs and fractions."""
    batch = steps(1)
    batch["info"][0, 0] = [-1.5, 300.25, 1e-7]
    batch["next_info"][0, 0] = [-0.5, -300.0, 2.5e8]
    found = nstep(1)
    found.append(batch)
    assert np.array_equal(contents(found)["info"][0], np.array([-1.5, 300.25, 1e-7], np.float32))
    assert np.array_equal(contents(found)["next_info"][0], np.array([-0.5, -300.0, 2.5e8], np.float32))


def test_windows_that_are_broken_off_are_dropped():
    """After a reset from outside the open windows would go on in other episodes."""
    found = nstep(3, num_envs=1)
    found.append(steps(2, num_envs=1))
    found.break_off()
    found.append(steps(3, num_envs=1, first=100))
    assert contents(found)["observation"][:, 0].tolist() == [100]


def test_windows_are_drawn_by_priority_where_their_storage_does():
    storage = {"class": "prioritized", "kwargs": {"capacity": 50}}
    found = buffer("nstep_info", n_steps=2, storage=storage)
    found.append(steps(10))
    assert found.prioritized
    assert len(found) == 18
    found.update_priorities(np.arange(18), np.full(18, 0.05))
    found.update_priorities(np.array([5]), np.array([5.0]))
    sample = found.sample(64)
    assert (sample.indices == 5).mean() > 0.4
    assert (sample.weights[sample.indices == 5] < 0.5).all()
    assert set(sample.fields) == {*FIELDS, "discount"}


def test_what_windows_need_is_asked_for():
    with pytest.raises(ComponentError, match="'truncated'"):
        nstep(2, fields={name: field for name, field in FIELDS.items() if name != "truncated"})
    with pytest.raises(ComponentError, match="'discount'"):
        nstep(2, fields={**FIELDS, "discount": ReplayBufferField()})
    with pytest.raises(ComponentError, match="cannot be kept by another"):
        buffer("nstep_info", storage={"class": "nstep_info"})
    with pytest.raises(ComponentError, match="Use append"):
        nstep(2).extend({})
