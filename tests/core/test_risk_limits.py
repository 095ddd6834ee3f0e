"""The one model of limits."""

import pytest
from pydantic import ValidationError

from alphaswarm_rl.core.risk_limits import LimitBreach, RiskLimits, breaches_of, breaks, tightest


def test_the_names_of_other_documents_mean_ours():
    given = {
        "max_position_pct": 0.3,
        "max_gross_exposure": 1.0,
        "max_concentration_pct": 0.5,
        "max_daily_loss_pct": 0.02,
    }
    limits = RiskLimits(**given, max_drawdown_pct=0.2)
    assert limits.set_limits() == {
        "max_position": 0.3,
        "max_concentration": 0.5,
        "max_gross": 1.0,
        "max_daily_loss": 0.02,
        "max_drawdown": 0.2,
    }
    with pytest.raises(ValidationError, match="one limit"):
        RiskLimits(max_position=0.3, max_position_pct=0.3)
    with pytest.raises(ValidationError, match="max_positon"):
        RiskLimits(max_positon=0.3)


def test_of_several_the_tightest_holds():
    found = tightest([RiskLimits(max_gross=1.0, max_net=0.5), RiskLimits(max_gross=0.8), RiskLimits()])
    assert found == RiskLimits(max_gross=0.8, max_net=0.5)
    assert tightest([]) == RiskLimits()


@pytest.mark.parametrize(("cooldowns", "longest"), [((2, 5), 5), ((2, None), None), ((None,), None)])
def test_of_cooldowns_the_longest_holds(cooldowns, longest):
    limits = [RiskLimits(max_drawdown=0.1, cooldown_bars=cooldown) for cooldown in cooldowns]
    assert tightest([*limits, RiskLimits(max_gross=1.0)]).cooldown_bars == longest


def test_a_loss_breaks_its_limit_when_it_reaches_it_and_a_weight_when_it_passes_it():
    assert breaks("max_drawdown", 0.1, 0.1)
    assert breaks("max_drawdown", 1 - 108 / 120, 0.1)
    assert not breaks("max_drawdown", 0.0999, 0.1)
    assert not breaks("max_position", 0.1, 0.1)
    assert not breaks("max_gross", 1.0 + 1e-15, 1.0)
    assert breaks("max_gross", 1.0001, 1.0)


def test_breaches_say_what_was_found():
    limits = [("max_gross", 1.0), ("max_daily_loss", 0.05)]
    found = breaches_of(limits, [[1.5, 0.01], [0.5, 0.06], [0.5, 0.0]])
    assert found[0] == (LimitBreach("max_gross", "gross exposure of 1.5 was cut to 1", 1.5, 1.0, "warning"),)
    assert [(breach.kind, breach.severity) for breach in found[1]] == [("max_daily_loss", "critical")]
    assert "everything is sold" in found[1][0].message
    assert found[2] == ()
