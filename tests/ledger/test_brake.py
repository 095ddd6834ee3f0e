"""The kill switch as loops and servers see it."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import LedgerError, RunError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger import brake as brake_module
from alphaswarm_rl.ledger.brake import Brake, Stop
from alphaswarm_rl.settings import LedgerSettings
from tests.ledger.samples import new_run, open_ledger
from tests.ledger.troubles import copy_of, locked, put_in_place, remove

QUICK = LedgerSettings(halt_poll_seconds=0.02, halt_silence_seconds=0.4)
PATIENT = LedgerSettings(halt_poll_seconds=0.02)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(file: Path) -> Iterator[Ledger]:
    with open_ledger(f"sqlite:///{file}") as opened:
        yield opened


@pytest.fixture
def operator(ledger: Ledger, file: Path) -> Iterator[Ledger]:
    """The same ledger, as another process has it open."""
    with open_ledger(f"sqlite:///{file}") as opened:
        yield opened


def wait_for(found: Callable[[], bool], seconds: float = 3.0) -> float:
    """Seconds until something is so."""
    began = time.monotonic()
    while not found():
        assert time.monotonic() - began < seconds
        time.sleep(0.002)
    return time.monotonic() - began


def stopped(brake: Brake, run: str | None = None) -> Stop:
    stop = brake.look(run)
    assert stop is not None
    return stop


@pytest.mark.parametrize("poll", [0.02, 5.0])
def test_a_halt_in_the_ledger_stops_within_a_second_until_its_release(ledger: Ledger, operator: Ledger, poll) -> None:
    with Brake(ledger, LedgerSettings(halt_poll_seconds=poll)) as brake:
        assert brake.look() is None
        brake.refuse()
        operator.engage("*", "enough", "ann")
        wait_for(lambda: brake.look() is not None)
        assert stopped(brake).reason == "kill switch: enough"
        with pytest.raises(RunError, match=r"it is engaged: enough.*rl halt --release"):
            brake.refuse()
        operator.release("*", "go on", "ann")
        wait_for(lambda: brake.look() is None)


def test_a_halt_on_postgresql_stops_too(new_postgres) -> None:
    url = new_postgres()
    with open_ledger(url) as ledger, open_ledger(url) as operator, Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        operator.engage("*", "enough", "ann")
        wait_for(lambda: brake.look() is not None)


def test_a_halt_of_one_run_concerns_that_run_alone(ledger: Ledger, operator: Ledger) -> None:
    run, other = new_run(ledger).id, new_run(ledger).id
    with Brake(ledger, PATIENT) as brake:
        operator.engage(run, "diverges", "ann")
        wait_for(lambda: brake.look(run) is not None)
        assert brake.look(other) is None
        assert brake.look() is None
        with pytest.raises(RunError, match=f"rl halt {run} --release"):
            brake.refuse(run)


def test_an_engaged_switch_stops_from_the_first_look(ledger: Ledger, operator: Ledger) -> None:
    operator.engage("*", "enough", "ann")
    with Brake(ledger, PATIENT) as brake:
        assert stopped(brake).reason == "kill switch: enough"


def test_a_file_stops_while_the_ledger_is_locked_and_is_recorded_when_it_is_free(
    ledger: Ledger, operator: Ledger, file: Path, caplog
) -> None:
    with Brake(ledger, PATIENT) as brake, caplog.at_level(logging.ERROR):
        with locked(file):
            declared = operator.declare_halt("*", "enough", "ann")
            wait_for(lambda: brake.look() is not None)
            Path(f"{file}.halt").unlink()  # releases nothing
            time.sleep(0.3)
            assert stopped(brake).reason == "kill switch: enough"
            assert operator.halt_status() == []
        wait_for(lambda: operator.halt_status() == [declared])
        assert stopped(brake).reason == "kill switch: enough"
        assert [(row.action, row.actor) for row in operator.halt_log()] == [("engage", "ann")]
        operator.release("*", "go on", "ann")
        wait_for(lambda: brake.look() is None)
    assert sum("halted by the file" in record.getMessage() for record in caplog.records) == 1


def test_a_release_before_the_halt_could_be_recorded_is_final(ledger: Ledger, operator: Ledger, file: Path) -> None:
    with Brake(ledger, PATIENT) as brake:
        with locked(file):
            operator.declare_halt("*", "enough", "ann")
            wait_for(lambda: brake.look() is not None)
        operator.release("*", "go on", "ann")
        wait_for(lambda: brake.look() is None)
        time.sleep(0.1)
        assert brake.look() is None
        assert operator.halt_log()[-1].action == "release"


def test_a_file_that_a_release_left_behind_stops_nothing(ledger: Ledger, file: Path) -> None:
    ledger.engage("*", "enough", "ann")
    content = Path(f"{file}.halt").read_bytes()
    ledger.release("*", "go on", "ann")
    Path(f"{file}.halt").write_bytes(content)
    with Brake(ledger, PATIENT) as brake:
        for _ in range(20):
            assert brake.look() is None
            time.sleep(0.005)


def test_a_ledger_that_is_gone_is_silence_and_silence_stops(ledger: Ledger, file: Path, caplog) -> None:
    copy = copy_of(file, file.with_name("copy.db"))
    with Brake(ledger, QUICK) as brake, caplog.at_level(logging.ERROR):
        assert brake.look() is None
        remove(file)
        silence = wait_for(lambda: brake.look() is not None)
        assert 0.3 < silence < 2
        assert not file.exists()
        assert stopped(brake).reason.startswith("the kill switch gave no answer for")
        with pytest.raises(RunError, match=r"no answer for \d+ s .*is gone.*--offline"):
            brake.refuse()
        put_in_place(file, copy)
        wait_for(lambda: brake.look() is None)
    assert sum("does not answer" in record.getMessage() for record in caplog.records) == 1


def test_a_ledger_that_is_put_back_is_opened_again(ledger: Ledger, file: Path) -> None:
    with Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        put_in_place(file, copy_of(file, file.with_name("copy.db")))
        with open_ledger(f"sqlite:///{file}") as operator:
            operator.engage("*", "enough", "ann")
            Path(f"{file}.halt").unlink()  # the row alone says it
            wait_for(lambda: brake.look() is not None)


class Hanging:
    """A ledger whose kill switch hangs from some moment on."""

    def __init__(self, monkeypatch) -> None:
        self.hangs, self.free = threading.Event(), threading.Event()
        real = Ledger.halt_status

        def halt_status(ledger: Ledger):
            if self.hangs.is_set():
                self.free.wait(20)
            return real(ledger)

        monkeypatch.setattr(Ledger, "halt_status", halt_status)
        monkeypatch.setattr(brake_module, "_JOIN_SECONDS", 0.05)


def test_a_question_that_hangs_is_waited_for_once_and_then_counts_as_silence(
    ledger: Ledger, operator: Ledger, monkeypatch
) -> None:
    hanging = Hanging(monkeypatch)
    with Brake(ledger, LedgerSettings(halt_poll_seconds=0.02, halt_silence_seconds=3.0)) as brake:
        assert brake.look() is None
        hanging.hangs.set()
        began, looks = time.monotonic(), []
        while brake.look() is None:
            looks.append(time.monotonic() - began)
            time.sleep(0.002)
        assert 2.8 < time.monotonic() - began < 5
        waits = [after - before for before, after in pairwise(looks) if after - before > 0.5]
        assert len(waits) == 1
        assert 0.9 < waits[0] < 2
        assert "hangs" in str(stopped(brake).error)
        hanging.free.set()
        hanging.hangs.clear()
        wait_for(lambda: brake.look() is None)


def test_a_file_stops_although_the_question_hangs(ledger: Ledger, operator: Ledger, monkeypatch) -> None:
    hanging = Hanging(monkeypatch)
    with Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        hanging.hangs.set()
        time.sleep(0.1)
        operator.declare_halt("*", "enough", "ann")
        wait_for(lambda: brake.look() is not None)
        hanging.free.set()


def test_what_was_said_counts_for_a_second_at_most(ledger: Ledger, operator: Ledger, monkeypatch) -> None:
    with Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        brake.close()  # nobody asks any more
        monkeypatch.setattr(Brake, "_latch", lambda self: None)
        operator.engage("*", "enough", "ann")
        began = time.monotonic()
        while brake.look() is None:
            time.sleep(0.01)
            brake._stopping.clear()
        assert time.monotonic() - began < 2


def test_a_look_mostly_compares_two_numbers(ledger: Ledger, monkeypatch) -> None:
    reads = []
    with Brake(ledger, LedgerSettings()) as brake:
        real = brake._files.read
        monkeypatch.setattr(brake._files, "read", lambda: reads.append(1) or real())
        for _ in range(10_000):
            brake.look()
    assert len(reads) <= 8


LOOP = """
import sys, time
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.brake import Brake
from alphaswarm_rl.settings import LedgerSettings, Settings

settings = Settings(ledger=LedgerSettings(url=sys.argv[1]))
with Ledger.open(settings) as ledger, Brake(ledger, settings.ledger) as brake:
    while brake.look() is None:
        print(time.time(), flush=True)
        time.sleep(0.005)
"""


def test_a_process_that_was_paused_gives_no_answer_from_before(ledger: Ledger, file: Path) -> None:
    command = [sys.executable, "-c", LOOP, f"sqlite:///{file}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGSTOP)
    time.sleep(0.2)
    ledger.engage("*", "enough", "ann")
    Path(f"{file}.halt").unlink()
    time.sleep(1.2)
    process.send_signal(signal.SIGCONT)
    woken = time.time()
    out, _ = process.communicate(timeout=20)
    assert [answer for answer in map(float, out.split()) if answer > woken] == []


def test_a_child_of_a_fork_asks_for_itself(ledger: Ledger, operator: Ledger) -> None:
    with Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        fork = multiprocessing.get_context("fork")
        ready, seen = fork.Event(), fork.Event()

        def look_on() -> None:
            assert brake.look() is None
            ready.set()
            wait_for(lambda: brake.look() is not None, seconds=5)
            seen.set()
            os._exit(0)

        child = fork.Process(target=look_on)
        child.start()
        assert ready.wait(10)
        operator.engage("*", "enough", "ann")
        assert seen.wait(5)
        child.join()


def test_nobody_asks_for_a_brake_that_is_forgotten(ledger: Ledger) -> None:
    brake = Brake(ledger, PATIENT)
    brake.look()
    thread = brake._thread
    assert thread is not None
    del brake
    gc.collect()
    wait_for(lambda: not thread.is_alive())


def test_a_ledger_that_does_not_answer_the_first_question_is_an_error(ledger: Ledger, file: Path) -> None:
    remove(file)
    with pytest.raises(LedgerError, match="gone"):
        Brake(ledger, PATIENT)


def test_another_ledger_in_its_place_stops_at_once(ledger: Ledger, file: Path) -> None:
    copy, other = copy_of(file, file.with_name("copy.db")), file.with_name("other.db")
    open_ledger(f"sqlite:///{other}").close()
    with Brake(ledger, PATIENT) as brake:
        assert brake.look() is None
        put_in_place(file, copy_of(other, file.with_name("foreign.db")))
        wait_for(lambda: brake.look() is not None)
        assert "another ledger" in stopped(brake).reason
        with pytest.raises(RunError, match="Put the right database back"):
            brake.refuse()
        put_in_place(file, copy)
        wait_for(lambda: brake.look() is None)


def test_a_folder_that_cannot_be_looked_into_is_silence(ledger: Ledger, monkeypatch) -> None:
    scandir, broken = os.scandir, threading.Event()

    def look(path: Path) -> object:
        if broken.is_set():
            raise PermissionError(13, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", look)
    with Brake(ledger, QUICK) as brake:
        assert brake.look() is None
        broken.set()
        time.sleep(0.05)
        assert brake.look() is None  # not at once
        took = wait_for(lambda: brake.look() is not None)
        assert took < 1.5
        with pytest.raises(RunError, match=r"it gave no answer for .*cannot be looked into"):
            brake.refuse()
        broken.clear()
        wait_for(lambda: brake.look() is None)


def test_a_halt_of_a_bot_stops_who_works_for_it_alone(ledger: Ledger, operator: Ledger) -> None:
    run = new_run(ledger)
    with (
        Brake(ledger, QUICK, bot="grid") as of_bot,
        Brake(ledger, QUICK, bot="other") as other,
        Brake(ledger, QUICK) as of_none,
    ):
        operator.engage("bot:grid", "too hot", "ann")
        wait_for(lambda: of_bot.look() is not None)
        assert stopped(of_bot, run.id).reason == "kill switch: too hot"
        with pytest.raises(RunError, match="rl halt --scope bot:grid --release"):
            of_bot.refuse()
        assert other.look(run.id) is None
        assert of_none.look(run.id) is None
        operator.engage("platform", "all", "ann")
        for brake in (of_bot, other, of_none):
            # The bot's own halt is seen until the ledger is asked again.
            wait_for(lambda: getattr(brake.look(), "reason", None) == "kill switch: all")  # noqa: B023


def test_a_bots_file_stops_while_the_ledger_is_locked(ledger: Ledger, file: Path) -> None:
    with Brake(ledger, PATIENT, bot="grid") as brake, Brake(ledger, PATIENT) as another:
        with locked(file):
            halt = ledger.declare_halt("bot:grid", "too hot", "ann")
            assert (file.parent / "ledger.db.bot-grid.halt").exists()
            wait_for(lambda: brake.look() is not None)
            assert another.look() is None
            assert ledger.halt_files.read() == [halt]
        wait_for(lambda: [entry.scope for entry in ledger.halt_log()] == ["bot:grid"])
    ledger.release("bot:grid", "over", "ann")
    assert not list(file.parent.glob("*.halt"))


def test_a_bot_without_a_plain_name_has_no_brake(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match=r"the bot '\.\./x'"):
        Brake(ledger, QUICK, bot="../x")
