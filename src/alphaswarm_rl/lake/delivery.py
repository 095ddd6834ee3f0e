"""Delivery: segments leave the spool and become files of their table, each exactly once.

A segment is a Parquet file with rows of one run, table and phase, and its name says which transitions they are of
(`segments.SegmentName`). Delivery takes four steps:

    spool/<run>/<kind>/<phase>/<name>.parquet
      1. linked (or uploaded) to  <table>/data/run_id=<run>/<phase>/<name>.<checksum>.parquet, of a resumed run to
         <table>/data/run_id=<run>/claim-000002/<phase>/...; what is there already stays
      2. added to the table, together with many others, in one commit
      3. reported to the account keeper, which writes the ledger once for all tables
      4. deleted from the spool

A process may be killed after any of them. So the next delivery begins by looking which segments are in the table
already: by name, as a merged file holds the rows of all segments from its first to its last.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.catalog import Lake, LakeFile, explained, files_of
from alphaswarm_rl.lake.claims import newest_claim, refuse_stale
from alphaswarm_rl.lake.segments import (
    Facts,
    Segment,
    SegmentName,
    parts_beside,
    put,
    read_facts,
    remove,
    spooled,
)
from alphaswarm_rl.lake.tables import Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from alphaswarm_rl.lake.producers import NewFile

#: Called with the segments that are in their table now; it may get one twice.
Account = Callable[[Sequence[Segment]], None]
#: Called with claims before every attempt at a commit; raises where nothing may be written for one of their runs.
Check = Callable[[Collection[Claim]], None]
#: Called with a table before its commit: the snapshots that nobody needs once that is made.
Expired = Callable[["Table", Kind], Sequence[int]]


def _allow(claims: Collection[Claim]) -> None:
    """The check of a caller who has no ledger to ask."""


def _none_expired(table: Table, kind: Kind) -> Sequence[int]:
    """What expires for a caller who leaves snapshots alone."""
    return ()


@dataclass(frozen=True)
class Delivered:
    """What a delivery did.

    Attributes:
        segments: How many it took from the spool.
        rows: How many rows they have.
        problems: Segments that could not be read, each with its reason; they stay where they are.
        stale: Segments of a claim that is not its run's newest; they stay where they are.
    """

    segments: int = 0
    rows: int = 0
    problems: tuple[str, ...] = ()
    stale: tuple[Segment, ...] = ()


def deliver_all(
    lake: Lake, account: Account, run_ids: Iterable[str] | None = None, *, check: Check = _allow
) -> Delivered:
    """Delivers what lies in the spool: of all runs, or of those."""
    paths: dict[Path, SegmentName] = {}
    for run_id in [None] if run_ids is None else run_ids:
        paths |= spooled(lake.spool, run_id)
    segments, problems = [], []
    for path, name in paths.items():
        try:
            segments.append(Segment(path, name, read_facts(path)))
        except LakeError as error:
            if path.exists():  # else somebody else delivered it meanwhile
                problems.append(str(error))
    newest = _newest_claims(lake, segments)
    stale = tuple(segment for segment in segments if segment.claim.number < newest[segment.facts.run_id])
    current = [segment for segment in segments if segment not in stale]
    deliver(lake, current, account, check=check)
    return Delivered(len(current), sum(segment.facts.rows for segment in current), tuple(problems), stale)


def _newest_claims(lake: Lake, segments: Sequence[Segment]) -> dict[str, int]:
    """The newest claim of every run in these segments, by what the tables know."""
    newest: dict[str, int] = {segment.facts.run_id: 1 for segment in segments}
    for identifier in {segment.facts.table for segment in segments} if lake.exists else ():
        table = lake.find(identifier)
        if table is not None:
            newest = {run_id: max(number, newest_claim(table, run_id)) for run_id, number in newest.items()}
    return newest


def deliver(
    lake: Lake,
    segments: Sequence[Segment],
    account: Account,
    *,
    check: Check = _allow,
    expired: Expired = _none_expired,
) -> set[Kind]:
    """Delivers these segments, one commit for each table they belong to.

    Args:
        lake: The lake.
        segments: The segments.
        account: Is told which are in their table, once for all tables.
        check: Refuses runs for which nothing may be written.
        expired: Says which snapshots are forgotten in the same commits.

    Returns:
        The kinds of which nothing is left to do: their tables had no files of these runs before, have one for each
        phase now, and forgot what had expired.
    """
    by_table: dict[tuple[str, Kind], list[Segment]] = defaultdict(list)
    for segment in segments:
        by_table[segment.facts.table, segment.facts.kind].append(segment)
    settled: set[Kind] = set()
    delivered: list[Segment] = []
    try:
        for (identifier, kind), members in by_table.items():
            if _deliver_to(lake, kind, identifier, members, check, expired):
                settled.add(kind)
            delivered += members
    finally:
        # What is in its table is accounted for, whatever became of the others.
        if delivered:
            account(delivered)
            remove(path for segment in delivered for path in (segment.path, *parts_beside(segment.path, segment.name)))
    return settled


def _deliver_to(
    lake: Lake, kind: Kind, identifier: str, segments: Sequence[Segment], check: Check, expired: Expired
) -> bool:
    from pyiceberg.exceptions import CommitFailedException

    from alphaswarm_rl.lake import producers

    claims = {segment.claim for segment in segments}
    phases = {(segment.facts.run_id, segment.facts.phase) for segment in segments}
    settled = False

    def change() -> None:
        nonlocal settled
        table = lake.table(kind, identifier)
        for claim in claims:
            refuse_stale(table, claim)
        # After the look at the table: a removal marks the run in the ledger first, and changes every table then.
        check(claims)
        existing = files_by_phase(table, {segment.facts.run_id for segment in segments})
        waiting = [segment for segment in segments if not _held(segment, existing, segments)]
        if waiting:
            # A merged segment may come after one of its parts, where a process was killed between the two.
            parts = [
                file
                for segment in waiting
                for name, file in existing[segment.facts.run_id, segment.facts.phase]
                if segment.name.holds(name)
            ]
            added = [place(lake, table, segment, segment.claim) for segment in waiting]
            deleted, doomed = [file.entry for file in parts], expired(table, kind)
            is_first = len(phases) == len(segments) and not any(existing.values())
            try:
                producers.exchange(table, added=added, deleted=deleted, expired=doomed)
            except ValueError as error:
                if not doomed:
                    raise
                # Another process expired one of them meanwhile: look again.
                raise CommitFailedException(str(error)) from error
            settled = is_first

    what = f"{len(segments)} segments for the table {identifier}"
    with explained(what, "Once the disk and the catalogue answer again, run: rl lake commit."):
        lake.commit(what, change)
    return settled


_Phases = dict[tuple[str, str], list[tuple[SegmentName, LakeFile]]]


def files_by_phase(table: Table, run_ids: Iterable[str]) -> _Phases:
    """The files of these runs by run and phase; no other partition is looked at."""
    found: _Phases = defaultdict(list)
    for run_id in run_ids:
        for file in files_of(table, run_id):
            phase, name = phase_and_name(file)
            found[run_id, phase].append((name, file))
    return found


def _held(segment: Segment, existing: _Phases, waiting: Sequence[Segment]) -> bool:
    """Whether the table has its rows already, or another segment brings them too."""
    facts = segment.facts
    return any(name.holds(segment.name) for name, _ in existing[facts.run_id, facts.phase]) or any(
        other.name != segment.name
        and other.name.holds(segment.name)
        and (other.facts.run_id, other.facts.phase) == (facts.run_id, facts.phase)
        for other in waiting
    )


def phase_and_name(file: LakeFile) -> tuple[str, SegmentName]:
    """The phase and the segments of a table's file."""
    folder, _, name = file.location.rpartition("/")
    parsed = SegmentName.parse(name)
    if parsed is None:
        raise LakeError(
            f"the file {file.location!r}",
            "it is in a table of recorded steps, and its name is no segment's",
            "Write such rows into a table of their own.",
        )
    return folder.rpartition("/")[2], parsed


def place(lake: Lake, table: Table, segment: Segment, claim: Claim) -> NewFile:
    """Puts a segment's file into the warehouse, into that claim's folder; one that is there already stays."""
    from alphaswarm_rl.lake.producers import NewFile

    facts = segment.facts
    location = location_of(table, facts, segment.name, claim)
    file = NewFile(location, facts.run_id, facts.rows, segment.path.stat().st_size)
    if not lake.local:
        filesystem, named = lake.filesystem(table)
        from pyarrow.fs import FileType, LocalFileSystem, copy_files

        target = named(location)
        if filesystem.get_file_info(target).type == FileType.NotFound:
            copy_files(
                str(segment.path), target, source_filesystem=LocalFileSystem(), destination_filesystem=filesystem
            )
    else:
        put(segment.path, lake.path(location))
    return file


def retire(lake: Lake, files: Iterable[LakeFile]) -> None:
    """Marks files that have left their table: nobody plans to read them from now on, and the sweep counts from here."""
    if lake.local:
        for file in files:
            os.utime(lake.path(file.location))


def location_of(table: Table, facts: Facts, name: SegmentName, claim: Claim) -> str:
    """Where a file with those segments is in the table's folder.

    The checksum is in its name: a resumed run may bring other rows under the number of a segment that it dropped, and
    older snapshots still have that one.
    """
    file = str(name).removesuffix(".parquet")
    folder = claim.folder(Path(f"run_id={facts.run_id}"))
    return f"{table.location()}/data/{folder}/{facts.phase}/{file}.{facts.checksum}.parquet"


def drop(lake: Lake, run_id: str, unwanted: Callable[[str, SegmentName], bool], *, claim: Claim | None = None) -> None:
    """Takes a run's files out of the tables.

    Args:
        lake: The lake.
        run_id: The run.
        unwanted: Says by phase and name which.
        claim: The claim of the process that goes on with the run; None where it is removed.
    """
    from alphaswarm_rl.lake import producers
    from alphaswarm_rl.lake.tables import KINDS

    for kind in KINDS:
        identifier = lake.identifier(kind)

        def change(identifier: str = identifier) -> None:
            table = lake.find(identifier)
            if table is not None and claim is not None:
                refuse_stale(table, claim)
            files = [] if table is None else files_of(table, run_id)
            gone = [file for file in files if unwanted(*phase_and_name(file))]
            if table is not None and gone:
                lake.refuse_elsewhere(table)
                producers.exchange(table, deleted=[file.entry for file in gone])
                retire(lake, gone)

        with explained(f"rows of run {run_id} in the table {identifier}", "Try again once the catalogue answers."):
            lake.commit(f"rows of run {run_id} in the table {identifier}", change)
