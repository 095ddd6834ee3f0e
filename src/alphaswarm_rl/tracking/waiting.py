"""What waits in the journals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from alphaswarm_rl.core.errors import TrackingError
from alphaswarm_rl.tracking.delivery import destination_of
from alphaswarm_rl.tracking.destination import shown
from alphaswarm_rl.tracking.journal import (
    Journal,
    is_ended,
    journal_path,
    operations,
    read_state,
    turn,
    write_state,
)


@dataclass(frozen=True)
class Standing:
    """How a run's journal stands.

    Attributes:
        run_id: The run.
        backend: Its tracker.
        place: The tracker and its address.
        experiment: The experiment there.
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
    """How the journal of a run stands; None where it has none."""
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


def end_for(folder: Path, run_id: str, status: str) -> None:
    """Says the end in place of a run that could not: its process was killed."""
    if not is_ended(journal_path(folder, run_id)):
        journal = Journal(folder, run_id)
        journal.append("end", status=status)
        if journal.problem is not None:
            raise TrackingError(f"the journal of run {run_id}", journal.problem, "Free some space.")
        journal.close()


def move(folder: Path, run_id: str, uri: str) -> None:
    """From now on the journal goes to another address, from its beginning."""
    destination = destination_of(folder, run_id)
    if destination is None or destination.backend == "local":
        why = "it has no journal" if destination is None else "it is tracked by local files, which have no address"
        raise TrackingError(f"run {run_id}", why, "Leave --to out.")
    destination.moved(uri)
    with turn(folder, run_id) as ours:
        if not ours:
            raise TrackingError(f"run {run_id}", "another process delivers its journal", "Try again in a moment.")
        state = read_state(folder, run_id)
        write_state(folder, run_id, replace(state, offset=0, uri=shown(uri), set_aside=[], tracker_run=None))


def forget(folder: Path, run_id: str) -> int:
    """Deletes the journal of a run that was removed; gives the bytes that are free. The tracker keeps what it has."""
    freed = 0
    for suffix in ("jsonl", "state.json", "lock"):
        path = folder / f"{run_id}.{suffix}"
        if path.exists():
            freed += path.stat().st_size
            path.unlink()
    return freed
