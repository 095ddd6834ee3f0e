"""Actions of n accounts that are not of the space are refused, with the row of the first."""

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiDiscrete

from alphaswarm_rl.core.errors import EnvError
from alphaswarm_rl.market.decision_step_numpy import ActionCheck

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in reduce:RuntimeWarning")
NUMBERS = ActionCheck(Box(-1.0, 1.0, (2,), np.float32), 3)
ONE_OF_FOUR = ActionCheck(Discrete(4), 3)
SEVERAL = ActionCheck(MultiDiscrete([2, 3]), 2)


@pytest.mark.parametrize(
    ("check", "actions"),
    [
        (NUMBERS, [[0.0, 0.5], [-1.0, 1.0], [2.0, -3.0]]),
        (NUMBERS, [[0, 1], [1, 0], [0, 0]]),
        (NUMBERS, np.full((3, 2), 1e308)),
        (ONE_OF_FOUR, [0, 1, 3]),
        (SEVERAL, [[0, 0], [1, 2]]),
    ],
    ids=["numbers", "whole numbers", "numbers whose sum is not finite", "discrete", "several discrete"],
)
def test_sound_actions_are_given_back_as_they_are(check, actions):
    assert check.checked(np.array(actions)).tolist() == np.array(actions).tolist()


@pytest.mark.parametrize(
    ("check", "actions"),
    [
        (NUMBERS, np.zeros((2, 2))),
        (NUMBERS, np.zeros(3)),
        (NUMBERS, np.zeros((3, 2), bool)),
        (ONE_OF_FOUR, np.zeros(3)),
        (ONE_OF_FOUR, np.zeros((3, 1), int)),
        (SEVERAL, np.zeros(2, int)),
    ],
    ids=["rows", "columns", "type", "numbers for discrete", "columns for discrete", "no columns"],
)
def test_another_shape_or_type_is_refused(check, actions):
    with pytest.raises(EnvError, match="this environment takes"):
        check.checked(actions)


@pytest.mark.parametrize("bad", [[np.nan, 0.0], [np.inf, 0.0], [np.inf, -np.inf]])
def test_a_number_that_is_not_finite_is_refused_with_the_row_it_stands_in(bad):
    with pytest.raises(EnvError, match="the action of environment 1: it is not a finite number"):
        NUMBERS.checked(np.array([[0.0, 0.0], bad, [np.nan, 0.0]]))


@pytest.mark.parametrize("bad", [-1, 4])
def test_a_discrete_action_that_is_none_is_refused_with_the_row_it_stands_in(bad):
    with pytest.raises(EnvError, match=f"action {bad} of environment 2"):
        ONE_OF_FOUR.checked(np.array([0, 3, bad]))


@pytest.mark.parametrize("bad", [[2, 0], [0, 3], [-1, 0]])
def test_each_of_several_discrete_actions_has_a_range_of_its_own(bad):
    with pytest.raises(EnvError, match="of environment 1"):
        SEVERAL.checked(np.array([[1, 2], bad]))
