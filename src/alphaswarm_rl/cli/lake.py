"""`rl lake`: the tables of recorded steps, and their maintenance."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import click

from alphaswarm_rl.cli.durations import time_option
from alphaswarm_rl.cli.reporting import BROKEN
from alphaswarm_rl.cli.session import Session
from alphaswarm_rl.cli.text import columns
from alphaswarm_rl.cli.verb import verb
from alphaswarm_rl.core.wording import size

if TYPE_CHECKING:
    from alphaswarm_rl.operations.lake import LakeStatus


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
    from alphaswarm_rl.operations.lake import ShowLake, lake_status

    result = lake_status(session.settings, ShowLake(unknown))
    session.answer(result, [f"warehouse  {result.warehouse}", "", *_status_lines(result, unknown=unknown)])


@verb("lake.commit", group=lake)
@click.argument("run", nargs=-1)
def commit(session: Session, run: tuple[str, ...]) -> None:
    """Deliver segments that wait in the spool to their tables.

    Without RUN, those of all runs. Ends with exit code 1 when a segment could not be delivered; it stays where it is.

    Args:
        session: This call.
        run: The runs: ids, beginnings of them, or latest.
    """
    from alphaswarm_rl.operations.lake import commit_segments
    from alphaswarm_rl.operations.operation import NamedRuns

    result = commit_segments(session.settings, NamedRuns(run))
    session.answer(result, [f"delivered {result.segments} segments with {result.rows} rows", *result.problems])
    if result.problems:
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
    from alphaswarm_rl.operations.lake import compact_files
    from alphaswarm_rl.operations.operation import NamedRuns

    result = compact_files(session.settings, NamedRuns(run))
    lines = columns(("RUN", "FILES MERGED"), list(result.runs.items()))
    session.answer(result, lines if result.runs else ["there is nothing to merge"])


@verb("lake.expire", group=lake)
@time_option("--keep", "1h", "Snapshots that were current within this time stay: 90s, 30m, 24h, 7d.")
def expire(session: Session, keep: timedelta) -> None:
    """Forget old snapshots of the tables; no file is deleted.

    The current snapshots stay, and those that a tag, a branch or a stored spec names.

    Args:
        session: This call.
        keep: Snapshots that were current within this time stay.
    """
    from alphaswarm_rl.operations.lake import ExpireSnapshots, expire_snapshots

    result = expire_snapshots(session.settings, ExpireSnapshots(keep))
    lines = columns(("TABLE", "SNAPSHOTS EXPIRED"), list(result.expired.items()))
    session.answer(result, lines if result.expired else ["there are no tables yet"])


@verb("lake.sweep", group=lake)
@time_option("--older-than", "24h", "Younger files stay: 30m, 24h, 7d; 10m at least.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def sweep(session: Session, older_than: timedelta, dry_run: bool) -> None:
    """Delete files of the warehouse that no snapshot has.

    What waits in the spool is never touched.

    Args:
        session: This call.
        older_than: Younger files stay.
        dry_run: Whether nothing is deleted.
    """
    from alphaswarm_rl.operations.lake import SweepFiles, sweep_files

    result = sweep_files(session.settings, SweepFiles(older_than, dry_run))
    did, swept = "would delete" if dry_run else "deleted", result.swept
    session.answer(result, [*(swept.paths if dry_run else ()), f"{did} {swept.files} files, {size(swept.bytes)}"])


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
    from alphaswarm_rl.operations.lake import verify_tables
    from alphaswarm_rl.operations.operation import NamedRuns

    result = verify_tables(session.settings, NamedRuns(run))
    lines = columns(
        ("", "RUN", "TABLE", "PHASE", "CHECK", "FOUND"),
        [("notice" if f.ok else "wrong", f.run_id, f.table, f.phase, f.check, f.text) for f in result.findings],
    )
    verdict = "all is well" if result.ok else f"{result.wrong} things are wrong"
    session.answer(result, [*(lines if result.findings else []), verdict])
    if not result.ok:
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
    from alphaswarm_rl.operations.lake import ExportSteps, export_steps

    result = export_steps(session.settings, ExportSteps(run, folder))
    lines = columns(("FILE", "ROWS"), [(folder / f"{kind}.parquet", count) for kind, count in result.rows.items()])
    session.answer(result, lines)


def _status_lines(status: LakeStatus, *, unknown: bool) -> list[str]:
    titles = ["TABLE", "SNAPSHOTS", "FILES", "ROWS", "SIZE", "RUNS"]
    rows: list[list[object]] = [[t.table, t.snapshots, t.files, t.rows, size(t.bytes), t.runs] for t in status.tables]
    if unknown:
        titles += ["UNKNOWN FILES", "THEIR SIZE"]
        for row, table in zip(rows, status.tables, strict=True):
            row += [table.unknown_files, size(table.unknown_bytes or 0)]
    lines = columns(titles, rows) if status.tables else ["there are no tables yet"]
    if status.undelivered:
        lines += ["", "not delivered yet (rl lake commit):"]
        lines += columns(
            ("RUN", "STATUS", "SEGMENTS", "ROWS", "UNREADABLE"),
            [(run.run_id, run.status, run.segments, run.rows, run.unreadable) for run in status.undelivered],
        )
    return lines
