"""Pipelines over files, frames and bundled data."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ComponentError, DataError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines import bundled, files, yahoo  # noqa: F401  (register)
from alphaswarm_rl.data_pipelines.frame import FramePipeline  # noqa: F401  (registers)
from alphaswarm_rl.market.panel import MarketPanel
from tests.market.panels import bars, gappy

FINRL = ["macd", "boll_ub", "boll_lb", "rsi_30", "cci_30", "dx_30", "close_30_sma", "close_60_sma"]


def pipeline(alias, **kwargs):
    return build_from_config({"class": alias, "kwargs": kwargs}, kind="data_pipeline")


@pytest.fixture
def root(tmp_path):
    """A data folder with the same bars in both formats, and a VIX."""
    (tmp_path / "sub").mkdir()
    gappy(90).to_csv(tmp_path / "sub" / "bars.csv", index=False)
    gappy(90).to_parquet(tmp_path / "sub" / "bars.parquet")
    days = pd.bdate_range("2020-01-01", periods=90)
    vix = pd.DataFrame({"date": days, "close": np.arange(90.0)})
    vix.to_csv(tmp_path / "vix.csv", index=False)
    vix.to_parquet(tmp_path / "vix.parquet")
    return tmp_path


def test_files_and_frames_give_the_same_panel(root):
    kwargs = {
        "features": ["rsi_5", "cci_10"],
        "market_features": ["turbulence_20", "vix"],
        "feature_columns": ["volume"],
    }
    frames = {"bars": gappy(90), "vix": pd.read_csv(root / "vix.csv")}
    request = DataRequest(Window("2020-03-01", "2020-04-01"), warmup_bars=10, root=root, frames=frames)
    panels = [
        pipeline("csv", path="sub/bars.csv", vix_path="vix.csv", **kwargs).build(request),
        pipeline("parquet", path="sub/bars.parquet", vix_path="vix.parquet", **kwargs).build(request),
        pipeline("frame", name="bars", vix_name="vix", **kwargs).build(request),
    ]
    assert len({panel.fingerprint for panel in panels}) == 1
    assert panels[0].feature_names == ("volume", "rsi_5", "cci_10")
    assert panels[0].market_feature_names == ("turbulence_20", "vix")
    assert panels[0].warmup == 10
    assert panels[0].timestamps[10] == np.datetime64("2020-03-02")


def test_an_arrow_table_is_a_frame():
    tables = {"bars": pa.Table.from_pandas(bars())}
    panel = pipeline("frame", name="bars").build(DataRequest(frames=tables))
    assert panel.fingerprint == MarketPanel.from_frame(bars()).fingerprint


def test_closes_in_columns():
    wide = gappy().pivot(index="timestamp", columns="asset", values="close")
    panel = pipeline("frame", name="wide", layout="wide", adjusted=True).build(DataRequest(frames={"wide": wide}))
    assert panel.adjusted
    assert panel.open is None


def test_features_do_not_start_anew_with_the_window():
    whole = pipeline("frame", name="bars", features=FINRL).build(DataRequest(frames={"bars": bars(200)}))
    cut = pipeline("frame", name="bars", features=FINRL).build(
        DataRequest(Window("2020-06-01"), frames={"bars": bars(200)})
    )
    np.testing.assert_array_equal(cut.features, whole.features[-cut.num_bars :])
    assert (cut.feature_from == 0).all()


@pytest.mark.parametrize("bar", [60, 75])
def test_nothing_after_t_changes_anything_at_t(bar):
    """The future-noise test over every feature that a pipeline can be asked for, the scaler included."""
    features = [*FINRL, "atr", "returns", "returns_5", "volatility"]
    component = pipeline(
        "frame",
        name="bars",
        vix_name="vix",
        features=features,
        market_features=["turbulence_20", "vix"],
        feature_columns=["volume"],
        scaler="zscore",
    )
    frame = gappy(90)
    days = np.sort(frame["timestamp"].unique())
    vix = pd.DataFrame({"date": days, "close": np.arange(90.0)})
    noisy, noisy_vix = frame.copy(), vix.copy()
    rng = np.random.default_rng(3)
    later = noisy["timestamp"] > days[bar]
    factor = rng.uniform(0.3, 3.0, later.sum())
    for column in ("open", "high", "low", "close", "volume"):
        noisy.loc[later, column] *= factor
    # Which bars there are is part of the future too: one asset gets a hole.
    noisy = noisy[~(later & (noisy["asset"] == "BBB") & (noisy["timestamp"] != days[-1]))].reset_index(drop=True)
    noisy_vix.loc[noisy_vix["date"] > days[bar], "close"] = 99.0

    def seen(bars_, vix_):
        frames = {"bars": bars_, "vix": vix_}
        train = component.build(DataRequest(Window(None, str(days[50])), frames=frames))
        return component.apply(component.build(DataRequest(frames=frames)), component.fit(train))

    before, after = seen(frame, vix), seen(noisy, noisy_vix)
    for name in ("close", "tradable", "features", "market_features"):
        one, other = getattr(before, name), getattr(after, name)
        assert one[: bar + 1].tobytes() == other[: bar + 1].tobytes(), name
        assert one.shape == other.shape
    assert before.features[bar + 1 :].tobytes() != after.features[bar + 1 :].tobytes()


def test_symbols_choose_assets_with_or_without_a_venue():
    request = DataRequest(frames={"bars": bars()}, symbols=("CCC.NASDAQ", "AAA"))
    assert pipeline("frame", name="bars").build(request).assets == ("CCC", "AAA")
    with pytest.raises(DataError, match=r"symbol 'AAB.NASDAQ'.*Did you mean 'AAA'"):
        pipeline("frame", name="bars").build(DataRequest(frames={"bars": bars()}, symbols=("AAB.NASDAQ",)))


def test_symbols_find_names_that_differ_in_case_alone_unless_several_do():
    named = bars().replace({"asset": {"AAA": "aaa", "BBB": "Bbb.De"}})
    request = DataRequest(frames={"bars": named}, symbols=("AAA", "BBB.DE", "CCC.NYSE"))
    assert pipeline("frame", name="bars").build(request).assets == ("aaa", "Bbb.De", "CCC")
    two = bars().replace({"asset": {"AAA": "aaa", "BBB": "aAA"}})
    with pytest.raises(DataError, match=r"symbol 'AAA'.*no such asset"):
        pipeline("frame", name="bars").build(DataRequest(frames={"bars": two}, symbols=("AAA",)))
    exact = bars().replace({"asset": {"BBB": "aaa"}})
    request = DataRequest(frames={"bars": exact}, symbols=("AAA",))
    assert pipeline("frame", name="bars").build(request).assets == ("AAA",)


def test_a_frame_that_was_not_handed_in_is_an_error():
    with pytest.raises(DataError, match=r"the frame 'bars'.*there are: other.*frames=\{'bars': frame\}"):
        pipeline("frame", name="bars").build(DataRequest(frames={"other": bars()}))


@pytest.mark.parametrize("path", ["../secret.csv", "sub/../../secret.csv", "/etc/passwd", "."])
def test_a_path_out_of_the_data_folder_is_refused(path, root):
    with pytest.raises(DataError, match="leads out of the data folder"):
        pipeline("csv", path=path).build(DataRequest(root=root))


@pytest.mark.parametrize("linked", [False, True])
def test_an_absolute_path_inside_the_data_folder_is_that_file(root, linked, tmp_path_factory):
    folder = root
    if linked:
        folder = tmp_path_factory.mktemp("elsewhere") / "data"
        folder.symlink_to(root)
    relative = pipeline("csv", path="sub/bars.csv").build(DataRequest(root=folder))
    for absolute in {root / "sub" / "bars.csv", folder / "sub" / "bars.csv"}:
        assert pipeline("csv", path=str(absolute)).build(DataRequest(root=folder)).fingerprint == relative.fingerprint


def test_an_absolute_path_may_not_lead_out_again(root):
    for path in (f"{root}/../secret.csv", f"{root}x/bars.csv", str(root), str(root.parent / "bars.csv")):
        with pytest.raises(DataError, match=r"leads out of the data folder.*--data-root"):
            pipeline("csv", path=path).build(DataRequest(root=root))


def test_a_file_that_is_not_there_is_named(root):
    with pytest.raises(DataError, match=r"none.csv': it is not there"):
        pipeline("csv", path="none.csv").build(DataRequest(root=root))


@pytest.mark.parametrize(
    ("alias", "kwargs", "text"),
    [
        ("csv", {"path": "a.csv", "features": ["rsi_x"]}, "features: feature 'rsi_x'"),
        ("csv", {"path": "a.csv", "features": ["macd", "macd"]}, "named twice"),
        ("csv", {"path": "a.csv", "market_features": ["fear"]}, "market feature 'fear'"),
        ("csv", {"path": "a.csv", "market_features": ["vix"]}, "vix_path and the market feature vix go together"),
        ("csv", {"path": "a.csv", "vix_path": "v.csv"}, "vix_path and the market feature vix go together"),
        ("frame", {"name": "a", "vix_name": "v"}, "vix_name and the market feature vix go together"),
        ("csv", {"path": "a.csv", "layout": "wide", "asset": "A"}, "a wide table holds closes alone"),
        ("csv", {"path": "a.csv", "scaler": "robust"}, "scaler"),
        ("csv", {}, "path"),
        ("bundled", {"dataset": "sp501"}, "dataset"),
        ("yahoo", {"since": "yesterday"}, "since"),
    ],
)
def test_parameters_that_would_not_work_are_refused(alias, kwargs, text):
    with pytest.raises(ComponentError, match=text):
        pipeline(alias, **kwargs)


def test_the_bundled_stocks():
    panel = pipeline("bundled", features=["macd", "rsi_30"], market_features=["turbulence"]).build(
        DataRequest(Window("2020-01-01", "2021-01-01"), warmup_bars=60)
    )
    assert panel.num_assets == 20
    assert panel.warmup == 60
    assert panel.adjusted
    assert panel.open is None
    assert panel.periods_per_year == 252
    assert panel.timestamps[60] == np.datetime64("2020-01-02")
    # The pandemic's crash is the most unusual time of that year.
    worst = panel.timestamps[60 + panel.market_features[60:, 0].argmax()]
    assert np.datetime64("2020-03-01") < worst < np.datetime64("2020-04-01")


def test_the_bundled_bars_of_gym_anytrading():
    rates = pipeline("bundled", dataset="eurusd_1h", features=["cci_30"]).build(DataRequest())
    assert (rates.assets, rates.num_bars, rates.periods_per_year) == (("EURUSD",), 6225, 6048)
    assert rates.timestamps[0] == np.datetime64("2017-01-01T22:00")
    stock = pipeline("bundled", dataset="googl_daily").build(DataRequest())
    assert (stock.assets, stock.num_bars, stock.adjusted) == (("GOOGL",), 2335, True)
    with pytest.raises(DataError, match=r"'vix'.*'bundled' has no such series"):
        pipeline("bundled", dataset="googl_daily", market_features=["vix"]).build(DataRequest())


def test_scalers_are_fitted_on_training_and_applied_elsewhere():
    component = pipeline("frame", name="bars", features=["rsi_5"], scaler="minmax")
    frames = {"bars": bars(90)}
    train = component.build(DataRequest(Window(None, "2020-03-01"), frames=frames))
    later = component.build(DataRequest(Window("2020-03-01"), frames=frames))
    state = component.fit(train)
    np.testing.assert_allclose(component.apply(train, state).features[5:].max(axis=0), 1, rtol=1e-6)
    expected = (later.features - state.arrays["centre"]) / state.arrays["scale"]
    np.testing.assert_allclose(component.apply(later, state).features, expected, rtol=1e-6)
