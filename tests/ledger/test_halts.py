from __future__ import annotations

import pytest
from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import AlphaSwarmError, LedgerError, RunError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import Ledger
from tests.ledger.samples import new_run, open_ledger


def test_a_halt_of_everything_concerns_every_run(ledger: Ledger) -> None:
    run = new_run(ledger)
    assert ledger.halt_reason(run.id) is None
    ledger.engage("*", "market closed", "ann")
    assert ledger.halt_reason(run.id) == "market closed"
    assert ledger.halt_reason("any other") == "market closed"


@pytest.mark.parametrize(("reason", "actor", "what"), [("a\x1bb", "ann", "reason"), ("a", "a\u202en", "actor")])
def test_reason_and_actor_have_no_control_characters(ledger: Ledger, reason: str, actor: str, what: str) -> None:
    for use in (ledger.engage, ledger.release):
        with pytest.raises(LedgerError, match=f"the {what} of the kill switch: it contains the control character"):
            use("*", reason, actor)
    assert (ledger.halt_status(), ledger.halt_log()) == ([], [])


def test_a_reason_is_no_longer_than_anybody_reads(ledger: Ledger) -> None:
    for use in (ledger.engage, ledger.release):
        with pytest.raises(LedgerError, match="the reason of the kill switch: it has 1001 characters") as refused:
            use("*", "x" * 1001, "ann")
        assert "fewer words" in refused.value.remedy
    assert (ledger.halt_status(), ledger.halt_log()) == ([], [])
    assert ledger.engage("*", "x" * 1000, "ann").engaged


def test_a_halt_of_one_run_concerns_no_other(ledger: Ledger) -> None:
    one, other = new_run(ledger), new_run(ledger)
    halted = ledger.engage(one.id[:13], "diverges", "ann")
    assert (halted.scope, halted.engaged, halted.set_by) == (one.id, True, "ann")
    assert ledger.halt_reason(one.id) == "diverges"
    assert ledger.halt_reason(other.id) is None


@pytest.mark.parametrize("scope", ["*", "platform"])
def test_the_platform_is_everything(ledger: Ledger, scope: str) -> None:
    run = new_run(ledger)
    assert ledger.engage(scope, "drill", "ann").scope == "*"
    assert ledger.halt_reason(run.id) == "drill"
    assert ledger.release("platform", "over", "ann").scope == "*"
    assert ledger.halt_reason(run.id) is None


def test_a_halt_of_a_bot_concerns_no_run_and_is_released_by_its_name(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.engage("bot:grid-1", "too hot", "ann")
    assert [row.scope for row in ledger.halt_status()] == ["bot:grid-1"]
    assert ledger.halt_reason(run.id) is None
    ledger.refuse_if_halted(run.id)
    with pytest.raises(LedgerError, match="it is not engaged"):
        ledger.release("bot:grid-2", "over", "ann")
    assert ledger.release("bot:grid-1", "over", "ann").engaged is False
    assert [(row.scope, row.action) for row in ledger.halt_log()] == [
        ("bot:grid-1", "engage"),
        ("bot:grid-1", "release"),
    ]


@pytest.mark.parametrize("name", ["", "Grid", "../grid", "grid.halt", "-grid", "x" * 64])
@pytest.mark.parametrize("scope", ["bot:{}", "run:bot:{}"])
def test_a_bot_has_a_plain_name(ledger: Ledger, name: str, scope: str) -> None:
    for use in (ledger.engage, ledger.release):
        with pytest.raises(LedgerError, match="a bot's name is of a-z"):
            use(scope.format(name), "drill", "ann")
    assert ledger.halt_log() == []


def test_a_run_that_is_named_as_one_is_never_the_platform(ledger: Ledger) -> None:
    run = new_run(ledger)
    assert ledger.engage(f"run:{run.id[:13]}", "diverges", "ann").scope == run.id
    for use in (ledger.engage, ledger.release):
        with pytest.raises(AlphaSwarmError, match="platform"):
            use("run:platform", "drill", "ann")
    assert ledger.release(f"run:{run.id}", "over", "ann").scope == run.id


def test_a_halt_stays_until_it_is_released_even_over_a_restart(ledger: Ledger, database_url: str) -> None:
    run = new_run(ledger)
    ledger.engage("*", "first", "ann")
    ledger.engage("*", "second", "bob")
    with open_ledger(database_url) as again:
        assert again.halt_reason(run.id) == "first"
        assert [(row.scope, row.reason, row.set_by) for row in again.halt_status()] == [("*", "first", "ann")]
        again.release("*", "all clear", "cid")
    assert ledger.halt_reason(run.id) is None
    assert ledger.halt_status() == []
    assert [(row.action, row.reason, row.actor) for row in ledger.halt_log()] == [
        ("engage", "first", "ann"),
        ("engage", "second", "bob"),
        ("release", "all clear", "cid"),
    ]
    ledger.engage("*", "third", "ann")
    assert ledger.halt_reason(run.id) == "third"


def test_a_mistake_changes_neither_the_switch_nor_the_log(ledger: Ledger) -> None:
    with pytest.raises(RunError, match="none with this id"):
        ledger.engage("no-such-run", "why", "ann")
    with pytest.raises(LedgerError, match="reason"):
        ledger.engage("*", " ", "ann")
    with pytest.raises(LedgerError, match="actor"):
        ledger.engage("*", "why", "")
    with pytest.raises(LedgerError, match="not engaged"):
        ledger.release("*", "why", "ann")
    assert ledger.halt_status() == []
    assert ledger.halt_log() == []


@pytest.mark.parametrize("attack", ["UPDATE rl_kill_switch_log SET actor = 'nobody'", "DELETE FROM rl_kill_switch_log"])
def test_the_database_itself_refuses_to_change_the_log(ledger: Ledger, attack: str) -> None:
    ledger.engage("*", "why", "ann")
    before = ledger.halt_log()
    with pytest.raises(DBAPIError, match="never changed or deleted"), write(ledger.engine) as connection:
        connection.execute(text(attack))
    assert ledger.halt_log() == before


def test_a_look_at_the_switch_is_one_query(ledger: Ledger) -> None:
    run = new_run(ledger)
    asked: list[str] = []
    event.listen(ledger.engine, "before_cursor_execute", lambda *call: asked.append(call[2]))
    ledger.halt_reason(run.id)
    assert len([statement for statement in asked if not statement.startswith("BEGIN")]) == 1
