"""What holds for every portfolio stage; a new one gets all of it by its alias."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from alphaswarm_rl.arrays.backend_torch import TorchBackend, float64_by_default
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.kinds import STAGE_ROLES
from alphaswarm_rl.core.view import View
from alphaswarm_rl.envs.making import make_env
from tests.portfolio.stages import (
    KWARGS,
    STAGES,
    accounts,
    market_for,
    panel_for,
    parts_of,
    ref,
    run,
    stage,
    weights_for,
)

N = 16
every_stage = pytest.mark.parametrize("alias", STAGES)


@pytest.fixture(scope="module")
def market():
    return market_for(panel_for())


def played(part, view, weights):
    """Three decisions in a row, so that what is remembered plays a part."""
    found = []
    for step in range(3):
        out = weights.copy() * (1.0 + 0.1 * step)
        part.step(view, out)
        found.append(out)
        view.value_before[:] = view.value
        view.value[:] = view.value * 0.985
    return found


def copy_of(view):
    return View.of(view.market, view.initial_cash, {name: array.copy() for name, array in view.arrays().items()})


def test_parameters_are_given_for_stages_that_are_there():
    assert set(KWARGS) <= set(STAGES)


@every_stage
def test_it_declares_its_role_and_a_seat_in_the_order(alias):
    assert catalogue.get("portfolio_stage", alias).role in STAGE_ROLES


@every_stage
def test_it_acts_on_these_weights(alias, market):
    (part,) = parts_of([alias], market, N)
    changed = [not np.array_equal(out, given) for out, given in self_and_given(part, market)]
    assert any(changed) == (alias != "identity")


def self_and_given(part, market):
    for seed in range(3):
        weights, view = weights_for(N, 5, seed), accounts(market, N, seed)
        out = weights.copy()
        part.step(view, out)
        yield out, weights


@every_stage
def test_the_same_comes_out_of_the_same_and_nothing_else_is_written(alias, market):
    weights, view = weights_for(N, 5), accounts(market, N)
    before = {name: array.copy() for name, array in view.arrays().items()}
    first, second = (run(parts_of([alias], market, N), view, weights) for _ in range(2))
    np.testing.assert_array_equal(first, second)
    for name, array in view.arrays().items():
        np.testing.assert_array_equal(array, before[name], err_msg=name)


@every_stage
def test_one_by_one_is_as_all_at_once(alias, market):
    weights, view = weights_for(N, 5), accounts(market, N)
    together = played(parts_of([alias], market, N)[0], copy_of(view), weights)
    for row in range(N):
        alone = played(parts_of([alias], market, 1)[0], view.rows(np.array([row])), weights[[row]])
        for every, one in zip(together, alone, strict=True):
            np.testing.assert_array_equal(every[[row]], one)


@every_stage
def test_torch_is_as_numpy(alias):
    panel = panel_for()
    here, on_torch = market_for(panel), market_for(panel, TorchBackend("cpu"))
    weights, view = weights_for(N, 5), accounts(here, N)
    in_numpy = played(parts_of([alias], here, N)[0], copy_of(view), weights)
    with float64_by_default():
        arrays = {name: torch.tensor(array) for name, array in view.arrays().items()}
        part = parts_of([alias], on_torch, N)[0]
        of_torch = View.of(on_torch, view.initial_cash, arrays)
        for expected, step in zip(in_numpy, range(3), strict=True):
            out = torch.tensor(weights) * (1.0 + 0.1 * step)
            part.step(of_torch, out)
            np.testing.assert_allclose(out.numpy(), expected, rtol=1e-12, atol=1e-14)
            of_torch.value_before = of_torch.value.clone()
            of_torch.value = of_torch.value * 0.985


@every_stage
def test_only_an_allocator_raises_a_weight_and_timing_keeps_proportions(alias, market):
    (part,) = parts_of([alias], market, N)
    for seed in range(5):
        weights, view = weights_for(N, 5, seed, scale=1.5), accounts(market, N, seed)
        (out,) = run([part], view, weights)
        assert np.isfinite(out).all()
        if part.stage.role == "allocate":
            continue
        assert (np.abs(out) <= np.abs(weights) * (1 + 1e-12)).all()
        assert (out * weights >= 0).all()
        if part.stage.role == "select":
            assert np.isin(out, [*weights.reshape(-1), 0.0]).all()
        if part.stage.role == "time":
            scale = np.abs(out).sum(axis=1) / np.abs(weights).sum(axis=1)
            np.testing.assert_allclose(out, weights * scale[:, None], rtol=1e-12)


@every_stage
def test_what_is_not_selected_has_no_weight_behind_it(alias, market):
    # So many that a limit of shares leaves something.
    selector = stage("static_universe", symbols=["A0", "A1", "A2", "A3"])
    role = catalogue.get("portfolio_stage", alias).role
    before = [selector] if role != "select" else []
    parts = parts_of([*before, alias], market, N)
    weights, view = weights_for(N, 5), accounts(market, N)
    out = run(parts, view, weights)[-1]
    selected = parts[-1].selected
    assert selected is not None
    assert (out[~selected[view.bar]] == 0).all()
    assert np.abs(out).sum() > 0


@every_stage
def test_more_bars_continue_as_if_all_had_been_there(alias):
    panel = panel_for()
    whole = parts_of([alias], market_for(panel), N)[0]
    part = parts_of([alias], market_for(cut(panel, 45)), N)[0]
    for count in (46, 53, 60):
        part.extend_behind(market_for(cut(panel, count)), None)
    for name, table in whole.state.items():
        np.testing.assert_array_equal(part.state[name], table, err_msg=name)


@every_stage
def test_bars_that_were_corrected_are_looked_at_anew(alias):
    panel, other = panel_for(), panel_for(seed=9)
    part = parts_of([alias], market_for(panel), N)[0]
    part.extend_behind(market_for(other), None)
    for name, table in parts_of([alias], market_for(other), N)[0].state.items():
        np.testing.assert_array_equal(part.state[name], table, err_msg=name)


def cut(panel, count):
    """The first bars of a panel."""
    return panel if count == panel.num_bars else panel.window(end=panel.timestamps[count])


@every_stage
def test_it_trades_in_an_environment_and_saves_its_state(alias):
    panel = panel_for()

    def make():
        action = {"class": "continuous_weights", "kwargs": {"short": True, "gross": 1.5}}
        margin = {"initial": 0.5, "maintenance": 0.25}
        return make_env(
            "stock_portfolio",
            panel=panel,
            lookback=5,
            num_envs=2,
            action=action,
            margin=margin,
            portfolio=[ref(alias)],
            episode_bars=None,
        )

    first, second = make(), make()
    first.log_trades()
    actions = np.random.default_rng(0).uniform(-1, 1, (12, 2, 5)).astype(np.float32)
    first.reset()
    for action in actions[:6]:
        infos = first.step(action)[4]
    assert list(infos["rl_pipeline_history"])[:2] == ["continuous_weights", alias]
    assert infos["rl_pipeline_history"][alias].shape == (2, 5)
    second.reset()
    second.set_state(first.get_state())
    for action in actions[6:]:
        one, other = first.step(action), second.step(action)
        np.testing.assert_array_equal(one[0], other[0])
        np.testing.assert_array_equal(one[1], other[1])
