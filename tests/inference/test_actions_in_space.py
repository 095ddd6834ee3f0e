"""Answers that are no actions of the space are refused; a bound may be missed by rounding, which grows with it."""

import numpy as np
import pytest
from gymnasium import spaces

from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.inference.policy import refuse_other_than_actions


def accepted(actions, space):
    try:
        refuse_other_than_actions("policy", np.array(actions), space)
    except CheckpointError:
        return False
    return True


@pytest.mark.parametrize("bound", [0.0, 1.0, 1000.0])
def test_a_bound_is_missed_by_rounding_alone(bound):
    space, room = spaces.Box(-bound, bound, (2,), np.float64), 1e-5 * (1 + bound)
    for side in (-1, 1):
        assert accepted([[0.0, side * (bound + 0.9 * room)]], space)
        assert not accepted([[0.0, side * (bound + 1.1 * room)]], space)


def test_one_wrong_number_among_many_is_refused():
    space = spaces.Box(-1.0, 1.0, (2,), np.float64)
    assert accepted([[0.0, 1.0], [-1.0, 0.5]], space)
    assert not accepted([[0.0, 1.0], [-2.0, 0.5]], space)
    assert not accepted([[0.0, 1.0], [np.nan, 0.5]], space)
    assert not accepted([[0.0], [0.5]], space)


def test_discrete_actions_begin_at_their_start_and_end_before_the_next():
    space = spaces.Discrete(3, start=-1)
    assert [action for action in range(-3, 5) if accepted([action], space)] == [-1, 0, 1]


def test_every_answer_must_be_in_any_other_space():
    space = spaces.MultiDiscrete([2, 3])
    assert accepted([[1, 2], [0, 0]], space)
    assert not accepted([[1, 2], [0, 3]], space)
