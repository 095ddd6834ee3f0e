"""Questions in SQL about recorded steps, and their answers as plain data.

A statement of a user's may only read, and only the views. Two guards see to it, neither of which rests on the other:
the tree of the statement has nothing in it that is not known to read, and the engine reaches the files of the tables
alone, through a file system that cannot write, loads no extension and keeps its configuration. Values that JSON has no
word for (decimals, dates, bytes) become the nearest that it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from alphaswarm_rl.core.errors import DataError, LakeError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.export import ORDER
from alphaswarm_rl.lake.read_only_files import SCHEME, ReadOnlyFiles
from alphaswarm_rl.lake.statements import VIEWS, refuse_writing
from alphaswarm_rl.lake.views import create_run_views, create_views, quoted, register_run_views, text

if TYPE_CHECKING:
    from alphaswarm_rl.lake.tables import Kind
    from alphaswarm_rl.settings import Settings

_RUN_VIEW = re.compile(
    r"\brl_(?:trajectories|equity_curves|action_logs|reward_decomposition)_run_([0-9a-f]{12})\b", re.IGNORECASE
)
_DAMAGED = "See which files are damaged with: rl lake verify."
#: Columns that are the same in every row of a run.
_OF_THE_RUN = ("run_id", "spec_hash")


@dataclass(frozen=True)
class Rows:
    """The result of a query.

    Attributes:
        columns: The names of its columns.
        rows: Its rows, as values that JSON can hold.
        more: Whether there are more rows than were asked for.
    """

    columns: list[str]
    rows: list[list[object]]
    more: bool


def query(settings: Settings, statement: str, limit: int, run_ids: Callable[[list[str]], list[str]]) -> Rows:
    """Answers one statement that only reads, over the views of all runs and of those that it names.

    Args:
        settings: Whose tables.
        statement: One SELECT, DESCRIBE, SUMMARIZE, SHOW or EXPLAIN of DuckDB's.
        limit: At most that many rows.
        run_ids: Gives the whole ids of runs by the beginnings that the statement names.

    Raises:
        DataError: The statement is wrong, or would change something.
        LakeError: Files of the tables cannot be read.
    """
    files = ReadOnlyFiles()
    with _connection() as connection:
        try:
            refuse_writing(connection, statement)
            connection.register_filesystem(files)
            beginnings = sorted({digits.lower() for digits in _RUN_VIEW.findall(statement)})
            with Lake(settings) as lake:
                create_views(lake, connection, files)
                for run_id in run_ids([f"{digits[:8]}-{digits[8:]}" for digits in beginnings]):
                    create_run_views(lake, run_id, connection, read_only=files)
            _lock(connection)
            return _fetch(connection, statement, limit)
        except duckdb.Error as error:
            raise _explained(error, settings, files) from error


def steps_of_run(lake: Lake, run_id: str, kind: Kind, chosen: Mapping[str, str | int], limit: int) -> Rows:
    """A run's rows of one kind, in order, without the columns that are the same in all of them.

    Args:
        lake: Whose tables.
        run_id: The run's whole id.
        kind: Which table.
        chosen: Only rows with these values, by column: names out of a list and whole numbers.
        limit: At most that many rows.

    Raises:
        LakeError: Files of the tables cannot be read.
    """
    # Choices of a list and whole numbers: nothing in them that SQL could take for its own.
    conditions = " AND ".join(f"{name} = {value!r}" for name, value in chosen.items())
    with _connection() as connection:
        try:
            view = quoted(create_run_views(lake, run_id, connection, [kind])[kind])
            statement = f"SELECT * EXCLUDE ({', '.join(_OF_THE_RUN)}) FROM {view}"  # noqa: S608
            statement += f" WHERE {conditions}" if conditions else ""
            return _fetch(connection, f"{statement} ORDER BY {ORDER[kind]}", limit)
        except duckdb.Error as error:
            raise LakeError(f"the steps of run {run_id}", _first_line(error), _DAMAGED) from error


def summary_of_run(settings: Settings, run_id: str) -> tuple[int, tuple[float, str] | None]:
    """How many steps of a run are in the tables, and its evaluation's deepest drawdown with its date."""
    with _connection() as connection:
        views = register_run_views(run_id, connection, settings)
        ((count,),) = connection.table(views["trajectories"]).aggregate("count(*)").fetchall()
        curves = connection.table(views["equity_curves"]).filter("phase = 'evaluate'")
        worst = curves.order("drawdown DESC").limit(1).project("drawdown, ts::DATE").fetchall()
    return count, next(((depth, str(day)) for depth, day in worst), None)


def _explained(error: duckdb.Error, settings: Settings, files: ReadOnlyFiles) -> DataError | LakeError:
    """Whether the statement is wrong or a file of the tables."""
    if files.problem is not None:
        return LakeError("the recorded steps", str(files.problem), _DAMAGED)
    reason = _first_line(error).rstrip(". ")
    if isinstance(error, duckdb.IOException):
        warehouse = Lake(settings).warehouse.removeprefix("file://")
        if "No files found" not in reason or warehouse in reason:  # otherwise the statement names a file itself
            return LakeError("the recorded steps", reason, _DAMAGED)
    return DataError("the SQL statement", reason, VIEWS)


@contextmanager
def _connection() -> Iterator[duckdb.DuckDBPyConnection]:
    # No extension is ever fetched or loaded, and no variable of ours is a table.
    config = {
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "python_enable_replacements": False,
    }
    # What does not fit into memory goes to a folder of the connection's own, which it may open whatever is locked.
    with (
        TemporaryDirectory(prefix="alphaswarm-sql-") as folder,
        duckdb.connect(config={**config, "temp_directory": folder}) as connection,
    ):
        yield connection


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    """From here on the connection opens files through our file system alone, and nothing can change that."""
    connection.execute(f"SET allowed_directories = [{text(f'{SCHEME}://')}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _fetch(connection: duckdb.DuckDBPyConnection, statement: str, limit: int) -> Rows:
    # By way of Arrow: DuckDB's own rows need one more library for times.
    reader = connection.sql(statement).limit(limit + 1).to_arrow_reader(10_000)
    rows: list[list[object]] = []
    for batch in reader:
        values = [column.to_pylist() for column in batch.columns]
        rows += [[_plain(value) for value in row] for row in zip(*values, strict=True)]
    return Rows(list(reader.schema.names), rows[:limit], more=len(rows) > limit)


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, date | time | timedelta) and not isinstance(value, datetime):
        return str(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    return value


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
