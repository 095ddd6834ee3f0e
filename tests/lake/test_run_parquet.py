"""Files that are written in runs read like any other Parquet file."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphaswarm_rl.lake.checksum import checksum
from alphaswarm_rl.lake.run_ends import as_type, repeated, run_type, runs
from alphaswarm_rl.lake.run_parquet import RunParquetWriter
from alphaswarm_rl.lake.segments import fitted
from alphaswarm_rl.lake.tables import arrow_schema, write_schema

_TIME = pa.timestamp("us", tz="UTC")
_SCHEMA = pa.schema(
    [
        pa.field("word", run_type(pa.string()), nullable=False),
        pa.field("small", run_type(pa.int32()), nullable=False),
        pa.field("large", run_type(pa.int64()), nullable=False),
        pa.field("time", run_type(_TIME)),
        pa.field("index", pa.int32(), nullable=False),
        pa.field("number", pa.float64(), nullable=False),
        pa.field("maybe", pa.float64()),
    ]
)
_STATISTICS = ("small", "large", "time", "index")


def table(values: list[tuple[str, int, int, int | None]], times: int) -> pa.Table:
    """Each of the values `times` times in a row."""
    words, small, large, moments = zip(*values, strict=True)
    columns = [pa.array(words), pa.array(small, pa.int32()), pa.array(large, pa.int64()), pa.array(moments, _TIME)]
    count = len(values) * times
    numbers = np.random.default_rng(count).normal(size=count)
    maybe = [None if number > 0.5 else number for number in numbers]
    index = np.arange(count, dtype=np.int32) % times
    arrays = [*(repeated(column, times) for column in columns), index, numbers, maybe]
    return pa.table(
        [
            its if isinstance(its, pa.Array) else pa.array(its, field.type)
            for its, field in zip(arrays, _SCHEMA, strict=True)
        ],
        schema=_SCHEMA,
    )


def plain(rows: pa.Table) -> pa.Table:
    """Without runs."""
    types = [field.type.value_type if pa.types.is_run_end_encoded(field.type) else field.type for field in rows.schema]
    columns = [as_type(rows[field.name], type_) for field, type_ in zip(rows.schema, types, strict=True)]
    return pa.table(columns, names=rows.schema.names)


def written(groups: list[pa.Table]) -> bytes:
    """A file with one row group for each."""
    file = io.BytesIO()
    with RunParquetWriter(file, _SCHEMA, level=-20, statistics=_STATISTICS) as writer:
        for rows in groups:
            writer.write_table(rows)
        writer.add_key_value_metadata({b"who": b"me"})
    return file.getvalue()


_ROW = st.tuples(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=6),
    st.integers(-(2**31), 2**31 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.integers(-(2**50), 2**50),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.lists(_ROW, min_size=1, max_size=20), st.sampled_from([1, 3, 30, 300])), min_size=1))
def test_what_is_written_is_read(groups: list[tuple[list[Any], int]]) -> None:
    tables = [table(values, times) for values, times in groups]
    # A group may consist of several tables, as blocks of steps do.
    data = written([pa.concat_tables([rows, rows]) for rows in tables])
    expected = plain(pa.concat_tables([twice for rows in tables for twice in (rows, rows)]))
    found = pq.read_table(io.BytesIO(data))
    assert found.cast(expected.schema).equals(expected)
    footer = pq.read_metadata(io.BytesIO(data))
    assert footer.num_row_groups == len(tables)
    assert footer.metadata[b"who"] == b"me"
    for number, rows in enumerate(tables):
        for place, name in enumerate(_SCHEMA.names):
            column = footer.row_group(number).column(place)
            assert column.is_stats_set == (name in _STATISTICS)
            if name in _STATISTICS and (its := plain(rows)[name].drop_null()).length():
                ordered = sorted(its.to_pylist())
                assert (column.statistics.min, column.statistics.max) == (ordered[0], ordered[-1])


@pytest.mark.parametrize("times", [1, 30])
def test_duckdb_reads_it(tmp_path: Path, times: int) -> None:
    # More than 256 steps: numbers of the dictionary take two bytes; the time is null in some rows.
    values = [
        ("é" if step % 7 else "train", step // 100, step, None if step % 11 == 0 else step) for step in range(900)
    ]
    rows = table(values, times)
    (tmp_path / "file.parquet").write_bytes(written([rows, rows]))
    found = duckdb.sql(f"FROM '{tmp_path / 'file.parquet'}'").to_arrow_table()
    expected = plain(pa.concat_tables([rows, rows]))
    for name in expected.column_names:
        assert found[name].cast(expected[name].type).equals(expected[name]), name
    later = duckdb.sql(f"SELECT count(*) FROM '{tmp_path / 'file.parquet'}' WHERE large >= 850 AND word = 'train'")
    assert later.fetchall() == [(2 * times * sum(word == "train" and step >= 850 for word, _, step, _ in values),)]


def test_no_time_at_all() -> None:
    rows = table([("a", 1, 2, None)], 40)
    found = pq.read_table(io.BytesIO(written([rows])))
    assert found["time"].null_count == 40
    assert found.schema.field("time").type == _TIME


def test_moments_are_those_of_the_world() -> None:
    moment = datetime(2020, 1, 2, tzinfo=UTC)
    rows = table([("a", 1, 2, int(moment.timestamp() * 1e6))], 4)
    assert pq.read_table(io.BytesIO(written([rows])))["time"].to_pylist() == [moment] * 4


def test_runs_of_a_slice() -> None:
    column = repeated(pa.array([5, 6, 7]), 4)
    values, lengths = runs(column.slice(3, 6))
    assert (values.to_pylist(), lengths.tolist()) == ([5, 6, 7], [1, 4, 1])


def test_a_checksum_does_not_depend_on_runs() -> None:
    names = [field.name for field in arrow_schema("action_logs")]
    count = 60
    columns = {name: ["x"] * count for name in ("run_id", "spec_hash", "phase")}
    columns |= {name: list(np.arange(count) // 20) for name in ("env_idx", "episode", "step", "asset_idx")}
    columns |= {"ts": [None] * 20 + [7] * 40, "action_value": list(np.linspace(0, 1, count))}
    ordinary = pa.table(
        [pa.array(columns[name], arrow_schema("action_logs").field(name).type) for name in names], names
    )
    in_runs = fitted(ordinary, write_schema("action_logs"))
    assert pa.types.is_run_end_encoded(in_runs.schema.field("step").type)
    assert checksum(in_runs) == checksum(ordinary)
    assert checksum(in_runs.slice(0, 30)) == checksum(ordinary.slice(0, 30))
    assert fitted(in_runs, arrow_schema("action_logs")).equals(ordinary)
