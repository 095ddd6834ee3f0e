"""Numba and torch do what the Book says."""

import numpy as np
import pytest
import torch
from hypothesis import find, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from alphaswarm_rl.market import kernels_torch
from alphaswarm_rl.market.costs import CostModel
from tests.market import numba_accounts
from tests.market.accounts import (
    START,
    UNIT_WAYS,
    WAYS,
    actions_for,
    run_books,
    run_numba,
    run_torch,
    torch_step,
    worlds,
)

SEEDS = st.integers(0, 2**32 - 1)
EVERY_WAY = (*WAYS, *UNIT_WAYS)
#: Ways of which the units are the Book's exactly.
WHOLE = ("whole shares", "orders in lots", "sized in lots")


def assert_same(found, expected, world, way):
    """To 1e-9 relative, and numbers near 0 to 1e-11 of the account; whole shares exactly."""
    tolerance = 1e-11 * START
    for name in ("cash", "cost", "equity", "carry"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-9, atol=tolerance, err_msg=name)
    np.testing.assert_allclose(found["turnover"], expected["turnover"], rtol=1e-9, atol=1e-11)
    np.testing.assert_array_equal(found["called"], expected["called"])
    for name in ("positions", "traded"):
        if way in WHOLE:
            np.testing.assert_array_equal(found[name], expected[name])
        else:
            value = np.nan_to_num(world.marks[:, None, :], nan=1.0)
            np.testing.assert_allclose(found[name] * value, expected[name] * value, rtol=1e-9, atol=tolerance)


@pytest.mark.parametrize("way", EVERY_WAY)
@examples(max_examples=120)
@given(world=worlds(), seed=SEEDS)
def test_numba_and_torch_equal_the_book(way, world, seed):
    actions = actions_for(world, way, count=3, seed=seed)
    expected = run_books(world, way, actions)
    assert_same(run_numba(world, way, actions), expected, world, way)
    assert_same(run_torch(world, way, actions), expected, world, way)


@pytest.mark.parametrize("run", [run_numba, run_torch])
@pytest.mark.parametrize("way", EVERY_WAY)
@examples(max_examples=10)
@given(world=worlds(), seed=SEEDS)
def test_an_account_does_not_depend_on_the_others(run, way, world, seed):
    # Account i trades asset i modulo their number; a multiple of it keeps the first one's asset.
    actions = actions_for(world, way, count=65, seed=seed)
    batch, alone = run(world, way, actions), run(world, way, actions[:, :1].copy())
    for name, array in alone.items():
        np.testing.assert_array_equal(array[:, 0], batch[name][:, 0], err_msg=name)


@pytest.mark.parametrize("way", EVERY_WAY)
@examples(max_examples=5)
@given(world=worlds(), seed=SEEDS)
def test_threads_change_nothing(way, world, seed):
    actions = actions_for(world, way, count=37, seed=seed)
    one, many = run_numba(world, way, actions), run_numba(world, way, actions, parallel=True)
    for name, array in one.items():
        np.testing.assert_array_equal(array, many[name], err_msg=name)


@pytest.mark.parametrize("way", EVERY_WAY)
@examples(max_examples=40)
@given(world=worlds(), seed=SEEDS)
def test_no_number_is_lost(way, world, seed):
    actions = actions_for(world, way, count=4, seed=seed)
    for found in (run_numba(world, way, actions), run_torch(world, way, actions)):
        for name, array in found.items():
            assert np.isfinite(array).all(), name
        if not world.margin.lends:
            assert (found["cash"] >= 0).all()
            assert (found["positions"] >= 0).all()


def test_a_forced_sale_costs_at_most_its_value():
    rates = CostModel(commission_minimum=5.0).rates(252)
    cash, positions, prices = np.zeros(2), np.array([[1.0], [-1.0]]), np.full((1, 1), 2.0)
    time, yes, no = np.zeros(2, np.int64), np.ones((1, 1), bool), np.zeros(2, bool)
    t_ = torch.from_numpy
    rows = kernels_torch.MarketRows(t_(time), t_(prices), t_(~yes), None)
    found = kernels_torch.close_positions(t_(cash.copy()), t_(positions.copy()), t_(no), t_(yes), rows, rates)
    cost, traded = np.empty(2), np.empty((2, 1))
    numba_accounts.close_positions(cash, positions, no, yes, time, prices, ~yes, None, rates, cost=cost, traded=traded)
    for left, paid in ((cash, cost), (found.cash, found.cost)):
        assert left.tolist() == [0.0, -4.0]
        assert paid.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("way", EVERY_WAY)
def test_torch_compiles_into_one_graph(way):
    world = _example_world()
    actions = actions_for(world, way, count=8, seed=3)
    torch.compiler.reset()  # ways that were compiled before count towards a limit
    compiled = torch.compile(torch_step, fullgraph=True, backend="aot_eager")
    found, expected = run_torch(world, way, actions, step=compiled), run_torch(world, way, actions)
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, err_msg=name)


def _example_world():
    return find(worlds(), lambda world: world.assets == 3 and world.costs.impact > 0 and world.margin.short)
