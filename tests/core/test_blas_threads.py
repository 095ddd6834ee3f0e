"""Several may ask for a number of threads at once."""

from __future__ import annotations

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from alphaswarm_rl.core.blas_threads import Threads, blas_threads


@pytest.fixture
def counted() -> tuple[list[int], Threads]:
    count = [7]
    return count, Threads(lambda: count[0], lambda number: count.__setitem__(0, number))


def test_it_is_put_back(counted: tuple[list[int], Threads]) -> None:
    count, threads = counted
    with threads.of(1):
        assert count == [1]
        with threads.of(4):
            assert count == [4]
        assert count == [1]
    assert count == [7]


def test_it_is_put_back_after_a_failure(counted: tuple[list[int], Threads]) -> None:
    count, threads = counted
    with pytest.raises(ValueError, match="mine"), threads.of(1):
        raise ValueError("mine")
    assert count == [7]


def test_who_is_done_first_leaves_it_to_the_others(counted: tuple[list[int], Threads]) -> None:
    count, threads = counted
    one, other = threads.of(1), threads.of(1)
    one.__enter__()
    other.__enter__()
    one.__exit__(None, None, None)
    assert count == [1]
    other.__exit__(None, None, None)
    assert count == [7]


def test_the_library_of_numpy_obeys() -> None:
    np.ones((2, 2)) @ np.ones((2, 2))

    def numbers() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    before = numbers()
    assert before
    with blas_threads(1):
        assert set(numbers()) == {1}
    assert numbers() == before
