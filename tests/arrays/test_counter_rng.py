"""The counter-based generator."""

from __future__ import annotations

import numpy as np
import pytest

from alphaswarm_rl.arrays.counter_rng import philox, uniform


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_known_answers_of_random123(counter, key, expected):
    words = philox(np.array(counter, np.uint32), key)
    assert words.dtype == np.uint32
    assert tuple(words.tolist()) == expected


def test_philox_works_on_any_leading_shape():
    rng = np.random.default_rng(0)
    counters = rng.integers(0, 2**32, (3, 5, 4), dtype=np.uint32)
    together = philox(counters, (7, 9))
    for index in np.ndindex(3, 5):
        np.testing.assert_array_equal(together[index], philox(counters[index], (7, 9)))


def test_a_number_is_made_of_the_words_the_docstring_names():
    seed = (5 << 32) | 11
    numbers = uniform(seed, np.array([[3, 4]]), stream=2, count=3)[0]
    first, second = (philox(np.array([3, 4, block, 2], np.uint32), (11, 5)).tolist() for block in (0, 1))
    pairs = [first[:2], first[2:], second[:2]]
    assert numbers.tolist() == [((a >> 5) * 2**26 + (b >> 6)) / 2**53 for a, b in pairs]


def test_a_key_gives_the_same_numbers_alone_or_in_company_and_however_many():
    keys = np.stack(np.meshgrid(np.arange(40), np.arange(5)), -1).reshape(-1, 2)
    together = uniform(1, keys, stream=0, count=5)
    for key, row in zip(keys, together, strict=True):
        np.testing.assert_array_equal(uniform(1, key[None], stream=0, count=5)[0], row)
        np.testing.assert_array_equal(uniform(1, key[None], stream=0, count=2)[0], row[:2])


def test_seed_key_and_stream_each_matter():
    key = np.array([[1, 2]])
    draws = [uniform(1, key, 0, 4), uniform(2, key, 0, 4), uniform(1, key[:, ::-1], 0, 4), uniform(1, key, 1, 4)]
    draws.append(uniform(1 + 2**32, key, 0, 4))
    assert len({draw.tobytes() for draw in draws}) == len(draws)


def test_the_numbers_are_uniform():
    numbers = uniform(0, np.stack([np.arange(50_000), np.zeros(50_000, int)], -1), 0, 4)
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=100, range=(0, 1))
    # Chi-square with 99 degrees of freedom: 99 +- 14.
    expected = numbers.size / 100
    assert 50 < ((counts - expected) ** 2 / expected).sum() < 160
    assert np.abs(np.corrcoef(numbers.T) - np.eye(4)).max() < 0.02


@pytest.mark.parametrize(
    ("seed", "keys", "stream"),
    [(-1, [[0, 0]], 0), (2**64, [[0, 0]], 0), (0, [[0, 2**32]], 0), (0, [[-1, 0]], 0), (0, [[0, 0]], 2**32)],
)
def test_what_does_not_fit_is_refused(seed, keys, stream):
    with pytest.raises(ValueError, match="out of range"):
        uniform(seed, np.array(keys), stream, 1)


def test_nothing_asked_is_nothing_given():
    assert uniform(0, np.empty((0, 2), int), 0, 3).shape == (0, 3)
    assert uniform(0, np.array([[1, 1]]), 0, 0).shape == (1, 0)
