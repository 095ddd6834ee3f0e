"""The tables of recorded steps, and their maintenance: deliver, merge, expire, sweep, verify, export."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.lake import maintenance
from alphaswarm_rl.lake.catalog import Lake, explained
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.export import export_run
from alphaswarm_rl.lake.maintenance import LakeStatus as LakeStatus
from alphaswarm_rl.lake.maintenance import undelivered
from alphaswarm_rl.lake.segments import Segment, remove
from alphaswarm_rl.lake.sweeping import Swept, sweep
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.verify import Finding, verify
from alphaswarm_rl.lake.views import has_rows
from alphaswarm_rl.ledger import Ledger, RunRow
from alphaswarm_rl.ledger.liveness import LIVE
from alphaswarm_rl.operations.data import Data
from alphaswarm_rl.operations.operation import NamedRun, NamedRuns, operation
from alphaswarm_rl.recording.table_refs import refs_writer, refuse_removed
from alphaswarm_rl.settings import Settings

#: Such a run is never resumed; resuming drops whole files, and a merged one could reach over the checkpoint.
_OVER = "completed"


class ShowLake(Data):
    """Whether files that no snapshot has are counted too, which lists the whole warehouse."""

    unknown: bool = False


class Commit(Data):
    """What was delivered to the tables, of which runs, and what could not be."""

    segments: int
    rows: int
    runs: tuple[str, ...]
    problems: tuple[str, ...]


class Compaction(Data):
    """How many files were merged, by run, and of all; runs without any are left out."""

    runs: dict[str, int]
    files: int


class ExpireSnapshots(Data):
    """Which snapshots stay: those that were current within this time."""

    keep: timedelta = timedelta(hours=1)


class Expiry(Data):
    """How many snapshots were forgotten, by table."""

    expired: dict[str, int]


class SweepFiles(Data):
    """How old a file must be, and whether files are only named."""

    older_than: timedelta = timedelta(hours=24)
    dry_run: bool = False


class Sweep(Data, merged="swept"):
    """What was deleted, or would be."""

    dry_run: bool
    swept: Swept


class Verification(Data):
    """What a look at the tables found, and whether nothing is wrong."""

    ok: bool
    findings: tuple[Finding, ...]

    @property
    def wrong(self) -> int:
        """How many things are wrong; the other findings should only be known."""
        return sum(not finding.ok for finding in self.findings)


class ExportSteps(NamedRun):
    """A run, and the folder that its steps are written into."""

    folder: Path


class ExportedSteps(Data):
    """How many rows were written, by kind."""

    run_id: str
    folder: Path
    rows: dict[str, int]


@operation("lake.status")
def lake_status(settings: Settings, request: ShowLake) -> LakeStatus:
    """What the tables hold, and what is not delivered to them yet."""
    with _open(settings) as (lake, ledger):
        return maintenance.status(lake, ledger, unknown=request.unknown)


@operation("lake.commit", changes=True)
def commit_segments(settings: Settings, request: NamedRuns) -> Commit:
    """Delivers segments that wait in the spool to their tables; what cannot be delivered stays where it is."""
    with _open(settings) as (lake, ledger):
        named = [ledger.run(reference).id for reference in request.runs]
        rows = {row.id: row for row in ledger.runs(limit=None, include_removed=True)}
        waiting = [run.run_id for run in undelivered(lake, ledger) if not named or run.run_id in named]
        reasons = {run_id: _undeliverable(run_id, rows.get(run_id)) for run_id in waiting}
        chosen = tuple(run_id for run_id, reason in reasons.items() if reason is None)
        done = deliver_all(lake, refs_writer(ledger), chosen, check=refuse_removed(ledger))
        unfinished = _remove_stale(done.stale, rows)
        left = {run.run_id: run.segments for run in undelivered(lake, ledger)}
        for run_id in chosen:
            _record_left(ledger, rows[run_id], left.get(run_id, 0))
    problems = (*(reason for reason in reasons.values() if reason is not None), *done.problems, *unfinished)
    return Commit(done.segments, done.rows, chosen, problems)


@operation("lake.compact", changes=True)
def compact_files(settings: Settings, request: NamedRuns) -> Compaction:
    """Merges the small files of runs into few large ones.

    Raises:
        RunError: A run is named that may be resumed: resuming drops whole files.
    """
    with _open(settings) as (lake, ledger):
        rows = [ledger.run(reference) for reference in request.runs]
        for row in rows:
            if row.status != _OVER:
                why = f"it is {row.status}, and resuming it drops whole files"
                raise RunError(f"run {row.id}", why, "Compact it once it is completed.")
        if not lake.exists:
            return Compaction({}, 0)
        merged = {row.id: compact(lake, row.claim) for row in rows or _runs_over(lake, ledger)}
    return Compaction({run_id: count for run_id, count in merged.items() if count}, sum(merged.values()))


@operation("lake.expire", changes=True)
def expire_snapshots(settings: Settings, request: ExpireSnapshots) -> Expiry:
    """Forgets old snapshots of the tables; no file is deleted.

    The current snapshots stay, and those that a tag, a branch or a stored spec names.
    """
    with _open(settings) as (lake, ledger):
        return Expiry(maintenance.expire(lake, ledger.pinned_data(), keep=request.keep))


@operation("lake.sweep", changes=True)
def sweep_files(settings: Settings, request: SweepFiles) -> Sweep:
    """Deletes files of the warehouse that no snapshot has; what waits in the spool is never touched."""
    with _open(settings) as (lake, _):
        return Sweep(request.dry_run, sweep(lake, request.older_than, dry_run=request.dry_run))


@operation("lake.verify")
def verify_tables(settings: Settings, request: NamedRuns) -> Verification:
    """Compares the tables with the ledger and with each other."""
    with _open(settings) as (lake, ledger):
        run_ids = [ledger.run(reference).id for reference in request.runs]
        findings = tuple(verify(lake, ledger, run_ids or None))
    return Verification(all(finding.ok for finding in findings), findings)


@operation("lake.export", changes=True)
def export_steps(settings: Settings, request: ExportSteps) -> ExportedSteps:
    """Writes a run's recorded steps as six plain Parquet files."""
    with _open(settings) as (lake, ledger):
        run = ledger.run(request.run)
        run_id = run.id
        if not any(has_rows(lake, kind, run_id) for kind in KINDS):
            raise RunError(f"run {run_id}", "the tables have no steps of it", f"See: rl runs trajectories {run_id}.")
        rows = export_run(lake, run_id, request.folder, run.recording)
    return ExportedSteps(run_id, request.folder, {str(kind): count for kind, count in rows.items()})


@contextmanager
def _open(settings: Settings) -> Iterator[tuple[Lake, Ledger]]:
    with Lake(settings) as lake, Ledger.open(settings) as ledger:
        yield lake, ledger


def _undeliverable(run_id: str, row: RunRow | None) -> str | None:
    """Why a run's segments stay where they are; None where they may be delivered."""
    if row is None:
        return f"run {run_id}: the ledger has no such run; name the one in which it was made with --db-url"
    if row.removed_at is not None:
        return f"run {run_id}: it was removed; what is left of it goes with: rl runs gc"
    store = row.recording.get("store") or "iceberg"
    if store != "iceberg":
        resume, anew = f"go on with it: rl resume {run_id}", f"it cannot go on; remove it: rl runs rm {run_id}"
        return f"run {run_id}: its steps belong to the {store} store; {anew if row.checkpoint is None else resume}"
    return None


def _remove_stale(stale: Sequence[Segment], rows: Mapping[str, RunRow]) -> list[str]:
    """Deletes what processes wrote that had lost their runs, where those are over; says which other runs have such."""
    remove(segment.path for segment in stale if rows[segment.facts.run_id].status == _OVER)
    left = sorted({segment.facts.run_id for segment in stale if segment.path.exists()})
    return [
        f"run {run_id}: another process took it over and did not finish; go on: rl resume {run_id}" for run_id in left
    ]


def _record_left(ledger: Ledger, row: RunRow, left: int) -> None:
    """Writes into the run's row what is left; the process of a live run does so itself."""
    if row.status not in LIVE and row.recording.get("undelivered") != left:
        problem = row.recording.get("problem") if left else None
        ledger.update_run(row.id, recording={**row.recording, "undelivered": left, "problem": problem})


def _runs_over(lake: Lake, ledger: Ledger) -> list[RunRow]:
    """The runs in the tables that are over, the newest first."""
    with explained("the lake", "Check that the catalogue answers, then: rl lake compact."):
        recorded = {file.run_id for kind in KINDS for file in lake.files(lake.identifier(kind))}
    return [row for row in ledger.runs(limit=None) if row.id in recorded and row.status == _OVER]
