"""The journal of a run: one operation per line, appended by the run and delivered by whoever has the turn.

    <home>/tracking/journal/<run id>.jsonl       what the run says, in order; only appended to, by one who locks it
    <home>/tracking/journal/<run id>.state.json  how far it is delivered, and why not further
    <home>/tracking/journal/<run id>.lock        who delivers

Passwords in addresses are not written to it.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.files import replace_whole

#: Seconds to wait while another process delivers the same journal.
TURN_S = 30.0

#: An operation that cannot be read.
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class Operation:
    """One operation of a journal, such as metrics or an artefact, that is delivered to the tracker.

    Attributes:
        number: Its number in the journal, from 1 without gaps.
        kind: begin, params, tags, metrics, episodes, drop, artefact, model or end.
        time: When it was said, in milliseconds since 1970.
        data: What is said.
    """

    number: int
    kind: str
    time: int
    data: dict[str, Any]


@dataclass(frozen=True)
class State:
    """How far a journal is delivered.

    Attributes:
        offset: Bytes of it that the tracker has.
        problem: Why it does not have the rest, as far as anybody tried.
        tracker_run: The tracker's own id of the run.
        uri: Another address than the journal names, where somebody gave one.
        set_aside: Operations that the tracker will never take, each with the reason.
    """

    offset: int = 0
    problem: str | None = None
    tracker_run: str | None = None
    uri: str | None = None
    set_aside: list[str] = field(default_factory=list)


class Journal:
    """Appends to the journal of one run. A disk that refuses is no failure: what it did not take is tried again.

    One appends at a time, from `open` to `close`: a second one would give the same numbers again. Each `begin` has the
    claim of its process, and who finds a later one than its own does not append.

    Args:
        folder: Folder of the journals.
        run_id: The run.
        claim: The claim of the process that appends; None for one that tells the end of a run whose process is dead.
    """

    def __init__(self, folder: Path, run_id: str, claim: Claim | None = None) -> None:
        self.path = journal_path(folder, run_id)
        self._claim = claim
        #: Why the disk refused the last time; None where all is written.
        self.problem: str | None = None
        self._waiting: list[tuple[str, int, dict[str, object]]] = []
        self._descriptor: int | None = None
        self._last = 0

    def append(self, kind: str, **data: object) -> None:
        """Appends one operation."""
        self._waiting.append((kind, time.time_ns() // 1_000_000, data))
        self.write()

    def write(self) -> None:
        """Writes the operations that wait to be written."""
        try:
            descriptor = self.open()
            while self._waiting:
                kind, moment, data = self._waiting[0]
                line = json.dumps({"n": self._last + 1, "op": kind, "time": moment, **data}, allow_nan=False)
                _append(descriptor, line.encode() + b"\n")
                del self._waiting[0]
                self._last += 1
        except OSError as error:
            self.problem = f"{self.path}: {error.strerror or error}"
        else:
            self.problem = None

    def open(self) -> int:
        """The file, for us alone.

        Raises:
            BlockingIOError: Somebody else appends to it.
            StaleClaim: A process with a later claim has appended to it.
        """
        if self._descriptor is None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            try:
                self._last = _begin_appending(descriptor, self.path)
                self._refuse_stale()
            except BaseException:
                os.close(descriptor)
                raise
            self._descriptor = descriptor
        return self._descriptor

    def _refuse_stale(self) -> None:
        if self._claim is None:
            return
        newest = max((operation.data.get("claim", 1) for operation, _ in operations(self.path)), default=1)
        if newest > self._claim.number:
            raise self._claim.stale(newest)

    def take_over(self) -> None:
        """Opens it even while another process holds it, whose run is ours now: what that one says goes nowhere."""
        try:
            self.open()
        except BlockingIOError:
            replace_whole(self.path, self.path.read_bytes(), mode=0o600)

    def close(self) -> None:
        """Has the disk keep it, and gives the file back."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


def _begin_appending(descriptor: int, path: Path) -> int:
    """Locks a journal until it is closed; gives the number of its last operation."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise BlockingIOError(error.errno, "somebody else appends to it") from error
    content = path.read_bytes()
    # A process that was killed leaves half a line: nobody read it, and nobody shall take it for one.
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.ftruncate(descriptor, whole)
    return content[:whole].count(b"\n")


def _append(descriptor: int, line: bytes) -> None:
    """Appends a line wholly or not at all."""
    size = os.fstat(descriptor).st_size
    try:
        if os.write(descriptor, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def journal_path(folder: Path, run_id: str) -> Path:
    """The journal of a run."""
    return folder / f"{run_id}.jsonl"


def operations(path: Path, offset: int = 0) -> Iterator[tuple[Operation, int]]:
    """The operations of a journal behind an offset, each with the offset at its end; half a line is none."""
    try:
        content = path.open("rb")
    except (FileNotFoundError, NotADirectoryError):
        return
    with content as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield _parsed(line), offset


def _parsed(line: bytes) -> Operation:
    try:
        data = json.loads(line)
        return Operation(data.pop("n"), data.pop("op"), data.pop("time"), data)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Operation(0, UNREADABLE, 0, {})


def read_state(folder: Path, run_id: str) -> State:
    """How far a journal is delivered; a state that cannot be read means: begin again, which does no harm."""
    try:
        state = State(**json.loads((folder / f"{run_id}.state.json").read_text()))
        return state if _is_between_lines(journal_path(folder, run_id), state.offset) else replace(state, offset=0)
    except (OSError, ValueError, TypeError):
        return State()


def _is_between_lines(path: Path, offset: int) -> bool:
    """Whether a line ends there: not in a journal whose last lines the disk lost, and others came in their place."""
    with path.open("rb") as file:
        file.seek(max(offset - 1, 0))
        return offset == 0 or file.read(1) == b"\n"


def write_state(folder: Path, run_id: str, state: State) -> None:
    """Says how far a journal is delivered; only for whoever has the turn."""
    replace_whole(folder / f"{run_id}.state.json", json.dumps(asdict(state)).encode())


@contextmanager
def turn(folder: Path, run_id: str, *, wait: float = TURN_S) -> Iterator[bool]:
    """Waits until no other process delivers this journal, and says whether that came to pass."""
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait
    while True:
        with lock_path(folder, run_id).open("a") as file:
            if is_locked(file, lock_path(folder, run_id)):
                yield True
                return
        if time.monotonic() > deadline:
            yield False
            return
        time.sleep(0.02)


def lock_path(folder: Path, run_id: str) -> Path:
    """The lock of a run's journal; whoever has the turn may delete it."""
    return folder / f"{run_id}.lock"


def is_locked(file: IO[str], path: Path) -> bool:
    """Locks a file, unless another has it, or deleted it since it was opened: then the lock would be on nothing."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except (BlockingIOError, FileNotFoundError):
        return False
