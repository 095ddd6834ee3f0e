"""Segments: the Parquet files that rows of one run, table and phase go into, in order.

    <spool>/<run id>/<kind>/<phase>/000003_000000081920.parquet          segment 3; its last row is transition 81,920
    <table>/data/run_id=<run id>/<phase>/000000-000003_000000081920.<checksum>.parquet      segments 0 to 3, merged

The name is the key under which rows are delivered exactly once, and by which a resumed run drops them. A file's footer
has the rest: how many rows, their checksum, which episodes. A segment has its name once it is whole and on disk. Those
of a resumed run are in a folder of its claim, <run id>/claim-000002/<kind>/... (`core.claims`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from alphaswarm_rl.core.claims import Claim, newest_folder, number_of
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.core.files import sync_file, sync_folder
from alphaswarm_rl.lake.run_ends import as_type, distinct_parts
from alphaswarm_rl.lake.tables import KINDS, REPEATED, Kind, identifier, write_schema
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    from alphaswarm_rl.lake.parquet_writer import ParquetWriter

_FOOTER = b"alphaswarm_rl"
_OPEN = ".open-"
_NAME = re.compile(r"(?P<first>\d{6,})(-(?P<last>\d{6,}))?_(?P<timesteps>\d{12,})(\.[0-9a-f]{16})?\.parquet")

#: Rows that are encoded at once, fewer where they are wide: fewer make files large and slow to read, more only take
#: memory.
ROW_GROUP = 131_072
_GROUP_BYTES = 32_000_000
#: Rows that a merge reads at once.
_READ = 32_768
#: zstd's levels for floating-point numbers and for everything else. Higher ones make smaller files, and take more time
#: than the training that is recorded shall give.
_ZSTD_LEVELS = (-500, -20)
#: Columns by which readers skip row groups. Not of strings: a file has one run and one phase, as its place tells, and
#: such statistics take long.
_STATISTICS = ("env_idx", "episode", "step", "ts")


@dataclass(frozen=True, order=True)
class SegmentName:
    """Which segments of a phase a file holds.

    Attributes:
        first: Number of the first.
        last: Number of the last; the same for a file that was never merged.
        timesteps: Transitions of the run at its last row.
    """

    first: int
    last: int
    timesteps: int

    def __str__(self) -> str:
        numbers = f"{self.first:06d}" if self.first == self.last else f"{self.first:06d}-{self.last:06d}"
        return f"{numbers}_{self.timesteps:012d}.parquet"

    @classmethod
    def parse(cls, file: str) -> SegmentName | None:
        """The name of a file or location; None where it is no segment's."""
        found = _NAME.fullmatch(file.rpartition("/")[2])
        if found is None:
            return None
        first = int(found["first"])
        return cls(first, int(found["last"] or first), int(found["timesteps"]))

    def holds(self, other: SegmentName) -> bool:
        """Whether all of the other's rows are in here."""
        return self.first <= other.first and other.last <= self.last


@dataclass(frozen=True)
class Facts:
    """What a segment's footer says of its rows.

    Attributes:
        table: The table they belong to, `namespace.name`.
        run_id: Their run.
        kind: What they are.
        phase: Their phase.
        timesteps: Transitions of the run at the last of them.
        rows: How many there are.
        checksum: Their checksum, in hexadecimal digits.
        first_episode: The lowest episode number.
        last_episode: The highest.
        first_step: The lowest step number.
        last_step: The highest.
        initial_value: The first portfolio value, of equity curves.
        final_value: The last one.
        max_drawdown: The largest of the rows' `drawdown`, which is 0 or more; the ledger has its negative.
    """

    table: str
    run_id: str
    kind: Kind
    phase: str
    timesteps: int = 0
    rows: int = 0
    checksum: str = f"{0:016x}"
    first_episode: int = 0
    last_episode: int = 0
    first_step: int = 0
    last_step: int = 0
    initial_value: float | None = None
    final_value: float | None = None
    max_drawdown: float | None = None

    def with_rows(self, rows: pa.Table) -> Facts:
        """The facts after these rows too."""
        from alphaswarm_rl.lake.checksum import checksum  # here, for Numba takes long to load

        episodes, steps = (pc.min_max(distinct_parts(rows[name])).as_py() for name in ("episode", "step"))
        more = replace(
            self,
            rows=rows.num_rows,
            checksum=f"{checksum(rows):016x}",
            first_episode=episodes["min"],
            last_episode=episodes["max"],
            first_step=steps["min"],
            last_step=steps["max"],
        )
        if self.kind == "equity_curves":
            # Those of the first environment: rows of several follow each other.
            first = pc.equal(rows["env_idx"], pc.min(rows["env_idx"]))
            values = rows["portfolio_value"].filter(first)
            worst = pc.max(rows["drawdown"]).as_py()
            more = replace(more, initial_value=values[0].as_py(), final_value=values[-1].as_py(), max_drawdown=worst)
        return self.joined(more)

    def joined(self, later: Facts) -> Facts:
        """The facts of both together."""
        if self.rows == 0 or later.rows == 0:
            return replace(later if self.rows == 0 else self, timesteps=max(self.timesteps, later.timesteps))
        drawdowns = [value for value in (self.max_drawdown, later.max_drawdown) if value is not None]
        return replace(
            self,
            timesteps=max(self.timesteps, later.timesteps),
            rows=self.rows + later.rows,
            checksum=f"{(int(self.checksum, 16) + int(later.checksum, 16)) % 2**64:016x}",
            first_episode=min(self.first_episode, later.first_episode),
            last_episode=max(self.last_episode, later.last_episode),
            first_step=min(self.first_step, later.first_step),
            last_step=max(self.last_step, later.last_step),
            final_value=later.final_value,
            max_drawdown=max(drawdowns, default=None),
        )


@dataclass(frozen=True)
class Segment:
    """A whole segment on this machine's disk."""

    path: Path
    name: SegmentName
    facts: Facts
    #: Its rows, where they are still at hand.
    rows: pa.Table | None = field(default=None, compare=False, repr=False)
    #: The memory that these take.
    rows_bytes: int = field(default=0, compare=False, repr=False)

    @property
    def claim(self) -> Claim:
        """The claim it was written or taken over with; it is in that claim's folder of the spool."""
        return Claim(self.facts.run_id, number_of(self.path.parents[2]))


class SegmentWriter:
    """One file that is being written.

    Args:
        folder: Where it will be.
        number: Its number in its phase.
        facts: Whose rows it is for.
    """

    def __init__(self, folder: Path, number: int, facts: Facts) -> None:
        self._folder = folder
        self._number = number
        #: The file while it is written.
        self.path = folder / f"{_OPEN}{number:06d}"
        self.facts = facts
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        folder.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("wb")
        self._writer = _parquet_writer(self._file, facts.kind)

    def write(self, rows: pa.Table) -> None:
        """Appends rows to the file."""
        rows = fitted(rows, write_schema(self.facts.kind))
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        self.facts = self.facts.with_rows(rows)
        if self._waiting_rows >= ROW_GROUP or self._waiting_bytes >= _GROUP_BYTES:
            self._encode()

    def close(self, timesteps: int) -> Segment:
        """Writes the footer, and gives the file its name when it is safely on disk."""
        self.facts = replace(self.facts, timesteps=timesteps)
        # A small one will be merged with its neighbours, and read for that unless it is still here.
        small = self._waiting_rows == self.facts.rows > 0
        rows, rows_bytes = (pa.concat_tables(self._waiting), self._waiting_bytes) if small else (None, 0)
        try:
            self._encode()
            self._writer.add_key_value_metadata({_FOOTER: json.dumps(asdict(self.facts)).encode()})
            self._writer.close()
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            self.abandon()  # on a full disk it would only take up room
            raise
        self._file.close()
        name = SegmentName(self._number, self._number, timesteps)
        path = self._folder / str(name)
        self.path.rename(path)
        sync_folder(self._folder)
        return Segment(path, name, self.facts, rows, rows_bytes)

    def abandon(self) -> None:
        """Deletes the unfinished file."""
        with suppress(OSError):  # what is still in its buffer may not fit on the disk, and is not wanted
            self._file.close()
        self.path.unlink(missing_ok=True)

    def _encode(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting))
            self._waiting, self._waiting_rows, self._waiting_bytes = [], 0, 0


def merge(segments: list[Segment], path: Path) -> Segment:
    """Writes the rows of neighbouring segments into one file; they themselves stay."""
    first, last = segments[0], segments[-1]
    facts = first.facts
    for segment in segments[1:]:
        facts = facts.joined(segment.facts)
    name = SegmentName(first.name.first, last.name.last, last.name.timesteps)
    unfinished = path.with_name(f"{_OPEN}{path.name}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with unfinished.open("wb") as file:
        with _parquet_writer(file, facts.kind) as writer:
            schema = write_schema(facts.kind)
            for rows in _batched(segments, schema):
                writer.write_table(rows)
            writer.add_key_value_metadata({_FOOTER: json.dumps(asdict(facts)).encode()})
        file.flush()
        os.fsync(file.fileno())
    unfinished.rename(path)
    sync_folder(path.parent)
    return Segment(path, name, facts)


def _batched(segments: list[Segment], schema: pa.Schema) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    count = size = 0
    for segment in segments:
        for rows in _rows_of(segment, schema):
            waiting.append(rows)
            count, size = count + rows.num_rows, size + rows.nbytes
            if count >= ROW_GROUP or size >= _GROUP_BYTES:
                yield pa.concat_tables(waiting)
                waiting, count, size = [], 0, 0
    if waiting:
        yield pa.concat_tables(waiting)


def _rows_of(segment: Segment, schema: pa.Schema) -> Iterator[pa.Table]:
    if segment.rows is not None:
        yield segment.rows
        return
    with pq.ParquetFile(segment.path, read_dictionary=[name for name in REPEATED if name in schema.names]) as file:
        for batch in file.iter_batches(batch_size=_READ):
            yield fitted(pa.Table.from_batches([batch]), schema)


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """The rows with exactly these columns: null where they have none, as in a file of an older version."""
    if rows.schema.equals(schema):
        return rows
    columns = [
        as_type(rows[field.name], field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def read_facts(path: Path, filesystem: Any = None) -> Facts:
    """What a segment's footer says; one that cannot be read is an error that names it.

    Args:
        path: Its file.
        filesystem: Arrow's file system that it is on; None: this machine's.
    """
    try:
        with path.open("rb") if filesystem is None else filesystem.open_input_file(str(path)) as file:
            footer = pq.read_metadata(file)
        return Facts(**json.loads((footer.metadata or {})[_FOOTER]))
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        raise LakeError(
            f"segment {str(path)!r}",
            f"it cannot be read: {error!r}",
            "Put the file back from a copy. If there is none, its rows are lost: delete it, and train the run again.",
        ) from error


def spooled(
    spool: Path, run_id: str | None = None, *, claim: Claim | None = None, parts: bool = False
) -> dict[Path, SegmentName]:
    """Every whole segment below the spool, or of one run, in the order of their numbers.

    Args:
        spool: The spool.
        run_id: The run; None: of all.
        claim: Whose segments; None: those of the newest claim that has a folder.
        parts: Whether parts of a merged segment that is there too, left by a killed process, are among them.
    """
    roots = sorted(spool.iterdir()) if run_id is None and spool.is_dir() else [spool / str(run_id)]
    found = {}
    for root in roots:
        folder = newest_folder(root) if claim is None else claim.folder(root)
        for kind in KINDS:
            for path in folder.glob(f"{kind}/*/*.parquet"):
                name = SegmentName.parse(path.name)
                if name is not None:
                    found[path] = name
    if not parts:
        doubled = {part for path, name in found.items() for part in parts_beside(path, name)}
        found = {path: name for path, name in found.items() if path not in doubled}
    return dict(sorted(found.items(), key=lambda item: (item[0].parent, item[1])))


def parts_beside(path: Path, name: SegmentName) -> list[Path]:
    """Segments in the folder of a merged one that are in it."""
    if name.first == name.last:
        return []
    others = {other: SegmentName.parse(other.name) for other in path.parent.glob("*.parquet") if other != path}
    return [other for other, part in others.items() if part is not None and name.holds(part)]


def folder_of(settings: Settings, kind: Kind, run_id: str) -> Path:
    """Where the `parquet` store keeps a run's files of that kind: no catalogue, one folder per table and run."""
    table = identifier(kind, settings.trajectory)
    return settings.below_home(Path("trajectories")) / table / f"run_id={run_id}"


def plain_files(
    settings: Settings, kind: Kind, run_id: str | None = None, *, claim: Claim | None = None
) -> dict[Path, str]:
    """The files of the `parquet` store with their runs, of one run or of all, in the order of their names.

    Args:
        settings: Where they are.
        kind: What they are.
        run_id: The run; None: of all.
        claim: Whose files; None: those of the newest claim that has a folder.
    """
    roots = folder_of(settings, kind, "").parent.glob(f"run_id={'*' if run_id is None else run_id}")
    return {
        path: root.name.removeprefix("run_id=")
        for root in sorted(roots)
        for path in sorted((newest_folder(root) if claim is None else claim.folder(root)).glob("*/*.parquet"))
    }


def take_over(root: Path, claim: Claim, unwanted: Callable[[Path], bool]) -> None:
    """Makes what earlier claims left in a run's folder the claim's own, but for what is unwanted, and deletes the rest.

    The folder of the claim appears whole or not at all. From then on nobody looks into those of earlier ones, where a
    process that does not know of it yet may still be writing.
    """
    own = claim.folder(root)
    unfinished = own.with_name(f"{_OPEN}{own.name}")
    while not own.exists():
        shutil.rmtree(unfinished, ignore_errors=True)
        source = newest_folder(root)
        paths = [path for path in _segments_below(source) if not unwanted(path)]
        unfinished.mkdir(parents=True)
        try:
            for path in paths:
                put(path, unfinished / path.relative_to(source))
        except FileNotFoundError:
            if newest_folder(root) == source:
                raise
        # Else a process with a claim in between took everything over just now, and deletes what it came from.
        if newest_folder(root) == source:
            unfinished.rename(own)
            sync_folder(root)
    for path in root.iterdir():
        if path.is_dir() and number_of(path.with_name(path.name.removeprefix(_OPEN))) < claim.number:
            shutil.rmtree(path, ignore_errors=True)  # somebody may be writing there: what is left is never looked at


def _segments_below(folder: Path) -> list[Path]:
    """Whole segments in a claim's folder, without those of other claims below it."""
    found = [path for path in folder.rglob("*.parquet") if SegmentName.parse(path.name) is not None]
    return [
        path
        for path in found
        if not any(part.startswith((_OPEN, "claim-")) for part in path.relative_to(folder).parts[:-1])
    ]


def put(source: Path, target: Path) -> None:
    """Makes a file of this machine be at another place too; one that is there already has the same rows and stays."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.exists():
        return
    # Under another name first, so that it appears whole; process ids of two containers on one disk may be the same.
    copy = target.with_name(f".copy-{uuid4().hex}-{target.name}")
    try:
        try:
            os.link(source, copy)
        except OSError:  # another disk, or one without links
            shutil.copyfile(source, copy)
            sync_file(copy)
        copy.replace(target)
    finally:
        copy.unlink(missing_ok=True)  # two links to one file are not exchanged
    sync_folder(target.parent)


def remove(paths: Iterable[Path]) -> None:
    """Deletes segments, and the folders that are empty then."""
    parents = set()
    for path in paths:
        path.unlink(missing_ok=True)
        parents.add(path.parent)
    for parent in parents:
        prune_empty(parent)


def prune_empty(folder: Path, levels: int = 3) -> None:
    """Deletes a folder of the spool and those above it, as far as nothing is in them."""
    for _ in range(levels):
        try:
            folder.rmdir()
        except OSError:
            return
        folder = folder.parent


def discard_open(root: Path) -> None:
    """Deletes what a killed process left half written of a run."""
    for path in root.rglob(f"{_OPEN}*"):
        path.unlink(missing_ok=True)


def _parquet_writer(file: BinaryIO, kind: Kind) -> ParquetWriter:
    from alphaswarm_rl.lake.parquet_writer import ParquetWriter  # here, for Numba takes long to load

    return ParquetWriter(file, write_schema(kind), levels=_ZSTD_LEVELS, statistics=_STATISTICS)
