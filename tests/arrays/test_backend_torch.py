"""TorchArrays and TorchBackend do what NumPy's forms do."""

import numpy as np
import pytest
import torch

from alphaswarm_rl.arrays.backend import NUMPY_ARRAYS
from alphaswarm_rl.arrays.backend_numpy import NUMPY
from alphaswarm_rl.arrays.backend_torch import TorchArrays, TorchBackend, float64_by_default

XP = TorchArrays("cpu")
FLOATS = np.array([[-1.5, 0.25, 3.0], [2.5, -0.75, 0.5]])
WHOLES = np.array([[1, 2, 3], [4, 6, 5]])
FLAGS = FLOATS > 0

CALLS = {
    "zeros": lambda xp, a: xp.zeros((2, 3)),
    "ones of whole numbers": lambda xp, a: xp.ones(4, dtype=xp.int64),
    "full": lambda xp, a: xp.full(3, 1.5),
    "full of flags": lambda xp, a: xp.full((2, 2), True, dtype=xp.bool_),
    "zeros_like": lambda xp, a: xp.zeros_like(a(WHOLES)),
    "arange": lambda xp, a: xp.arange(5),
    "where with numbers": lambda xp, a: xp.where(a(FLAGS), 1.0, 0.0),
    "where with a whole array": lambda xp, a: xp.where(a(FLAGS), a(WHOLES), 0.5),
    "a quotient of whole numbers": lambda xp, a: a(WHOLES) / a(WHOLES[::-1].copy()),
    "whole numbers times a number": lambda xp, a: a(WHOLES) * 0.1,
    "clip": lambda xp, a: xp.clip(a(FLOATS), -1.0, 1.0),
    "clip by an array below": lambda xp, a: xp.clip(a(FLOATS), a(-np.abs(FLOATS) / 2), 1.0),
    "clip by an array above": lambda xp, a: xp.clip(a(FLOATS), 0.0, a(np.abs(FLOATS) / 2)),
    "maximum": lambda xp, a: xp.maximum(a(FLOATS), a(-FLOATS)),
    "minimum": lambda xp, a: xp.minimum(a(FLOATS), a(-FLOATS)),
    "sum": lambda xp, a: xp.sum(a(FLOATS), axis=-1),
    "sum along the last axis unless told": lambda xp, a: xp.sum(a(FLOATS)),
    "sum of flags": lambda xp, a: xp.sum(a(FLAGS), axis=-1),
    "mean": lambda xp, a: xp.mean(a(FLOATS), axis=-1),
    "mean of flags": lambda xp, a: xp.mean(a(FLAGS), axis=-1),
    "cumsum": lambda xp, a: xp.cumsum(a(FLOATS), axis=-1),
    "any": lambda xp, a: xp.any(a(FLAGS), axis=-1),
    "all": lambda xp, a: xp.all(a(FLAGS), axis=-1),
    "stack": lambda xp, a: xp.stack([a(FLOATS), a(FLOATS)], axis=-1),
    "concatenate": lambda xp, a: xp.concatenate([a(FLOATS), a(FLOATS)], axis=-1),
    **{
        name: lambda xp, a, name=name: getattr(xp, name)(a(np.abs(FLOATS) + 0.1))
        for name in ("abs", "sqrt", "log", "log1p", "exp", "expm1", "sign", "floor", "trunc", "isfinite", "isnan")
    },
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_functions_mean_what_numpys_do(call):
    expected = np.asarray(call(NUMPY_ARRAYS, lambda array: array))
    with float64_by_default():
        found = call(XP, torch.from_numpy)
    assert found.numpy().dtype == expected.dtype
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-15)


def test_the_default_type_is_put_back_even_after_an_error():
    with pytest.raises(RuntimeError, match="on purpose"), float64_by_default():
        raise RuntimeError("on purpose")
    assert torch.get_default_dtype() == torch.float32


def test_tables_are_read_as_on_numpy():
    rng = np.random.default_rng(0)
    table, bar, start = rng.uniform(1, 2, (9, 4)), np.array([3, 8, 5]), np.array([1, 3, 3])
    table[1, 2] = 0.0
    positions, value = rng.normal(size=(3, 4)), np.array([10.0, 0.0, 5.0])
    backend = TorchBackend("cpu")
    put = backend.put
    calls = {
        "take": ((table, bar), 4),
        "take_columns": ((table, bar, np.array([2, 0])), 2),
        "take_growth": ((table, bar, start), 4),
        "take_weights": ((positions, table, bar, value), 4),
    }
    for name, (arguments, width) in calls.items():
        expected, found = np.empty((3, width), np.float32), torch.empty((3, width), dtype=torch.float32)
        getattr(NUMPY, name)(*arguments, expected)
        getattr(backend, name)(*(put(array) for array in arguments), found)
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6, err_msg=name)
    cash = np.array([1.0, 2.0, -3.0])
    expected, found = np.empty((3, 5), np.float32), torch.empty((3, 5), dtype=torch.float32)
    NUMPY.take_weights(positions, table, bar, value, expected, cash)
    backend.take_weights(*(put(array) for array in (positions, table, bar, value)), found, put(cash))
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(expected[:, 0], [0.1, 0.0, -0.6], rtol=1e-6)
    expected, found = np.empty((3, 12), np.float32), torch.empty((3, 12), dtype=torch.float32)
    NUMPY.take_window(table, bar, 3, expected)
    backend.take_window(put(table), put(bar), 3, found)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_putting_copies_so_that_a_read_only_panel_stays_as_it_is():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = TorchBackend("cpu").put(array)
    tensor += 1
    np.testing.assert_array_equal(array, [0.0, 1.0, 2.0])
