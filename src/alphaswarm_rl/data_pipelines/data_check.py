"""What there is in a pipeline's bars and what is wrong with them; nothing is refused that can be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.core.errors import DataError, in_one_line
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, assets_of
from alphaswarm_rl.data_pipelines.source import TableConfig, TablePipeline
from alphaswarm_rl.market.bar_findings import Bars
from alphaswarm_rl.market.data_report import DataReport, report_of
from alphaswarm_rl.market.findings import finding
from alphaswarm_rl.market.panel import BAR_COLUMNS, MarketPanel
from alphaswarm_rl.market.panel_columns import NoSuchColumn, NotATable, OtherSeparator, canonical, has_lines
from alphaswarm_rl.market.table_findings import check_table

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest


def check_data(pipeline: PanelPipeline, request: DataRequest) -> DataReport:
    """Looks at all bars that a pipeline has.

    Args:
        pipeline: Where the bars come from.
        request: Where its tables are, and which assets are looked at; its window is not: all bars are.
    """
    if not isinstance(pipeline, TablePipeline):
        return _report(pipeline.load(request), request, {})
    try:
        frame = pipeline.bars(request)
    except OtherSeparator as error:
        other = finding("other_separator", in_one_line(error.why, error.remedy), place=error.what)
        return report_of(None, (other,), columns={})
    except NotATable as error:
        return report_of(None, (finding("unreadable", error.why, place=error.what),), columns={})
    except NoSuchColumn as error:
        return report_of(
            None, (finding("missing_column", in_one_line(error.why, error.remedy), place=error.what),), columns={}
        )
    config = pipeline.config
    checked = check_table(_melted(frame) if config.holds_closes_alone else frame, asset=config.asset)
    columns = _own_names(checked.columns, config)
    if checked.findings:
        return report_of(checked.bars, checked.findings, columns=columns)
    try:
        panel = pipeline.panel_of(frame)
    except DataError as error:  # what the panel refuses and the check has no name for
        refused = finding("refused", in_one_line(error.why, error.remedy), place=error.what)
        return report_of(checked.bars, (refused,), columns=columns)
    return _report(panel, request, columns)


def _report(panel: MarketPanel, request: DataRequest, columns: Mapping[str, str]) -> DataReport:
    if request.symbols:
        panel = panel.select(assets_of(request.symbols, panel.assets))
    names = {name: name for name in BAR_COLUMNS if getattr(panel, name) is not None}
    return report_of(
        Bars.of_panel(panel),
        (),
        columns=columns or {"timestamp": "timestamp", "asset": "asset", **names},
        adjusted=panel.adjusted,
        fingerprint=panel.fingerprint,
    )


def _own_names(columns: Mapping[str, str], config: TableConfig) -> dict[str, str]:
    """The table's own names of columns that were named by what they mean before they were looked at."""
    given = config.columns or {}
    return {meaning: given.get(meaning, name) for meaning, name in columns.items()}


def _melted(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per moment and asset, of a table with a column of closes per asset; where there is none, no row."""
    import pandas as pd

    lines = frame.index if has_lines(frame) else None
    column = next((name for name in frame.columns if canonical(name) == "timestamp"), None)
    if column is not None:
        frame = frame.set_index(column)
    moments, assets = np.repeat(frame.index.to_numpy(), frame.shape[1]), np.tile(frame.columns, len(frame))
    closes = frame.to_numpy().ravel()
    index = None if lines is None else lines.repeat(frame.shape[1])
    return pd.DataFrame({"timestamp": moments, "asset": assets, "close": closes}, index=index)
