"""Runs and the kill switch, whatever becomes of the ledger meanwhile."""

import threading
import time
from dataclasses import replace

import pytest

from alphaswarm_rl.core.errors import AlphaSwarmError, LedgerBusy, LedgerError, RunError
from alphaswarm_rl.db import engine as engine_module
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.halting import HaltWatcher
from alphaswarm_rl.runtime.run import Run
from alphaswarm_rl.settings import LedgerSettings
from tests.ledger.troubles import copy_of, locked, put_in_place, remove
from tests.runtime.conftest import tiny

RANDOM = {"agent": {"class": "random"}, "evaluation": {"episodes": 2}}
ENDLESS = {"training": {"total_timesteps": 10**9, "n_envs": 8, "log_interval": 10**6}, **RANDOM}


@pytest.fixture
def quick(settings):
    return settings.model_copy(update={"ledger": LedgerSettings(halt_poll_seconds=0.02, halt_silence_seconds=1.0)})


@pytest.fixture
def file(settings):
    return settings.home / "ledger.db"


class Running:
    """A verb in a thread of its own, which steps until it is halted."""

    def __init__(self, verb):
        self.result, self.error, self._steps = None, None, 0
        real = HaltWatcher.should_halt
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(HaltWatcher, "should_halt", lambda watcher: self._count() or real(watcher))
        self._thread = threading.Thread(target=self._run, args=(verb,))
        self._thread.start()
        deadline = time.monotonic() + 60
        while self._steps < 20:
            assert self._thread.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def _count(self):
        self._steps += 1
        self._last = time.monotonic()

    def _run(self, verb):
        try:
            self.result = verb()
        except AlphaSwarmError as error:
            self.error = error

    def seconds_after(self, change):
        """Seconds of steps after a change."""
        began = time.monotonic()
        change()
        while time.monotonic() - self._last < 0.5:
            assert time.monotonic() - began < 10
            time.sleep(0.01)
        return self._last - began

    def end(self):
        self._thread.join(30)
        assert not self._thread.is_alive()
        self._patch.undo()
        return self.result


@pytest.fixture(params=["train", "evaluate", "replay"])
def verb(request, quick):
    if request.param == "train":
        return RLRuntime(tiny(**ENDLESS), quick).train
    trained = RLRuntime(tiny(training={"total_timesteps": 64}, **RANDOM), quick).train()
    runtime = RLRuntime.from_run(trained.run_id, quick)
    return lambda: getattr(runtime, request.param)(episodes=10**7)


def test_a_file_halts_while_the_ledger_is_locked_and_the_row_says_so_when_it_is_free(verb, quick, file):
    running = Running(verb)
    with locked(file), Ledger.open(quick) as operator:
        assert running.seconds_after(lambda: operator.declare_halt("*", "enough", "test")) < 2
        (file.parent / "ledger.db.halt").unlink()  # releases nothing
        time.sleep(0.2)
        assert operator.runs()[0].status == "running"
    assert (running.end().status, running.result.halt_reason) == ("halted", "kill switch: enough")
    with Ledger.open(quick) as operator:
        assert [halt.reason for halt in operator.halt_status()] == ["enough"]


def test_a_ledger_that_is_put_back_is_noticed(verb, quick, file):
    running = Running(verb)
    put_in_place(file, copy_of(file, file.with_name("copy.db")))

    def engage():
        with Ledger.open(quick) as operator:
            operator.engage("*", "enough", "test")
        (file.parent / "ledger.db.halt").unlink()  # the row alone says it

    assert running.seconds_after(engage) < 2
    assert running.end().status == "halted"


def test_a_ledger_that_is_gone_halts_after_the_silence(verb, quick, file):
    running = Running(verb)
    assert running.seconds_after(lambda: remove(file)) < 3
    assert running.end() is None
    assert isinstance(running.error, LedgerError)  # the row could not be written
    assert not file.exists()


def test_a_loop_that_waits_for_the_ledger_itself_is_halted_all_the_same(quick, file, monkeypatch):
    monkeypatch.setattr(engine_module, "BUSY_SECONDS", 0.5)
    spec = tiny(**{**ENDLESS, "training": {**ENDLESS["training"], "log_interval": 1}})
    running = Running(RLRuntime(spec, quick).train)
    with locked(file), Ledger.open(quick) as operator:
        operator.declare_halt("*", "enough", "test")
        time.sleep(1.5)
    assert running.end() is None or running.result.status == "halted"
    assert running.error is None or isinstance(running.error, LedgerBusy)
    with Ledger.open(quick) as operator:
        row = operator.runs()[0]
        assert (row.status, row.halt_reason) == ("halted", "kill switch: enough")
        assert [event.stage for event in operator.events(row.id)][-1] == "halted"


def test_a_run_whose_heart_cannot_beat_halts(settings, monkeypatch):
    quick = LedgerSettings(halt_poll_seconds=0.02, halt_silence_seconds=0.3, heartbeat_seconds=0.1)

    def fail(self, run_id):
        raise LedgerError("the ledger", "it is read-only", "Make it writable.")

    monkeypatch.setattr(Ledger, "heartbeat", fail)
    result = RLRuntime(tiny(**ENDLESS), settings.model_copy(update={"ledger": quick})).train()
    assert result.status == "halted"
    assert "no heartbeat could be written for" in result.halt_reason


def test_a_lock_of_others_keeps_no_heartbeat_from_the_kill_switch(settings, quick, file):
    often = quick.ledger.model_copy(update={"heartbeat_seconds": 0.05, "halt_silence_seconds": 30.0})
    running = Running(RLRuntime(tiny(**ENDLESS), settings.model_copy(update={"ledger": often})).train)
    with locked(file), Ledger.open(quick) as operator:
        time.sleep(0.3)  # a heartbeat waits for the lock
        assert running.seconds_after(lambda: operator.declare_halt("*", "enough", "test")) < 2
    assert running.end().status == "halted"


@pytest.mark.parametrize("verb", ["evaluate", "replay"])
def test_a_halted_run_is_played_by_nobody(verb, quick):
    trained = RLRuntime(tiny(training={"total_timesteps": 64}, **RANDOM), quick).train()
    runtime = RLRuntime.from_run(trained.run_id, quick)
    running = Running(lambda: getattr(runtime, verb)(episodes=10**7))
    with Ledger.open(quick) as ledger:
        assert running.seconds_after(lambda: ledger.engage(trained.run_id, "one", "me")) < 1.0
        assert running.end().status == "halted"
        with pytest.raises(RunError, match="engaged: one"):
            getattr(runtime, verb)(episodes=1)
        ledger.release(trained.run_id, "over", "me")
    assert getattr(runtime, verb)(episodes=1).status == "completed"


def test_a_training_is_not_halted_with_the_run_that_it_came_from(quick):
    trained = RLRuntime(tiny(training={"total_timesteps": 64}, **RANDOM), quick).train()
    with Ledger.open(quick) as ledger:
        row = replace(ledger.run(trained.run_id), parent_run_id="another")
        setup = RLRuntime(tiny(**RANDOM), quick)._setup
        assert Run(setup, ledger, row).watcher._run_ids == [trained.run_id]
        assert Run(setup, ledger, replace(row, target="replay")).watcher._run_ids == [trained.run_id, "another"]
