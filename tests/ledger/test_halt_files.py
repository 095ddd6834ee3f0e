"""Halts that are files beside the ledger."""

from __future__ import annotations

import errno
import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import LedgerBusy, LedgerError, RunError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import HaltRow, Ledger
from alphaswarm_rl.ledger import halt_files as halt_files_module
from alphaswarm_rl.ledger import halts as halts_module
from alphaswarm_rl.ledger.halt_files import LATEST, HaltFiles
from alphaswarm_rl.ledger.tables import kill_switch, kill_switch_log
from tests.ledger.samples import new_run, open_ledger
from tests.ledger.troubles import copy_of, locked, put_in_place

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def ledger(file: Path):
    with open_ledger(f"sqlite:///{file}") as opened:
        yield opened


def beside(file: Path) -> list[str]:
    return sorted(path.name for path in file.parent.iterdir() if path.name.endswith(".halt"))


def halt(scope: str = "*", at: datetime = LONG_AGO) -> HaltRow:
    return HaltRow(scope, True, "why", "ann", at)


def test_a_halt_is_a_file_as_long_as_it_holds(ledger: Ledger, file: Path) -> None:
    run = new_run(ledger)
    everything, one = ledger.engage("*", "market closed", "ann"), ledger.engage(run.id, "diverges", "bob")
    assert beside(file) == [f"ledger.db.{run.id}.halt", "ledger.db.halt"]
    assert json.loads(Path(f"{file}.halt").read_text()) == everything.as_dict()
    assert ledger.halt_files.read() == [one, everything]
    ledger.release(run.id[:8], "over", "ann")
    assert beside(file) == ["ledger.db.halt"]
    ledger.release("*", "over", "ann")
    assert beside(file) == []


def test_on_postgresql_the_ledger_alone_halts(new_postgres) -> None:
    with open_ledger(new_postgres()) as ledger:
        declared = ledger.declare_halt("*", "why", "ann")
        assert ledger.halt_files.path("*") is None
        assert ledger.halt_status() == []
        assert ledger.record_halt(declared) == declared
        assert ledger.halt_status() == [declared]
        assert not ledger.release("*", "over", "ann").engaged


def test_a_file_halts_while_another_process_has_the_ledger_locked(ledger: Ledger, file: Path) -> None:
    with locked(file):
        declared = ledger.declare_halt("*", "why", "ann")
        with pytest.raises(LedgerBusy, match="another process holds it"):
            ledger.record_halt(declared, patience=0.05)
        assert ledger.halt_status() == [declared]
        assert ledger.halt_reason("any run") == "why"
        with pytest.raises(RunError, match="engaged: why"):
            ledger.refuse_if_halted()
        assert ledger.halt_log() == []
    assert ledger.record_halt(declared) == declared
    assert [(row.action, row.at) for row in ledger.halt_log()] == [("engage", declared.set_at)]


def test_a_halt_is_recorded_once_whoever_records_it(ledger: Ledger) -> None:
    declared = ledger.declare_halt("*", "why", "ann")
    for _ in range(3):
        assert ledger.record_halt(declared) == declared
    assert len(ledger.halt_log()) == 1


def test_a_halt_that_was_released_is_not_recorded_again(ledger: Ledger, file: Path) -> None:
    declared = ledger.declare_halt("*", "why", "ann")
    content = Path(f"{file}.halt").read_bytes()
    released = ledger.release("*", "over", "bob")
    assert not released.engaged
    Path(f"{file}.halt").write_bytes(content)  # somebody put it back, or it was never removed
    assert ledger.halt_status() == []
    assert ledger.record_halt(declared) == released
    assert ledger.halt_status() == []
    assert [row.action for row in ledger.halt_log()] == ["engage", "release"]


def test_deleting_the_file_releases_nothing_that_is_recorded(ledger: Ledger, file: Path) -> None:
    engaged = ledger.engage("*", "why", "ann")
    Path(f"{file}.halt").unlink()
    assert ledger.halt_status() == [engaged]
    ledger.release("*", "over", "ann")
    assert ledger.halt_status() == []


def test_a_halt_survives_a_ledger_that_is_put_back_from_before_it(ledger: Ledger, file: Path) -> None:
    run = new_run(ledger)
    copy = copy_of(file, file.with_name("copy.db"))
    later = new_run(ledger)
    ledger.engage("*", "why", "ann")
    ledger.engage(later.id, "diverges", "ann")
    put_in_place(file, copy)
    assert [(row.scope, row.reason) for row in ledger.halt_status()] == [("*", "why"), (later.id, "diverges")]
    assert ledger.run(run.id).id == run.id
    ledger.release(later.id, "over", "ann")  # a run that this copy does not know
    ledger.release("*", "over", "ann")
    assert ledger.halt_status() == []
    assert beside(file) == []


def test_what_came_later_decides_even_when_the_clock_goes_back(ledger: Ledger, monkeypatch) -> None:
    def now() -> datetime:
        return LONG_AGO

    ledger.engage("*", "first", "ann")
    ledger.release("*", "over", "ann")
    monkeypatch.setattr(halts_module, "utc_now", now)
    again = ledger.engage("*", "second", "ann")
    assert ledger.halt_status() == [again]
    ledger.release("*", "over again", "ann")
    assert ledger.halt_status() == []
    times = [row.at for row in ledger.halt_log()]
    assert times == sorted(set(times))
    declared = ledger.declare_halt("*", "third", "ann")
    ledger.release("*", "and again", "ann")
    assert ledger.record_halt(declared).engaged is False


def test_a_file_from_before_the_ledger_was_opened_stands_unless_it_was_released(ledger: Ledger) -> None:
    files, filed = ledger.halt_files, halt()
    files.write(filed)
    assert ledger.declare_halt("*", "why", "ann", filed=filed) == filed
    ledger.release("*", "over", "ann")
    files.write(filed)
    declared = ledger.declare_halt("*", "why", "ann", filed=filed)
    assert declared.set_at > ledger.halt_log()[-1].at
    assert ledger.halt_status() == files.read() == [declared]


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"scope": "*"}', b"1" * (1 << 21), b'{"set_at": 3}'])
def test_a_file_that_cannot_be_read_halts(ledger: Ledger, file: Path, content: bytes) -> None:
    Path(f"{file}.halt").write_bytes(content)
    (found,) = ledger.halt_status()
    assert (found.scope, found.engaged) == ("*", True)
    assert "cannot be read" in found.reason
    ledger.release("*", "it was nothing", "ann")
    assert ledger.halt_status() == []
    assert beside(file) == []


@pytest.mark.parametrize("reason", [[1], "", "\x1b[2J"])
def test_a_reason_that_is_no_text_is_a_file_that_cannot_be_read(ledger: Ledger, file: Path, reason: object) -> None:
    Path(f"{file}.halt").write_text(json.dumps({**halt().as_dict(), "reason": reason}))
    assert "cannot be read" in ledger.halt_status()[0].reason


def test_a_fifo_keeps_nobody_waiting(ledger: Ledger, file: Path) -> None:
    os.mkfifo(f"{file}.halt")
    assert "cannot be read" in ledger.halt_status()[0].reason


def test_other_names_beside_the_ledger_are_no_halts(ledger: Ledger, file: Path) -> None:
    for name in ("ledger.db.old.halt", "other.db.halt", ".ledger.db.halt-0123", "ledger.dbx.halt", "xledger.db.halt"):
        file.with_name(name).touch()
    file.with_name("ledger.db.halt").mkdir()
    assert ledger.halt_status() == []


def test_a_newer_halt_is_not_removed_with_an_older_one(file: Path) -> None:
    files = HaltFiles(file)
    files.write(halt(at=LONG_AGO))
    files.remove("*", until=LONG_AGO - timedelta(seconds=1))
    assert files.read() == [halt(at=LONG_AGO)]
    files.remove("*", until=LONG_AGO)
    assert files.read() == []
    assert list(file.parent.iterdir()) == []
    files.remove("*", until=LONG_AGO)


def test_a_folder_that_cannot_be_written_to_is_an_error(tmp_path: Path) -> None:
    files = HaltFiles(tmp_path / "nowhere" / "ledger.db")
    assert files.read() == []
    with pytest.raises(LedgerError, match="cannot be written"):
        files.write(halt())


def test_a_newer_halt_that_comes_while_an_older_one_is_removed_stays(file: Path, monkeypatch) -> None:
    files, newer = HaltFiles(file), halt(at=LONG_AGO + timedelta(seconds=1))
    files.write(halt())
    rename, renamed = Path.rename, []

    def late(self: Path, target: Path) -> Path:
        if not renamed:
            renamed.append(target)
            files.write(newer)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", late)
    files.remove("*", until=LONG_AGO)
    assert beside(file) == [renamed[0].name]
    assert files.read() == [newer]  # and so it is where the process was killed there
    newest = halt(at=LONG_AGO + timedelta(seconds=2))
    files.write(newest)
    assert files.read() == [newest]
    files.remove("*", until=newer.set_at)
    assert beside(file) == ["ledger.db.halt"]
    files.remove("*", until=newest.set_at)
    assert beside(file) == []


def test_an_older_halt_in_the_place_of_a_newer_one_that_is_aside_does_not_hide_it(file: Path) -> None:
    files, newer = HaltFiles(file), halt(at=LONG_AGO + timedelta(seconds=1))
    files.write(newer)
    Path(f"{file}.halt").rename(file.with_name(f"ledger.db.aside-{'0' * 32}.halt"))
    files.write(halt())
    assert files.read() == [newer]
    files.remove("*", until=LONG_AGO)
    assert files.read() == [newer]


def test_a_halt_of_one_run_is_not_removed_with_that_of_another(file: Path) -> None:
    files, one = HaltFiles(file), "0a1b2c3d-0000-4000-8000-0123456789ab"
    files.write(halt(one))
    files.write(halt())
    files.remove("*", until=LONG_AGO)
    assert files.read() == [halt(one)]
    files.remove(one, until=LONG_AGO)
    assert beside(file) == []


def test_two_processes_may_release_at_once(file: Path, monkeypatch) -> None:
    files = HaltFiles(file)
    files.write(halt())
    rename = Path.rename

    def second(self: Path, target: Path) -> Path:
        monkeypatch.setattr(Path, "rename", rename)
        HaltFiles(file).remove("*", until=LONG_AGO)
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", second)
    files.remove("*", until=LONG_AGO)
    assert beside(file) == []


@pytest.mark.parametrize("at", ["9999-12-31T23:59:59.999999", "9999-12-31T23:59:59.999998", "9000-01-01T00:00:00"])
def test_a_halt_of_a_date_that_no_clock_gave_holds_and_leaves_the_brake_whole(
    ledger: Ledger, file: Path, at: str
) -> None:
    Path(f"{file}.halt").write_text(json.dumps({**halt().as_dict(), "set_at": f"{at}+00:00"}))
    (found,) = ledger.halt_status()
    assert "cannot be read" in found.reason
    assert found.set_at.timestamp() == pytest.approx(Path(f"{file}.halt").stat().st_mtime)
    ledger.release("*", "a wrong date", "ann")
    assert (ledger.halt_status(), beside(file)) == ([], [])
    again = ledger.engage("*", "second", "ann")
    assert ledger.halt_status() == [again]
    assert again.set_at < LATEST
    ledger.release("*", "over", "ann")
    assert ledger.halt_status() == []


def test_a_file_that_was_changed_at_a_time_that_no_clock_gave_can_be_released(
    ledger: Ledger, file: Path, monkeypatch
) -> None:
    Path(f"{file}.halt").write_text("damaged")
    # Not every file system has such times.
    monkeypatch.setattr(halt_files_module, "_LATEST_CHANGE", LONG_AGO)
    assert ledger.halt_status()[0].set_at == LONG_AGO
    ledger.release("*", "a wrong date", "ann")
    assert (ledger.halt_status(), beside(file)) == ([], [])


def test_a_log_that_such_a_date_came_into_halts_and_releases_again(ledger: Ledger) -> None:
    for action, at in (("engage", datetime.max), ("release", datetime.max)):
        entry = {"scope": "*", "action": action, "reason": "why", "actor": "ann", "at": at.replace(tzinfo=UTC)}
        with write(ledger.engine) as connection:
            connection.execute(kill_switch_log.insert().values(entry))
    declared = ledger.declare_halt("*", "again", "ann")
    assert ledger.halt_status() == [declared]
    assert ledger.record_halt(declared) == declared
    with write(ledger.engine) as connection:
        connection.execute(kill_switch.update().values(set_at=datetime.max.replace(tzinfo=UTC)))
    released = ledger.release("*", "over", "ann")
    assert declared.set_at < released.set_at < LATEST
    assert ledger.halt_status() == []


def test_a_date_before_that_counts_however_far_away_it_is(ledger: Ledger) -> None:
    far = halt(at=LATEST - timedelta(microseconds=2))
    ledger.halt_files.write(far)
    assert ledger.halt_status() == [far]
    assert ledger.release("*", "over", "ann").set_at == LATEST - timedelta(microseconds=1)
    assert ledger.halt_status() == []


def test_halts_lie_beside_the_real_file_whatever_link_names_it(ledger: Ledger, file: Path) -> None:
    folder, link = file.with_name("link"), file.with_name("other.db")
    folder.mkdir()
    for named in (folder / "ledger.db", link):
        named.symlink_to(file)
        with open_ledger(f"sqlite:///{named}") as linked:
            declared = linked.declare_halt("*", "why", "ann")
            assert ledger.halt_status() == [declared] == linked.halt_status()
            assert beside(file) == ["ledger.db.halt"]
            ledger.release("*", "over", "ann")
            assert linked.halt_status() == []


def test_a_link_that_leads_elsewhere_now_is_followed(file: Path) -> None:
    link, files = file.with_name("link.db"), HaltFiles(file.with_name("link.db"))
    link.symlink_to(file)
    files.write(halt())
    link.unlink()
    link.symlink_to(file.with_name("second.db"))
    assert files.read() == []


@pytest.mark.parametrize("code", [errno.EIO, errno.EACCES])
def test_a_folder_that_cannot_be_looked_into_is_an_error(ledger: Ledger, monkeypatch, code: int) -> None:
    def fail(path: Path) -> None:
        raise OSError(code, os.strerror(code), str(path))

    monkeypatch.setattr(os, "scandir", fail)
    with pytest.raises(LedgerError, match=f"cannot be looked into: {os.strerror(code)}"):
        ledger.halt_status()


def test_a_halt_that_was_only_a_file_is_in_the_log_before_its_release(ledger: Ledger, file: Path) -> None:
    with locked(file):
        halt = ledger.declare_halt("*", "while it is locked", "me")
        with pytest.raises(LedgerBusy):
            ledger.record_halt(halt, patience=0.05)
    ledger.release("*", "over", "me")
    assert [(row.action, row.reason) for row in ledger.halt_log()] == [
        ("engage", "while it is locked"),
        ("release", "over"),
    ]
    ledger.engage("*", "again", "me")
    ledger.release("*", "over", "me")
    assert len(ledger.halt_log()) == 4
