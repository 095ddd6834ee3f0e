"""Views in DuckDB over recorded steps: of all runs, of one run, and of all runs of one spec.

The catalogue says which files a table consists of, and DuckDB reads those and no others. A view knows the files of the
moment in which it was made: make it again after commits. What a run's row alone knows comes with the view: the symbols
of its actions, and the names of the stages that its targets come from.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.catalog import Lake, explained, files_of
from alphaswarm_rl.lake.segments import plain_files
from alphaswarm_rl.lake.tables import COLUMNS, KINDS, Kind, arrow_schema
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.options.settings import load_settings
from alphaswarm_rl.settings import Settings

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

    from alphaswarm_rl.lake.read_only_files import ReadOnlyFiles

#: Schemas of the views by spec, `alphaswarm_silver_rl_trajectories."<spec hash>"` and so on.
SPEC_SCHEMA = "alphaswarm_silver_rl_"

_SHORT = 12
_RUN_ID = re.compile(r"[0-9a-fA-F-]{12,36}")
#: The run in a path, for DuckDB; the last such folder, whatever the home is called.
_RUN_FOLDER = ".*/run_id=([^/]+)/"
#: Columns that a view has beside its table's: what a run's row says, as a list, and the column of one row of it.
_OF_THE_ROW: dict[Kind, tuple[str, str]] = {
    "action_logs": ("action", "{}[asset_idx + 1] AS symbol"),
    "positions": ("stages", "{} AS stages"),
}
#: What is seen of a table a second way: what a view is called, its columns beside the key, and of which rows.
_PIPELINE = (
    "rl_pipeline_history",
    "asset_idx, symbol, unnest(range(len(targets))) AS stage_idx, unnest(stages) AS stage, unnest(targets) AS target",
    "targets IS NOT NULL",
)
_BREACHES = (
    "rl_limit_breaches",
    "unnest(from_json(json_extract(info, '$.limit_breaches'), "
    """'[{"kind": "VARCHAR", "message": "VARCHAR", "value": "DOUBLE", "limit": "DOUBLE", "severity": "VARCHAR"}]'), """
    "recursive := true)",
    "json_extract(info, '$.limit_breaches') IS NOT NULL",
)
_SECOND: dict[Kind, tuple[str, str, str]] = {"positions": _PIPELINE, "trajectories": _BREACHES}
_STEP = "run_id, spec_hash, phase, env_idx, episode, step, ts"
#: What a run's row says, by the run's id and what it is about.
RowNames: TypeAlias = "Mapping[str, Mapping[str, Any]]"
_TYPES = {
    pa.string(): "VARCHAR",
    pa.int32(): "INTEGER",
    pa.int64(): "BIGINT",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
    pa.bool_(): "BOOLEAN",
    pa.timestamp("us", tz="UTC"): "TIMESTAMP WITH TIME ZONE",
}


@dataclass(frozen=True)
class _File:
    """A file to read, and whose rows are in it; with the file system that it is on, where that is not the local one."""

    path: str
    run_id: str
    filesystem: Any = None


def ensure_duckdb_views(connection: DuckDBPyConnection, settings: Settings | None = None) -> None:
    """Makes the views over all runs, and one per kind and spec; replaces those of an earlier call.

    Args:
        connection: Where they are made; its time zone becomes UTC.
        settings: Whose tables; None reads the environment and the settings file.
    """
    with Lake(_given(settings)) as lake:
        create_views(lake, connection)


def create_views(lake: Lake, connection: DuckDBPyConnection, read_only: ReadOnlyFiles | None = None) -> RowNames:
    """The same in a lake that is open; files of this machine are read through `read_only`, where it is given.

    Returns:
        What the rows of the runs say is recorded.
    """
    with Ledger.open(lake.settings) as ledger:
        runs_of, names = ledger.runs_by_spec_hash(), ledger.recordings()
    connection.execute("SET TimeZone = 'UTC'")
    for kind in KINDS:
        _create_views(connection, kind, _planned(lake, kind, read_only=read_only), runs_of, names)
        _create_second(connection, kind, f"rl_{kind}")
    return names


def register_run_views(
    run_id: str, connection: DuckDBPyConnection, settings: Settings | None = None, *, kinds: Sequence[Kind] = KINDS
) -> dict[Kind, str]:
    """Makes the views of one run; gives their names.

    Args:
        run_id: The run's whole id.
        connection: Where they are made; its time zone becomes UTC.
        settings: Whose tables; None reads the environment and the settings file.
        kinds: Those that are wanted; each costs a look at its table, and actions and positions one at the ledger.

    Raises:
        LakeError: The connection has views of another run whose id begins with the same twelve digits.
    """
    with Lake(_given(settings)) as lake:
        recording: Mapping[str, Any] = {}
        if any(kind in _OF_THE_ROW for kind in kinds):
            with Ledger.open(lake.settings) as ledger:
                recording = ledger.recordings(run_id).get(run_id, {})
        return create_run_views(lake, run_id, connection, kinds, recording=recording)


def create_run_views(
    lake: Lake,
    run_id: str,
    connection: DuckDBPyConnection,
    kinds: Sequence[Kind] = KINDS,
    *,
    recording: Mapping[str, Any],
    read_only: ReadOnlyFiles | None = None,
) -> dict[Kind, str]:
    """The same in a lake that is open; files of this machine are read through `read_only`, where it is given.

    `recording` is what the run's row says of it: what its numbers are about.
    """
    if _RUN_ID.fullmatch(run_id) is None:
        raise LakeError(
            f"the run {run_id!r}", "that is no id of a run", "Give a whole id, as rl runs list --json does."
        )
    connection.execute("SET TimeZone = 'UTC'")
    names = {kind: run_view(kind, run_id) for kind in kinds}
    for kind, name in names.items():
        _refuse_taken(connection, name, run_id)
        files = _planned(lake, kind, run_id, read_only=read_only)
        connection.execute(_create(connection, kind, quoted(name), files, {run_id: recording}))
        connection.execute(f"COMMENT ON VIEW {quoted(name)} IS {text(run_id)}")
        _create_second(connection, kind, name, name.removeprefix(f"rl_{kind}"))
    return names


def _create_second(connection: DuckDBPyConnection, kind: Kind, view: str, suffix: str = "") -> None:
    """Makes what is seen of a view a second way: the targets stage by stage, the limits that were reached."""
    if kind in _SECOND:
        name, columns, rows = _SECOND[kind]
        query = f"SELECT {_STEP}, {columns} FROM {quoted(view)} WHERE {rows}"  # noqa: S608
        connection.execute(f"CREATE OR REPLACE VIEW {quoted(name + suffix)} AS {query}")


def run_view(kind: Kind, run_id: str) -> str:
    """The name of a run's view."""
    return f"rl_{kind}_run_{run_id.replace('-', '')[:_SHORT].lower()}"


def has_rows(lake: Lake, kind: Kind, run_id: str) -> bool:
    """Whether a run has files of that kind."""
    return bool(_planned(lake, kind, run_id))


def has_table(lake: Lake, kind: Kind) -> bool:
    """Whether there is a table of that kind, or files that have no catalogue."""
    identifier = lake.identifier(kind)
    if lake.exists:
        with explained(f"the table {identifier}", "See what is there with: rl lake verify."):
            if lake.find(identifier) is not None:
                return True
    return bool(plain_files(lake.settings, kind))


def quoted(name: str) -> str:
    """A name as SQL has it."""
    return '"' + name.replace('"', '""') + '"'


def _given(settings: Settings | None) -> Settings:
    return load_settings({}, os.environ) if settings is None else settings


def _create_views(
    connection: DuckDBPyConnection,
    kind: Kind,
    files: Sequence[_File],
    runs_of: dict[str, list[str]],
    names: RowNames,
) -> None:
    of_run: dict[str, list[_File]] = defaultdict(list)
    for file in files:
        of_run[file.run_id].append(file)
    schema = f"{SPEC_SCHEMA}{kind}"
    statements = [
        _create(connection, kind, quoted(f"rl_{kind}"), files, names, run_from_path=True),
        f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}",
    ]
    for spec_hash, run_ids in runs_of.items():
        # Only its own runs' files, so that no other's is ever opened.
        own = [file for run_id in run_ids for file in of_run.get(run_id, ())]
        name = f"{quoted(schema)}.{quoted(spec_hash)}"
        statements.append(_create(connection, kind, name, own, names, f" WHERE spec_hash = {text(spec_hash)}"))
    existing = connection.execute(
        f"SELECT table_name FROM information_schema.tables WHERE table_schema = {text(schema)}"  # noqa: S608
    ).fetchall()
    stale = [name for (name,) in existing if name not in runs_of]
    statements += [f"DROP VIEW IF EXISTS {quoted(schema)}.{quoted(name)}" for name in stale]
    connection.execute(";\n".join(statements))


def _planned(
    lake: Lake, kind: Kind, run_id: str | None = None, *, read_only: ReadOnlyFiles | None = None
) -> list[_File]:
    """The files of a kind, or of one run: those of the table, and those that have no catalogue."""
    found = []
    identifier = lake.identifier(kind)
    if lake.exists:
        with explained(f"the table {identifier}", "See what is there with: rl lake verify."):
            table = lake.find(identifier)
            if table is not None:
                filesystem, named = (None, lake.path) if lake.local else lake.filesystem(table)
                found = [_File(str(named(file.location)), file.run_id, filesystem) for file in files_of(table, run_id)]
    plain = plain_files(lake.settings, kind, run_id)
    files = [*found, *(_File(str(path), owner) for path, owner in plain.items())]
    if read_only is None:
        return files
    return [file if file.filesystem else replace(file, path=read_only.admit(file.path)) for file in files]


def _create(
    connection: DuckDBPyConnection,
    kind: Kind,
    name: str,
    files: Sequence[_File],
    names: RowNames,
    where: str = "",
    *,
    run_from_path: bool = False,
) -> str:
    """The statement that makes a view of these files; what they have to be registered for is done now."""
    local = [file for file in files if file.filesystem is None]
    remote = [file for file in files if file.filesystem is not None]
    parts = []
    if local:
        parts.append(_read_local(kind, local, run_from_path=run_from_path) + where)
    if remote:
        dataset = f"files of {name}"
        connection.register(dataset, _dataset(kind, remote))
        parts.append(f"SELECT {_columns(kind)} FROM {quoted(dataset)}{where}")  # noqa: S608
    if not files:
        nulls = ", ".join(f"CAST(NULL AS {_type(type_)}) AS {quoted(column)}" for column, type_ in COLUMNS[kind])
        parts.append(f"SELECT {nulls} WHERE false")
    named = {file.run_id: names[file.run_id] for file in files if file.run_id in names}
    return f"CREATE OR REPLACE VIEW {name} AS {_with_names(kind, ' UNION ALL '.join(parts), named)}"


def _with_names(kind: Kind, query: str, names: RowNames) -> str:
    """The query with what the rows of its runs know beside; null where one does not say it."""
    if kind not in _OF_THE_ROW:
        return query
    about, column = _OF_THE_ROW[kind]
    by_names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for run_id, recording in names.items():
        if recording.get(about):
            by_names[tuple(recording[about])].append(run_id)
    if not by_names:
        return f"SELECT *, {column.format('CAST(NULL AS VARCHAR[])')} FROM ({query})"  # noqa: S608
    known = ", ".join(f"({_list(run_ids)}, {_list(found)})" for found, run_ids in by_names.items())
    row = f"SELECT unnest(run_ids) AS run_id, names AS names_of_run FROM (VALUES {known}) AS known(run_ids, names)"  # noqa: S608
    columns = f"{_columns(kind)}, {column.format('names_of_run')}"
    return f"SELECT {columns} FROM ({query}) LEFT JOIN ({row}) USING (run_id)"  # noqa: S608


def _list(words: Iterable[str]) -> str:
    return f"[{', '.join(map(text, words))}]"


def _read_local(kind: Kind, files: Iterable[_File], *, run_from_path: bool) -> str:
    """A query over files of this machine.

    The query names the columns with their types: no file is opened for them, and one written before a column came reads
    as null there.
    With the run taken from the path, a condition on `run_id` decides which files are opened at all.
    """
    paths = ", ".join(text(re.sub(r"([*?\[])", r"[\1]", file.path)) for file in files)
    columns = ", ".join(
        f"{text(name)}: {{name: {text(name)}, type: {text(_type(type_))}, default_value: NULL}}"
        for name, type_ in COLUMNS[kind]
    )
    run = f"regexp_extract(filename, {text(_RUN_FOLDER)}, 1) AS run_id"
    selected = _columns(kind).replace(quoted("run_id"), run, 1) if run_from_path else _columns(kind)
    return f"SELECT {selected} FROM read_parquet([{paths}], schema = MAP {{{columns}}}, filename = {run_from_path})"  # noqa: S608


def _dataset(kind: Kind, files: Iterable[_File]) -> Any:
    """The files of another machine, each with a word about its run, so that Arrow opens those that are asked for."""
    from pyarrow import dataset

    form = dataset.ParquetFileFormat()
    fragments = [
        form.make_fragment(file.path, file.filesystem, partition_expression=dataset.field("run_id") == file.run_id)
        for file in files
    ]
    return dataset.FileSystemDataset(fragments, arrow_schema(kind), form)


def _refuse_taken(connection: DuckDBPyConnection, name: str, run_id: str) -> None:
    here = "database_name = current_database() AND schema_name = current_schema()"
    query = f"SELECT comment FROM duckdb_views() WHERE view_name = {text(name)} AND {here}"  # noqa: S608
    for (owner,) in connection.execute(query).fetchall():
        if owner != run_id:
            raise LakeError(
                f"the view {name}",
                f"on this connection it shows the run {owner}, whose id begins like that of {run_id}",
                "Use another connection for the other run.",
            )


def _columns(kind: Kind) -> str:
    return ", ".join(quoted(name) for name, _ in COLUMNS[kind])


def _type(type_: pa.DataType) -> str:
    return f"{_TYPES[type_.value_type]}[]" if pa.types.is_list(type_) else _TYPES[type_]


def text(value: str) -> str:
    """A text as SQL has it."""
    return "'" + value.replace("'", "''") + "'"
