"""What holds for every replay buffer."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from tests.replay_buffers.steps import FIELDS, buffer, contents, steps, through_json

BUFFERS = {
    "general": ("general", {"capacity": 20}),
    "prioritized": ("prioritized", {"capacity": 20}),
    "nstep": ("nstep_info", {"n_steps": 3, "storage": {"class": "general", "kwargs": {"capacity": 20}}}),
    "nstep of one": ("nstep_info", {"n_steps": 1, "storage": {"class": "general", "kwargs": {"capacity": 20}}}),
    "nstep by priority": (
        "nstep_info",
        {"n_steps": 3, "storage": {"class": "prioritized", "kwargs": {"capacity": 20}}},
    ),
}
every_buffer = pytest.mark.parametrize("which", BUFFERS)
plain_buffer = pytest.mark.parametrize("which", ["general", "prioritized", "nstep of one"])


def make(which, **more):
    alias, kwargs = BUFFERS[which]
    return buffer(alias, **kwargs, **more)


@plain_buffer
def test_what_goes_in_comes_out_bit_for_bit(which):
    found, batch = make(which), steps(7, ends=0.3)
    found.append(batch)
    assert len(found) == 14
    held = contents(found)
    for name, array in batch.items():
        assert held[name].dtype == FIELDS[name].dtype
        assert np.array_equal(held[name], array.reshape(14, *array.shape[2:]))


@plain_buffer
@pytest.mark.parametrize("counts", [(12,), (9, 3), (1,) * 12, (3, 4, 5)])
def test_when_it_is_full_the_oldest_make_room(which, counts):
    found, done = make(which), 0
    for count in counts:
        found.append(steps(count, first=done))
        done += count
    assert len(found) == 20
    assert contents(found)["observation"].tolist() == [[t, e] for t in range(2, 12) for e in range(2)]


@plain_buffer
@pytest.mark.parametrize("before", [0, 3])
def test_of_a_batch_larger_than_the_capacity_the_tail_is_kept(which, before):
    found = make(which)
    found.append(steps(before, first=100)) if before else None
    found.append(steps(37))
    assert len(found) == 20
    assert contents(found)["observation"].tolist() == [[t, e] for t in range(27, 37) for e in range(2)]
    found.append(steps(1, first=37))
    assert contents(found)["observation"].tolist() == [[t, e] for t in range(28, 38) for e in range(2)]


@every_buffer
def test_samples_are_rows_that_are_there_and_belong_together(which):
    """Also while it is not full: an index is the same row for every field, of the same environment."""
    found, batch = make(which), steps(5, ends=0.5)
    found.append(batch)
    sample = found.sample(200)
    assert set(sample.indices.tolist()) <= set(range(len(found)))
    assert sample.weights.shape == (200,)
    for row in range(200):
        t, e = map(int, sample.fields["observation"][row])
        assert np.array_equal(sample.fields["info"][row], batch["info"][t, e])
        assert sample.fields["action"][row] == batch["action"][t, e]
        assert sample.fields["next_observation"][row][1] == e


@every_buffer
def test_a_sample_stays_as_it_is(which):
    found = make(which)
    found.append(steps(10))
    sample = found.sample(8)
    before = {name: array.copy() for name, array in sample.fields.items()}
    found.append(steps(10, first=10))
    assert all(np.array_equal(array, before[name]) for name, array in sample.fields.items())


@every_buffer
@pytest.mark.parametrize("done", [1, 4, 25])
def test_a_restored_buffer_goes_on_bit_for_bit(which, done):
    """Also with another seed, inside open windows, before and after the first round."""

    def go_on(found):
        drawn = []
        for t in range(done, done + 12):
            found.append(steps(1, first=t, ends=0.3))
            if len(found):
                sample = found.sample(6)
                found.update_priorities(sample.indices, sample.fields["reward"])
                drawn.append(sample)
        return drawn, found.get_state()

    straight = make(which)
    for t in range(done):
        straight.append(steps(1, first=t, ends=0.3))
        if len(straight):
            straight.update_priorities(straight.sample(4).indices, np.arange(4.0))
    saved = through_json(straight.get_state())
    restored = make(which, seed=99)
    restored.set_state(saved)
    assert len(restored) == len(straight)
    (one, end), (other, other_end) = go_on(straight), go_on(restored)
    for left, right in zip(one, other, strict=True):
        assert np.array_equal(left.indices, right.indices)
        assert np.array_equal(left.weights, right.weights)
        assert all(np.array_equal(left.fields[name], right.fields[name]) for name in left.fields)
    assert end.data == other_end.data
    assert end.arrays.keys() == other_end.arrays.keys()
    assert all(np.array_equal(array, other_end.arrays[name]) for name, array in end.arrays.items())


@every_buffer
def test_the_state_is_a_copy(which):
    found = make(which)
    found.append(steps(4))
    state = found.get_state()
    before = {name: array.copy() for name, array in state.arrays.items()}
    found.append(steps(20, first=4))
    assert all(np.array_equal(array, before[name]) for name, array in state.arrays.items())


@every_buffer
def test_clearing_forgets_everything(which):
    """Also that it was full, and where the next would go."""
    found, fresh = make(which), make(which)
    found.append(steps(37, ends=0.2))
    found.clear()
    assert len(found) == 0
    for each in (found, fresh):
        each.append(steps(6, first=50, ends=0.3, seed=1))
    one, other = found.get_state(), fresh.get_state()
    kept = [name for name in one.arrays if "ring/" in name or "priorities" in name]
    assert kept
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in kept)
    assert len(found) == len(fresh)


@every_buffer
def test_one_seed_draws_the_same_and_another_does_not(which):
    def drawn(seed):
        found = make(which, seed=seed)
        found.append(steps(10))
        return found.sample(50).fields["observation"].tolist()

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


@every_buffer
def test_sampling_from_an_empty_buffer_is_refused(which):
    with pytest.raises(ComponentError, match="empty"):
        make(which).sample(1)


@every_buffer
@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"reward": None}, "only one of"),
        ({"surprise": np.zeros((4, 2))}, "only one of"),
        ({"reward": np.zeros((4, 2, 1))}, "shape"),
        ({"reward": np.zeros((3, 2))}, "shape"),
        ({"observation": np.zeros((4, 3, 2))}, "shape"),
        ({"action": np.full((4, 2), 0.5)}, "float64"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused(which, change, why):
    """Actions above all: half a share kept as a whole number would be none."""
    batch = {name: array for name, array in {**steps(4), **change}.items() if array is not None}
    with pytest.raises(ComponentError, match=why):
        make(which).append(batch)


@every_buffer
def test_a_state_of_another_buffer_is_refused(which):
    found = make(which)
    found.append(steps(12, ends=0.3))
    larger = {"capacity": 30} if which in ("general", "prioritized") else None
    if larger:
        with pytest.raises(CheckpointError, match="30"):
            buffer(BUFFERS[which][0], **larger).set_state(found.get_state())
    wider = {**FIELDS, "info": FIELDS["observation"]}
    with pytest.raises(CheckpointError, match="info"):
        make(which, fields=wider).set_state(found.get_state())


def test_uniform_draws_are_uniform_over_steps_and_environments():
    found = buffer("general", capacity=20)
    found.append(steps(5))
    drawn = found.sample(20_000).indices
    counts = np.bincount(drawn, minlength=10)
    assert ((counts - 2000) ** 2 / 2000).sum() < 27.9  # chi-square of 9 degrees of freedom, one in a thousand


def test_a_capacity_is_rounded_down_to_whole_steps_and_has_room_for_one():
    assert buffer("general", num_envs=3, capacity=20).capacity == 18
    with pytest.raises(ComponentError, match="no room for one step of 8 environments"):
        buffer("general", num_envs=8, capacity=7)
