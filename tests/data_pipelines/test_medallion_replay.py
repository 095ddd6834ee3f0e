"""Pinned bars of refined tables."""

import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.iceberg import DeterministicMedallionReplay  # noqa: F401  (registers)
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.snapshots import LakeReader
from alphaswarm_rl.market.panel import MarketPanel
from tests.lake.bars import append, snapshots
from tests.market.panels import bars


def pipeline(**kwargs):
    return build_from_config({"class": "medallion_replay", "kwargs": kwargs}, kind="data_pipeline")


@pytest.fixture
def pinned(settings):
    """The first of two snapshots of `silver.bars`: 30 of 60 bars."""
    frame = bars(60)
    with Lake(settings) as lake:
        append(lake, "silver.bars", frame[:90])
        append(lake, "silver.bars", frame[90:])
        return {"table": "silver.bars", "snapshot_id": snapshots(lake, "silver.bars")[0].snapshot_id}


@pytest.fixture
def request_(settings):
    return DataRequest(lake=lambda: LakeReader(settings))


@pytest.mark.parametrize(
    "table", ["silver.bars", "gold.bars", "alphaswarm_silver_equities.bars", "market.gold_daily", "Silver.bars"]
)
def test_tables_of_the_refined_layers_are_taken(table):
    assert pipeline(table=table, as_of="2024-01-01").config.table == table


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"table": "bronze.bars"}, "is of the bronze layer, which is raw"),
        ({"table": "alphaswarm_bronze_equities.gold"}, "is of the bronze layer"),
        ({"table": "rl.bars"}, "'rl.bars' says no layer"),
        ({"table": "marigold.silverware"}, "says no layer"),
        ({"table": "gold.bars", "vix_table": "raw.vix", "market_features": ["vix"]}, "vix_table: 'raw.vix' says no"),
    ],
)
def test_other_tables_are_refused_with_the_reason(kwargs, text):
    with pytest.raises(ComponentError, match=text):
        pipeline(as_of="2024-01-01", **kwargs)


@pytest.mark.parametrize(
    "written",
    [
        {"namespace": "alphaswarm_silver_equities", "table": "bars"},
        {"namespace": "alphaswarm_silver_equities", "table": "bars", "layer": "silver"},
        {"table": "alphaswarm_silver_equities.bars", "layer": "silver"},
        {"table": "alphaswarm_silver_equities.bars", "layer": None, "namespace": None},
    ],
)
def test_layer_and_namespace_are_other_ways_to_name_the_table(written):
    meant = pipeline(table="alphaswarm_silver_equities.bars", as_of="2024-01-01")
    assert pipeline(**written, as_of="2024-01-01").config == meant.config


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"namespace": "silver", "table": "silver.bars"}, "stands before the bare name of a table"),
        ({"namespace": "silver"}, "stands before the bare name of a table, and table is None"),
        ({"layer": "bronze", "table": "bronze.bars"}, "'bronze' is none that a replay reads: they are silver and gold"),
        ({"layer": "gold", "table": "silver.bars"}, "is not of the layer gold: its name lacks that word"),
        ({"layer": "gold", "namespace": "marigold", "table": "bars"}, "is not of the layer gold"),
        ({"layer": "silver", "namespace": "rl", "table": "bars"}, "is not of the layer silver"),
        ({"namespace": "bronze", "table": "silver"}, "is of the bronze layer"),
    ],
)
def test_a_layer_that_is_not_the_tables_is_refused(kwargs, text):
    with pytest.raises(ComponentError, match=text):
        pipeline(as_of="2024-01-01", **kwargs)


def test_a_replay_must_be_pinned_by_one_of_two():
    with pytest.raises(ComponentError, match="a replay is pinned: give snapshot_id or as_of"):
        pipeline(table="silver.bars")
    with pytest.raises(ComponentError, match="give one of them"):
        pipeline(table="silver.bars", snapshot_id=1, as_of="2024-01-01")


def test_the_fingerprint_is_that_of_all_bars_of_the_snapshot(pinned, request_):
    content = MarketPanel.from_frame(bars(60)[:90]).fingerprint
    component = pipeline(**pinned, fingerprint=content, features=["macd"])
    assert component.load(request_).fingerprint == content
    window = DataRequest(Window("2020-01-15"), symbols=("AAA",), lake=request_.lake)
    assert component.build(window).assets == ("AAA",)


def test_other_content_than_the_fingerprint_says_is_refused(pinned, request_):
    content = MarketPanel.from_frame(bars(60)[:90]).fingerprint
    with pytest.raises(DataError, match=f"have the fingerprint {content}, not {'0' * 64}"):
        pipeline(**pinned, fingerprint="0" * 64).build(request_)
    later = {**pinned, "snapshot_id": None, "as_of": "2020-01-01"}
    with pytest.raises(DataError, match="it has no snapshot of 2020-01-01"):
        pipeline(**later, fingerprint=content).build(request_)


def test_nothing_is_written(pinned, request_, settings):
    def everything():
        return {path: path.read_bytes() for path in settings.home.rglob("*") if path.is_file()}

    before = everything()
    pipeline(**pinned, features=["macd"]).build(request_)
    assert everything() == before
