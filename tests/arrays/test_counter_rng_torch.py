"""The torch form of the counter generator gives the same numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl.arrays import counter_rng
from alphaswarm_rl.arrays.counter_rng_torch import block, seed_words, uniform

_WORD = 2**32 - 1
words = st.integers(0, _WORD)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**64 - 1), st.lists(st.tuples(words, words), min_size=1, max_size=5), words, st.integers(1, 5))
def test_numbers_equal_numpys_bit_for_bit(seed, keys, stream, count):
    keys = np.array(keys, np.int64)
    expected = counter_rng.uniform(seed, keys, stream, count)
    first, second = torch.from_numpy(keys).unbind(1)
    found = uniform(seed_words(seed), first, second, stream, count)
    assert found.dtype == torch.float64
    np.testing.assert_array_equal(found.numpy(), expected)


def test_one_number_may_stand_for_all_second_keys():
    first = torch.arange(4)
    assert torch.equal(
        uniform(seed_words(7), first, 0, 0, 3), uniform(seed_words(7), first, torch.zeros_like(first), 0, 3)
    )


def test_a_block_is_two_of_the_numbers_and_may_differ_from_key_to_key():
    first, second, numbers = torch.arange(4), torch.tensor([5, 6, 7, 8]), torch.tensor([3, 0, 1, 2])
    expected = uniform(seed_words(7), first, second, 2, 8)
    found = block(seed_words(7), first, second, numbers, 2)
    for half in (0, 1):
        assert torch.equal(found[half], expected.gather(1, (2 * numbers + half)[:, None])[:, 0])


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_of_more_than_64_bits_is_refused(seed):
    with pytest.raises(ValueError, match="out of range"):
        seed_words(seed)
