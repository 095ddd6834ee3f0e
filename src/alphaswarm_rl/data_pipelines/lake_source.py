"""What pipelines over tables of the lake share: which snapshot is read, and how its rows become bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.dates import DateText
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.data_pipelines.source import TableConfig, panel_of_table, series_of_table
from alphaswarm_rl.market.panel_columns import SPELLINGS, canonical

if TYPE_CHECKING:
    import numpy as np

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


def _digits(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


#: The id of a snapshot. It has up to 64 bits, more than a number in JSON can say, and so is kept as text.
SnapshotId = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9]{1,19}$")]

#: A table as `namespace.name`.
TableName = Annotated[str, Field(pattern=r"^[^.\s]+(\.[^.\s]+)+$")]


class PinConfig(ComponentConfig):
    """Which snapshot of a table is read."""

    snapshot_id: SnapshotId | None = Field(None, description="The snapshot that is read; null: by as_of.")
    as_of: DateText | None = Field(
        None, description="Read what was there at this moment, UTC; null: by snapshot_id, else what is there now."
    )

    @model_validator(mode="after")
    def _one_pin(self) -> PinConfig:
        if self.snapshot_id is not None and self.as_of is not None:
            raise ValueError("snapshot_id and as_of both say which snapshot is read: give one of them")
        return self


class LakeConfig(TableConfig, PinConfig):
    """Parameters of a pipeline over a table of the lake."""

    table: TableName = Field(description="The table of bars, as namespace.name.")
    columns: dict[str, str] | None = Field(
        None,
        min_length=1,
        description="The columns that are read, by what they are: timestamp, asset, open, high, low, close, adj_close, "
        "volume, dividends, splits, tradable, or a feature; in a wide table timestamp or an asset. null: all, by name.",
    )
    vix_table: TableName | None = Field(
        None, description="Table with the columns date and close for the market feature vix."
    )
    fundamentals: TableName | None = Field(
        None, description="Table with the columns asset, available_from and fundamental_fields, as namespace.name."
    )

    @model_validator(mode="after")
    def _columns_are_used(self) -> LakeConfig:
        if self.columns is not None and self.layout == "long":
            unused = [name for name in self.columns if name not in SPELLINGS and name not in self.feature_columns]
            if unused:
                raise ValueError(
                    f"columns: {', '.join(unused)}: neither a part of a bar ({', '.join(SPELLINGS)}) nor one of the "
                    "feature_columns"
                )
        return self

    @model_validator(mode="after")
    def _vix_is_used(self) -> LakeConfig:
        if (self.vix_table is not None) != ("vix" in self.market_features):
            raise ValueError("vix_table and the market feature vix go together: give both or none")
        return self

    @model_validator(mode="after")
    def _one_snapshot_is_of_one_table(self) -> LakeConfig:
        if self.snapshot_id is not None and (self.vix_table is not None or self.fundamentals is not None):
            raise ValueError("a snapshot_id is of one table: pin several tables by as_of")
        return self


class LakePipeline(PanelPipeline):
    """Bars from a table of the lake; the base of those that are."""

    def load(self, request: DataRequest) -> MarketPanel:
        """All bars of the snapshot."""
        config = self.config
        sources = None
        if config.columns is not None:
            sources = {**{name: name for name in config.feature_columns}, **config.columns}
        rows = read_rows(request, config.table, config, columns=None if sources is None else list(sources.values()))
        if sources is not None:
            import pyarrow as pa

            rows = pa.table({name: rows[source] for name, source in sources.items()})
        return panel_of_table(_frame(_in_order(rows, config.layout)), config)

    def load_vix(self, request: DataRequest) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """The series of `vix_table`."""
        return series_of_table(_frame(read_rows(request, self.config.vix_table, self.config)))

    def load_fundamentals(self, request: DataRequest) -> Any:
        """The table `fundamentals`."""
        name = self.config.fundamentals
        return None if name is None else _frame(read_rows(request, name, self.config))


def read_rows(
    request: DataRequest,
    table: str,
    pin: PinConfig,
    *,
    columns: Sequence[str] | None = None,
    where: Mapping[str, Sequence[Any]] | None = None,
) -> Any:
    """The rows of a table as an Arrow table; without a lake an error.

    Args:
        request: Who hands the lake in.
        table: The table, as `core.contracts.TableReader` wants it.
        pin: Which snapshot.
        columns: Which columns; None: all.
        where: The values that a column may have.
    """
    if request.lake is None:
        raise DataError(
            f"the table {table!r}",
            "no lake was handed in, and it is read from there",
            "Run the spec with RLRuntime; or hand it in: DataRequest(lake=lambda: LakeReader(settings)).",
        )
    rows, _ = request.lake().read(
        table,
        snapshot_id=None if pin.snapshot_id is None else int(pin.snapshot_id),
        as_of=pin.as_of,
        columns=None if columns is None else list(dict.fromkeys(columns)),
        where=where,
    )
    return rows


def _in_order(rows: Any, layout: str) -> Any:
    """The rows by time and asset: in a table they have no order, and messages count them."""
    meanings = ("timestamp", "asset") if layout == "long" else ("timestamp",)
    keys = [next((name for name in rows.column_names if canonical(name) == meaning), None) for meaning in meanings]
    return rows.sort_by([(key, "ascending") for key in keys if key is not None]) if any(keys) else rows


def _frame(rows: Any) -> Any:
    return rows.to_pandas(date_as_object=False)
