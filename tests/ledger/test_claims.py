"""What a process writes for a run after another one took it over is refused, in the same transaction."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread

import pytest

from alphaswarm_rl.core.claims import Claim, StaleClaim, UnknownClaim
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.tables import ledger as ledger_table
from alphaswarm_rl.ledger.tables import runs
from tests.ledger.samples import new_run, segment_ref

WRITES: dict[str, Callable[[Ledger, str], object]] = {
    "update_run": lambda ledger, run: ledger.update_run(run, timesteps=5),
    "finish_run": lambda ledger, run: ledger.finish_run(run, "completed"),
    "heartbeat": lambda ledger, run: ledger.heartbeat(run),
    "append_event": lambda ledger, run: ledger.append_event(run, 1, "start", utc_now(), {}),
    "add_episodes": lambda ledger, run: ledger.add_episodes(run, [_EPISODE]),
    "add_evaluation": lambda ledger, run: ledger.add_evaluation(
        run, phase="validation", timesteps=1, seed=1, episodes=1, deterministic=True, started_at=utc_now()
    ),
    "drop_beyond": lambda ledger, run: ledger.drop_beyond(run, 0),
    "add_refs": lambda ledger, run: ledger.add_refs([segment_ref(run, 0)]),
    "drop_refs": lambda ledger, run: ledger.drop_refs(run),
}
_EPISODE = {"phase": "train", "episode": 0, "timesteps": 9, "mean_reward": 1.0, "length": 9.0}


def _everything(ledger: Ledger, run: RunRow) -> tuple[object, ...]:
    return (
        ledger.run(run.id),
        ledger.events(run.id),
        ledger.episodes(run.id),
        ledger.evaluations(run.id),
        ledger.refs(run.id),
    )


def _resumed(ledger: Ledger, run: RunRow) -> RunRow:
    ledger.finish_run(run.id, "interrupted")
    return ledger.claim_for_resume(run.id)


def test_claims_are_numbered(ledger: Ledger) -> None:
    run = new_run(ledger)
    assert run.claim == Claim(run.id, 1)
    assert _resumed(ledger, run).claim == Claim(run.id, 2)
    assert _resumed(ledger, run).claim == Claim(run.id, 3)


@pytest.mark.parametrize("name", WRITES)
def test_an_older_claim_writes_nothing_and_the_newest_one_does(ledger: Ledger, name: str) -> None:
    run = new_run(ledger)
    ledger.add_episodes(run.id, [{**_EPISODE, "episode": 7}])
    ledger.add_refs([segment_ref(run.id, 9)])
    old = ledger.holding(run.claim)
    new = ledger.holding(_resumed(ledger, run).claim)
    before = _everything(ledger, run)
    with pytest.raises(StaleClaim, match=r"another process resumed it.*claim 2, and this one has 1") as caught:
        WRITES[name](old, run.id)
    assert caught.value.exit_code == 4
    assert _everything(ledger, run) == before
    WRITES[name](new, run.id)
    assert _everything(ledger, run) != before


@pytest.mark.parametrize("name", WRITES)
def test_for_a_removed_run_nothing_is_written(ledger: Ledger, name: str) -> None:
    run = new_run(ledger)
    old = ledger.holding(run.claim)
    ledger.finish_run(run.id, "interrupted")
    ledger.mark_removed(run.id)
    before = _everything(ledger, run)
    with pytest.raises(StaleClaim, match="it was removed"):
        WRITES[name](old, run.id)
    assert _everything(ledger, run) == before


def test_a_process_can_ask_whether_its_run_is_still_its_own(ledger: Ledger) -> None:
    run = new_run(ledger)
    old = ledger.holding(run.claim)
    old.refuse_stale()
    new = ledger.holding(_resumed(ledger, run).claim)
    with pytest.raises(StaleClaim, match="claim 2, and this one has 1"):
        old.refuse_stale()
    new.refuse_stale()
    ledger.refuse_stale()


def test_a_run_is_claimed_only_as_it_was_seen(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.finish_run(run.id, "interrupted")
    seen = ledger.run(run.id)
    ledger.update_run(run.id, checkpoint="models/run/10")
    with pytest.raises(RunError, match="another process went on with it meanwhile"):
        ledger.claim_for_resume(run.id, seen=seen)
    seen = ledger.run(run.id)
    _resumed(ledger, ledger.claim_for_resume(run.id))
    ledger.finish_run(run.id, "interrupted")
    with pytest.raises(RunError, match="another process went on with it meanwhile"):
        ledger.claim_for_resume(run.id, seen=seen)
    assert ledger.run(run.id).status == "interrupted"
    assert ledger.claim_for_resume(run.id, seen=ledger.run(run.id)).claim.number == 4


def test_who_holds_no_claim_writes_for_any_run(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.holding(run.claim)
    _resumed(ledger, run)
    ledger.update_run(run.id, timesteps=8)
    assert ledger.run(run.id).timesteps == 8


def test_a_claim_waits_for_a_write_that_is_under_way(ledger: Ledger) -> None:
    run = new_run(ledger)
    ledger.finish_run(run.id, "interrupted")
    held, inside, go_on, order = ledger.holding(run.claim), Event(), Event(), []

    def write() -> None:
        with held._write():
            inside.set()
            assert go_on.wait(10)
            order.append("written")

    def claim() -> None:
        ledger.claim_for_resume(run.id)
        order.append("claimed")

    threads = [Thread(target=write), Thread(target=claim)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    threads[1].join(0.3)
    assert order == []
    go_on.set()
    for thread in threads:
        thread.join(30)
    assert order == ["written", "claimed"]


@pytest.mark.parametrize("name", WRITES)
def test_a_ledger_that_does_not_know_the_run_is_an_error_and_no_removal(ledger: Ledger, name: str) -> None:
    held = ledger.holding(Claim("0a1b2c3d-0000-4000-8000-0123456789ab", 1))
    with pytest.raises(UnknownClaim, match="it does not know the run, and this process has claim 1") as caught:
        WRITES[name](held, "0a1b2c3d-0000-4000-8000-0123456789ab")
    assert "rl db rebuild" in caught.value.remedy
    assert caught.value.exit_code == 1


def test_a_ledger_from_before_the_claim_is_an_error_and_no_later_claim(ledger: Ledger) -> None:
    run = new_run(ledger)
    held = ledger.holding(_resumed(ledger, run).claim)
    with write(ledger.engine) as connection:
        connection.execute(runs.update().values(resumed=0))
    with pytest.raises(UnknownClaim, match="it knows the run by its claim 1 alone, and this process has claim 2"):
        held.update_run(run.id, timesteps=5)
    assert ledger.run(run.id).timesteps == 0


def test_another_ledger_is_an_error_whatever_it_knows_of_the_run(ledger: Ledger) -> None:
    run = new_run(ledger)
    held = ledger.holding(run.claim)
    _resumed(ledger, run)
    ours = ledger.id
    with write(ledger.engine) as connection:
        connection.execute(ledger_table.update().values(id="another"))
    with pytest.raises(UnknownClaim, match=f"the ledger another: .*began with .{ours}"):
        held.update_run(run.id, timesteps=5)
    assert ledger.run(run.id).timesteps == 0


@pytest.mark.parametrize(("at_least", "number"), [(1, 2), (2, 2), (3, 3), (9, 9)])
def test_a_claim_has_no_number_that_was_given_before(ledger: Ledger, at_least: int, number: int) -> None:
    run = new_run(ledger)
    ledger.finish_run(run.id, "interrupted")
    assert ledger.claim_for_resume(run.id, at_least=at_least).claim == Claim(run.id, number)
    assert _resumed(ledger, run).claim == Claim(run.id, number + 1)
