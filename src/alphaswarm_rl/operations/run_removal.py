"""Removing the files of runs: all of one run's, and those that nobody needs any more.

A run's row stays for good, marked removed. The order of deletion is chosen so that a removal which is cut short can be
repeated: recorded steps go before the mark, files after it.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from alphaswarm_rl.core.errors import OptionError, RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore, folder_size
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.delivery import drop
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.recording.table_refs import refuse_other_tables
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking.listener import journal_folder
from alphaswarm_rl.tracking.waiting import forget

#: Hears a question before anything is deleted: raises where the answer is no, gives False where nobody can be asked.
Confirm = Callable[[str], bool | None]

_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHECKPOINT = re.compile(r"(\.unfinished-)?\d+")


class RemoveRun(NamedRun):
    """Which run loses its files.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        force: Whether runs that stand on its checkpoint, and deployed models, do not count.
    """

    force: bool = False


class RemovedRun(Data):
    """A run that was removed, and the bytes that its files took."""

    run_id: str
    freed_bytes: int
    removed: Literal[True] = True


class CollectGarbage(Data):
    """Whether folders that nobody needs are only named, or deleted."""

    dry_run: bool = False


class Leftover(Data):
    """A folder that nobody needs."""

    path: Path
    why: str
    bytes: int


class Garbage(Data):
    """The folders that were deleted, or would be, and the bytes that they take."""

    dry_run: bool
    bytes: int
    folders: tuple[Leftover, ...]


def _is_sure(question: str) -> bool:
    """The answer of a caller who need not be asked."""
    return True


@operation("runs.rm", changes=True)
def remove_run(settings: Settings, request: RemoveRun, *, confirm: Confirm = _is_sure) -> RemovedRun:
    """Removes a run's files and recorded steps; its row stays, marked removed.

    Raises:
        RunError: The run is live or removed already, or its checkpoint or one of its models is needed.
    """
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        run = ledger.run(request.run)
        folder = settings.models_path / run.id
        _refuse(ledger, run, folder, force=request.force)
        if not request.force:
            _refuse_deployed(registry, run, folder)
        refuse_other_tables(settings, ledger, run)
        _ask(confirm, f"Remove the files of run {run.id}?")
        # The answer may have taken its time: everything is looked at again.
        _refuse(ledger, ledger.run(run.id), folder, force=request.force)
        # Should the lake not answer, or a model be deployed by now, the run is as it was.
        _reach_tables(settings)
        registry.release({folder: "its run was removed"}, force=request.force)
        # Steps go before the mark: should that be cut short, the run can be removed again.
        freed = _remove_steps(settings, run.id)
        ledger.drop_refs(run.id)
        # The files go after it: should their deletion be cut short, `rl runs gc` knows that the rest may go.
        ledger.mark_removed(run.id)
    freed += CheckpointStore(settings.models_path).remove(run.id)
    freed += forget(journal_folder(settings), run.id)
    for path in _other_files(settings, run.id):
        freed += path.stat().st_size
        path.unlink()
    return RemovedRun(run.id, freed)


@operation("runs.gc", changes=True)
def collect_garbage(settings: Settings, request: CollectGarbage, *, confirm: Confirm = _is_sure) -> Garbage:
    """Removes half-written checkpoints, and those of removed and unknown runs.

    Raises:
        RunError: The ledger knows none of the runs, or one of the folders is needed after the question.
    """
    root = settings.models_path
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        leftovers = _leftovers(root, ledger, registry, refuse_strangers=not request.dry_run)
        if not request.dry_run and leftovers:
            _ask(confirm, f"Remove {len(leftovers)} folders?")
            # The answer may have taken its time: everything is looked at again.
            still = {item.path for item in _leftovers(root, ledger, registry)}
            changed = [str(item.path) for item in leftovers if item.path not in still]
            if changed:
                raise RunError(
                    "this removal",
                    f"somebody needs {', '.join(changed)} by now",
                    "Nothing was removed. Look again: rl runs gc --dry-run.",
                )
            registry.release({item.path: item.why for item in leftovers})
            for leftover in leftovers:
                shutil.rmtree(leftover.path)
    return Garbage(request.dry_run, sum(folder.bytes for folder in leftovers), tuple(leftovers))


def _ask(confirm: Confirm, question: str) -> None:
    if confirm(question) is False:
        raise OptionError("this removal", "nobody can be asked: stdin is not a terminal", "Give --yes.")


def _refuse(ledger: Ledger, run: RunRow, folder: Path, *, force: bool) -> None:
    what = f"run {run.id}"
    if run.status in LIVE:
        raise RunError(what, f"it is {run.status}", f"Stop it first: rl halt {run.id} --reason TEXT.")
    if run.removed_at is not None:
        raise RunError(what, "its files were removed already", "Nothing is left to do.")
    users = [user.id for user in ledger.standing_on(str(folder)) if user.removed_at is None]
    if users and not force:
        raise RunError(
            what, f"its checkpoint is what {', '.join(users)} was judged by", "Remove those first, or give --force."
        )


def _refuse_deployed(registry: ModelRegistry, run: RunRow, folder: Path) -> None:
    for why in registry.in_use([folder]).values():
        raise RunError(f"run {run.id}", why, "Promote another first, or give --force: its models are archived.")


def _reach_tables(settings: Settings) -> None:
    """Refuses to begin while the lake does not answer."""
    with Lake(settings) as lake:
        if lake.exists:
            with explained("the lake", "Nothing was removed. Once the catalogue answers, try again."):
                for kind in KINDS:
                    lake.find(lake.identifier(kind))


def _remove_steps(settings: Settings, run_id: str) -> int:
    """Takes a run's steps out of the tables, the spool and the store without tables; returns the bytes freed."""
    with Lake(settings) as lake:
        folders = [lake.spool / run_id, *(folder_of(settings, kind, run_id) for kind in KINDS)]
        if lake.exists:
            drop(lake, run_id, lambda phase, name: True)
    existing = [folder for folder in folders if folder.is_dir()]
    freed = sum(folder_size(folder) for folder in existing)
    for folder in existing:
        shutil.rmtree(folder)
    return freed


def _other_files(settings: Settings, run_id: str) -> list[Path]:
    log = settings.logs_path / f"{run_id}.jsonl"
    recording = settings.below_home(Path("media")) / f"{run_id}.gif"
    return [path for path in (log, recording) if path.is_file()]


def _leftovers(
    root: Path, ledger: Ledger, registry: ModelRegistry, *, refuse_strangers: bool = False
) -> list[Leftover]:
    """What neither the ledger nor the registry needs below the folder of checkpoints."""
    # The folders are looked at before the ledger: a run that starts in between is in neither list.
    folders = _run_folders(root)
    runs = {run.id: run for run in ledger.runs(limit=None, include_removed=True)}
    found = [leftover for folder in folders for leftover in _leftovers_of_run(folder, runs.get(folder.name))]
    used = registry.in_use([leftover.path for leftover in found])
    leftovers = [leftover for leftover in found if leftover.path not in used]
    if refuse_strangers and leftovers and not any(folder.name in runs for folder in folders):
        raise RunError(
            f"the checkpoints below {root}",
            "the ledger knows none of their runs: it looks like another ledger than theirs",
            "Name theirs with --db-url, or delete the folder by hand.",
        )
    return leftovers


def _run_folders(root: Path) -> list[Path]:
    """Folders that this program made: the checkpoint folder may be one that people keep other things in."""
    if not root.is_dir():
        return []
    return [
        folder
        for folder in sorted(root.iterdir())
        if folder.is_dir()
        and _RUN_ID.fullmatch(folder.name)
        and all(_CHECKPOINT.fullmatch(part.name) for part in folder.iterdir())
    ]


def _leftovers_of_run(folder: Path, run: RunRow | None) -> list[Leftover]:
    if run is None or run.removed_at is not None:
        why = "the ledger has no such run" if run is None else "its run was removed"
        return [Leftover(folder, why, folder_size(folder))]
    if run.status in LIVE:
        return []  # what is half written there may be being written right now
    return [
        Leftover(part, "half written", folder_size(part))
        for part in sorted(folder.iterdir())
        if not part.name.isdigit()
    ]
