"""Models that trade are judged by their curve: bars, bounds, falls, yardsticks and where the profit comes from."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alphaswarm_rl.core.account_evidence import AccountEvidence
from alphaswarm_rl.core.seeding import generator
from alphaswarm_rl.models import Evidence, Limits, ModelRegistry, Verdict
from alphaswarm_rl.models.gates import _gates as known_gates
from alphaswarm_rl.statistics.bootstrap import bootstrap_difference, stationary_bootstrap
from alphaswarm_rl.statistics.performance import RETURN_MEASURES
from tests.models.samples import evaluation, new_model

LIMITS = Limits(min_reward=None, min_episodes=10, max_dispersion=1.0, confidence=0.95)
ACCOUNT_GATES = (
    "min_bars",
    "measure_lower_bound",
    "drawdown",
    "not_worse_than_cash",
    "not_worse_than_equal_weight",
    "profit_share",
)
NOISE = 0.01 * generator(1, "noise").standard_normal(250)


def account(edge: float = 0.003, *, equal: float = 0.0, **fields: Any) -> AccountEvidence:
    """250 daily bars that earn `edge` a bar more than noise, beside equal weights that earn `equal`."""
    given: dict[str, Any] = {
        "bars": 250,
        "periods_per_year": 252.0,
        "returns": tuple((NOISE + edge).tolist()),
        "equal_weight": tuple((NOISE[::-1] + equal).tolist()),
        "max_drawdown": -0.1,
        "profits": {"A": 30.0, "B": 40.0, "C": 30.0},
        **fields,
    }
    return AccountEvidence(**given)


def metrics(found: AccountEvidence | None, **more: Any) -> dict[str, Any]:
    curves = {} if found is None else {"curves": found.to_json()}
    return {"final_value": 1.0, "updates": 40, "actions_vary": True, **curves, **more}


@pytest.fixture
def see(alone: ModelRegistry, tmp_path: Path) -> Callable[..., Evidence]:
    """Makes evidence of one evaluation of a trading account."""
    numbers = iter(range(1000))

    def make(found: AccountEvidence | None, *, evaluated: bool = True, **limits: Any) -> Evidence:
        row = alone.register(new_model(tmp_path / str(next(numbers))))
        if evaluated:
            alone.add_evaluation(row.id, evaluation(episodes=1, metrics=metrics(found)))
        found_rows = tuple(alone.evaluations(row.id))
        return Evidence(alone.get(row.id), found_rows, (), dataclasses.replace(LIMITS, **limits), None)

    return make


def verdict_of(name: str, evidence: Evidence) -> Verdict:
    verdict = known_gates[name](evidence)
    assert verdict.gate == name
    return verdict


def failed(registry: ModelRegistry, folder: Path, found: AccountEvidence | None, **more: Any) -> list[str]:
    """The gates of the default profile that such a model does not pass."""
    row = registry.register(new_model(folder))
    validation = registry.validate(row.id, evaluation=evaluation(episodes=1, metrics=metrics(found, **more)))
    assert validation.passed is all(check.passed for check in validation.checks)
    return [check.gate for check in validation.checks if not check.passed]


def test_a_good_account_passes_with_one_episode(registry: ModelRegistry, tmp_path: Path) -> None:
    assert failed(registry, tmp_path / "good", account()) == []
    (validation,) = registry.validations(1)
    assert [check.gate for check in validation.checks] == [
        "trained",
        "not_constant",
        "min_bars",
        "finite",
        "reward_lower_bound",
        *ACCOUNT_GATES[1:],
        "checksum",
    ]
    assert all(check.reason for check in validation.checks)
    assert (validation.evidence["newest"]["bars"], validation.evidence["newest"]["updates"]) == (250, 40)
    assert validation.limits["max_drawdown"] == 0.3
    assert AccountEvidence.from_json(registry.evaluations(1)[0].metrics["curves"]) == account()


def test_noise_fails_by_every_bound(registry: ModelRegistry, tmp_path: Path) -> None:
    bounds = ["measure_lower_bound", "not_worse_than_cash", "not_worse_than_equal_weight"]
    assert failed(registry, tmp_path / "noise", account(0.0)) == bounds


def test_what_never_learnt_and_what_never_looks_fails_however_good_it_is(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    assert failed(registry, tmp_path / "untrained", account(), updates=0) == ["trained"]
    assert failed(registry, tmp_path / "constant", account(), actions_vary=False) == ["not_constant"]
    assert failed(registry, tmp_path / "unwatched", account(), actions_vary=None) == ["not_constant"]
    for profile in ("strict", "trading", "seed-legacy"):
        names = {check.gate for check in registry.validate(1, profile=profile).checks if not check.passed}
        assert "trained" in names, profile


@pytest.mark.parametrize("name", ACCOUNT_GATES)
def test_without_a_curve_or_an_evaluation_nothing_passes(see: Callable[..., Evidence], name: str) -> None:
    old, never = verdict_of(name, see(None)), verdict_of(name, see(None, evaluated=False))
    assert not old.passed
    assert "rl evaluate --model-id" in old.reason
    assert (never.passed, never.reason) == (False, "it was never evaluated")


def test_bars_are_counted(see: Callable[..., Evidence]) -> None:
    enough, few = (verdict_of("min_bars", see(account(bars=bars))) for bars in (100, 99))
    assert (enough.passed, enough.value, enough.limit) == (True, 100, 100)
    assert not few.passed
    assert verdict_of("min_bars", see(account(bars=99), min_bars=50)).passed


@pytest.mark.parametrize("name", ["sharpe", "sortino", "mean_return", "total_return"])
def test_the_bound_is_the_bootstraps(see: Callable[..., Evidence], name: str) -> None:
    found = account(0.001)
    low = stationary_bootstrap(
        np.array(found.returns), lambda rows: RETURN_MEASURES[name](rows, 252.0), confidence=0.9
    ).low
    verdict = verdict_of("measure_lower_bound", see(found, measure=name, min_measure=low))
    assert (verdict.passed, verdict.value) == (True, pytest.approx(low))
    above = verdict_of("measure_lower_bound", see(found, measure=name, min_measure=low + 1e-9))
    assert not above.passed
    surer = verdict_of("measure_lower_bound", see(found, measure=name, min_measure=low, confidence=0.99))
    assert not surer.passed
    assert surer.value is not None
    assert surer.value < low


def test_a_measure_that_does_not_exist_does_not_pass(see: Callable[..., Evidence]) -> None:
    steady = account(returns=(0.001,) * 250)
    sharpe = verdict_of("measure_lower_bound", see(steady))
    assert (sharpe.passed, sharpe.value) == (False, None)
    assert "undefined" in sharpe.reason
    assert verdict_of("measure_lower_bound", see(steady, measure="mean_return")).passed


@pytest.mark.parametrize(("fall", "limit", "passed"), [(-0.3, 0.3, True), (-0.31, 0.3, False), (0.0, 0.0, True)])
def test_falls_have_a_limit(see: Callable[..., Evidence], fall: float, limit: float, passed: bool) -> None:
    verdict = verdict_of("drawdown", see(account(max_drawdown=fall), max_drawdown=limit))
    assert (verdict.passed, verdict.value, verdict.limit) == (passed, fall, -limit)


def test_beside_the_yardsticks_the_lower_bound_of_the_difference_counts(see: Callable[..., Evidence]) -> None:
    ahead = account(0.003, equal=0.0005)
    low = bootstrap_difference(
        np.array(ahead.returns), np.array(ahead.equal_weight), lambda rows: rows.mean(axis=-1) * 252, confidence=0.9
    ).low
    verdict = verdict_of("not_worse_than_equal_weight", see(ahead))
    assert (verdict.passed, verdict.value) == (True, pytest.approx(low))
    behind = account(0.003, equal=0.004)
    assert not verdict_of("not_worse_than_equal_weight", see(behind)).passed
    assert verdict_of("not_worse_than_cash", see(behind)).passed
    assert verdict_of("not_worse_than_equal_weight", see(behind, max_shortfall=2.0)).passed
    assert not verdict_of("not_worse_than_cash", see(account(0.0))).passed
    # What both do alike cancels out: a small edge over equal weights is seen, however much both swing.
    edge = account(equal_weight=tuple(NOISE.tolist()), returns=tuple((NOISE + 0.0001).tolist()))
    assert verdict_of("not_worse_than_equal_weight", see(edge)).passed
    # As good as cash, exactly: not worse.
    assert verdict_of("not_worse_than_cash", see(account(returns=(0.0,) * 250))).passed


@pytest.mark.parametrize(
    ("profits", "passed", "share"),
    [
        ({"A": 50.0, "B": 25.0, "C": 25.0}, True, 0.5),
        ({"A": 51.0, "B": 25.0, "C": 24.0}, False, 0.51),
        ({"A": 40.0, "B": 40.0, "C": -20.0}, False, 2 / 3),
        ({"A": 10.0, "B": -5.0, "C": -5.0}, False, None),
        ({"A": 99.0, "B": 1.0}, True, None),
        ({"A": 1.0}, True, None),
    ],
)
def test_of_several_assets_no_one_makes_most_of_the_profit(
    see: Callable[..., Evidence], profits: dict[str, float], passed: bool, share: float | None
) -> None:
    verdict = verdict_of("profit_share", see(account(profits=profits)))
    assert (verdict.passed, verdict.value) == (passed, share if share is None else pytest.approx(share))
    if share is not None:
        assert verdict_of("profit_share", see(account(profits=profits), max_profit_share=0.7)).passed


def test_what_is_added_by_hand_is_believed_but_for_no_training(registry: ModelRegistry, tmp_path: Path) -> None:
    for name, steps, passed in (("known", 1000, True), ("unknown", None, True), ("none", 0, False)):
        row = registry.register(new_model(tmp_path / name, total_timesteps=steps))
        given = registry.validate(row.id, evaluation=evaluation(source="added", metrics={"dated": False}))
        assert given.passed is passed, name


def test_the_same_evidence_gets_the_same_verdict(registry: ModelRegistry, tmp_path: Path) -> None:
    row = registry.register(new_model(tmp_path / "model"))
    first = registry.validate(row.id, evaluation=evaluation(episodes=1, metrics=metrics(account(0.001))))
    again = registry.validate(row.id)
    assert again.checks == first.checks
    assert not any(check.value is not None and math.isnan(check.value) for check in first.checks)
