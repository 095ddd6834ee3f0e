"""Which episodes are recorded: all that begin before a transition, one in many from it on."""

import numpy as np

from alphaswarm_rl.recording.numbering import Numbering, Sampling

#: So many that none is kept by its hash.
NEVER = 2**60


def numbering(first, *, vector_steps=0, steps=(0, 0)):
    sampling = Sampling(first, NEVER)
    return Numbering(np.zeros(2), np.array(steps), stride=1, sampling=sampling, vector_steps=vector_steps)


def test_an_episode_that_begins_at_the_first_transition_is_sampled_and_one_before_is_kept():
    """Two environments: vector step s begins at transition 2 s."""
    rows = numbering(first=4).take(np.ones((2, 4), np.bool_))
    assert rows.kept.tolist() == [[True, True, False, False]] * 2
    assert rows.episodes.tolist() == [[0, 1, 2, 3]] * 2


def test_an_episode_is_kept_whole_or_not_at_all():
    ended = np.array([[False, False, True, False], [False, True, False, False]])
    rows = numbering(first=3).take(ended)
    assert rows.kept.tolist() == [[True, True, True, False], [True, True, False, False]]
    assert rows.steps.tolist() == [[0, 1, 2, 0], [0, 1, 0, 1]]


def test_episodes_under_way_are_judged_by_where_they_began():
    """After three vector steps the first environment's episode began at transition 2, the second's at 4."""
    rows = numbering(first=4, vector_steps=3, steps=(2, 1)).take(np.zeros((2, 1), np.bool_))
    assert rows.kept.tolist() == [[True], [False]]
