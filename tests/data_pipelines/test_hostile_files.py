"""Data files of strangers: whatever they are, there is a reason, and nothing is waited for."""

import gzip
import os

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.data_pipelines import files  # noqa: F401  (registers)
from alphaswarm_rl.market import panel_columns
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars


def build(root, path, form="csv"):
    pipeline = build_from_config({"class": form, "kwargs": {"path": path}}, kind="data_pipeline")
    return pipeline.build(DataRequest(root=root))


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "data"
    made.mkdir()
    bars().to_csv(made / "bars.csv", index=False)
    bars().to_parquet(made / "bars.parquet")
    return made


@pytest.mark.timeout(60)
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("kind", ["FIFO", "device", "folder"])
def test_what_is_no_regular_file_is_refused_at_once(root, form, kind):
    path = root / "odd"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    with pytest.raises(DataError, match=f"odd is a {kind}, not a regular file"):
        build(root, "odd", form)
    read = MarketPanel.from_csv if form == "csv" else MarketPanel.from_parquet
    with pytest.raises(DataError, match=f"odd is a {kind}"):
        read(path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_link_out_of_the_data_folder_is_refused_and_one_inside_is_followed(root, tmp_path, form):
    name = f"bars.{form}"
    (root / "inside").symlink_to(name)
    assert build(root, "inside", form).fingerprint == build(root, name, form).fingerprint
    (root / name).rename(tmp_path / name)
    (root / "file").symlink_to(tmp_path / name)
    (root / "folder").symlink_to(tmp_path)
    for path in ("file", f"folder/{name}"):
        with pytest.raises(DataError, match="leads out of the folder"):
            build(root, path, form)
    # Whoever names a file by itself may keep it anywhere.
    read = MarketPanel.from_csv if form == "csv" else MarketPanel.from_parquet
    assert read(root / "file").fingerprint


@pytest.mark.parametrize(("path", "why"), [("a\0b", "NUL"), ("a" * 300, "longer"), ("x/" * 2000 + "x", "longer")])
def test_a_path_that_no_file_can_have_is_refused(root, path, why):
    with pytest.raises(DataError, match=why):
        build(root, path)


def test_gzip_is_read_and_bounded(root, monkeypatch):
    (root / "bars.csv.gz").write_bytes(gzip.compress((root / "bars.csv").read_bytes()))
    assert build(root, "bars.csv.gz").fingerprint == build(root, "bars.csv").fingerprint
    size = (root / "bars.csv").stat().st_size
    (root / "bomb.csv.gz").write_bytes(gzip.compress((root / "bars.csv").read_bytes() + b"\n" * (8 - size % 8)))
    monkeypatch.setattr(panel_columns, "_MOST_CELLS", size // 8 + 1)
    assert build(root, "bomb.csv.gz").assets
    monkeypatch.setattr(panel_columns, "_MOST_CELLS", size // 8)
    with pytest.raises(DataError, match="unpacks to more than"):
        build(root, "bomb.csv.gz")
    (root / "none.csv.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match="it is not CSV"):
        build(root, "none.csv.gz")


def test_a_parquet_file_that_says_it_is_enormous_is_refused_before_it_is_read(root, monkeypatch):
    frame = bars()
    monkeypatch.setattr(panel_columns, "_MOST_CELLS", frame.size)
    assert build(root, "bars.parquet", "parquet").assets
    monkeypatch.setattr(panel_columns, "_MOST_CELLS", frame.size - 1)
    monkeypatch.setattr(pq.ParquetFile, "read", lambda self: pytest.fail("it was read"))
    with pytest.raises(DataError, match=f"it says that it has {frame.size} numbers"):
        build(root, "bars.parquet", "parquet")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00" * 100,
        b"\xff\xfe" * 50,
        b"PAR1" + b"\xff" * 64 + b"PAR1",
        b'"',
        b'date,close\n"2020-01-01',
        b"\n\n\n",
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_bytes_that_are_no_table_are_refused(root, form, content):
    (root / "odd").write_bytes(content)
    with pytest.raises(DataError):
        build(root, "odd", form)


def test_metadata_of_pandas_that_is_no_such_thing_is_refused(root):
    table = pa.Table.from_pandas(bars())
    for metadata in (b"no json", b"[]", b'{"index_columns": 7}'):
        pq.write_table(table.replace_schema_metadata({b"pandas": metadata}), root / "odd.parquet")
        with pytest.raises(DataError, match="it is not Parquet"):
            build(root, "odd.parquet", "parquet")


def test_nested_columns_are_no_bars(root):
    frame = pd.DataFrame({"date": ["2020-01-01"], "tic": ["A"], "close": [np.array([1.0, 2.0])]})
    frame.to_parquet(root / "odd.parquet")
    with pytest.raises(DataError):
        build(root, "odd.parquet", "parquet")
