"""Spaces as JSON come back as they were, and nothing else is taken for one."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.inference.spaces import MOST_NESTED, MOST_NUMBERS, space_from_json, space_to_json

SPACES = [
    spaces.Box(-np.inf, np.inf, (7,), np.float32),
    spaces.Box(np.array([-1.0, 0.1, -np.inf]), np.array([1.0, 0.1, np.inf]), dtype=np.float64),
    spaces.Box(0, 255, (4, 4, 3), np.uint8),
    spaces.Box(np.float32(0.1), np.float32(0.3), (), np.float32),
    spaces.Discrete(3),
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 3], start=[1, 0]),
    spaces.MultiDiscrete([[2, 3], [4, 5]], dtype=np.int32),
    spaces.MultiBinary((2, 2)),
    spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"x": spaces.Box(0.0, 1.0, (2,))})}),
    spaces.Tuple([spaces.Discrete(2), spaces.Box(0.0, 1.0, (2,))]),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_a_space_comes_back_as_it_was(space):
    text = json.dumps(space_to_json(space), allow_nan=False, sort_keys=True)
    back = space_from_json(json.loads(text))
    assert back == space
    assert type(back) is type(space)
    assert str(back) == str(space)


def test_a_bound_is_one_number_where_it_is_the_same_everywhere():
    assert space_to_json(SPACES[0]) == {
        "type": "Box",
        "shape": [7],
        "dtype": "float32",
        "low": "-inf",
        "high": "inf",
    }


def test_a_space_that_no_agent_acts_in_has_no_json():
    with pytest.raises(ValueError, match="Text"):
        space_to_json(spaces.Text(3))


BOX = {"type": "Box", "shape": [2], "dtype": "float32", "low": 0.0, "high": 1.0}


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        {"type": "Graph", "spaces": []},
        {**BOX, "shape": "2"},
        {**BOX, "shape": [2.0]},
        {**BOX, "shape": [-1]},
        {**BOX, "shape": [MOST_NUMBERS, 2]},
        {**BOX, "dtype": "no type"},
        {**BOX, "low": [0.0]},
        {**BOX, "low": "much"},
        {"type": "Discrete", "n": 0, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": True, "start": 0, "dtype": "int64"},
        {"type": "Discrete", "n": 2, "start": 0, "dtype": "float64"},
        {"type": "MultiDiscrete", "nvec": "x", "start": [0], "dtype": "int64"},
        {"type": "Dict", "spaces": {"a": BOX}},
        {"type": "Tuple", "spaces": [None]},
    ],
)
def test_anything_else_is_refused(data):
    with pytest.raises(ValueError):
        space_from_json(data)


def test_spaces_inside_each_other_have_an_end():
    data = BOX
    for _ in range(MOST_NESTED + 1):
        data = {"type": "Tuple", "spaces": [data]}
    with pytest.raises(ValueError, match="inside each other"):
        space_from_json(data)
