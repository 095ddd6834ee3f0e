"""Questions in SQL about recorded steps, ledger and model registry, and their answers as plain data.

A statement of a user's may only read, and only the views. Two guards see to it, neither of which rests on the other:
the tree of the statement has nothing in it that is not known to read, and the engine reaches the files of the tables
alone, through a file system that cannot write, loads no extension and keeps its configuration. Rows of the ledger and
the registry are handed to it in memory. Values that JSON has no word for (decimals, dates, bytes) become the nearest
that it has.
"""

# Names of tables and columns in the queries are this module's own.
# ruff: noqa: S608

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import duckdb

from alphaswarm_rl.core.errors import DataError, LakeError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.export import ORDER
from alphaswarm_rl.lake.ledger_views import create_ledger_views
from alphaswarm_rl.lake.read_only_files import SCHEME, ReadOnlyFiles
from alphaswarm_rl.lake.statements import VIEWS, refuse_writing
from alphaswarm_rl.lake.tables import KINDS, Kind
from alphaswarm_rl.lake.views import create_run_views, create_views, has_table, quoted, register_run_views, text

if TYPE_CHECKING:
    from alphaswarm_rl.ledger import RunRow
    from alphaswarm_rl.settings import Settings

_RUN_VIEW = re.compile(rf"\brl_(?:{'|'.join(KINDS)})_run_([0-9a-f]{{12}})\b", re.IGNORECASE)
#: More rows than any step has.
_ALL_ROWS = 1_000_000
#: How DuckDB begins to propose a table of its own, which no statement may read here.
_PROPOSES_ITS_OWN = tuple(f'Did you mean "{name}' for name in ("pg_", "duckdb_", "sqlite_", "information_schema"))
_DAMAGED = "See which files are damaged with: rl lake verify."
#: Columns that are the same in every row of a run.
_OF_THE_RUN = ("run_id", "spec_hash")
_KEY = "phase, env_idx, episode, step"
_EPISODE = "PARTITION BY phase, env_idx, episode"
#: Phases in the order in which they answer what a run held: what a policy is reported by comes first.
_ANSWERING = ["evaluate", "replay", "backtest", "validation", "paper", "train"]
#: One step's positions with what they came from and what they cost, in it and since the episode began.
_HOLDINGS = f"""
    WITH running AS (
        SELECT phase, env_idx, episode FROM {{positions}} WHERE asset_idx < 0 GROUP BY ALL HAVING {{since}}
    ), step AS (
        SELECT {_KEY} FROM {{positions}} SEMI JOIN running USING (phase, env_idx, episode)
        WHERE asset_idx < 0{{conditions}}
        ORDER BY list_position({_ANSWERING}, phase), episode, env_idx, step DESC LIMIT 1
    ), held AS (
        SELECT *, sum(carry) OVER (PARTITION BY asset_idx ORDER BY step) AS carry_so_far
        FROM {{positions}} SEMI JOIN step USING (phase, env_idx, episode)
    ), paid AS (
        SELECT {_KEY}, asset_idx, sum(commission + spread + impact) AS cost, list(reason ORDER BY fill_idx) AS reasons,
            sum(CASE side WHEN 'buy' THEN quantity ELSE -quantity END) AS bought
        FROM {{fills}} SEMI JOIN step USING (phase, env_idx, episode) GROUP BY ALL
    ), so_far AS (
        SELECT asset_idx, sum(cost) AS cost_so_far FROM paid JOIN step ON paid.step <= step.step GROUP BY ALL
    )
    SELECT {_KEY}, ts, symbol, quantity, price, value, weight_before, weight, targets, action_value AS action,
        coalesce(bought, 0) AS bought, coalesce(reasons, []) AS reasons, coalesce(cost, 0) AS cost, carry,
        coalesce(cost_so_far, 0) AS cost_so_far, carry_so_far
    FROM held SEMI JOIN step USING ({_KEY}) LEFT JOIN paid USING ({_KEY}, asset_idx) LEFT JOIN so_far USING (asset_idx)
        LEFT JOIN (SELECT {_KEY}, symbol, asset_idx AS component, action_value FROM {{action_logs}})
        USING ({_KEY}, symbol)
    -- There is a share whose symbol is CASH, and cash comes before the assets.
    QUALIFY row_number() OVER (PARTITION BY asset_idx ORDER BY abs(component - asset_idx - 1)) = 1
    ORDER BY asset_idx
"""


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
            create_ledger_views(settings, connection, statement)
            with Lake(settings) as lake:
                recordings = create_views(lake, connection, files)
                for run_id in run_ids([f"{digits[:8]}-{digits[8:]}" for digits in beginnings]):
                    recording = recordings.get(run_id, {})
                    create_run_views(lake, run_id, connection, recording=recording, read_only=files)
            _lock(connection)
            return _fetch(connection, statement, limit)
        except duckdb.Error as error:
            raise _explained(error, settings, files) from error


def kinds_without_table(settings: Settings, statement: str) -> list[Kind]:
    """The kinds of steps that a statement asks for and that nothing has recorded: there is no table of them yet."""
    asked = [kind for kind in KINDS if re.search(rf"\b(rl|alphaswarm_silver_rl)_{kind}(?![a-z])", statement, re.I)]
    with Lake(settings) as lake:
        return [kind for kind in asked if not has_table(lake, kind)]


def steps_of_run(
    lake: Lake,
    run: RunRow,
    kind: Kind,
    chosen: Mapping[str, str | int],
    limit: int,
    *,
    until: datetime | None = None,
    last: bool = False,
) -> Rows:
    """A run's rows of one kind, in order, without the columns that are the same in all of them.

    Args:
        lake: Whose tables.
        run: The run.
        kind: Which table.
        chosen: Only rows with these values, by column: names out of a list and whole numbers.
        limit: At most that many rows: the first ones, or the newest before a moment that was given.
        until: Only steps of bars before that moment; rows are in the order of their bars then.
        last: Only the last of these steps of each episode.

    Raises:
        LakeError: Files of the tables cannot be read.
    """
    with _connection() as connection:
        try:
            view = quoted(create_run_views(lake, run.id, connection, [kind], recording=run.recording)[kind])
            conditions = f"WHERE true{_conditions(chosen, until)}"
            statement = f"SELECT * EXCLUDE ({', '.join(_OF_THE_RUN)}) FROM {view} {conditions}"
            statement += f" QUALIFY step = max(step) OVER ({_EPISODE})" if last else ""
            if until is None or last:
                return _fetch(connection, f"{statement} ORDER BY {ORDER[kind]}", limit)
            backwards = ", ".join(f"{column} DESC" for column in ("ts", *ORDER[kind].split(", ")))
            newest = _fetch(connection, f"{statement} ORDER BY {backwards}", limit)
            return replace(newest, rows=newest.rows[::-1])
        except duckdb.Error as error:
            raise LakeError(f"the steps of run {run.id}", _first_line(error), _DAMAGED) from error


def holdings_of_run(
    lake: Lake, run: RunRow, chosen: Mapping[str, str | int], when: tuple[datetime, datetime] | None
) -> Rows:
    """What a run held after one step, why and at what cost: a row for cash and one for each asset.

    The step is the last one then, in the first episode that runs then of the phase that a policy is reported by.

    Args:
        lake: Whose tables.
        run: The run.
        chosen: Only steps with these values, by column: names out of a list and whole numbers.
        when: A day or a moment, from when and until when, without; None: the end of the episode.

    Raises:
        LakeError: Files of the tables cannot be read.
    """
    since = "true" if when is None else f"max(ts) >= {text(when[0].isoformat())}::TIMESTAMPTZ"
    conditions = _conditions(chosen, None if when is None else when[1])
    kinds: tuple[Kind, ...] = ("positions", "fills", "action_logs")
    with _connection() as connection:
        try:
            names = create_run_views(lake, run.id, connection, kinds, recording=run.recording)
            views = {kind: quoted(name) for kind, name in names.items()}
            return _fetch(connection, _HOLDINGS.format(since=since, conditions=conditions, **views), _ALL_ROWS)
        except duckdb.Error as error:
            raise LakeError(f"the steps of run {run.id}", _first_line(error), _DAMAGED) from error


def days_of_run(lake: Lake, run_id: str, kind: Kind, chosen: Mapping[str, str | int]) -> tuple[str, str] | None:
    """The days of a run's first and last bar among these rows; None where there are none, or no bars."""
    with _connection() as connection:
        view = quoted(create_run_views(lake, run_id, connection, [kind], recording={})[kind])
        statement = f"SELECT min(ts), max(ts) FROM {view} WHERE true{_conditions(chosen, None)}"
        ((first, last),) = _fetch(connection, statement, 1).rows
    return None if first is None else (str(first)[:10], str(last)[:10])


def _conditions(chosen: Mapping[str, str | int], until: datetime | None) -> str:
    # Choices of a list, whole numbers and a moment: nothing in them that SQL could take for its own.
    conditions = [f"{name} = {value!r}" for name, value in chosen.items()]
    conditions += [] if until is None else [f"ts < {text(until.isoformat())}::TIMESTAMPTZ"]
    return "".join(f" AND {condition}" for condition in conditions)


def summary_of_run(settings: Settings, run_id: str) -> tuple[int, tuple[float, str] | None]:
    """How many steps of a run are in the tables, and its evaluation's deepest drawdown with its date."""
    with _connection() as connection:
        views = register_run_views(run_id, connection, settings, kinds=["trajectories", "equity_curves"])
        ((count,),) = connection.table(views["trajectories"]).aggregate("count(*)").fetchall()
        curves = connection.table(views["equity_curves"]).filter("phase = 'evaluate'")
        worst = curves.order("drawdown DESC").limit(1).project("drawdown, ts::DATE").fetchall()
    return count, next(((depth, str(day)) for depth, day in worst), None)


def _explained(error: duckdb.Error, settings: Settings, files: ReadOnlyFiles) -> DataError | LakeError:
    """Whether the statement is wrong or a file of the tables."""
    if files.problem is not None:
        return LakeError("the recorded steps", str(files.problem), _DAMAGED)
    reason = _first_line(error).rstrip(". ") + _suggestion(error)
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


def _suggestion(error: Exception) -> str:
    """The names that DuckDB proposes, from the lines below its first; tables of its own are none that it may read."""
    lines = [line for line in str(error).splitlines()[1:] if not line.startswith(_PROPOSES_ITS_OWN)]
    return "".join(f" {line}" for line in lines if line.startswith(("Candidate bindings: ", "Did you mean ")))
