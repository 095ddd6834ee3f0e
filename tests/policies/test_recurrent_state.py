"""The recurrent backbone carries its state from step to step, and forgets where episodes start."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import ComponentError

from .backbone_cases import FEATURES, LENGTH, build, double, windows

CELLS = ["lstm", "gru", "rnn"]


def steps(batch=3, count=LENGTH):
    return windows(batch, length=count).double().transpose(0, 1)


def run(network, x, starts):
    return network.forward_sequence(x, network.initial_state(x.shape[1], "cpu", torch.float64), starts)


@pytest.mark.parametrize("cell", CELLS)
def test_a_sequence_is_what_its_steps_are_one_by_one(cell):
    network, x = double(build("recurrent", cell=cell)), steps()
    starts = torch.zeros(LENGTH, 3, dtype=torch.bool)
    starts[5, 1] = starts[6, 1] = starts[9, 0] = True
    whole, end = run(network, x, starts)
    state, single = network.initial_state(3, "cpu", torch.float64), []
    for t in range(LENGTH):
        features, state = network.forward_sequence(x[t : t + 1], state, starts[t : t + 1])
        single.append(features[0])
    torch.testing.assert_close(whole, torch.stack(single), rtol=0, atol=1e-12)
    torch.testing.assert_close(end, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@settings(max_examples=20, deadline=None)
@given(lengths=st.lists(st.integers(1, 5), min_size=1, max_size=4))
def test_episodes_one_after_another_are_as_episodes_apart(cell, lengths):
    network, x = double(build("recurrent", cell=cell)), steps(1, sum(lengths))
    starts, first = torch.zeros(sum(lengths), 1, dtype=torch.bool), 0
    apart = []
    for length in lengths:
        starts[first] = True
        apart.append(run(network, x[first : first + length], torch.zeros(length, 1, dtype=torch.bool))[0])
        first += length
    torch.testing.assert_close(run(network, x, starts)[0], torch.cat(apart), rtol=0, atol=1e-12)


def test_a_start_forgets_only_its_own_environment():
    network, x = double(build("recurrent")), steps()
    none = torch.zeros(LENGTH, 3, dtype=torch.bool)
    one = none.clone()
    one[4, 2] = True
    before, after = run(network, x, none)[0], run(network, x, one)[0]
    torch.testing.assert_close(before[:, :2], after[:, :2], rtol=0, atol=1e-12)
    torch.testing.assert_close(before[:4, 2], after[:4, 2], rtol=0, atol=1e-12)
    assert (before[4:, 2] != after[4:, 2]).any(-1).all()


@pytest.mark.parametrize("cell", CELLS)
def test_a_window_is_a_sequence_from_nothing(cell):
    network, x = double(build("recurrent", cell=cell)), steps()
    features, _ = run(network, x, torch.zeros(LENGTH, 3, dtype=torch.bool))
    torch.testing.assert_close(network(x.transpose(0, 1)), features[-1], rtol=0, atol=1e-12)


def test_a_start_at_the_first_step_forgets_the_state_that_was_handed_in():
    network, x = double(build("recurrent")), steps()
    state = torch.ones(3, network.state_width, dtype=torch.float64)
    starts = torch.zeros(LENGTH, 3, dtype=torch.bool)
    starts[0] = True
    features, _ = network.forward_sequence(x, state, starts)
    torch.testing.assert_close(features, run(network, x, starts)[0], rtol=0, atol=0)


def test_a_gradient_flows_back_to_the_episodes_start_and_not_beyond():
    network = double(build("recurrent"))
    x = steps().requires_grad_()
    starts = torch.zeros(LENGTH, 3, dtype=torch.bool)
    starts[4] = True
    run(network, x, starts)[0][-1].sum().backward()
    moved = x.grad.abs().sum((1, 2))
    assert (moved[:4] == 0).all()
    assert (moved[4:] > 0).all()


def test_one_lstm_step_by_hand():
    network = double(build("recurrent", layers=1))
    cell, x = network.layers[0], steps(1, 2)
    h = c = torch.zeros(6, dtype=torch.float64)
    for t in range(2):
        gates = cell.weight_ih_l0 @ x[t, 0] + cell.bias_ih_l0 + cell.weight_hh_l0 @ h + cell.bias_hh_l0
        i, f, g, o = gates.chunk(4)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
    features, state = run(network, x, torch.zeros(2, 1, dtype=torch.bool))
    torch.testing.assert_close(features[-1, 0], network.head.weight @ h + network.head.bias, rtol=0, atol=1e-12)
    torch.testing.assert_close(state[0], torch.cat([h, c]), rtol=0, atol=1e-12)


def test_steps_of_another_width_are_refused():
    network = build("recurrent")
    state, starts = network.initial_state(3, "cpu"), torch.zeros(LENGTH, 3, dtype=torch.bool)
    with pytest.raises(ComponentError, match="was built for"):
        network.forward_sequence(torch.zeros(LENGTH, 3, FEATURES + 1), state, starts)
    with pytest.raises(ComponentError, match="was built for"):
        network.forward_sequence(torch.zeros(LENGTH, 3, FEATURES), state, starts[1:])
