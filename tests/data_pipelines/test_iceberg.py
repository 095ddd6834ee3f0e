"""Bars from tables of the lake."""

from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from alphaswarm_rl.audit.spec_lookahead import audit_spec
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError, RunError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import files  # noqa: F401  (registers)
from alphaswarm_rl.data_pipelines.iceberg import IcebergPipeline  # noqa: F401  (registers)
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.maintenance import expire
from alphaswarm_rl.lake.snapshots import LakeReader
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.market.panel import MarketPanel
from alphaswarm_rl.runtime import RLRuntime
from tests.lake.bars import append, snapshots
from tests.lake.rows import rows
from tests.market.panels import bars, gappy
from tests.runtime.test_resume import halted_run
from tests.runtime.test_trading import trading


def pipeline(alias="iceberg", **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="data_pipeline")


@pytest.fixture
def lake(settings):
    with Lake(settings) as opened:
        yield opened


@pytest.fixture
def asking(settings):
    """A request as the runtime makes it."""

    def request(**arguments):
        return DataRequest(lake=lambda: LakeReader(settings), **arguments)

    return request


# -- the same bars as from a file -----------------------------------------------------------------------------------


def test_a_table_gives_the_panel_of_the_same_file(lake, asking, tmp_path):
    vix = pd.DataFrame({"date": pd.bdate_range("2020-01-01", periods=90), "close": np.arange(90.0)})
    reports = pd.DataFrame(
        {"asset": ["AAA", "BBB"], "available_from": ["2020-01-10", "2020-02-03"], "pe": [20.0, 30.0]}
    )
    for name, frame in (("bars", gappy(90)), ("vix", vix), ("reports", reports)):
        frame.to_parquet(tmp_path / f"{name}.parquet")
        append(lake, f"silver.{name}", frame)
    kwargs = {
        "features": ["rsi_5", "cci_10"],
        "market_features": ["turbulence_20", "vix"],
        "feature_columns": ["volume"],
        "fundamental_fields": ["pe"],
    }
    file = pipeline("parquet", path="bars.parquet", vix_path="vix.parquet", fundamentals="reports.parquet", **kwargs)
    table = pipeline(table="silver.bars", vix_table="silver.vix", fundamentals="silver.reports", **kwargs)
    request = asking(window=Window("2020-03-01", "2020-04-01"), warmup_bars=10, root=tmp_path)
    assert table.build(request).fingerprint == file.build(request).fingerprint
    assert table.build(request).feature_names == ("volume", "pe", "rsi_5", "cci_10")


def test_columns_are_read_under_the_names_that_they_are_given(lake, asking):
    named = {"timestamp": "bar_start", "asset": "isin", "close": "last_px", "volume": "qty"}
    frame = bars().assign(mood=1.5, date="not a date")
    append(lake, "market.ticks", frame.rename(columns=named))
    panel = pipeline(table="market.ticks", columns=named, feature_columns=["mood"]).build(asking())
    plain = MarketPanel.from_frame(frame[[*named, "mood"]], features=["mood"])
    assert panel.fingerprint == plain.fingerprint
    assert panel.open is None
    feeling = {**named, "feeling": "mood"}
    renamed = pipeline(table="market.ticks", columns=feeling, feature_columns=["feeling"]).build(asking())
    assert renamed.feature_names == ("feeling",)
    assert renamed.features.tobytes() == panel.features.tobytes()


def test_closes_in_columns(lake, asking):
    wide = gappy().pivot(index="timestamp", columns="asset", values="close").reset_index()
    append(lake, "silver.closes", wide)
    every = pipeline(table="silver.closes", layout="wide").build(asking())
    assert every.fingerprint == MarketPanel.from_closes(wide).fingerprint
    some = pipeline(table="silver.closes", layout="wide", columns={"timestamp": "timestamp", "A": "AAA"})
    assert some.build(asking()).assets == ("A",)


def test_rows_may_come_in_any_order_and_in_many_files(lake, asking):
    frame = gappy(60)
    for part in (frame[100:], frame[:50], frame[50:100]):
        append(lake, "silver.bars", part.iloc[::-1])
    panel = pipeline(table="silver.bars").build(asking())
    assert panel.fingerprint == MarketPanel.from_frame(frame).fingerprint


def test_decimal_prices_and_days_are_numbers_and_moments(lake, asking):
    rows = pa.table(
        {
            "date": pa.array([datetime(2024, 1, day, tzinfo=UTC).date() for day in (2, 3, 4)]),
            "close": pa.array(["10.25", "10.50", "9.75"]).cast(pa.decimal128(10, 2)),
        }
    )
    lake.append_arrow("gold.prices", rows)
    panel = pipeline(table="gold.prices", asset="KO").build(asking())
    assert panel.close[:, 0].tolist() == [10.25, 10.5, 9.75]
    assert panel.timestamps[0] == np.datetime64("2024-01-02")


# -- snapshots ------------------------------------------------------------------------------------------------------


def test_a_pinned_panel_stays_when_rows_are_appended(lake, asking):
    frame = bars(60)
    append(lake, "silver.bars", frame[:90])
    (first,) = snapshots(lake, "silver.bars")
    by_time = datetime.fromtimestamp(first.timestamp_ms / 1000, UTC).isoformat()
    newest, pins = pipeline(table="silver.bars"), ({"snapshot_id": first.snapshot_id}, {"as_of": by_time})
    before = newest.build(asking()).fingerprint
    append(lake, "silver.bars", frame[90:])
    for pin in pins:
        assert pipeline(table="silver.bars", **pin).build(asking()).fingerprint == before
    assert newest.build(asking()).fingerprint == MarketPanel.from_frame(frame).fingerprint != before


def test_a_moment_whose_snapshot_expired_is_not_answered_by_an_older_one(lake, asking):
    frame = bars(60)
    for part in (frame[:60], frame[60:90], frame[90:]):
        append(lake, "silver.bars", part)
    first, second, _ = snapshots(lake, "silver.bars")
    moments = [datetime.fromtimestamp(each.timestamp_ms / 1000, UTC).isoformat() for each in (first, second)]
    old, middle = (pipeline(table="silver.bars", as_of=moment) for moment in moments)
    assert middle.build(asking()).num_bars == 30
    lake.find("silver.bars").maintenance.expire_snapshots().by_id(second.snapshot_id).commit()
    for component in (old, middle):
        with pytest.raises(DataError, match=r"the snapshot that was current at .* may have expired"):
            component.build(asking())
    assert pipeline(table="silver.bars", snapshot_id=first.snapshot_id).build(asking()).num_bars == 20


def test_a_moment_that_a_stored_spec_names_is_read_after_expiry_too(lake, asking):
    curve = rows("equity_curves", steps=12)
    lake.table("equity_curves")
    for first in range(0, 12, 3):
        lake.append_arrow("rl.equity_curves", curve.slice(first, 3))
    moments = [
        datetime.fromtimestamp(each.timestamp_ms / 1000, UTC).isoformat()
        for each in snapshots(lake, "rl.equity_curves")
    ]
    named = {"timestamp": "ts", "close": "portfolio_value"}
    kwargs = [{"table": "rl.equity_curves", "columns": named, "asset": "me", "as_of": moment} for moment in moments]
    component = pipeline(**kwargs[0])
    before = component.build(asking()).fingerprint
    assert expire(lake, [{"class": "iceberg", "kwargs": kwargs[0]}])["rl.equity_curves"] == 1
    assert component.build(asking()).fingerprint == before
    with pytest.raises(DataError, match="may have expired"):
        pipeline(**kwargs[2]).build(asking())


def test_a_snapshot_id_is_text_in_a_spec_because_json_has_no_such_number():
    one, other = (pipeline(table="a.b", snapshot_id=pin).config for pin in (2**63 - 1, str(2**63 - 1)))
    assert one == other
    assert one.snapshot_id == "9223372036854775807"


def test_what_is_not_there_is_an_error_that_says_what_is(lake, asking):
    append(lake, "silver.bars", bars())
    (snapshot,) = snapshots(lake, "silver.bars")

    def refused(text, **kwargs):
        with pytest.raises(DataError, match=text):
            pipeline(**kwargs).build(asking())

    refused(r"the table 'silver.bar'.*Did you mean 'silver.bars'", table="silver.bar")
    hint = rf"There are: {snapshot.snapshot_id} \(20"
    refused(rf"silver.bars: it has no snapshot 7: .*{hint}", table="silver.bars", snapshot_id=7)
    refused(rf"it has no snapshot of 1999-01-01.*{hint}", table="silver.bars", as_of="1999-01-01")
    refused(r"nobody knows yet what it will hold at 2200", table="silver.bars", as_of="2200-01-01")
    columns = {"timestamp": "timestamp", "asset": "asset", "close": "clsoe"}
    refused(r"silver.bars: it has no column 'clsoe'. Did you mean 'close'", table="silver.bars", columns=columns)
    lake.catalog.create_table("silver.empty", pa.schema([("close", pa.float64())]))
    refused(r"the table silver.empty: it has no rows yet", table="silver.empty")


def test_a_wrong_bar_is_named_by_row_asset_and_column(lake, asking):
    frame = bars()
    frame.loc[7, "close"] = -1.0
    append(lake, "silver.bars", frame)
    with pytest.raises(DataError, match=r"row 7 \(from 0; asset 'BBB', 2020-01-03\), column 'close'"):
        pipeline(table="silver.bars").build(asking())
    append(lake, "silver.twice", pd.concat([bars(), bars()[:1]]))
    with pytest.raises(DataError, match=r"row 1 \(from 0; asset 'AAA', 2020-01-01\).*row 0 \(from 0\) is the same bar"):
        pipeline(table="silver.twice").build(asking())


def test_without_a_lake_it_says_how_to_hand_one_in():
    with pytest.raises(DataError, match=r"no lake was handed in.*RLRuntime"):
        pipeline(table="silver.bars").build(DataRequest())


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({}, "table"),
        ({"table": "bars"}, "table"),
        ({"table": "a.b", "snapshot_id": 1, "as_of": "2024-01-01"}, "give one of them"),
        ({"table": "a.b", "snapshot_id": True}, "snapshot_id"),
        ({"table": "a.b", "as_of": "yesterday"}, "as_of"),
        ({"table": "a.b", "columns": {}}, "columns"),
        ({"table": "a.b", "columns": {"prize": "p"}}, "columns: prize: neither a part of a bar"),
        ({"table": "a.b", "vix_table": "a.vix"}, "vix_table and the market feature vix go together"),
        ({"table": "a.b", "snapshot_id": 1, "fundamentals": "a.c", "fundamental_fields": ["pe"]}, "pin several"),
    ],
)
def test_parameters_that_would_not_work_are_refused(kwargs, text):
    with pytest.raises(ComponentError, match=text):
        pipeline(**kwargs)


# -- through the runtime --------------------------------------------------------------------------------------------


def on_the_lake(snapshot_id=None, **changes):
    kwargs = {"table": "silver.bars", "snapshot_id": snapshot_id, "features": ["macd"], "scaler": "zscore"}
    return trading(data_pipeline={"class": "iceberg", "kwargs": kwargs}, **changes)


def test_a_policy_trained_on_a_pinned_table_replays_on_the_same_bars_after_others_came(settings, lake):
    frame = bars(300, assets=("AAA", "BBB"))
    append(lake, "silver.bars", frame)
    (snapshot,) = snapshots(lake, "silver.bars")
    trained = RLRuntime(on_the_lake(snapshot.snapshot_id), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    before = runtime.replay(Window("2020-11-02", "2021-01-01"))
    append(lake, "silver.bars", frame.assign(asset=frame["asset"] + "2"))
    after = runtime.replay(Window("2020-11-02", "2021-01-01"))
    assert trained.status == before.status == after.status == "completed"
    assert after.metrics == before.metrics
    with Ledger.open(settings) as ledger:
        prints = [ledger.run(result.run_id).data_fingerprint for result in (before, after)]
    assert prints[0] == prints[1]


def test_a_run_on_the_newest_rows_is_not_resumed_on_others(settings, lake):
    frame = bars(300, assets=("AAA", "BBB"))
    append(lake, "silver.bars", frame)
    spec = on_the_lake(agent={"class": "random"}, training={"total_timesteps": 20_000, "n_envs": 8})
    stopped = halted_run(spec, settings)
    append(lake, "silver.bars", frame.assign(asset=frame["asset"] + "2"))
    with pytest.raises(RunError, match="its data have changed since it began"):
        RLRuntime.from_run(stopped.run_id, settings).resume()


def test_the_audit_reads_the_table_too(settings, lake):
    append(lake, "silver.bars", bars(300, assets=("AAA", "BBB")))
    assert audit_spec(on_the_lake(), lake=lake_of(settings)).clean
