"""Which runs live: who holds one, and whether that process still runs, so that a look at the ledger tells the truth.

A holder is a host, a process id, and the moment that process began, because ids are used again.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, RowMapping, select, update

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.db.engine import read, write
from alphaswarm_rl.ledger.statements import database_now
from alphaswarm_rl.ledger.tables import runs

LIVE = ("pending", "running")
#: A process on another host is taken for dead after three missed heartbeats of ten seconds.
SILENCE = timedelta(seconds=30)

_SIGNS = (runs.c.id, runs.c.host, runs.c.pid, runs.c.process_start, runs.c.heartbeat_at)
_PROC = Path("/proc")


@dataclass(frozen=True)
class Holder:
    """One process on one host, distinct from any other that ever had its id."""

    host: str
    pid: int
    process_start: str

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def reconcile(engine: Engine, silence: timedelta = SILENCE) -> list[str]:
    """Marks live runs of dead processes as interrupted, and returns their ids.

    Args:
        engine: The ledger's database.
        silence: How long a process that cannot be seen from here may be silent.
    """
    with read(engine) as connection:
        live = connection.execute(select(*_SIGNS).where(runs.c.status.in_(LIVE))).mappings().all()
        now = database_now(connection) if live else None
    dead = [row for row in live if now is not None and _is_dead(row, now, silence)]
    if not dead:
        return []
    marked = []
    with write(engine) as connection:
        for row in dead:
            # Every sign is compared again: meanwhile somebody may have resumed the run, or its process spoken.
            unchanged = [column == row[column.name] for column in _SIGNS]
            values: JsonObject = {"status": "interrupted", "ended_at": runs.c.heartbeat_at}
            done = connection.execute(update(runs).where(*unchanged, runs.c.status.in_(LIVE)).values(values))
            if done.rowcount:
                marked.append(str(row["id"]))
    return marked


def _is_dead(row: RowMapping, now: datetime, silence: timedelta) -> bool:
    alive = is_alive(Holder(row["host"], row["pid"], row["process_start"]))
    if alive is None:
        silent: timedelta = now - row["heartbeat_at"]
        return silent > silence
    return not alive


def this_process() -> Holder:
    """The process that asks."""
    pid = os.getpid()
    start = process_start(pid)
    assert start is not None, "the process that asks is alive"
    return Holder(socket.gethostname(), pid, start)


def is_alive(holder: Holder) -> bool | None:
    """Whether the holder still runs, or None when that cannot be seen from this process."""
    if holder.host != socket.gethostname():
        return None
    if _PROC.joinpath("self").exists():
        boot, space, _ = (*holder.process_start.split("/"), "", "")[:3]
        # Two containers may share a host name and a kernel, and still not see each other's processes.
        if boot == _boot_id() and space != _pid_namespace():
            return None
    return process_start(holder.pid) == holder.process_start


def process_start(pid: int) -> str | None:
    """A text that no two processes of one id share, or None when the process is gone or a zombie."""
    if _PROC.joinpath("self").exists():
        return _start_on_linux(pid)
    return _start_by_ps(pid)


def _start_on_linux(pid: int) -> str | None:
    try:
        stat = _PROC.joinpath(str(pid), "stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field is the command in brackets and may hold blanks and brackets itself.
    fields = stat.rpartition(")")[2].split()
    state, ticks = fields[0], fields[19]
    if state in "ZXx":
        return None
    return f"{_boot_id()}/{_pid_namespace()}/{ticks}"


def _start_by_ps(pid: int) -> str | None:
    answer = subprocess.run(  # noqa: S603
        ["ps", "-o", "stat=,lstart=", "-p", str(pid)],  # noqa: S607
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},
    )
    state, _, start = answer.stdout.strip().partition(" ")
    if answer.returncode != 0 or state.startswith("Z"):
        return None
    return " ".join(start.split())


def _boot_id() -> str:
    # Start times count from boot, so the same number may come again after the next one.
    return _PROC.joinpath("sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _pid_namespace() -> str:
    return str(_PROC.joinpath("self/ns/pid").readlink())
