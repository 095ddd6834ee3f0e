"""Tables whose columns have names of their own, long and wide, are the bars that they hold."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from alphaswarm_rl import RLExperimentSpec
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.data_pipelines.column_mapping import long_of_wide, renamed
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy

OWN = {
    "timestamp": "Handelstag",
    "asset": "WKN",
    "open": "Eröffnung",
    "high": "Hoch",
    "low": "Tief",
    "close": "Schluss",
    "volume": "Stück",
}
FIELDS = ["open", "high", "low", "close", "volume"]


def build(alias, request, **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="data_pipeline").build(request)


def wide_of(frame, name):
    """One row per moment, a column for each column of each asset, called by a function of both."""
    table = frame.pivot(index="timestamp", columns="asset", values=FIELDS)
    table.columns = [name(asset, column) for column, asset in table.columns]
    return table.reset_index()


def same(table, tmp_path, **kwargs):
    """The panels of a table as CSV, as Parquet and as a frame."""
    table.to_csv(tmp_path / "own.csv", index=False)
    table.to_parquet(tmp_path / "own.parquet")
    request = DataRequest(root=tmp_path, frames={"own": table, "arrow": pa.Table.from_pandas(table)})
    return [
        build("csv", request, path="own.csv", **kwargs),
        build("parquet", request, path="own.parquet", **kwargs),
        build("frame", request, name="own", **kwargs),
        build("frame", request, name="arrow", **kwargs),
    ]


def test_a_table_with_names_of_its_own_is_the_same_to_the_bit(tmp_path):
    table = gappy().rename(columns=OWN)
    panels = same(table, tmp_path, columns=OWN)
    assert {panel.fingerprint for panel in panels} == {MarketPanel.from_frame(gappy()).fingerprint}


def test_columns_that_are_not_named_are_not_read(tmp_path):
    table = bars().assign(junk="x").rename(columns=OWN)
    named = {meaning: OWN[meaning] for meaning in ("timestamp", "asset", "close")}
    for panel in same(table, tmp_path, columns=named):
        assert panel.open is panel.volume is None
    # Two columns of one meaning are no riddle once it is said which is meant.
    twice = bars().assign(adj=bars()["close"] / 2)
    chosen = {"timestamp": "timestamp", "asset": "asset", "close": "adj"}
    panels = same(twice, tmp_path, columns=chosen)
    np.testing.assert_array_equal(panels[0].close, MarketPanel.from_frame(bars()).close / 2)


def test_features_keep_their_names_or_get_others(tmp_path):
    table = bars().assign(score=np.arange(90.0), KGV=7.0).rename(columns=OWN)
    for panel in same(table, tmp_path, columns={**OWN, "pe": "KGV"}, feature_columns=["score", "pe"]):
        assert panel.feature_names == ("score", "pe")
        assert (panel.features[..., 1] == 7).all()


def test_symbols_and_dates_stay_text_under_any_name(tmp_path):
    table = pd.DataFrame({"Tag": ["20200102", "20200103"] * 2, "Nr": ["0700", "0700", "NA", "NA"], "px": [1, 2, 3, 4]})
    table.to_csv(tmp_path / "own.csv", index=False)
    columns = {"timestamp": "Tag", "asset": "Nr", "close": "px"}
    panel = build("csv", DataRequest(root=tmp_path), path="own.csv", columns=columns)
    assert panel.assets == ("0700", "NA")
    assert panel.timestamps[0] == np.datetime64("2020-01-02")


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("{asset}_{column}", lambda asset, column: f"{asset}_{column}"),
        ("{column}_{asset}", lambda asset, column: f"{column}_{asset}"),
        ("px.{asset}/{column}", lambda asset, column: f"px.{asset}/{column}"),
        ("{column} ({asset})", lambda asset, column: f"{column.title()} ({asset})"),
    ],
)
def test_wide_is_long_to_the_bit(pattern, name, tmp_path):
    long = gappy()
    long["asset"] = long["asset"].replace("BBB", "B_B close")
    panels = same(wide_of(long, name), tmp_path, layout="wide", wide_columns=pattern)
    assert {panel.fingerprint for panel in panels} == {MarketPanel.from_frame(long).fingerprint}


def test_closes_in_columns_are_the_long_closes_to_the_bit(tmp_path):
    long = gappy()[["timestamp", "asset", "close"]]
    wide = long.pivot(index="timestamp", columns="asset", values="close").reset_index()
    for panel in same(wide, tmp_path, layout="wide"):
        assert panel.fingerprint == MarketPanel.from_frame(long).fingerprint


def test_wide_closes_are_chosen_and_called_otherwise(tmp_path):
    wide = bars().pivot(index="timestamp", columns="asset", values="close").reset_index()
    wide = wide.rename(columns={"timestamp": "Tag", "AAA": "aaa usd"})
    for panel in same(wide, tmp_path, layout="wide", columns={"timestamp": "Tag", "CCC": "CCC", "AAA": "aaa usd"}):
        assert panel.assets == ("CCC", "AAA")
        np.testing.assert_array_equal(panel.close, MarketPanel.from_frame(bars()).close[:, [2, 0]])


def test_words_of_wide_columns_are_mapped_too(tmp_path):
    wide = wide_of(bars(), lambda asset, column: f"{asset}:{OWN[column]}").rename(columns={"timestamp": "Tag"})
    columns = {meaning: name for meaning, name in OWN.items() if meaning != "asset"} | {"timestamp": "Tag"}
    for panel in same(wide, tmp_path, layout="wide", wide_columns="{asset}:{column}", columns=columns):
        assert panel.fingerprint == MarketPanel.from_frame(bars()).fingerprint


def test_columns_of_two_levels_are_joined():
    table = bars().pivot(index="timestamp", columns="asset", values=FIELDS)
    panel = build("frame", DataRequest(frames={"x": table}), name="x", layout="wide", wide_columns="{column} {asset}")
    assert panel.fingerprint == MarketPanel.from_frame(bars()).fingerprint


def test_adj_close_is_not_read_as_close():
    frame = bars()[["timestamp", "asset", "close"]].assign(adj_close=bars()["close"] / 2)
    table = frame.pivot(index="timestamp", columns="asset", values=["close", "adj_close"])
    table.columns = [f"{asset}_{column}" for column, asset in table.columns]
    kwargs = {"layout": "wide", "wide_columns": "{asset}_{column}", "adjust": True}
    panel = build("frame", DataRequest(frames={"x": table}), name="x", **kwargs)
    assert panel.assets == ("AAA", "BBB", "CCC")
    np.testing.assert_array_equal(panel.close, MarketPanel.from_frame(bars()).close / 2)


def test_what_is_not_there_is_named_with_what_it_was_meant_for():
    with pytest.raises(DataError, match=r"column 'Schlus' \(for 'close'\): .*Did you mean 'Schluss'"):
        renamed(bars().rename(columns=OWN), {**OWN, "close": "Schlus"}, ())
    with pytest.raises(DataError, match="no column is called so; there are: timestamp, AAA-open"):
        long_of_wide(wide_of(bars(), lambda asset, column: f"{asset}-{column}"), "{asset}_{column}", {}, ())
    with pytest.raises(DataError, match="column 'timestamp'"):
        long_of_wide(pd.DataFrame({"A_close": [1.0]}), "{asset}_{column}", {}, ())
    twice = pd.DataFrame({"date": ["2020-01-02"], "A_close": [1.0], "A_Close": [2.0]})
    with pytest.raises(DataError, match="another column of 'A' is its close"):
        long_of_wide(twice, "{asset}_{column}", {}, ())


@pytest.mark.parametrize(
    ("kwargs", "text"),
    [
        ({"columns": {"price": "px"}}, "columns: price: neither a part of a bar"),
        ({"columns": {}}, "at least 1 item"),
        ({"layout": "wide", "wide_columns": "{asset}"}, "it needs {asset} and {column}"),
        ({"layout": "wide", "wide_columns": "{asset}{column}"}, "nothing stands between"),
        ({"wide_columns": "{asset}_{column}"}, "wide_columns is for a wide table"),
        ({"layout": "wide", "wide_columns": "{asset}_{column}", "asset": "A"}, "wide_columns is for a wide table"),
        ({"layout": "wide", "adjust": True}, "a wide table holds closes alone"),
    ],
)
def test_a_mapping_that_nobody_can_mean_is_refused(kwargs, text):
    with pytest.raises(ComponentError, match=text.replace("{", r"\{")):
        build_from_config({"class": "csv", "kwargs": {"path": "a.csv", **kwargs}}, kind="data_pipeline")


def test_a_mapping_changes_the_hash_and_none_leaves_it_as_it_was():
    def spec(**kwargs):
        pipeline = {"class": "csv", "kwargs": {"path": "a.csv", **kwargs}}
        data = {"name": "x", "data_pipeline": pipeline, "env": {"class": "stock_trading"}, "agent": {"class": "ppo"}}
        return RLExperimentSpec.from_data(data)

    plain, mapped, wide = (
        spec(),
        spec(columns={"close": "px"}),
        spec(layout="wide", wide_columns="{asset}_{column}"),
    )
    assert len({plain.spec_hash, mapped.spec_hash, wide.spec_hash, spec(layout="wide").spec_hash}) == 4
    assert spec(columns=None, wide_columns=None).spec_hash == plain.spec_hash
    assert "wide_columns" not in plain.canonical()["data_pipeline"]["kwargs"]
    assert RLExperimentSpec.from_yaml_str(mapped.to_yaml()).spec_hash == mapped.spec_hash
