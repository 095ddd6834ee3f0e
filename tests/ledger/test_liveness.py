from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import update

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import Ledger, liveness
from alphaswarm_rl.ledger.liveness import Holder, is_alive, process_start, this_process
from alphaswarm_rl.ledger.tables import runs
from tests.ledger.samples import new_run

CHILD = """
import sys, time
from tests.ledger.samples import new_run, open_ledger
ledger = open_ledger(sys.argv[1])
sys.stdout.write(new_run(ledger).id + "\\n")
sys.stdout.flush()
time.sleep(600)
"""


def _change(ledger: Ledger, **columns: Any) -> None:
    with write(ledger.engine) as connection:
        connection.execute(update(runs).values(columns))


def test_a_run_whose_process_is_killed_is_interrupted_at_the_next_look(ledger: Ledger, database_url: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, database_url], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert child.stdout is not None
    run_id = child.stdout.readline().strip()
    assert ledger.run(run_id).status == "running"
    with pytest.raises(RunError, match=f"process {child.pid} on"):
        ledger.claim_for_resume(run_id)
    os.kill(child.pid, signal.SIGKILL)
    # Nobody has waited for it yet, so it is a zombie: dead all the same.
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    seen = ledger.run(run_id)
    assert seen.status == "interrupted"
    assert seen.ended_at == seen.heartbeat_at
    child.communicate()
    assert ledger.reconcile() == []
    assert ledger.claim_for_resume(run_id).pid == os.getpid()


def test_a_process_id_that_is_used_again_is_not_the_process(ledger: Ledger) -> None:
    run = new_run(ledger)
    boot, space, ticks = run.process_start.split("/")
    _change(ledger, process_start=f"{boot}/{space}/{int(ticks) - 1}")
    assert ledger.reconcile() == [run.id]
    assert [seen.status for seen in ledger.runs()] == ["interrupted"]


def test_a_process_from_before_the_last_boot_is_dead(ledger: Ledger) -> None:
    run = new_run(ledger)
    _change(ledger, process_start="another-boot/pid:[1]/77")
    assert ledger.reconcile() == [run.id]


def test_a_live_run_of_this_process_is_left_alone_however_silent(ledger: Ledger) -> None:
    new_run(ledger)
    _change(ledger, heartbeat_at=utc_now() - timedelta(days=1))
    assert ledger.reconcile() == []


@pytest.mark.parametrize("place", ["another host", "another container"])
def test_elsewhere_three_missed_heartbeats_count_as_death(ledger: Ledger, place: str) -> None:
    run = new_run(ledger)
    if place == "another host":
        _change(ledger, host="elsewhere")
    else:
        _change(ledger, process_start=f"{run.process_start.split('/')[0]}/pid:[1]/77")
    _change(ledger, heartbeat_at=utc_now() - timedelta(seconds=25))
    assert ledger.reconcile() == []
    _change(ledger, heartbeat_at=utc_now() - timedelta(seconds=35))
    assert ledger.reconcile() == [run.id]
    assert ledger.reconcile() == []


def test_a_process_that_was_only_silent_takes_its_run_back_by_a_heartbeat(ledger: Ledger) -> None:
    run = new_run(ledger)
    _change(ledger, status="interrupted", ended_at=utc_now())
    ledger.heartbeat(run.id)
    seen = ledger.run(run.id)
    assert (seen.status, seen.ended_at) == ("running", None)
    assert seen.heartbeat_at > run.heartbeat_at
    ledger.finish_run(run.id, "completed")
    with pytest.raises(RunError, match="completed already"):
        ledger.heartbeat(run.id)


def test_a_process_knows_itself_and_not_the_dead() -> None:
    me = this_process()
    assert (me.host, me.pid) == (socket.gethostname(), os.getpid())
    assert is_alive(me) is True
    assert is_alive(Holder("elsewhere", me.pid, me.process_start)) is None
    assert process_start(2**22 + 1) is None


def test_ps_tells_the_same_story_where_there_is_no_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(liveness, "_PROC", tmp_path)
    child = subprocess.Popen(["sleep", "600"])
    start = process_start(child.pid)
    assert start is not None
    holder = Holder(socket.gethostname(), child.pid, start)
    assert is_alive(holder) is True
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_alive(holder) is False
    child.wait()
    assert is_alive(holder) is False
