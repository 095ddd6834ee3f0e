"""The lake itself: its catalogue, its six tables, and the files they consist of.

An Iceberg table is a list of Parquet files. Each commit writes a new snapshot (manifests that name the files) and a new
metadata file, and swaps the catalogue's pointer to it; whoever loses that race begins again, as `Lake.commit` does.
Every table here is partitioned by run, so that the files of one run are found without a look at the others.

By default the catalogue is an SQLite file and the warehouse a folder, both below the home; PostgreSQL and S3 take over
by URL. Only this package talks to Iceberg.
"""

from __future__ import annotations

import fcntl
import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.db.mounts import network_file_system
from alphaswarm_rl.db.redaction import redact
from alphaswarm_rl.lake import tables
from alphaswarm_rl.lake.tables import Kind
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.manifest import DataFile, ManifestFile, PartitionFieldSummary
    from pyiceberg.table import Table

#: What the catalogue is called, in itself.
CATALOG = "lake"
#: How often a commit is tried at most, the longest wait between two tries, and for another process to be done.
COMMIT_TRIES = 100
_LONGEST_WAIT_S = 2.0
_LONGEST_TURN_S = 10.0
#: Seconds after which a commit is not tried again.
PATIENCE_S = 60.0

#: Schema of the catalogue in a PostgreSQL database that others may use too.
_POSTGRES_SCHEMA = "alphaswarm_lake"


@dataclass(frozen=True)
class LakeFile:
    """A file of a table, as its current snapshot has it."""

    location: str
    run_id: str
    rows: int
    bytes: int
    entry: DataFile


class Lake:
    """The tables of these settings.

    Args:
        settings: Where they are and what they are called.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        #: Segments that are not in their table yet; no maintenance enters it.
        self.spool = settings.lake_path / "spool"
        self.warehouse = _warehouse(settings)
        #: Seconds after which a commit that does not go through is given up.
        self.patience = PATIENCE_S
        #: Whether others who commit were done in time, the last time that it was waited for them.
        self._turns_end = True
        #: Whether the warehouse is a folder of this machine.
        self.local = self.warehouse.startswith("file://")

    @cached_property
    def catalog(self) -> Catalog:
        """The catalogue, opened on first use."""
        from sqlalchemy.exc import DBAPIError

        url = self.settings.lake.catalog_url
        what = f"the lake's catalogue {redact(url) if url else str(self.settings.lake_path / 'catalog.db')!r}"
        with explained(what, "Check --lake-catalog-url and whether its server answers, then: rl lake commit."):
            try:
                return _open_catalog(self.settings, self.warehouse)
            except DBAPIError as error:
                # Another process makes its tables at this very moment.
                if not re.search("already exists|duplicate key", str(error)):
                    raise
                time.sleep(0.2)
                return _open_catalog(self.settings, self.warehouse)

    @property
    def exists(self) -> bool:
        """Whether there is a catalogue to ask; to open the one in the home would make it."""
        return self.catalog_file is None or self.catalog_file.exists()

    @property
    def catalog_file(self) -> Path | None:
        """The SQLite file of the catalogue, which may not be there yet; None where a server has it."""
        url = self.settings.lake.catalog_url
        if url is not None and not url.startswith("sqlite"):
            return None
        return _sqlite_file(url, self.settings)

    def close(self) -> None:
        """Gives the connections back."""
        if "catalog" in self.__dict__:
            self.catalog.close()
            del self.__dict__["catalog"]

    def __enter__(self) -> Lake:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def identifier(self, kind: Kind) -> str:
        """The name of that table."""
        return tables.identifier(kind, self.settings.trajectory)

    def table(self, kind: Kind, identifier: str | None = None) -> Table:
        """The table as it is now; made where it is not there, brought up to date where it is older."""
        name = identifier or self.identifier(kind)
        table = self.find(name) or self._create(kind, name)
        self.refuse_elsewhere(table)
        if tables.upgrade(table, kind):
            table = self.catalog.load_table(name)
        return table

    def refuse_elsewhere(self, table: Table) -> None:
        """Refuses to change a table whose files are not in this warehouse: a home that was copied shares them."""
        self.refuse_place(".".join(table.name()), table.location())

    def refuse_place(self, name: str, location: str) -> None:
        """Refuses a table whose files are not in this warehouse."""
        if not location.startswith(f"{self.warehouse}/"):
            raise LakeError(
                f"the table {name}",
                f"its files are in {location}, and the warehouse of these settings is {self.warehouse}",
                "Name theirs with --lake-warehouse. A home that was copied or moved has the files of the old place: "
                "put it back, or begin with an empty lake folder.",
            )

    def refuse_moved(self) -> None:
        """Refuses to change anything where a table's files are in another warehouse.

        Raises:
            LakeError: The home was copied or moved.
        """
        for kind in tables.KINDS if self.exists else ():
            table = self.find(self.identifier(kind))
            if table is not None:
                self.refuse_elsewhere(table)

    def find(self, identifier: str) -> Table | None:
        """The table of that name as it is now; None where there is none."""
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self.catalog.load_table(identifier)
        except NoSuchTableError:
            return None

    def files(self, identifier: str, run_id: str | None = None) -> list[LakeFile]:
        """The files of a table, or of one run in it; none where there is no such table."""
        table = self.find(identifier)
        return [] if table is None else files_of(table, run_id)

    def commit(self, what: str, change: Callable[[], None]) -> None:
        """Makes a change until it is done, however many others commit at the same time, as long as `patience` lasts.

        Args:
            what: The change, for messages.
            change: Loads the table anew, looks what is still to be done, and commits it. It runs again after a failure
                that may have been none: it must find out itself what it did already.
        """
        tries, began = 0, time.monotonic()
        while True:
            try:
                with self._turn():
                    change()
            except _retriable() as error:
                tries += 1
                if tries >= COMMIT_TRIES or time.monotonic() - began > self.patience:
                    raise LakeError(
                        what,
                        f"the commit did not go through in {tries} tries: {_reason(error)}",
                        "Nothing is lost: once the catalogue answers again, run: rl lake commit.",
                    ) from error
            else:
                return
            time.sleep(random.uniform(0.0, min(_LONGEST_WAIT_S, 0.02 * 2**tries)))  # noqa: S311  (no secret)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Waits while another process of this home commits: who loses a race has to begin again.

        Not for long, and nothing depends on it: other machines do not see the lock either. One that keeps the turn for
        so long stands still, and is not waited for again until it is free.
        """
        self.settings.lake_path.mkdir(parents=True, exist_ok=True)
        with (self.settings.lake_path / "commit.lock").open("a") as file:
            deadline = time.monotonic() + (_LONGEST_TURN_S if self._turns_end else 0.0)
            while not (is_ours := _is_locked(file)) and time.monotonic() < deadline:
                time.sleep(random.uniform(0.005, 0.02))  # noqa: S311  (no secret)
            self._turns_end = is_ours
            yield

    def append_arrow(self, identifier: str, rows: pa.Table) -> None:
        """Appends rows to any table of the catalogue, which is made where it is not there: for small writes."""
        from pyiceberg.exceptions import NamespaceAlreadyExistsError, TableAlreadyExistsError

        if self.find(identifier) is None:
            try:
                self.catalog.create_namespace_if_not_exists(identifier.rpartition(".")[0])
                self.catalog.create_table(identifier, rows.schema)
            except (NamespaceAlreadyExistsError, TableAlreadyExistsError):
                pass  # somebody else made it meanwhile
        mark = f"{random.getrandbits(128):032x}"

        def append() -> None:
            table = self.catalog.load_table(identifier)
            summaries = [snapshot.summary for snapshot in table.metadata.snapshots if snapshot.summary is not None]
            done = any(summary.additional_properties.get("alphaswarm.append") == mark for summary in summaries)
            if not done:
                table.append(rows, snapshot_properties={"alphaswarm.append": mark})

        self.commit(f"rows for the table {identifier}", append)

    def path(self, location: str) -> Path:
        """The local file of a location."""
        return Path(location.removeprefix("file://"))

    def _was_used(self, location: str) -> bool:
        """Whether a table was ever written to there: a process that was killed as it made one leaves version 0."""
        from pyarrow.fs import FileSelector
        from pyiceberg.io import load_file_io

        io: Any = load_file_io(self.catalog.properties, location)
        scheme, netloc, path = io.parse_location(location)
        folder = FileSelector(f"{path}/metadata", allow_not_found=True)
        names = [info.base_name for info in io.fs_by_scheme(scheme, netloc).get_file_info(folder)]
        return any(name.endswith(".metadata.json") and not name.startswith("00000-") for name in names)

    def filesystem(self, table: Table) -> tuple[Any, Callable[[str], str]]:
        """Arrow's file system of a table's files, and how a location is named there."""
        io: Any = table.io
        scheme, netloc, _ = io.parse_location(table.location())
        return io.fs_by_scheme(scheme, netloc), lambda location: io.parse_location(location)[2]

    def _create(self, kind: Kind, identifier: str) -> Table:
        from pyiceberg.exceptions import TableAlreadyExistsError

        namespace, _, name = identifier.rpartition(".")
        location = f"{self.warehouse}/{namespace}/{name}"
        if self._was_used(location):
            made_meanwhile = self.find(identifier)
            if made_meanwhile is not None:
                return made_meanwhile
            where = self.path(location) if self.local else location
            raise LakeError(
                f"the table {identifier}",
                f"the catalogue does not know it, but its files are in {where}",
                "Put the catalogue back, or name another warehouse with --lake-warehouse; then: rl lake commit.",
            )
        try:
            self.catalog.create_namespace_if_not_exists(namespace)
            return self.catalog.create_table(
                identifier,
                tables.iceberg_schema(kind),
                location=location,
                partition_spec=tables.partition_spec(),
                properties=tables.PROPERTIES,
            )
        except TableAlreadyExistsError:
            return self.catalog.load_table(identifier)


def _is_locked(file: IO[str]) -> bool:
    """Locks a file, unless another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def of_run(run_id: str) -> Any:
    """The condition on rows that they are of that run."""
    from pyiceberg import expressions

    equal: Any = expressions.EqualTo  # its constructor is none that type checkers understand
    return equal("run_id", run_id)


def files_of(table: Table, run_id: str | None = None) -> list[LakeFile]:
    """The files of a loaded table, or of one run in it.

    Read from the manifests that can have them: pyiceberg's own planning takes several times as long, and recording
    plans at every commit.
    """
    from pyiceberg.utils.concurrent import ExecutorFactory

    snapshot = table.current_snapshot()
    if snapshot is None:
        return []
    key = None if run_id is None else run_id.encode()
    manifests = [
        manifest
        for manifest in snapshot.manifests(table.io)
        if key is None or any(_spans(part, key) for part in manifest.partitions or ())
    ]

    def read(manifest: ManifestFile) -> list[DataFile]:
        return [entry.data_file for entry in manifest.fetch_manifest_entry(table.io)]

    found = map(read, manifests) if len(manifests) == 1 else ExecutorFactory.get_or_create().map(read, manifests)
    return [
        LakeFile(
            location=file.file_path,
            run_id=file.partition[0],
            rows=file.record_count,
            bytes=file.file_size_in_bytes,
            entry=file,
        )
        for files in found
        for file in files
        if run_id is None or file.partition[0] == run_id
    ]


def _spans(part: PartitionFieldSummary, run_id: bytes) -> bool:
    low, high = part.lower_bound, part.upper_bound
    return low is not None and high is not None and low <= run_id <= high


@contextmanager
def explained(what: str, remedy: str) -> Iterator[None]:
    """Turns failures of the catalogue and of the disk into an error that says what to do."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (SQLAlchemyError, OSError) as error:
        raise LakeError(what, _reason(error), remedy) from error


def _reason(error: Exception) -> str:
    """What the database or the disk said, in one line, without passwords and SQL."""
    reason = str(getattr(error, "orig", None) or error)
    return redact(" ".join(reason.split())) or type(error).__name__


def _retriable() -> tuple[type[Exception], ...]:
    from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException
    from sqlalchemy.exc import DBAPIError

    # A metadata file may be deleted between the look at the catalogue and the look at the file.
    return (CommitFailedException, CommitStateUnknownException, FileNotFoundError, DBAPIError)


def _warehouse(settings: Settings) -> str:
    place = settings.lake.warehouse
    if place is not None and "://" in place:
        return place.rstrip("/")
    folder = settings.lake_path / "warehouse" if place is None else settings.below_home(Path(place))
    if any(character in str(folder) for character in "?#%"):
        raise LakeError(
            f"the folder {str(folder)!r}",
            "Iceberg names files by URL, where ?, # and % mean something else",
            "Choose another home (--home) or warehouse (--lake-warehouse).",
        )
    return f"file://{folder}"


def _open_catalog(settings: Settings, warehouse: str) -> Catalog:
    properties = {"warehouse": warehouse, "py-io-impl": "pyiceberg.io.pyarrow.PyArrowFileIO"}
    given = {"s3.endpoint": settings.lake.s3_endpoint, "s3.region": settings.lake.s3_region}
    properties |= {name: value for name, value in given.items() if value is not None}
    url = settings.lake.catalog_url
    if url is not None and url.startswith(("http://", "https://")):
        from pyiceberg.catalog import load_catalog

        return load_catalog(CATALOG, type="rest", uri=url, **properties)
    from pyiceberg.catalog.sql import SqlCatalog

    if url is None or url.startswith("sqlite"):
        return SqlCatalog(CATALOG, uri=_sqlite(url, settings), **properties)
    if not url.startswith("postgres"):
        raise LakeError(
            f"the lake's catalogue {redact(url)!r}",
            f"{url.partition(':')[0]!r} is no catalogue that is known here",
            "Give --lake-catalog-url an sqlite:///, postgresql:// or http(s):// address.",
        )
    return SqlCatalog(CATALOG, uri=_postgres(url), **properties)


def _sqlite_file(url: str | None, settings: Settings) -> Path:
    return settings.lake_path / "catalog.db" if url is None else Path(url.partition(":///")[2])


def _sqlite(url: str | None, settings: Settings) -> str:
    file = _sqlite_file(url, settings)
    file.parent.mkdir(parents=True, exist_ok=True)
    kind = network_file_system(file.parent)
    if kind is not None:
        raise LakeError(
            f"the lake's catalogue {str(file)!r}",
            f"it is on a network disk ({kind}), where SQLite's locks do not hold",
            "Use a local folder, or PostgreSQL: --lake-catalog-url postgresql://...",
        )
    return f"sqlite:///{file}?timeout=5"


def _postgres(url: str) -> str:
    """The URL with its driver and a schema of its own, which is made where it is not there."""
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url

    from alphaswarm_rl.core.errors import require
    from alphaswarm_rl.db.engine import END_IDLE_TRANSACTIONS

    require("psycopg", extra="postgres")
    parsed = make_url(url).set(drivername="postgresql+psycopg")
    engine = create_engine(parsed, connect_args={"connect_timeout": 10})
    try:
        with engine.begin() as connection:
            connection.execute(text(f"CREATE SCHEMA IF NOT EXISTS {_POSTGRES_SCHEMA}"))
    finally:
        engine.dispose()
    options = f"-csearch_path={_POSTGRES_SCHEMA} {END_IDLE_TRANSACTIONS}"
    return parsed.update_query_dict({"options": options}).render_as_string(hide_password=False)
