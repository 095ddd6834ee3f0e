"""Fundamentals that a table gives to a panel."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import files, frame  # noqa: F401  (register)
from tests.market.panels import bars

FIELDS = ["pe", "roe"]


def table():
    """Two reports of AAA, one of BBB, one of a company that is not traded."""
    return pd.DataFrame(
        {
            "tic": ["AAA", "AAA", "BBB", "ZZZ"],
            "available_from": ["2020-01-03", "2020-01-08", "2020-01-05", "2020-01-01"],
            "pe": [10.0, 12.0, 20.0, 1.0],
            "roe": [0.1, np.nan, 0.2, 0.3],
        }
    )


def pipeline(alias, **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="data_pipeline")


def built(reports, request=None, **kwargs):
    component = pipeline("frame", name="bars", fundamentals="reports", fundamental_fields=FIELDS, **kwargs)
    return component.build(request or DataRequest(frames={"bars": bars(8), "reports": reports}))


def test_files_and_frames_give_the_same_features(tmp_path):
    for name, data in (("bars", bars(8)), ("reports", table())):
        data.to_csv(tmp_path / f"{name}.csv", index=False)
        data.to_parquet(tmp_path / f"{name}.parquet")
    request = DataRequest(root=tmp_path)
    kwargs = {"fundamental_fields": FIELDS, "features": ["returns"]}
    panels = [
        pipeline(alias, path=f"bars.{alias}", fundamentals=f"reports.{alias}", **kwargs).build(request)
        for alias in ("csv", "parquet")
    ]
    panels.append(built(table(), features=["returns"]))
    assert len({panel.fingerprint for panel in panels}) == 1
    assert panels[0].feature_names == ("pe", "roe", "returns")


def test_a_date_counts_from_the_close_of_its_day():
    panel = built(table())
    days = np.datetime_as_string(panel.timestamps, "D").tolist()
    assert days[:6] == ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-06", "2020-01-07", "2020-01-08"]
    assert panel.features[:, 0, 0].tolist() == [0, 0, 10, 10, 10, 12, 12, 12]
    # BBB reports on a Sunday; Monday is the first bar that ends after it.
    assert panel.features[:, 1, 0].tolist() == [0, 0, 0, 20, 20, 20, 20, 20]
    assert panel.features[:, 2, 0].tolist() == [0] * 8
    assert panel.features[-1, :, 1] == pytest.approx([0.1, 0.2, 0])
    assert panel.feature_from.tolist() == [[2, 2], [3, 3], [8, 8]]


def test_a_moment_counts_from_that_moment_on():
    hours = pd.date_range("2020-01-03 09:00", periods=8, freq="h")
    frames = {
        "bars": pd.DataFrame({"date": hours, "tic": "AAA", "close": np.arange(1.0, 9.0)}),
        "reports": pd.DataFrame({"tic": ["AAA"], "available_from": ["2020-01-03T12:00"], "pe": [5.0], "roe": [1.0]}),
    }
    panel = built(None, DataRequest(frames=frames))
    # The bar labelled 11:00 ends at noon.
    assert panel.features[:, 0, 0].tolist() == [0, 0, 5, 5, 5, 5, 5, 5]


def test_scalers_learn_them_from_the_training_window_alone():
    component = pipeline("frame", name="bars", fundamentals="reports", fundamental_fields=["pe"], scaler="minmax")
    frames = {"bars": bars(8), "reports": table()}
    state = component.fit(component.build(DataRequest(Window(None, "2020-01-09"), frames=frames)))
    assert state.arrays["centre"][0] == 10
    assert state.arrays["scale"][0] == 2
    assert component.apply(component.build(DataRequest(frames=frames)), state).features[-1, 0, 0] == 1


def test_reports_of_the_future_change_nothing_before_them():
    later = table().assign(pe=[10.0, 99.0, 20.0, 1.0])
    assert built(table()).features[:5].tobytes() == built(later).features[:5].tobytes()
    assert built(table()).features[5:].tobytes() != built(later).features[5:].tobytes()


def test_chosen_symbols_take_their_own_reports():
    request = DataRequest(frames={"bars": bars(8), "reports": table()}, symbols=("BBB.NYSE", "AAA"))
    assert built(None, request).features[-1, :, 0].tolist() == [20, 12]


@pytest.mark.parametrize("kwargs", [{"fundamentals": "reports"}, {"fundamental_fields": ["pe"]}])
def test_table_and_fields_go_together(kwargs):
    with pytest.raises(ComponentError, match="give both or none"):
        pipeline("frame", name="bars", **kwargs)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"columns": {"tic": "who"}}, "column 'asset': the table of fundamentals has no such column"),
        ({"columns": {"available_from": "since"}}, r"column 'available_from' \(of the table of fundamentals\)"),
        ({"columns": {"roe": "roa"}}, r"column 'roe'.*Did you mean 'roa'"),
    ],
)
def test_a_table_without_its_columns_is_refused(change, message):
    with pytest.raises(DataError, match=message):
        built(table().rename(**change))


def test_a_table_of_other_assets_is_refused():
    with pytest.raises(DataError, match=r"it names none of the assets.*AAA, BBB, CCC"):
        built(table().assign(tic="ZZZ", available_from=pd.date_range("2020-01-01", periods=4)))


def test_a_path_out_of_the_data_folder_is_refused(tmp_path):
    bars(8).to_csv(tmp_path / "bars.csv", index=False)
    component = pipeline("csv", path="bars.csv", fundamentals="../reports.csv", fundamental_fields=["pe"])
    with pytest.raises(DataError, match="leads out of the data folder"):
        component.build(DataRequest(root=tmp_path))
