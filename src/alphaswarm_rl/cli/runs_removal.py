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
from alphaswarm_rl.cli.verb import lake_options, registry_options, verb
from alphaswarm_rl.core.errors import OptionError, RunError

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import Ledger, RunRow
    from alphaswarm_rl.models.registry import ModelRegistry
    from alphaswarm_rl.models.rows import ModelRow
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


@verb("rm", table=[*lake_options(), *registry_options()])
@click.argument("run")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even when another run stands on its checkpoint, or a model is deployed.")
def rm(session: Session, run: str, yes: bool, force: bool) -> None:
    """Remove a run's files and recorded steps; its row stays, marked removed.

    Its steps leave their tables at once, and the disk with rl lake expire and rl lake sweep.

    A live run is refused, and so is one whose checkpoint another run was evaluated or replayed from, or whose models
    are in production, aliased or protected. Its models are archived.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        yes: Whether nobody is asked.
        force: Whether runs that stand on its checkpoint, and deployed models, do not count.
    """
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.models.registry import ModelRegistry
    from alphaswarm_rl.runtime.accounting import refuse_other_tables
    from alphaswarm_rl.runtime.checkpoints import CheckpointStore
    from alphaswarm_rl.runtime.tracking_observer import journal_folder
    from alphaswarm_rl.tracking.waiting import forget

    settings = session.settings
    with Ledger.open(settings) as ledger, ModelRegistry.open(settings) as registry:
        row = ledger.run(run)
        folder = settings.models_path / row.id
        _refuse(ledger, row, folder, force=force)
        models = registry.at(folder)
        if not force:
            _refuse_deployed(registry, row, models)
        refuse_other_tables(settings, ledger, row)
        _confirm(f"Remove the files of run {row.id}?", yes=yes)
        # Steps go before the mark: should the lake not answer, the run is as it was and can be removed again.
        freed = _remove_steps(settings, row.id)
        ledger.drop_refs(row.id)
        # The files go after it: should their deletion be cut short, `rl runs gc` knows that the rest may go.
        ledger.mark_removed(row.id)
        for model in models:
            registry.archive(model.id, because="its run was removed")
    freed += CheckpointStore(settings.models_path).remove(row.id)
    freed += forget(journal_folder(settings), row.id)
    for path in _other_files(settings, row.id):
        freed += path.stat().st_size
        path.unlink()
    session.answer(
        {"run_id": row.id, "removed": True, "freed_bytes": freed},
        [f"removed run {row.id}, {size(freed)} freed; its row stays"],
    )


@verb("gc", table=registry_options())
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def gc(session: Session, dry_run: bool, yes: bool) -> None:
    """Remove half-written checkpoints, and those of removed and unknown runs.

    Checkpoints of models that are in production, aliased or protected stay; other models of theirs are archived.

    Args:
        session: This call.
        dry_run: Whether nothing is deleted.
        yes: Whether nobody is asked.
    """
    from alphaswarm_rl.ledger import Ledger
    from alphaswarm_rl.models.registry import ModelRegistry

    settings = session.settings
    # The folders are looked at before the ledger: a run that starts in between is in neither list.
    folders = _run_folders(settings.models_path)
    with Ledger.open(settings) as ledger:
        rows = {row.id: row for row in ledger.runs(limit=None, include_removed=True)}
    with ModelRegistry.open(settings) as registry:
        leftovers = [
            leftover
            for folder in folders
            for leftover in _leftovers(folder, rows.get(folder.name))
            if not _deployed(registry, registry.at(leftover.path))
        ]
    if not dry_run and leftovers:
        if not any(folder.name in rows for folder in folders):
            raise RunError(
                f"the checkpoints below {settings.models_path}",
                "the ledger knows none of their runs: it looks like another ledger than theirs",
                "Name theirs with --db-url, or delete the folder by hand.",
            )
        _confirm(f"Remove {len(leftovers)} folders?", yes=yes)
        with ModelRegistry.open(settings) as registry:
            for leftover in leftovers:
                for model in registry.at(leftover.path):
                    registry.archive(model.id, because=leftover.why)
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


def _deployed(registry: ModelRegistry, models: list[ModelRow]) -> list[ModelRow]:
    """Those of the models that somebody counts on."""
    return [
        model
        for model in models
        if model.deployment_status == "production" or model.protected or registry.aliases(model.id)
    ]


def _refuse_deployed(registry: ModelRegistry, row: RunRow, models: list[ModelRow]) -> None:
    deployed = _deployed(registry, models)
    if deployed:
        raise RunError(
            f"run {row.id}",
            f"model {', '.join(str(model.id) for model in deployed)} of it is in production, aliased or protected",
            "Promote another first, or give --force: its models are archived.",
        )


def _confirm(question: str, *, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise OptionError("this removal", "nobody can be asked: stdin is not a terminal", "Give --yes.")
    click.confirm(question, abort=True, err=True)


def _remove_steps(settings: Settings, run_id: str) -> int:
    """Takes a run's steps out of the tables, the spool and the store without tables; gives the bytes that are free."""
    from alphaswarm_rl.lake.catalog import Lake, explained
    from alphaswarm_rl.lake.delivery import drop
    from alphaswarm_rl.lake.plain_files import folder_of
    from alphaswarm_rl.lake.tables import KINDS
    from alphaswarm_rl.runtime.checkpoints import folder_size

    with Lake(settings) as lake:
        folders = [lake.spool / run_id, *(folder_of(settings, kind, run_id) for kind in KINDS)]
        if lake.exists:
            with explained("the lake", "Nothing was removed. Once the catalogue answers, try again."):
                for kind in KINDS:
                    lake.find(lake.identifier(kind))
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


def _leftovers(folder: Path, row: RunRow | None) -> list[Leftover]:
    from alphaswarm_rl.runtime.checkpoints import folder_size

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
