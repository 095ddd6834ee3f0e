"""Blocks of steps: whatever environments give is there again, step by step and environment by environment."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alphaswarm_rl.recording.steps import Column, StepBlock, observation_hashes


def filled(batches):
    column = Column(len(batches))
    for batch in batches:
        column.append(batch)
    return column


def test_arrays_are_copied_as_they_come():
    batch = np.array([1.0, 2.0])
    column = Column(3)
    for _ in range(3):
        column.append(batch)
        batch += 10
    np.testing.assert_array_equal(column.batched(), [[1, 11, 21], [2, 12, 22]])


def test_another_type_of_array_loses_nothing():
    column = filled([np.array([1, 2]), np.array([0.5, 1.5]), np.array([3, 4])])
    np.testing.assert_array_equal(column.batched(), [[1, 0.5, 3], [2, 1.5, 4]])
    assert len(column) == 3


def test_tensors_come_over_together():
    column = filled([torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])])
    np.testing.assert_array_equal(column.batched(), [[1, 3], [2, 4]])


@pytest.mark.parametrize(
    "batches",
    [
        [np.arange(6.0).reshape(2, 3) + step for step in range(4)],
        [{"b": np.array([[1], [2]]) + step, "a": np.array([5.0, 6.0])} for step in range(4)],
        [(np.array([1, 2]), np.array([[3.0, 4.0], [5.0, 6.0]])) for _ in range(4)],
    ],
    ids=["array", "dict", "tuple"],
)
def test_numbers_of_any_structure_are_flat(batches):
    column = filled(batches)
    found = column.flat()
    assert found.shape[:2] == (2, 4)
    first, rest = column.split(1)
    np.testing.assert_array_equal(np.concatenate([first.flat(), rest.flat()], axis=1), found)
    assert (len(first), len(rest)) == (1, 3)


def test_parts_of_a_dict_come_in_the_order_of_their_names():
    np.testing.assert_array_equal(filled([{"b": np.array([1]), "a": np.array([2])}]).flat(), [[[2, 1]]])


def infos(value):
    return {"portfolio_value": np.array([value]), "cash": np.array([1.0]), "reward_terms": {"pnl": np.array([value])}}


def test_what_trading_environments_say_becomes_columns():
    steps = StepBlock(0, 4)
    for value in (1.0, 2.0, 3.0):
        steps.add_infos(infos(value), keep=False)
        steps.rewards.append(np.array([value]))
    assert set(steps.account) == {"portfolio_value", "cash"}
    assert steps.infos == []
    before, after = steps.split(2)
    np.testing.assert_array_equal(before.account["portfolio_value"].batched(), [[1, 2]])
    np.testing.assert_array_equal(after.reward_terms["pnl"].batched(), [[3]])
    assert (before.first, after.first, len(after)) == (0, 2, 1)


def test_infos_that_begin_without_an_account_are_kept_as_they_are():
    steps = StepBlock(0, 4)
    for reported in ({}, infos(1.0)):
        steps.add_infos(reported, keep=False)
        steps.rewards.append(np.array([0.0]))
    assert steps.account == {}
    assert steps.infos == [{}, infos(1.0)]


@pytest.mark.parametrize("here", [np.asarray, torch.as_tensor], ids=["here", "on a device"])
def test_observations_of_a_part_are_hashed_too(here):
    steps = StepBlock(0, 4)
    seen = [np.arange(6, dtype=np.float32).reshape(2, 3) + step for step in range(3)]
    for observation in seen:
        steps.observations.append(here(observation))
        steps.rewards.append(np.zeros(2))
    part, _ = steps.split(2)
    part.hash_observations(keep=False)
    expected = np.stack([observation_hashes(observation) for observation in seen[:2]], axis=1)
    np.testing.assert_array_equal(part.hashes.batched(), expected)
    assert len(part.observations) == 0
