"""Removing the files of runs: all of one run's, and those that nobody needs any more.

A run's row stays for good, marked removed. A removal that is cut short is finished by whoever looks next (`removals`);
everything that it does can be done twice.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path

from alphaswarm_rl.core.claims import claim_folders, number_of
from alphaswarm_rl.core.errors import AlphaSwarmError, OptionError, RunError
from alphaswarm_rl.inference.checkpoints import UNFINISHED, CheckpointStore, folder_size
from alphaswarm_rl.inference.selection import recorded_checkpoints
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.claims import withdraw
from alphaswarm_rl.lake.delivery import drop
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NamedRun, operation
from alphaswarm_rl.operations.removals import Removal, begin_removal, finish_removals, removals
from alphaswarm_rl.recording.table_refs import refuse_other_tables
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.tracking.listener import journal_folder
from alphaswarm_rl.tracking.waiting import forget, journal_files

#: Hears a question before anything is deleted: raises where the answer is no, gives False where nobody can be asked.
Confirm = Callable[[str], bool | None]

_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
#: Why models go whose run was removed.
_REMOVED = "its run was removed"
_CHECKPOINT = re.compile(r"(\.unfinished-)?\d+|claim-\d{6,}")


class RemoveRun(NamedRun):
    """Which run loses its files.

    Attributes:
        run: The run's id, the beginning of it, or latest.
        force: Whether runs that stand on its checkpoint, and deployed models, do not count.
    """

    force: bool = False


class RemovedRun(Data):
    """A run that was removed, or would be, and the bytes that its files take."""

    run_id: str
    freed_bytes: int
    removed: bool = True


class CollectGarbage(Data):
    """Whether folders that nobody needs are only named, or deleted."""

    dry_run: bool = False


class Leftover(Data):
    """A folder that nobody needs."""

    path: Path
    why: str
    bytes: int


class Garbage(Data):
    """What was deleted, or would be.

    Attributes:
        dry_run: Whether nothing was deleted.
        bytes: The bytes that the folders take.
        folders: Folders of checkpoints.
        runs: Removed runs of which steps were left: a process that had lost its run wrote them.
    """

    dry_run: bool
    bytes: int
    folders: tuple[Leftover, ...]
    runs: tuple[str, ...] = ()


def is_sure(question: str) -> bool:
    """The answer of a caller who need not be asked."""
    return True


def remove_run(settings: Settings, request: RemoveRun, *, confirm: Confirm = is_sure) -> RemovedRun:
    """Removes a run's files and recorded steps; its row stays, marked removed.

    Raises:
        RunError: The run is live or removed already, or its checkpoint or one of its models is needed.
    """
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        run = ledger.run(request.run)
        folder = settings.models_path / run.id
        begun = [each for each in removals(settings) if each.run_id == run.id]
        if run.removed_at is not None and begun:
            # Whoever began it: it may be dead on another host, and whatever it does can be done twice.
            freed = _remove(settings, ledger, registry, run.id)
            begun[0].end()
            return RemovedRun(run.id, freed)
        _refuse(ledger, run, folder, force=request.force)
        if not request.force:
            _refuse_deployed(registry, run, folder)
        refuse_other_tables(settings, ledger, run)
        ask_before(confirm, f"Remove the files of run {run.id}?")
        # The answer may have taken its time: everything is looked at again.
        _refuse(ledger, ledger.run(run.id), folder, force=request.force)
        # Should the lake not answer, or a model be deployed by now, the run is as it was.
        _reach_tables(settings)
        removal = begin_removal(settings, run.id, force=request.force)
        try:
            _release(ledger, registry, removal, folder)
        except AlphaSwarmError:
            removal.end()
            raise
        freed = _remove(settings, ledger, registry, run.id)
    removal.end()
    return RemovedRun(run.id, freed)


def plan_removal(settings: Settings, request: RemoveRun, gone: Collection[str] = ()) -> RemovedRun:
    """What `remove_run` would remove, and nothing is changed.

    Args:
        settings: Where runs are.
        request: Which run.
        gone: Runs that would be removed before it.

    Raises:
        RunError: It would be refused.
    """
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        run = ledger.run(request.run)
        if run.removed_at is None or all(each.run_id != run.id for each in removals(settings)):
            folder = settings.models_path / run.id
            _refuse(ledger, run, folder, force=request.force, gone=gone)
            if not request.force:
                _refuse_deployed(registry, run, folder, [settings.models_path / each for each in gone])
            refuse_other_tables(settings, ledger, run)
    with Lake(settings) as lake:
        folders = [settings.models_path / run.id, *_step_folders(settings, lake, run.id)]
    files = [*journal_files(journal_folder(settings), run.id), *_other_files(settings, run.id)]
    size = sum(map(folder_size, folders)) + sum(path.stat().st_size for path in files)
    return RemovedRun(run.id, size, removed=False)


def finish_removal(settings: Settings, removal: Removal) -> None:
    """Finishes a removal that was cut short; one that had not got as far as the mark may be refused by now.

    Raises:
        RunError: The run is live, or its checkpoint or one of its models is needed; then it is not removed.
    """
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        run = ledger.run(removal.run_id)
        if run.removed_at is None:
            folder = settings.models_path / run.id
            try:
                _refuse(ledger, run, folder, force=removal.force)
                _release(ledger, registry, removal, folder)
            except AlphaSwarmError:
                removal.end()
                raise
        _remove(settings, ledger, registry, run.id)
    removal.end()


def _release(ledger: Ledger, registry: ModelRegistry, removal: Removal, folder: Path) -> None:
    registry.release({folder: _REMOVED}, force=removal.force)
    # From here on nobody uses the run, and everything else can be finished by others.
    ledger.mark_removed(removal.run_id)


def _remove(settings: Settings, ledger: Ledger, registry: ModelRegistry, run_id: str) -> int:
    """Deletes everything of a run that is marked removed; returns the bytes freed."""
    registry.withdraw(run_id)
    # Again: a process that had lost the run may have registered a model until now.
    registry.release({settings.models_path / run_id: _REMOVED}, force=True)
    freed = _remove_steps(settings, run_id)
    ledger.drop_refs(run_id)
    freed += CheckpointStore(settings.models_path).remove(run_id)
    freed += forget(journal_folder(settings), run_id)
    for path in _other_files(settings, run_id):
        freed += path.stat().st_size
        path.unlink(missing_ok=True)
    return freed


@operation("runs.gc", changes=True)
def collect_garbage(settings: Settings, request: CollectGarbage, *, confirm: Confirm = is_sure) -> Garbage:
    """Removes half-written checkpoints, those of removed and unknown runs, and recorded steps of removed ones.

    Raises:
        RunError: The ledger knows none of the runs, or one of the folders is needed after the question.
        LakeError: Steps of removed runs are in tables of another place: the home was copied or moved.
    """
    finish_removals(settings)
    root = settings.models_path
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        leftovers = _leftovers(root, ledger, registry, refuse_strangers=True)
        runs = _removed_with_steps(settings, ledger)
        if not request.dry_run and (leftovers or runs):
            steps = f" and what is left of {len(runs)} removed runs" if runs else ""
            ask_before(confirm, f"Remove {len(leftovers)} folders{steps}?")
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
            for run_id in runs:
                _remove(settings, ledger, registry, run_id)
    return Garbage(request.dry_run, sum(folder.bytes for folder in leftovers), tuple(leftovers), runs)


def _removed_with_steps(settings: Settings, ledger: Ledger) -> tuple[str, ...]:
    """Removed runs of which the tables, the spool or the store without tables have steps."""
    removed = [run.id for run in ledger.runs(limit=None, include_removed=True) if run.removed_at is not None]
    if not removed:
        return ()
    with Lake(settings) as lake, explained("the lake", "Once the catalogue answers, try again."):
        tables = [lake.files(lake.identifier(kind)) for kind in KINDS] if lake.exists else []
        recorded = {file.run_id for files in tables for file in files}
        found = tuple(
            run_id
            for run_id in removed
            if run_id in recorded or any(folder.is_dir() for folder in _step_folders(settings, lake, run_id))
        )
        if found and lake.exists:
            lake.refuse_moved()
    return found


def _step_folders(settings: Settings, lake: Lake, run_id: str) -> list[Path]:
    """Where a run's steps are beside the tables."""
    return [lake.spool / run_id, *(folder_of(settings, kind, run_id) for kind in KINDS)]


def ask_before(confirm: Confirm, question: str) -> None:
    """Asks, and refuses where the answer is no or nobody can give one."""
    if confirm(question) is False:
        why = f"stdin is not a terminal, and nobody can be asked: {question}"
        raise OptionError("this removal", why, "Nothing was removed. Where the answer is yes, give --yes.")


def _refuse(ledger: Ledger, run: RunRow, folder: Path, *, force: bool, gone: Collection[str] = ()) -> None:
    what = f"run {run.id}"
    if run.status in LIVE:
        raise RunError(what, f"it is {run.status}", f"Stop it first: rl halt {run.id} --reason TEXT.")
    if run.removed_at is not None:
        raise RunError(what, "its files were removed already", "Nothing is left to do.")
    standing = [user.id for user in ledger.standing_on(str(folder)) if user.removed_at is None]
    users = [user for user in standing if user not in gone]
    if users and not force:
        raise RunError(
            what, f"its checkpoint is what {', '.join(users)} was judged by", "Remove those first, or give --force."
        )


def _refuse_deployed(registry: ModelRegistry, run: RunRow, folder: Path, gone: Collection[Path] = ()) -> None:
    why = registry.in_use([folder, *gone]).get(folder)
    if why is not None:
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
        folders = _step_folders(settings, lake, run_id)
        if lake.exists:
            # In this order: what a process that had lost the run still commits is dropped, or comes too late.
            withdraw(lake, run_id)
            drop(lake, run_id, lambda phase, name: True)
    existing = [folder for folder in folders if folder.is_dir()]
    freed = sum(folder_size(folder) for folder in existing)
    for folder in existing:
        while folder.is_dir():
            with suppress(FileNotFoundError):  # another process finishes the same removal
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
    found = [leftover for folder in folders for leftover in _leftovers_of_run(ledger, folder, runs.get(folder.name))]
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


def _leftovers_of_run(ledger: Ledger, folder: Path, run: RunRow | None) -> list[Leftover]:
    if run is None or run.removed_at is not None:
        why = "the ledger has no such run" if run is None else "its run was removed"
        return [Leftover(folder, why, folder_size(folder))]
    if run.status in LIVE:
        return []  # what is half written there may be being written right now
    parts = [part for claimed in claim_folders(folder) for part in sorted(claimed.iterdir())]
    half = [part for part in parts if part.name.startswith(UNFINISHED)]
    unnamed = _unnamed(ledger, run, parts) if run.resumed else []
    return [Leftover(part, "half written", folder_size(part)) for part in half] + [
        Leftover(part, "its process wrote it after another one had taken the run over", folder_size(part))
        for part in unnamed
    ]


def _unnamed(ledger: Ledger, run: RunRow, parts: list[Path]) -> list[Path]:
    """Checkpoints of earlier claims that no row names."""
    named = recorded_checkpoints(ledger, run)
    older = [part for part in parts if part.name.isdigit() and number_of(part.parent) < run.claim.number]
    return [part for part in older if part.resolve() not in named]
