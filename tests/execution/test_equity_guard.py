"""Losses that reach their limit engage the kill switch by themselves."""

import numpy as np
import pytest

from alphaswarm_rl.core.errors import LedgerError, OrderError
from alphaswarm_rl.core.risk_limits import RiskLimits
from alphaswarm_rl.execution.equity_guard import EquityGuard
from alphaswarm_rl.ledger import Ledger
from tests.ledger.samples import new_run, open_ledger


class Switch:
    """Writes down how it is used."""

    def __init__(self):
        self.used = []

    def engage(self, scope, reason, actor):
        self.used.append((scope, reason, actor))


def guard(switch=None, **limits):
    return EquityGuard(RiskLimits(**limits), switch or Switch(), scope="bot:grid")


def hours(number):
    """A moment, in hours since a midnight."""
    return np.datetime64("2024-03-01T00:00") + np.timedelta64(number, "h")


def watched(guarded, *values, step=24):
    """The kinds of breaches of equities, bar by bar."""
    breaches = [guarded.watch(hours(index * step), value) for index, value in enumerate(values)]
    return [None if breach is None else breach.kind for breach in breaches]


def test_a_drawdown_that_reaches_its_limit_engages_the_switch_once():
    switch = Switch()
    guarded = guard(switch, max_drawdown=0.25)
    assert watched(guarded, 100.0, 120.0, 91.0, 90.0, 80.0) == [None, None, None, "max_drawdown", "max_drawdown"]
    why = "max_drawdown: the account lost 25.00% since its highest value, and the limit is 25.00%"
    assert switch.used == [("bot:grid", why, "equity guard")]
    assert (guarded.engaged.kind, guarded.engaged.value, guarded.engaged.severity) == ("max_drawdown", 0.25, "critical")


def test_a_daily_loss_is_measured_from_the_last_bar_of_the_day_before():
    guarded = guard(max_daily_loss=0.1)
    # Two bars a day: 100, 110 | 100, 95 | 94, 86, of which 95 is 13.6 % below 110.
    assert watched(guarded, 100.0, 110.0, 100.0, 95.0, step=12) == [None, None, None, "max_daily_loss"]
    guarded = guard(max_daily_loss=0.1)
    assert watched(guarded, 100.0, 95.0, 91.0, 86.0, 82.0, step=12) == [None] * 5
    assert watched(guard(max_daily_loss=0.1), 100.0, 90.0) == [None, "max_daily_loss"]


def test_both_limits_are_watched():
    limits = {"max_daily_loss": 0.5, "max_drawdown": 0.3}
    assert watched(guard(**limits), 100.0, 85.0, 69.0) == [None, None, "max_drawdown"]
    assert watched(guard(**limits), 100.0, 49.0) == [None, "max_daily_loss"]


def test_an_account_that_is_worth_nothing_has_lost_all():
    assert watched(guard(max_drawdown=0.99), 100.0, -5.0) == [None, "max_drawdown"]


def test_a_guard_that_is_made_anew_goes_on_where_it_was():
    first = guard(max_drawdown=0.25)
    watched(first, 100.0, 120.0)
    again = EquityGuard(RiskLimits(max_drawdown=0.25), Switch(), scope="platform", marks=first.marks)
    assert again.watch(hours(48), 89.0).kind == "max_drawdown"


def test_after_a_release_losses_are_measured_anew():
    guarded = guard(max_drawdown=0.25)
    watched(guarded, 100.0, 70.0)
    guarded.rearm()
    assert guarded.engaged is None
    assert guarded.watch(hours(100), 60.0) is None
    assert guarded.watch(hours(124), 52.0).kind == "max_drawdown"


def test_what_the_guard_cannot_measure_is_refused():
    with pytest.raises(OrderError, match="neither max_daily_loss nor max_drawdown"):
        guard(max_position=0.5)
    guarded = guard(max_drawdown=0.5)
    guarded.watch(hours(30), 100.0)
    with pytest.raises(OrderError, match="it is nan"):
        guarded.watch(hours(31), float("nan"))
    with pytest.raises(OrderError, match="the last one was of 2024-03-02"):
        guarded.watch(hours(1), 100.0)


def test_a_switch_that_cannot_be_engaged_is_the_callers_error_and_is_tried_again():
    class Locked(Switch):
        def engage(self, scope, reason, actor):
            super().engage(scope, reason, actor)
            raise LedgerError("the ledger", "it is locked", "Wait.")

    switch = Locked()
    guarded = guard(switch, max_drawdown=0.25)
    guarded.watch(hours(0), 100.0)
    for bar in (1, 2):
        with pytest.raises(LedgerError, match="it is locked"):
            guarded.watch(hours(bar), 50.0)
    assert (len(switch.used), guarded.engaged) == (2, None)


@pytest.mark.parametrize("scope", ["bot:grid", "platform", "run"])
def test_the_ledgers_switch_is_latched_and_logged(scope, tmp_path):
    with open_ledger(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        assert isinstance(ledger, Ledger)
        run = new_run(ledger)
        guarded = EquityGuard(RiskLimits(max_drawdown=0.1), ledger, scope=run.id if scope == "run" else scope)
        watched(guarded, 100.0, 80.0, 120.0)
        (halt,) = ledger.halt_status()
        assert halt.scope == {"run": run.id, "platform": "*"}.get(scope, scope)
        assert halt.reason.startswith("max_drawdown: the account lost 20.00%")
        assert [(entry.action, entry.actor) for entry in ledger.halt_log()] == [("engage", "equity guard")]
