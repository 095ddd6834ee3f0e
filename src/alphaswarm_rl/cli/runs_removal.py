"""`rl runs rm` and `rl runs gc`: the files of runs that nobody needs any more."""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns, size
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import OptionError, RunError

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import Ledger, RunRow
    from alphaswarm_rl.models.registry import ModelRegistry
    from alphaswarm_rl.settings import Settings

_LIVE = ("pending", "running")
_RUN_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_CHECKPOINT = re.compile(r"(\.unfinished-)?\d+")


@dataclass(frozen=True)
class Leftover:
    """A folder that nobody needs."""

    path: Path
    why: str
    bytes: int


@verb("runs.rm")
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even when another run stands on its checkpoint, or a model is deployed.")
def rm(session: Session, run: str, yes: bool, force: bool) -> None:
    """Remove a run's files and recorded steps; its row stays, marked removed.

    Its steps leave their tables at once, and the disk with rl lake expire and rl lake sweep.

    A live run is refused, and so is one whose checkpoint another run was evaluated or replayed from, or one with a
    model that is in production or was before the present one, is aliased, protected, or the parent of another. Its
    models are archived.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        yes: Whether nobody is asked.
        force: Whether runs that stand on its checkpoint, and deployed models, do not count.
    """
    from alphaswarm_rl.inference.checkpoints import CheckpointStore
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.models.registry import ModelRegistry
    from alphaswarm_rl.recording.accounting import refuse_other_tables
    from alphaswarm_rl.runtime.tracking_observer import journal_folder
    from alphaswarm_rl.tracking.waiting import forget

    settings = session.settings
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        row = ledger.run(run)
        folder = settings.models_path / row.id
        _refuse(ledger, row, folder, force=force)
        if not force:
            _refuse_deployed(registry, row, folder)
        refuse_other_tables(settings, ledger, row)
        _confirm(f"Remove the files of run {row.id}?", yes=yes)
        # Whoever was asked took their time: everything is looked at again.
        _refuse(ledger, ledger.run(row.id), folder, force=force)
        # Should the lake not answer, or a model be deployed by now, the run is as it was.
        _reach_tables(settings)
        registry.release({folder: "its run was removed"}, force=force)
        # Steps go before the mark: should that be cut short, the run can be removed again.
        freed = _remove_steps(settings, row.id)
        ledger.drop_refs(row.id)
        # The files go after it: should their deletion be cut short, `rl runs gc` knows that the rest may go.
        ledger.mark_removed(row.id)
    freed += CheckpointStore(settings.models_path).remove(row.id)
    freed += forget(journal_folder(settings), row.id)
    for path in _other_files(settings, row.id):
        freed += path.stat().st_size
        path.unlink()
    session.answer(
        {"run_id": row.id, "removed": True, "freed_bytes": freed},
        [f"removed run {row.id}, {size(freed)} freed; its row stays"],
    )


@verb("runs.gc")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def gc(session: Session, dry_run: bool, yes: bool) -> None:
    """Remove half-written checkpoints, and those of removed and unknown runs.

    Checkpoints stay of models that are in production or were before the present one, are aliased, protected, or the
    parent of one that stays; other models of theirs are archived.

    Args:
        session: This call.
        dry_run: Whether nothing is deleted.
        yes: Whether nobody is asked.
    """
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.models.registry import ModelRegistry

    settings = session.settings
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        leftovers = _all_leftovers(settings.models_path, ledger, registry, refuse_strangers=not dry_run)
        if not dry_run and leftovers:
            _confirm(f"Remove {len(leftovers)} folders?", yes=yes)
            # Whoever was asked took their time: everything is looked at again.
            still = {item.path for item in _all_leftovers(settings.models_path, ledger, registry)}
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
    total = sum(leftover.bytes for leftover in leftovers)
    document = {"dry_run": dry_run, "bytes": total, "folders": [vars(leftover) for leftover in leftovers]}
    lines = columns(("FOLDER", "WHY", "SIZE"), [(item.path, item.why, size(item.bytes)) for item in leftovers])
    session.answer(document, [*(lines if leftovers else []), f"{'would free' if dry_run else 'freed'} {size(total)}"])


def _refuse(ledger: Ledger, row: RunRow, folder: Path, *, force: bool) -> None:
    what = f"run {row.id}"
    if row.status in _LIVE:
        raise RunError(what, f"it is {row.status}", f"Stop it first: rl halt {row.id} --reason TEXT.")
    if row.removed_at is not None:
        raise RunError(what, "its files were removed already", "Nothing is left to do.")
    users = [other.id for other in ledger.standing_on(str(folder)) if other.removed_at is None]
    if users and not force:
        raise RunError(
            what, f"its checkpoint is what {', '.join(users)} was judged by", "Remove those first, or give --force."
        )


def _refuse_deployed(registry: ModelRegistry, row: RunRow, folder: Path) -> None:
    for why in registry.in_use([folder]).values():
        raise RunError(f"run {row.id}", why, "Promote another first, or give --force: its models are archived.")


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("this removal", "nobody can be asked: stdin is not a terminal", "Give --yes.")
    click.confirm(question, abort=True, err=True)


def _reach_tables(settings: Settings) -> None:
    """Refuses to begin while the lake does not answer."""
    from alphaswarm_rl.lake.catalog import Lake, explained
    from alphaswarm_rl.lake.tables import KINDS

    with Lake(settings) as lake:
        if lake.exists:
            with explained("the lake", "Nothing was removed. Once the catalogue answers, try again."):
                for kind in KINDS:
                    lake.find(lake.identifier(kind))


def _remove_steps(settings: Settings, run_id: str) -> int:
    """Takes a run's steps out of the tables, the spool and the store without tables; gives the bytes that are free."""
    from alphaswarm_rl.inference.checkpoints import folder_size
    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.lake.delivery import drop
    from alphaswarm_rl.lake.plain_files import folder_of
    from alphaswarm_rl.lake.tables import KINDS

    with Lake(settings) as lake:
        folders = [lake.spool / run_id, *(folder_of(settings, kind, run_id) for kind in KINDS)]
        if lake.exists:
            drop(lake, run_id, lambda phase, name: True)
    there = [folder for folder in folders if folder.is_dir()]
    freed = sum(folder_size(folder) for folder in there)
    for folder in there:
        shutil.rmtree(folder)
    return freed


def _other_files(settings: Settings, run_id: str) -> list[Path]:
    log = settings.logs_path / f"{run_id}.jsonl"
    recording = settings.below_home(Path("media")) / f"{run_id}.gif"
    return [path for path in (log, recording) if path.is_file()]


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


def _all_leftovers(
    root: Path, ledger: Ledger, registry: ModelRegistry, *, refuse_strangers: bool = False
) -> list[Leftover]:
    """What nobody needs below the folder of checkpoints: neither the ledger nor the registry."""
    # The folders are looked at before the ledger: a run that starts in between is in neither list.
    folders = _run_folders(root)
    rows = {row.id: row for row in ledger.runs(limit=None, include_removed=True)}
    found = [leftover for folder in folders for leftover in _leftovers(folder, rows.get(folder.name))]
    used = registry.in_use([leftover.path for leftover in found])
    leftovers = [leftover for leftover in found if leftover.path not in used]
    if refuse_strangers and leftovers and not any(folder.name in rows for folder in folders):
        raise RunError(
            f"the checkpoints below {root}",
            "the ledger knows none of their runs: it looks like another ledger than theirs",
            "Name theirs with --db-url, or delete the folder by hand.",
        )
    return leftovers


def _leftovers(folder: Path, row: RunRow | None) -> list[Leftover]:
    from alphaswarm_rl.inference.checkpoints import folder_size

    if row is None or row.removed_at is not None:
        why = "the ledger has no such run" if row is None else "its run was removed"
        return [Leftover(folder, why, folder_size(folder))]
    if row.status in _LIVE:
        return []  # what is half written there may be being written right now
    return [
        Leftover(part, "half written", folder_size(part))
        for part in sorted(folder.iterdir())
        if not part.name.isdigit()
    ]
