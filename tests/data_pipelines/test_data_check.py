"""What is wrong with bars is named, all of it, and what is right is not."""

from typing import get_args

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl import RLExperimentSpec
from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError, SpecError
from alphaswarm_rl.core.refs import build_from_config
from alphaswarm_rl.data_pipelines.data_check import check_data
from alphaswarm_rl.market.bar_findings import Bars, check_bars_of
from alphaswarm_rl.market.findings import DEFECTS, counted_notices
from alphaswarm_rl.market.panel import MarketPanel
from tests.data_pipelines.broken_files import BROKEN, clean, of, times

#: Defects that no edited table of daily bars has; each has a test of its own below.
ELSEWHERE = {"unreadable", "other_separator", "refused", "session_gap"}


def looked_at(frame, root, form="csv", **kwargs):
    path = root / f"bars.{form}"
    if form == "csv":
        frame.to_csv(path, index=False)
    else:
        frame.to_parquet(path)
    pipeline = build_from_config({"class": form, "kwargs": {"path": path.name, **kwargs}}, kind="data_pipeline")
    return pipeline, check_data(pipeline, DataRequest(root=root))


def defects(report):
    return [found.defect for found in report.summary.findings]


def warnings_of(panel):
    return check_bars_of(Bars.of_panel(panel)).findings


def bundled(dataset, **kwargs):
    return build_from_config({"class": "bundled", "kwargs": {"dataset": dataset, **kwargs}}, kind="data_pipeline")


def test_there_is_a_broken_file_for_every_defect():
    assert set(BROKEN) | ELSEWHERE == set(DEFECTS)
    assert len(BROKEN) >= 20


@pytest.mark.parametrize("defect", BROKEN)
def test_a_broken_file_is_named_by_its_defect_and_by_nothing_else(defect, tmp_path):
    pipeline, report = looked_at(BROKEN[defect](clean()), tmp_path)
    # An asset at times of its own leaves gaps wherever the others have bars: that is what it is.
    beside = {"misaligned": {"gap", "calendar_gap"}, "no_bar": set()}.get(defect, set())
    assert set(defects(report)) - beside == {defect}
    severity = DEFECTS[defect].severity
    assert (report.summary.errors > 0) == (severity == "error")
    # An error is one because no run can begin; with a warning it can.
    if severity == "error":
        with pytest.raises(DataError):
            pipeline.load(DataRequest(root=tmp_path))
    else:
        assert pipeline.load(DataRequest(root=tmp_path)).num_bars > 2


def test_nothing_is_wrong_with_a_clean_file(tmp_path):
    for form in ("csv", "parquet"):
        pipeline, report = looked_at(clean(), tmp_path, form)
        assert report.summary.findings == ()
        assert report.summary.fingerprint == pipeline.load(DataRequest(root=tmp_path)).fingerprint


def choices(alias, field):
    """Every value that a data pipeline's field may have."""
    return get_args(catalogue.get("data_pipeline", alias).Config.model_fields[field].annotation)


@pytest.mark.parametrize("dataset", sorted({*choices("bundled", "dataset")} - {"sp500_20"}))
def test_nothing_is_wrong_with_bundled_bars(dataset):
    assert warnings_of(bundled(dataset).build(DataRequest())) == ()


def test_of_the_bundled_stocks_only_what_is_wrong_is_named():
    """The closes of RRC stand still for months until 1992 and fall to a third; nothing else is wrong."""
    panel = bundled("sp500_20").build(DataRequest())
    found = [(each.defect, each.asset, each.place) for each in warnings_of(panel)]
    assert found == [("suspected_split", "RRC", "1990-04-10"), ("stale_price", "RRC", "until 1990-04-09")]
    assert warnings_of(panel.window("1995-01-01")) == ()
    assert check_bars_of(Bars.of_panel(panel)).days.exchange == "New York"


@pytest.mark.parametrize("model", choices("synthetic", "model"))
@pytest.mark.parametrize(
    ("bar", "weekends"), [("1d", False), *((bar, True) for bar in choices("synthetic", "bar")), ("1h", False)]
)
def test_nothing_is_wrong_with_simulated_bars(model, bar, weekends):
    for seed in range(3):
        kwargs = {"model": model, "bar": bar, "weekends": weekends, "n_bars": 2000, "n_assets": 4, "seed": seed}
        panel = build_from_config({"class": "synthetic", "kwargs": kwargs}, kind="data_pipeline").build(DataRequest())
        assert warnings_of(panel) == ()


def test_every_mistake_of_a_file_is_counted_and_placed(tmp_path):
    frame = clean()
    frame.loc[[10, 11, 700], "close"] = -1.0
    frame = pd.concat([frame, frame.loc[[20]]], ignore_index=True)
    _, report = looked_at(frame, tmp_path)
    found = {(each.defect, each.asset): (each.count, each.place) for each in report.summary.findings}
    assert found["bad_price", "AAA"] == (2, "line 12, 2020-01-15")
    assert found["bad_price", "BBB"] == (1, "line 702, 2020-05-20")
    assert found["double_row", "AAA"] == (1, "line 1802, 2020-01-29")
    assert report.summary.errors == sum(count for count, _ in found.values())
    # What is right in it is looked at all the same.
    assert report.summary.assets == 3
    assert [row.bars for row in report.coverage] == [598, 599, 600]


def test_a_mistake_is_placed_by_the_line_that_an_editor_shows(tmp_path):
    rows = [
        "date,symbol,close,note",
        "2020-01-01,A,1.0,",
        "",
        '2020-01-02,A,1.0,"two',
        'lines"',
        "  ",
        "2020-01-03,A,-1.0,",
    ]
    (tmp_path / "bars.csv").write_text("\n".join(rows))
    pipeline = build_from_config({"class": "csv", "kwargs": {"path": "bars.csv"}}, kind="data_pipeline")
    (found,) = check_data(pipeline, DataRequest(root=tmp_path)).summary.findings
    assert (found.defect, found.place) == ("bad_price", f"line {rows.index('2020-01-03,A,-1.0,') + 1}, 2020-01-03")
    # The same where it is read for a run, and where lines end as on Windows.
    with pytest.raises(DataError, match=r"line 7 \(asset 'A', 2020-01-03\), column 'close': -1"):
        pipeline.load(DataRequest(root=tmp_path))
    (tmp_path / "bars.csv").write_bytes("\r\n".join(rows).encode("utf-8-sig") + b"\r\n")
    (found,) = check_data(pipeline, DataRequest(root=tmp_path)).summary.findings
    assert found.place == "line 7, 2020-01-03"


@pytest.mark.parametrize("pattern", [None, "{asset}|{column}"])
def test_a_line_of_a_wide_file_is_that_of_all_its_bars(pattern, tmp_path):
    wide = clean().pivot(index="date", columns="asset", values="close")
    wide.iloc[7, 2] = -1.0
    if pattern is not None:
        wide.columns = [f"{name}|close" for name in wide.columns]
    _, report = looked_at(wide.reset_index(), tmp_path, layout="wide", wide_columns=pattern)
    (found,) = report.summary.findings
    assert (found.defect, found.asset, found.place) == ("bad_price", "CCC", "line 9, 2020-01-10")
    _, report = looked_at(wide.reset_index(), tmp_path, "parquet", layout="wide", wide_columns=pattern)
    (found,) = report.summary.findings
    assert found.place.endswith("(from 0), 2020-01-10")


def test_a_row_of_a_file_without_lines_says_what_it_counts_from(tmp_path):
    frame = clean()
    frame.loc[10, "close"] = -1.0
    _, report = looked_at(frame, tmp_path, "parquet")
    assert [found.place for found in report.summary.findings] == ["row 10 (from 0), 2020-01-15"]


def test_moments_of_two_zones_are_placed_by_line_in_a_wide_file(tmp_path):
    wide = clean().pivot(index="date", columns="asset", values="close").reset_index()
    wide["date"] = [f"{str(day)[:10]}T00:00:00{'+09:00' if row == 5 else 'Z'}" for row, day in enumerate(wide["date"])]
    wide.columns = ["date", *(f"{name}|close" for name in wide.columns[1:])]
    pipeline, report = looked_at(wide, tmp_path, layout="wide", wide_columns="{asset}|{column}")
    assert "mixed_zones" in defects(report)
    with pytest.raises(DataError, match=r"line 7, column 'timestamp': mixed time zones"):
        pipeline.load(DataRequest(root=tmp_path))


def test_decimal_commas_are_read_as_points_are_and_points_are_refused_then(tmp_path):
    plain, _ = looked_at(clean(), tmp_path)
    fingerprint = plain.load(DataRequest(root=tmp_path)).fingerprint
    clean().to_csv(tmp_path / "comma.csv", index=False, sep=";", decimal=",")
    signs = {"path": "comma.csv", "separator": ";", "decimal": ","}
    pipeline = build_from_config({"class": "csv", "kwargs": signs}, kind="data_pipeline")
    assert pipeline.load(DataRequest(root=tmp_path)).fingerprint == fingerprint
    lines = (tmp_path / "comma.csv").read_text().splitlines()
    close, cells = lines[0].split(";").index("close"), lines[4].split(";")

    def write(cell):
        changed = ";".join([*cells[:close], cell, *cells[close + 1 :]])
        (tmp_path / "comma.csv").write_text("\n".join([*lines[:4], changed, *lines[5:]]))

    # One wrong cell does not take its whole column along.
    write("x")
    (found,) = check_data(pipeline, DataRequest(root=tmp_path)).summary.findings
    assert (found.defect, found.count, found.place[:6]) == ("not_a_number", 1, "line 5")
    # A point may stand for thousands: 1.234 is refused, not read as a little more than one.
    write("1.234")
    report = check_data(pipeline, DataRequest(root=tmp_path))
    assert defects(report) == ["unreadable"]
    assert report.summary.findings[0].place == "line 5, column 'close'"
    with pytest.raises(DataError, match=r"'1\.234' has a point, and the decimal sign is a comma"):
        pipeline.load(DataRequest(root=tmp_path))


def test_the_parameters_of_a_csv_file_are_hashed_as_before_there_were_any():
    assert (
        build_from_config({"class": "csv", "kwargs": {"path": "bars.csv"}}, kind="data_pipeline").config.separator
        == ","
    )
    spec = {"name": "S", "env": {"class": "stock_trading"}, "agent": {"class": "random"}}
    old = RLExperimentSpec.from_data({**spec, "data_pipeline": {"class": "csv", "kwargs": {"path": "bars.csv"}}})
    assert not {"separator", "decimal"} & set(old.canonical()["data_pipeline"]["kwargs"])
    kwargs = {"path": "bars.csv", "separator": ";", "decimal": ","}
    new = RLExperimentSpec.from_data({**spec, "data_pipeline": {"class": "csv", "kwargs": kwargs}})
    assert new.canonical()["data_pipeline"]["kwargs"].items() >= kwargs.items()
    with pytest.raises(SpecError, match="separator and decimal are both ','"):
        RLExperimentSpec.from_data({**spec, "data_pipeline": {"class": "csv", "kwargs": {**kwargs, "separator": ","}}})


def test_coverage_says_what_there_is_of_each_asset(tmp_path):
    frame = clean()
    late, gone, hole = of(frame, "AAA", 0, 10), of(frame, "BBB", 590, 600), of(frame, "CCC", 100, 103)
    _, report = looked_at(frame.drop([*late, *gone, *hole]), tmp_path)
    first, second, third = report.coverage
    assert (first.listed_late, first.ends_early, first.bars, first.first) == (True, False, 590, "2020-01-15")
    assert (second.listed_late, second.ends_early, second.last) == (False, True, "2022-04-05")
    assert (third.missing, third.longest_gap, third.listed_late, third.ends_early) == (3, 3, False, False)
    assert len(report.timeline) == 3
    assert report.timeline[0][0] == 0.0
    assert report.timeline[2][0] == report.timeline[2][-1] == 1.0
    # Three bars in a row may lack: a halt is no defect.
    assert defects(report) == []


@pytest.mark.parametrize(("lacking", "named"), [(4, False), (5, True)])
def test_a_gap_is_named_from_five_bars_in_a_row_on(lacking, named, tmp_path):
    frame = clean()
    _, report = looked_at(frame.drop(of(frame, "CCC", 100, 100 + lacking)), tmp_path)
    assert (defects(report) == ["gap"]) is named


def test_fifty_scattered_days_are_missed_where_the_calendar_is_known():
    panel = bundled("googl_daily").build(DataRequest())
    rng = np.random.default_rng(0)
    rows = np.sort(rng.choice(np.arange(1, panel.num_bars - 1), panel.num_bars - 52, replace=False))
    rows = np.concatenate([[0], rows, [panel.num_bars - 1]])
    kept = MarketPanel.from_arrays(
        {"timestamps": panel.timestamps[rows], "assets": panel.assets, "close": panel.close[rows]}
    )
    (found,) = warnings_of(kept)
    assert (found.defect, found.count) == ("calendar_gap", 50)


def test_a_crash_with_heavy_trading_is_no_split(tmp_path):
    frame = times(clean(), "AAA", 300, 600, 0.5)
    assert defects(looked_at(frame, tmp_path)[1]) == ["suspected_split"]
    frame.loc[of(frame, "AAA", 300)[0], "volume"] *= 20
    assert defects(looked_at(frame, tmp_path)[1]) == []


def test_a_marked_split_that_prices_show_is_right(tmp_path):
    frame = times(clean(), "AAA", 300, 600, 0.25)
    frame["splits"] = 0.0
    frame.loc[of(frame, "AAA", 300)[0], "splits"] = 4.0
    assert defects(looked_at(frame, tmp_path)[1]) == []


@pytest.mark.parametrize("ratio", [2, 3, 4, 10, 20, 1 / 5, 1 / 10])
def test_splits_of_every_usual_ratio_are_named(ratio, tmp_path):
    frame = times(clean(), "BBB", 300, 600, 1 / ratio)
    _, report = looked_at(frame, tmp_path)
    (found,) = report.summary.findings
    assert (found.defect, found.asset, found.place) == ("suspected_split", "BBB", "2021-02-24")
    assert f"{ratio:g}:1" in found.text if ratio > 1 else f"1:{1 / ratio:g}" in found.text


def test_bars_that_lack_inside_of_days_are_named():
    moments = pd.date_range("2024-01-01", periods=24 * 60, freq="h")
    whole = pd.DataFrame({"date": moments, "close": 100 + np.arange(len(moments)) % 7})
    assert warnings_of(MarketPanel.from_frame(whole, asset="X")) == ()
    lacking = whole[~(whole["date"].dt.hour.isin([11, 12]) & whole["date"].dt.day.isin([3, 4]))]
    (found,) = warnings_of(MarketPanel.from_frame(lacking, asset="X"))
    # January and February: both have those days.
    assert (found.defect, found.count, found.place) == ("session_gap", 8, "2024-01-03")


def test_what_is_no_table_is_unreadable(tmp_path):
    (tmp_path / "bars.csv").write_bytes(b"")
    pipeline = build_from_config({"class": "csv", "kwargs": {"path": "bars.csv"}}, kind="data_pipeline")
    report = check_data(pipeline, DataRequest(root=tmp_path))
    assert defects(report) == ["unreadable"]
    assert report.summary.start is None


def test_what_only_the_panel_refuses_is_a_refusal(tmp_path):
    _, report = looked_at(clean().assign(tradable="maybe"), tmp_path)
    assert defects(report) == ["refused"]


def test_chosen_symbols_alone_are_looked_at(tmp_path):
    times(clean(), "AAA", 300, 600, 0.25).to_csv(tmp_path / "bars.csv", index=False)
    pipeline = build_from_config({"class": "csv", "kwargs": {"path": "bars.csv"}}, kind="data_pipeline")
    report = check_data(pipeline, DataRequest(root=tmp_path, symbols=("BBB", "CCC")))
    assert report.summary.findings == ()
    assert [row.asset for row in report.coverage] == ["BBB", "CCC"]


def test_notices_are_counted_and_few(tmp_path):
    frame = clean(assets=tuple(f"S{number}" for number in range(9)))
    for number in range(9):
        frame = times(frame, f"S{number}", 300, 600, 0.25)
    (notice,) = counted_notices(looked_at(frame, tmp_path)[1].summary.findings)
    assert notice.startswith("data: 9 unmarked splits: S0 2021-02-24 (")
    assert "and 4 other assets" in notice
    assert notice.endswith("Mark it in a column splits, or use adjusted prices.")
