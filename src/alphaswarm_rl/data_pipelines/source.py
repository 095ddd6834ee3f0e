"""What pipelines over tables of bars share: how the table is laid out, and what it is read as."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import PydanticCustomError

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.core.hashing import added_field
from alphaswarm_rl.data_pipelines.column_mapping import check_pattern, long_of_wide, renamed
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline, PipelineConfig
from alphaswarm_rl.market.panel_columns import SPELLINGS

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.core.types import Array
    from alphaswarm_rl.market.panel import MarketPanel, PanelOptions


class TableConfig(PipelineConfig):
    """Parameters of a pipeline over a table of bars; a subclass says which two name the bars and the VIX."""

    bars_field: ClassVar[str]
    vix_field: ClassVar[str]

    layout: Literal["long", "wide"] = Field(
        "long", description="long: one row per bar and asset; wide: one row per moment, one column of closes per asset."
    )
    columns: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="The columns that are read, by what they are: timestamp, asset, open, high, low, close, adj_close, "
        "volume, dividends, splits, tradable, or a feature; in a wide table of closes timestamp or an asset, with "
        "wide_columns the words in them. null: all, by name.",
        json_schema_extra=added_field(since=2, born=None),
    )
    wide_columns: str | None = Field(
        None,
        description="How a wide table calls a column of an asset, such as '{asset}_{column}' or '{column} {asset}'; "
        "null: it has closes alone, one column per asset.",
        json_schema_extra=added_field(since=2, born=None),
    )
    asset: str | None = Field(None, description="Name of the only asset, where no column names it.")
    feature_columns: list[str] = Field(default_factory=list, description="Columns to take as features as they are.")
    adjust: bool = Field(False, description="Scale prices by adjusted close over close.")
    adjusted: bool = Field(False, description="Whether prices already contain dividends and splits.")
    stamp: Literal["open", "close"] = Field("open", description="What a timestamp labels: its bar's open or close.")
    fundamentals: str | None = Field(
        None,
        min_length=1,
        description="Table with the columns asset, available_from and fundamental_fields: a file in the data folder, "
        "or the name of a frame where the bars are one.",
    )
    fundamental_fields: list[str] = Field(
        default_factory=list, description="Columns of that table to take as features, as they were known at each bar."
    )

    @field_validator("wide_columns")
    @classmethod
    def _tells_assets_from_columns(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                check_pattern(value)
        except DataError as error:
            raise PydanticCustomError("pattern", "{text}", {"text": str(error).rstrip(".")}) from error
        return value

    @model_validator(mode="after")
    def _wide_has_closes_alone(self) -> TableConfig:
        if self.wide_columns is not None:
            if self.layout != "wide" or self.asset is not None:
                raise ValueError(
                    "wide_columns is for a wide table, whose columns name the assets: layout: wide, no asset"
                )
        elif self.layout == "wide" and (self.asset is not None or self.feature_columns or self.adjust):
            raise ValueError("a wide table holds closes alone: leave asset, feature_columns and adjust out")
        return self

    @model_validator(mode="after")
    def _columns_are_used(self) -> TableConfig:
        if self.columns is not None and not self.holds_closes_alone:
            unused = [name for name in self.columns if name not in SPELLINGS and name not in self.feature_columns]
            if unused:
                raise ValueError(
                    f"columns: {', '.join(unused)}: neither a part of a bar ({', '.join(SPELLINGS)}) nor one of the "
                    "feature_columns"
                )
        return self

    @property
    def holds_closes_alone(self) -> bool:
        """Whether the table has one row per moment and one column of closes per asset."""
        return self.layout == "wide" and self.wide_columns is None

    @property
    def text_columns(self) -> frozenset[str]:
        """Columns that are read as text, beside those whose name says so: symbols and dates."""
        named = self.columns or {}
        return frozenset(named[meaning] for meaning in ("timestamp", "asset") if meaning in named)

    @model_validator(mode="after")
    def _fundamentals_are_used(self) -> TableConfig:
        if (self.fundamentals is None) != (not self.fundamental_fields):
            raise ValueError("fundamentals and fundamental_fields go together: give both or none")
        return self

    @model_validator(mode="after")
    def _vix_is_used(self) -> TableConfig:
        if (getattr(self, self.vix_field) is not None) != ("vix" in self.market_features):
            raise ValueError(f"{self.vix_field} and the market feature vix go together: give both or none")
        return self


class TablePipeline(PanelPipeline):
    """Bars from a table; the base of those that differ in where their tables are."""

    #: 2: indicators count the splits that the table knows; short panels have the periods per year of the calendar.
    rl_version = 2

    @abc.abstractmethod
    def table(self, name: str, request: DataRequest) -> pd.DataFrame:
        """The table that a parameter names."""

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the table."""
        return self.panel_of(self.bars(request))

    def panel_of(self, bars: pd.DataFrame) -> MarketPanel:
        """The panel of the table that `bars` gives."""
        return panel_of_table(bars, self.config)

    def bars(self, request: DataRequest) -> pd.DataFrame:
        """The table of bars, its columns named by what they mean; one row per bar and asset unless it has closes alone.

        Only its form is settled: nothing in it is checked yet.
        """
        return self.named(self.table(getattr(self.config, self.config.bars_field), request))

    def named(self, table: pd.DataFrame) -> pd.DataFrame:
        """A table like the pipeline's own, its columns named by what they mean."""
        config, columns = self.config, self.config.columns
        if config.wide_columns is not None:
            return long_of_wide(table, config.wide_columns, columns or {}, config.feature_columns)
        return table if columns is None else renamed(table, columns, config.feature_columns)

    def panel_of_rows(self, rows: pd.DataFrame) -> MarketPanel:
        """The panel of a table like the pipeline's own, from elsewhere."""
        return self.panel_of(self.named(rows))

    def load_vix(self, request: DataRequest) -> tuple[Array, Array]:
        """The series of the VIX."""
        return series_of_table(self.table(getattr(self.config, self.config.vix_field), request))

    def load_fundamentals(self, request: DataRequest) -> pd.DataFrame | None:
        """The table `fundamentals`."""
        name = self.config.fundamentals
        return None if name is None else self.table(name, request)


def panel_of_table(frame: pd.DataFrame, config: TableConfig) -> MarketPanel:
    """The panel of a table whose columns are named by what they mean."""
    from alphaswarm_rl.market.panel import MarketPanel

    facts: PanelOptions = {
        "adjusted": config.adjusted,
        "stamp": config.stamp,
        "periods_per_year": config.periods_per_year,
        "feature_dtype": config.feature_dtype,
    }
    if config.holds_closes_alone:
        return MarketPanel.from_closes(frame, **facts)
    return MarketPanel.from_frame(
        frame, asset=config.asset, features=config.feature_columns, adjust=config.adjust, **facts
    )


def series_of_table(frame: pd.DataFrame) -> tuple[Array, Array]:
    """Labels and closes of a table of one series."""
    from alphaswarm_rl.market.panel_columns import by_meaning, flat, numbers_of, utc_of

    frame = flat(frame)
    columns = by_meaning(frame.columns)
    for meaning in ("timestamp", "close"):
        if meaning not in columns:
            raise DataError(f"column {meaning!r}", "the VIX series has no such column", "Rename a column.")
    return utc_of(frame[columns["timestamp"]], "timestamp"), numbers_of(frame[columns["close"]], "close")


def fundamentals_of_table(frame: pd.DataFrame, fields: Sequence[str], panel: MarketPanel) -> dict[str, Array]:
    """Fundamentals by name, (T, A) each, as they were known at the close of every bar; NaN before the first.

    A row counts from `available_from` on. A date without a time of day is some time of that day, and so known when the
    day is over.
    """
    import numpy as np

    from alphaswarm_rl.market.calendar import join_as_of
    from alphaswarm_rl.market.panel_columns import by_meaning, flat, numbers_of, require_column, utc_of

    frame = flat(frame)
    columns = by_meaning(frame.columns)
    if "asset" not in columns:
        raise DataError("column 'asset'", "the table of fundamentals has no such column", "Rename a column.")
    for name in ("available_from", *fields):
        require_column(frame.columns, name, "of the table of fundamentals")
    assets = frame[columns["asset"]].astype(str).to_numpy()
    if not set(assets) & set(panel.assets):
        raise DataError(
            f"column {str(columns['asset'])!r} of the table of fundamentals",
            "it names none of the assets",
            f"The bars are those of {', '.join(panel.assets[:10])}.",
        )
    moments = utc_of(frame["available_from"], "available_from")
    day = np.timedelta64(1, "D")
    dates = moments == moments.astype("datetime64[D]")
    moments = np.where(dates, moments + day, moments)
    return {name: join_as_of(panel, assets, moments, numbers_of(frame[name], name)) for name in fields}
