"""The policies that learn nothing."""

from __future__ import annotations

import json

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.core.contracts import PolicyRequest, State
from alphaswarm_rl.core.errors import CheckpointError, ComponentError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.policies.runners import batch_size

OBSERVATION = spaces.Box(0, 1, (2,))
SPACES = [
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 5]),
    spaces.MultiBinary(3),
    spaces.Box(-1, 3, (2,), np.float32),
    spaces.Box(np.array([0, 5]), np.array([1, 9]), dtype=np.int64),
    spaces.Box(-1, 1, (2, 2), np.float64),
]


def build(name, space, seed=0, **kwargs):
    policy = build_from_config({"class": name, "kwargs": kwargs}, kind="policy")
    return policy.build(PolicyRequest(OBSERVATION, space, 4, seed))


def act(runner, n=4):
    return runner.act(np.zeros((n, 2)), deterministic=False)


def single(space, action):
    return action if space.shape else space.dtype.type(action)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_random_actions_cover_the_space(space):
    actions = act(build("random", space), 500)
    assert actions.dtype == space.dtype
    assert all(space.contains(single(space, action)) for action in actions)
    assert (actions.min(axis=0) != actions.max(axis=0)).all()
    if isinstance(space, spaces.Discrete):
        assert np.unique(actions).tolist() == list(range(space.start, space.start + space.n))
    elif np.issubdtype(space.dtype, np.integer) and isinstance(space, spaces.Box):
        assert actions.max(axis=0).tolist() == space.high.tolist()
    elif isinstance(space, spaces.Box):
        assert actions.mean(axis=0) == pytest.approx((space.low + space.high) / 2, abs=0.3)


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_random_goes_on_from_its_state(space):
    runner = build("random", space)
    act(runner)
    state = runner.get_state()
    expected = act(runner)
    other = build("random", space, seed=1)
    other.set_state(State(data=json.loads(json.dumps(state.data))))
    assert np.array_equal(act(other), expected)


def test_one_seed_gives_one_stream():
    first, second, other = (act(build("random", SPACES[4], seed)) for seed in (1, 1, 2))
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_random_refuses_what_it_cannot_draw_from():
    with pytest.raises(ComponentError, match="unbounded"):
        build("random", spaces.Box(-np.inf, 1, (2,)))
    with pytest.raises(ComponentError, match="cannot draw"):
        build("random", spaces.Tuple([SPACES[0]]))


def test_a_foreign_generator_state_is_refused():
    runner = build("random", SPACES[0])
    with pytest.raises(CheckpointError, match="MT19937"):
        runner.set_state(State(data={"generator": {"bit_generator": "MT19937"}}))
    with pytest.raises(CheckpointError, match="cannot be read"):
        runner.set_state(State(data={"generator": {"bit_generator": "PCG64"}}))


@pytest.mark.parametrize(
    ("space", "action", "expected"),
    [
        (SPACES[0], None, 0),
        (SPACES[0], 2, 2),
        (SPACES[0], 2.0, 2),
        (SPACES[1], None, -1),
        (SPACES[2], None, [0, 0]),
        (SPACES[2], [1, 4], [1, 4]),
        (SPACES[3], 1, [1, 1, 1]),
        (SPACES[4], None, [1, 1]),
        (SPACES[4], 0.5, [0.5, 0.5]),
        (SPACES[4], [0.5, -1], [0.5, -1]),
        (SPACES[6], [0, 0.5, 1, -1], [[0, 0.5], [1, -1]]),
    ],
)
def test_a_constant_action(space, action, expected):
    actions = act(build("constant", space, action=action))
    assert actions.dtype == space.dtype
    assert actions.tolist() == [expected] * 4
    assert all(space.contains(single(space, one)) for one in actions)


@pytest.mark.parametrize(
    ("space", "action", "why"),
    [
        (SPACES[0], 3, "outside"),
        (SPACES[0], -1, "outside"),
        (SPACES[0], 1.5, "outside"),
        (SPACES[2], [1, 5], "outside"),
        (SPACES[4], 4, "outside"),
        (SPACES[4], [1, 1, 1], "3 entries"),
        (SPACES[0], [1, 1], "2 entries"),
        (spaces.Box(-np.inf, np.inf, (2,)), None, "no middle"),
        (spaces.Tuple([SPACES[0]]), None, "does not know"),
    ],
)
def test_a_constant_action_outside_the_space_is_refused(space, action, why):
    with pytest.raises(ComponentError, match=why):
        build("constant", space, action=action)


def test_a_constant_has_no_state_and_hands_out_arrays_of_its_own():
    runner = build("constant", SPACES[4])
    act(runner)[:] = 9
    assert act(runner).max() == 1
    assert runner.get_state() == State()
    runner.set_state(State())


def test_the_size_of_a_batch():
    assert batch_size({"a": (np.zeros((5, 2)), 1)}) == 5
    assert batch_size(np.zeros(3)) == 3
