"""What the journals hold that is not delivered yet, and what can be done about it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.tracking.delivery import destination_of
from alphaswarm_rl.tracking.destination import FILES, refuse_address, shown
from alphaswarm_rl.tracking.journal import journal_path, lock_path, operations, read_state, turn, write_state


@dataclass(frozen=True)
class Standing:
    """How much of a run's journal is delivered.

    Attributes:
        backend: The run's tracker; `place` has its address too, and `experiment` is the experiment there.
        waiting: Operations that the tracker does not have yet.
        problem: Why not, as far as anybody tried.
        set_aside: Operations that it will never take, each with the reason.
        tracker_run: The tracker's own id of the run.
    """

    run_id: str
    backend: str
    place: str
    experiment: str
    waiting: int
    problem: str | None
    set_aside: Sequence[str]
    tracker_run: str | None


def journals(folder: Path) -> list[str]:
    """The runs that have a journal."""
    return sorted(path.stem for path in folder.glob("*.jsonl"))


def standing(folder: Path, run_id: str) -> Standing | None:
    """How much of a run's journal is delivered; None where it has none."""
    destination = destination_of(folder, run_id)
    if destination is None:
        return None
    state = read_state(folder, run_id)
    waiting = sum(1 for _ in operations(journal_path(folder, run_id), state.offset))
    return Standing(
        run_id,
        destination.backend,
        destination.place,
        destination.experiment,
        waiting,
        state.problem if waiting else None,
        tuple(state.set_aside),
        state.tracker_run,
    )


def move(folder: Path, run_id: str, uri: str) -> None:
    """Redirects a journal to another address, to which it is delivered from its beginning."""
    destination = destination_of(folder, run_id)
    if destination is None or destination.backend in FILES:
        why = "it has no journal" if destination is None else "it is tracked by local files, which have no address"
        raise TrackingError(f"run {run_id}", why, "Leave --to out.")
    refuse_address(destination.backend, uri)
    with turn(folder, run_id) as ours:
        if not ours:
            raise TrackingError(f"run {run_id}", "another process delivers its journal", "Try again in a moment.")
        state = read_state(folder, run_id)
        write_state(folder, run_id, replace(state, offset=0, uri=shown(uri), set_aside=[], tracker_run=None))


def forget(folder: Path, run_id: str) -> int:
    """Deletes the journal of a run that was removed; returns the bytes freed. The tracker keeps what it has."""
    if not journal_files(folder, run_id):
        return 0
    with turn(folder, run_id) as ours:
        if not ours:
            raise TrackingError(f"run {run_id}", "another process delivers its journal", "Try again in a moment.")
        paths = journal_files(folder, run_id)
        freed = sum(path.stat().st_size for path in paths)
        for path in paths:
            path.unlink(missing_ok=True)
    return freed


def journal_files(folder: Path, run_id: str) -> list[Path]:
    """The files of a run's journal that are there; the lock is the last, so that the turn is kept until it goes."""
    paths = (journal_path(folder, run_id), folder / f"{run_id}.state.json", lock_path(folder, run_id))
    return [path for path in paths if path.exists()]
