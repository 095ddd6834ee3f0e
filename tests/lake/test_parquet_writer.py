"""Files of our own writer read like any other Parquet file."""

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
from alphaswarm_rl.lake.parquet_writer import ParquetWriter
from alphaswarm_rl.lake.run_ends import as_type, repeated, run_type, runs
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
            values if isinstance(values, pa.Array) else pa.array(values, field.type)
            for values, field in zip(arrays, _SCHEMA, strict=True)
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
    with ParquetWriter(file, _SCHEMA, levels=(-500, -20), statistics=_STATISTICS) as writer:
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
            if name in _STATISTICS and (values := plain(rows)[name].drop_null()).length():
                ordered = sorted(values.to_pylist())
                assert (column.statistics.min, column.statistics.max) == (ordered[0], ordered[-1])


_MORE = pa.schema(
    [
        pa.field("truth", pa.bool_(), nullable=False),
        pa.field("doubt", pa.bool_()),
        pa.field("text", pa.string()),
        pa.field("term", pa.dictionary(pa.int32(), pa.string()), nullable=False),
        pa.field("single", pa.float32()),
        pa.field("large", pa.int64()),
        pa.field("doubles", pa.list_(pa.float64())),
        pa.field("singles", pa.list_(pa.float32())),
    ]
)
_REAL = st.floats(allow_nan=False)
_ROW_OF_MORE = st.tuples(
    st.booleans(),
    st.none() | st.booleans(),
    st.none() | st.text(st.characters(exclude_categories=("Cs",)), max_size=300),
    st.sampled_from(["pnl", "cost", "drawdown", ""]),
    st.none() | st.floats(allow_nan=False, width=32),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.lists(_REAL, max_size=40),
    st.none() | st.lists(st.floats(allow_nan=False, width=32), max_size=3),
)


def of_more(rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(_MORE)
    return pa.table(
        [pa.array(list(column), field.type) for column, field in zip(columns, _MORE, strict=True)], schema=_MORE
    )


def written_more(groups: list[pa.Table]) -> bytes:
    file = io.BytesIO()
    with ParquetWriter(file, _MORE, levels=(-500, -20), statistics=("large",)) as writer:
        for rows in groups:
            writer.write_table(rows)
    return file.getvalue()


def without_dictionaries(rows: pa.Table) -> pa.Table:
    return rows.set_column(3, "term", rows["term"].cast(pa.string()))


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(_ROW_OF_MORE, min_size=1, max_size=12), st.integers(0, 12), st.sampled_from([1, 2, 90])),
        min_size=1,
        max_size=4,
    )
)
def test_every_kind_of_column_is_read(groups: list[tuple[list[Any], int, int]]) -> None:
    # Of several chunks, the first of which is part of a larger one.
    tables = [
        pa.concat_tables([of_more(rows).slice(min(cut, len(rows) - 1)), *[of_more(rows)] * times])
        for rows, cut, times in groups
    ]
    data = written_more(tables)
    expected = without_dictionaries(pa.concat_tables(tables))
    found = pq.read_table(io.BytesIO(data))
    assert found.cast(expected.schema).equals(expected)
    footer = pq.read_metadata(io.BytesIO(data))
    for number, rows in enumerate(tables):
        numbers = [value for value in rows["large"].to_pylist() if value is not None]
        statistics = footer.row_group(number).column(5).statistics
        assert statistics.null_count == rows["large"].null_count
        if numbers:
            assert (statistics.min, statistics.max) == (min(numbers), max(numbers))


@pytest.mark.parametrize("length", [0, 1, 2, 30])
def test_duckdb_reads_lists(tmp_path: Path, length: int) -> None:
    rows = of_more(
        [
            (
                step % 3 == 0,
                None,
                f"ä{step}" if step % 2 else None,
                "pnl" if step % 2 else "cost",
                None if step % 5 == 0 else step / 4,
                step,
                None if step % 7 == 0 else [step + k / 4 for k in range(length)],
                None,
            )
            for step in range(500)
        ]
    )
    (tmp_path / "file.parquet").write_bytes(written_more([rows, rows.slice(0, 99)]))
    found = duckdb.sql(f"FROM '{tmp_path / 'file.parquet'}'").to_arrow_table()
    expected = without_dictionaries(pa.concat_tables([rows, rows.slice(0, 99)]))
    for name in expected.column_names:
        assert found[name].cast(expected[name].type).to_pylist() == expected[name].to_pylist(), name


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
