"""Verification: whether the lake holds what the ledger says, and whether its rows are whole."""

from __future__ import annotations

import math
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.catalog import Lake, explained, files_of
from alphaswarm_rl.lake.checksum import checksum
from alphaswarm_rl.lake.row_checks import Flaw, flaws
from alphaswarm_rl.lake.segments import ROW_GROUP, fitted, plain_files, read_facts, spooled
from alphaswarm_rl.lake.tables import KINDS, Kind, arrow_schema

if TYPE_CHECKING:
    import duckdb

    from alphaswarm_rl.ledger import Ledger, RunRow
    from alphaswarm_rl.ledger.rows import RefRow

_LIVE = ("pending", "running")
_CUT_SHORT = ("interrupted", "failed")


@dataclass(frozen=True)
class Finding:
    """One result of verifying a run.

    Attributes:
        run_id: The run.
        table: The table, where it is about one.
        phase: The phase, where it is about one.
        check: What was looked at.
        text: What was found.
        ok: Whether nothing is wrong, and it should only be known.
    """

    run_id: str
    table: str | None
    phase: str | None
    check: str
    text: str
    ok: bool = False


@dataclass(frozen=True)
class _File:
    """A file of a run: of a table, or of the store without one."""

    phase: str
    path: str
    filesystem: Any
    rows: int | None = None


@dataclass
class _Sum:
    rows: int = 0
    checksum: int = 0


@dataclass
class _Run:
    """What is known of one run."""

    id: str
    row: RunRow | None
    files: dict[Kind, list[_File]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    refs: list[RefRow] = field(default_factory=list)


def verify(lake: Lake, ledger: Ledger, run_ids: Iterable[str] | None = None) -> list[Finding]:
    """Compares tables, files and spool with the ledger, and the tables with each other; nothing found is all well.

    Args:
        lake: The lake.
        ledger: Says what should be there.
        run_ids: The runs to look at; None means all that have rows, refs or segments.
    """
    chosen = None if run_ids is None else list(run_ids)
    found: list[Finding] = []
    with explained("the lake", "Check that the catalogue and the warehouse answer, then: rl lake verify."):
        for run in _runs(lake, ledger, chosen):
            found += _verify_run(lake, run)
    return found


def _runs(lake: Lake, ledger: Ledger, run_ids: list[str] | None) -> list[_Run]:
    rows = {row.id: row for row in ledger.runs(limit=None, include_removed=True)}
    spool = {path.relative_to(lake.spool).parts[0] for path in spooled(lake.spool)}
    runs: dict[str, _Run] = {
        run_id: _Run(run_id, rows.get(run_id)) for run_id in (spool if run_ids is None else run_ids)
    }

    def run_of(run_id: str) -> _Run | None:
        if run_id not in runs and run_ids is None:
            runs[run_id] = _Run(run_id, rows.get(run_id))
        return runs.get(run_id)

    one = run_ids[0] if run_ids is not None and len(run_ids) == 1 else None
    for ref in ledger.refs(one):
        if (run := run_of(ref.run_id)) is not None:
            run.refs.append(ref)
    for kind in KINDS:
        for run_id, file in [*_table_files(lake, kind, one), *_plain_files(lake, kind, one)]:
            if (run := run_of(run_id)) is not None:
                run.files[kind].append(file)
    return [runs[run_id] for run_id in sorted(runs)]


def _table_files(lake: Lake, kind: Kind, run_id: str | None) -> Iterator[tuple[str, _File]]:
    table = lake.find(lake.identifier(kind)) if lake.exists else None
    if table is not None:
        filesystem, named = lake.filesystem(table)
        for file in files_of(table, run_id):
            phase = file.location.split("/")[-2]
            yield file.run_id, _File(phase, named(file.location), filesystem, file.rows)


def _plain_files(lake: Lake, kind: Kind, run_id: str | None) -> Iterator[tuple[str, _File]]:
    from pyarrow.fs import LocalFileSystem

    for path, owner in plain_files(lake.settings, kind, run_id).items():
        yield owner, _File(path.parent.name, str(path), LocalFileSystem())


def _verify_run(lake: Lake, run: _Run) -> list[Finding]:
    if run.row is None:
        text = "the ledger has no such run, and its steps are here: another ledger than theirs?"
        return [Finding(run.id, None, None, "run", text)]
    if run.row.status in _LIVE:
        return [Finding(run.id, None, None, "run", f"it is {run.row.status}: look again when it has ended", ok=True)]
    found, waiting = _spool(lake, run.id)
    if run.row.removed_at is not None:
        here = found or any(run.files.values())
        text = "it was removed, and steps of it are here, which a process wrote that had lost it: rl runs gc"
        return [Finding(run.id, None, None, "run", text)] if here else []
    sums: dict[tuple[Kind, str], _Sum] = defaultdict(_Sum)
    damaged: set[tuple[Kind, str]] = set()
    for kind in KINDS:
        for file in run.files[kind]:
            try:
                _add_up(kind, file, sums[kind, file.phase])
            except (OSError, pa.ArrowException) as error:
                damaged.add((kind, file.phase))
                text = f"{file.path} cannot be read: {' '.join(str(error).split())}"
                found.append(Finding(run.id, lake.identifier(kind), file.phase, "files", text))
    # What is undelivered or damaged is among the findings; that its numbers differ too is no news.
    found += _accounts(lake, run, sums, waiting | damaged)
    unsound = {phase for _, phase in waiting | damaged}
    files = {kind: [file for file in all_ if file.phase not in unsound] for kind, all_ in run.files.items()}
    if any(files.values()):
        found += _rows(lake, run, files)
    return found


def _spool(lake: Lake, run_id: str) -> tuple[list[Finding], set[tuple[Kind, str]]]:
    """What the spool has of a run, and of which kinds and phases."""
    found: list[Finding] = []
    waiting: dict[tuple[Kind, str], _Sum] = defaultdict(_Sum)
    kinds: dict[str, Kind] = {kind: kind for kind in KINDS}
    segments: dict[tuple[Kind, str], int] = defaultdict(int)
    for path in spooled(lake.spool, run_id):
        place = kinds[path.parent.parent.name], path.parent.name
        try:
            waiting[place].rows += read_facts(path).rows
            segments[place] += 1
        except LakeError as error:
            if path.exists():  # else it was delivered meanwhile
                found.append(Finding(run_id, lake.identifier(place[0]), place[1], "spool", str(error)))
    for (kind, phase), count in segments.items():
        text = f"{count} segments with {waiting[kind, phase].rows} rows are not delivered yet: rl lake commit"
        found.append(Finding(run_id, lake.identifier(kind), phase, "undelivered", text, ok=True))
    return found, set(waiting)


def _add_up(kind: Kind, file: _File, total: _Sum) -> None:
    """Reads a whole file; OSError or ArrowException where that cannot be done."""
    rows, schema = 0, arrow_schema(kind)
    with file.filesystem.open_input_file(file.path) as source:
        for batch in pq.ParquetFile(source).iter_batches(batch_size=ROW_GROUP):
            total.checksum += checksum(fitted(pa.Table.from_batches([batch]), schema))
            rows += batch.num_rows
    total.rows += rows
    if file.rows is not None and rows != file.rows:
        raise OSError(f"it has {rows} rows, and the table says {file.rows}")


def _accounts(
    lake: Lake, run: _Run, sums: dict[tuple[Kind, str], _Sum], undelivered: set[tuple[Kind, str]]
) -> Iterator[Finding]:
    """Rows and checksums against the ledger."""
    kinds: dict[str, Kind] = {lake.identifier(kind): kind for kind in KINDS}
    refs: dict[tuple[Kind, str], list[RefRow]] = defaultdict(list)
    elsewhere: set[str] = set()
    for ref in run.refs:
        table = f"{ref.iceberg_namespace}.{ref.iceberg_table}"
        if table in kinds:
            refs[kinds[table], ref.phase].append(ref)
        else:
            elsewhere.add(table)
    for table in sorted(elsewhere):
        yield Finding(run.id, table, None, "rows", "the ledger names it, and these settings do not", ok=True)
    for kind, phase in sorted((set(sums) | set(refs)) - undelivered):
        recorded, found = refs[kind, phase], sums.get((kind, phase), _Sum())
        rows = sum(ref.row_count for ref in recorded)
        if found.rows != rows:
            text = f"{found.rows} rows are there, and the ledger says {rows}"
            yield Finding(run.id, lake.identifier(kind), phase, "rows", text)
        elif all(ref.checksum for ref in recorded):
            expected = sum(int(ref.checksum, 16) for ref in recorded) % 2**64
            if found.checksum % 2**64 != expected:
                text = f"the rows' checksum is {found.checksum % 2**64:016x}, and the ledger says {expected:016x}"
                yield Finding(run.id, lake.identifier(kind), phase, "checksum", text)


def _rows(lake: Lake, run: _Run, files: dict[Kind, list[_File]]) -> list[Finding]:
    import duckdb

    assert run.row is not None
    recording = run.row.recording
    steps = sum(file.rows or 0 for file in files["trajectories"])
    every_episode = recording.get("train") == "all" and steps <= (recording.get("sampled_from") or math.inf)
    with (
        # Where DuckDB puts what does not fit into memory.
        tempfile.TemporaryDirectory(prefix="alphaswarm-verify-") as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
    ):
        try:
            for kind in KINDS:
                _view(connection, kind, files[kind])
            found = flaws(connection, every_episode=every_episode, continues="continues" in run.row.arguments)
        except duckdb.Error as error:
            why = str(error).partition("\n")[0]
            room = f"Give it more memory, or room in {Path(folder).parent}: TMPDIR names another folder."
            remedy = room if isinstance(error, duckdb.OutOfMemoryException) else "Put its files back from a copy."
            raise LakeError(f"the rows of run {run.id}", why, remedy) from error
    return [_finding(lake, run.row, flaw) for flaw in found]


def _finding(lake: Lake, row: RunRow, flaw: Flaw) -> Finding:
    # A process that is killed between the segments of two tables leaves the second one behind; resuming drops both.
    mended = flaw.check == "incomplete" and row.status in _CUT_SHORT
    text = f"{flaw.text}; it is {row.status}, and resuming it mends that: rl resume {row.id}" if mended else flaw.text
    return Finding(row.id, lake.identifier(flaw.kind), flaw.phase, flaw.check, text, ok=mended)


def _view(connection: duckdb.DuckDBPyConnection, kind: Kind, files: list[_File]) -> None:
    from pyarrow.dataset import dataset
    from pyarrow.fs import LocalFileSystem

    schema = arrow_schema(kind)
    paths = [file.path for file in files]
    if not files:
        connection.register(kind, schema.empty_table())
    elif isinstance(files[0].filesystem, LocalFileSystem):
        connection.read_parquet(paths, union_by_name=True, hive_partitioning=False).create_view(kind)
    else:
        connection.register(kind, dataset(paths, schema=schema, filesystem=files[0].filesystem, format="parquet"))
