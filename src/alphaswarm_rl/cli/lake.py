"""`rl lake`: the tables of recorded steps, and their maintenance."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.operations.documents import size

if TYPE_CHECKING:
    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.ledger import Ledger, RunRow

_LIVE = ("pending", "running")
#: Such a run is never resumed; resuming drops whole files, and a merged one could reach over the checkpoint.
_OVER = ("completed",)
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def _duration(ctx: click.Context, param: click.Parameter, value: str) -> timedelta:
    found = re.fullmatch(r"(\d{1,6})([smhd])", value)
    if found is None:
        raise click.BadParameter(f"{value!r} is no time: write a number and s, m, h or d, such as 24h", ctx, param)
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


@click.group()
def lake() -> None:
    """Look at the tables of recorded steps, deliver to them, tidy and verify them."""


@verb("lake.status", group=lake)
@click.option("--unknown", is_flag=True, help="Count files that no snapshot has too: lists the whole warehouse.")
def status(session: Session, unknown: bool) -> None:
    """Show what the tables hold, and what is not delivered to them yet.

    Args:
        session: This call.
        unknown: Whether files that no snapshot has are counted.
    """
    from alphaswarm_rl.lake import maintenance

    with _open(session) as (opened, ledger):
        found = maintenance.status(opened, ledger, unknown=unknown)
    document = {
        "warehouse": found.warehouse,
        "tables": [vars(table) for table in found.tables],
        "undelivered": [vars(run) for run in found.undelivered],
    }
    titles = ["TABLE", "SNAPSHOTS", "FILES", "ROWS", "SIZE", "RUNS"]
    rows = [[t.table, t.snapshots, t.files, t.rows, size(t.bytes), t.runs] for t in found.tables]
    if unknown:
        titles += ["UNKNOWN FILES", "THEIR SIZE"]
        rows = [[*row, t.unknown_files, size(t.unknown_bytes or 0)] for row, t in zip(rows, found.tables, strict=True)]
    lines = columns(titles, rows) if found.tables else ["there are no tables yet"]
    if found.undelivered:
        lines += ["", "not delivered yet (rl lake commit):"]
        lines += columns(
            ("RUN", "STATUS", "SEGMENTS", "ROWS", "UNREADABLE"),
            [(run.run_id, run.status, run.segments, run.rows, run.unreadable) for run in found.undelivered],
        )
    session.answer(document, [f"warehouse  {found.warehouse}", "", *lines])


@verb("lake.commit", group=lake)
@click.argument("run", nargs=-1)
def commit(session: Session, run: tuple[str, ...]) -> None:
    """Deliver segments that wait in the spool to their tables.

    Without RUN, those of all runs. Ends with exit code 1 when a segment could not be delivered; it stays where it is.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
    """
    from alphaswarm_rl.lake.delivery import deliver_all
    from alphaswarm_rl.lake.maintenance import undelivered
    from alphaswarm_rl.recording.table_refs import refs_writer

    with _open(session) as (opened, ledger):
        named = [ledger.run(ref).id for ref in run]
        rows = {row.id: row for row in ledger.runs(limit=None, include_removed=True)}
        waiting = [its.run_id for its in undelivered(opened, ledger) if not named or its.run_id in named]
        reasons = {run_id: _undeliverable(run_id, rows.get(run_id)) for run_id in waiting}
        problems = [reason for reason in reasons.values() if reason is not None]
        chosen = [run_id for run_id, reason in reasons.items() if reason is None]
        done = deliver_all(opened, refs_writer(ledger), chosen)
        problems += done.problems
        left = {its.run_id: its.segments for its in undelivered(opened, ledger)}
        for run_id in chosen:
            _note(ledger, rows[run_id], left.get(run_id, 0))
    document = {"segments": done.segments, "rows": done.rows, "runs": chosen, "problems": problems}
    session.answer(document, [f"delivered {done.segments} segments with {done.rows} rows", *problems])
    if problems:
        raise click.exceptions.Exit(BROKEN)


@verb("lake.compact", group=lake)
@click.argument("run", nargs=-1)
def compact(session: Session, run: tuple[str, ...]) -> None:
    """Merge the small files of runs into few large ones.

    Without RUN, those of all runs that are over. Runs that may be resumed are left alone: resuming drops whole files.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
    """
    from alphaswarm_rl.lake.catalog import explained
    from alphaswarm_rl.lake.compaction import compact as merge_files
    from alphaswarm_rl.lake.tables import KINDS

    with _open(session) as (opened, ledger):
        rows = [ledger.run(ref) for ref in run]
        for row in rows:
            if row.status not in _OVER:
                why = f"it is {row.status}, and resuming it drops whole files"
                raise RunError(f"run {row.id}", why, "Compact it once it is completed.")
        files: set[str] = set()
        if not rows and opened.exists:
            with explained("the lake", "Check that the catalogue answers, then: rl lake compact."):
                files = {file.run_id for kind in KINDS for file in opened.files(opened.identifier(kind))}
        chosen = rows or [row for row in ledger.runs(limit=None) if row.id in files and row.status in _OVER]
        merged = {row.id: merge_files(opened, row.id) for row in chosen} if opened.exists else {}
    merged = {run_id: count for run_id, count in merged.items() if count}
    lines = columns(("RUN", "FILES MERGED"), list(merged.items())) if merged else ["there is nothing to merge"]
    session.answer({"runs": merged, "files": sum(merged.values())}, lines)


@verb("lake.expire", group=lake)
@click.option(
    "--keep",
    callback=_duration,
    default="1h",
    show_default=True,
    metavar="TIME",
    help="Snapshots that were current within this time stay: 90s, 30m, 24h, 7d.",
)
def expire(session: Session, keep: timedelta) -> None:
    """Forget old snapshots of the tables; no file is deleted.

    The current snapshots stay, and those that a tag, a branch or a stored spec names.

    Args:
        session: This call.
        keep: Snapshots that were current within this time stay.
    """
    from alphaswarm_rl.lake import maintenance

    with _open(session) as (opened, ledger):
        expired = maintenance.expire(opened, ledger.pinned_data(), keep=keep)
    lines = columns(("TABLE", "SNAPSHOTS EXPIRED"), list(expired.items())) if expired else ["there are no tables yet"]
    session.answer({"expired": expired}, lines)


@verb("lake.sweep", group=lake)
@click.option(
    "--older-than",
    callback=_duration,
    default="24h",
    show_default=True,
    metavar="TIME",
    help="Younger files stay: 30m, 24h, 7d; 10m at least.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def sweep(session: Session, older_than: timedelta, dry_run: bool) -> None:
    """Delete files of the warehouse that no snapshot has.

    What waits in the spool is never touched.

    Args:
        session: This call.
        older_than: Younger files stay.
        dry_run: Whether nothing is deleted.
    """
    from alphaswarm_rl.lake import maintenance

    with _open(session) as (opened, _):
        swept = maintenance.sweep(opened, older_than, dry_run=dry_run)
    did = "would delete" if dry_run else "deleted"
    lines = [*(swept.paths if dry_run else ()), f"{did} {swept.files} files, {size(swept.bytes)}"]
    session.answer({"dry_run": dry_run, **vars(swept)}, lines)


@verb("lake.verify", group=lake)
@click.argument("run", nargs=-1)
def verify(session: Session, run: tuple[str, ...]) -> None:
    """Compare the tables with the ledger and with each other.

    Looks for lost and doubled rows, gaps, changed values and files that cannot be read; without RUN, of all runs. Ends
    with exit code 1 when something is wrong.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
    """
    from alphaswarm_rl.lake.verify import verify as findings_of

    with _open(session) as (opened, ledger):
        findings = findings_of(opened, ledger, [ledger.run(ref).id for ref in run] or None)
    ok = all(finding.ok for finding in findings)
    lines = columns(
        ("", "RUN", "TABLE", "PHASE", "CHECK", "FOUND"),
        [("notice" if f.ok else "wrong", f.run_id, f.table, f.phase, f.check, f.text) for f in findings],
    )
    verdict = "all is well" if ok else f"{sum(not finding.ok for finding in findings)} things are wrong"
    session.answer(
        {"ok": ok, "findings": [vars(finding) for finding in findings]}, [*(lines if findings else []), verdict]
    )
    if not ok:
        raise click.exceptions.Exit(BROKEN)


@verb("lake.export", group=lake)
@click.argument("run")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
def export(session: Session, run: str, folder: Path) -> None:
    """Write a run's recorded steps as four plain Parquet files.

    Args:
        session: This call.
        run: The run's id, the beginning of it, or latest.
        folder: The folder.
    """
    from alphaswarm_rl.lake.export import export_run
    from alphaswarm_rl.lake.tables import KINDS
    from alphaswarm_rl.lake.views import has_rows

    with _open(session) as (opened, ledger):
        run_id = ledger.run(run).id
        if not any(has_rows(opened, kind, run_id) for kind in KINDS):
            raise RunError(f"run {run_id}", "the tables have no steps of it", f"See: rl runs trajectories {run_id}.")
        rows = export_run(opened, run_id, folder)
    lines = columns(("FILE", "ROWS"), [(folder / f"{kind}.parquet", count) for kind, count in rows.items()])
    session.answer({"run_id": run_id, "folder": folder, "rows": rows}, lines)


@contextmanager
def _open(session: Session) -> Iterator[tuple[Lake, Ledger]]:
    from alphaswarm_rl.lake.catalog import Lake
    from alphaswarm_rl.ledger import Ledger

    with Lake(session.settings) as opened, Ledger.open(session.settings) as ledger:
        yield opened, ledger


def _undeliverable(run_id: str, row: RunRow | None) -> str | None:
    """Why a run's segments stay where they are; None where they may be delivered."""
    if row is None:
        return f"run {run_id}: the ledger has no such run; name the one in which it was made with --db-url"
    store = row.recording.get("store") or "iceberg"
    if store != "iceberg":
        return f"run {run_id}: its steps belong to the {store} store; go on with it: rl resume {run_id}"
    return None


def _note(ledger: Ledger, row: RunRow, left: int) -> None:
    """Tells the run's row what is left; the process of a live run does so itself."""
    if row.status not in _LIVE and row.recording.get("undelivered") != left:
        problem = row.recording.get("problem") if left else None
        ledger.update_run(row.id, recording={**row.recording, "undelivered": left, "problem": problem})
