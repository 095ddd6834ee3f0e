"""Bars from tables of the lake: any table, as it is now or as it was; and refined tables alone, pinned for replays."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, model_validator

from alphaswarm_rl.core.component import ComponentConfig
from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.data_pipelines.column_mapping import long_of_wide
from alphaswarm_rl.data_pipelines.pipeline import DateText
from alphaswarm_rl.data_pipelines.source import TableConfig, TablePipeline
from alphaswarm_rl.market.panel_columns import canonical

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from alphaswarm_rl.core.contracts import DataRequest
    from alphaswarm_rl.market.panel import MarketPanel


def _digits(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


#: The id of a snapshot. It has up to 64 bits, more than a number in JSON can say, and so is kept as text.
SnapshotId = Annotated[str, BeforeValidator(_digits), Field(pattern=r"^[0-9]{1,19}$")]

#: The layers whose tables are checked and stay as they are.
_REFINED = ("silver", "gold")

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

    bars_field = "table"
    vix_field = "vix_table"

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
    def _one_snapshot_is_of_one_table(self) -> LakeConfig:
        if self.snapshot_id is not None and (self.vix_table is not None or self.fundamentals is not None):
            raise ValueError("a snapshot_id is of one table: pin several tables by as_of")
        return self


class LakePipeline(TablePipeline):
    """Bars from a table of the lake; the base of those that are."""

    rl_category = "lake"
    rl_source = "pyiceberg"

    def bars(self, request: DataRequest) -> pd.DataFrame:
        """The bars of the snapshot, by time and asset."""
        config = self.config
        if config.columns is None or config.wide_columns is not None:
            rows = read_rows(request, config.table, config)
            if config.wide_columns is None:
                return _frame(_in_order(rows, config.layout))
            table = long_of_wide(_frame(rows), config.wide_columns, config.columns or {}, config.feature_columns)
            return table.sort_values(["asset", "timestamp"], kind="stable", ignore_index=True)
        import pyarrow as pa

        sources = {**{name: name for name in config.feature_columns}, **config.columns}
        rows = read_rows(request, config.table, config, columns=list(sources.values()))
        rows = pa.table({name: rows[source] for name, source in sources.items()})
        return _frame(_in_order(rows, config.layout))

    def table(self, name: str, request: DataRequest) -> pd.DataFrame:
        """The table of that name."""
        return _frame(read_rows(request, name, self.config))


class IcebergPipeline(LakePipeline):
    """Bars from any Iceberg table of the lake's catalogue, as it is now or as it was.

    Without `snapshot_id` and `as_of` the newest snapshot is read. A run pins the fingerprint of its bars all the same:
    it is not resumed after they changed.
    """

    rl_alias = "iceberg"

    class Config(LakeConfig):
        """Parameters of a table."""


class DeterministicMedallionReplay(LakePipeline):
    """Bars from a table of the silver or gold layer, pinned to one snapshot; nothing is ever written.

    The layer is a word of the table's namespace or name, such as `silver.bars` or `alphaswarm_gold_equities.daily`. A
    table of the bronze layer is refused: it holds what sources sent, unchecked, and may be loaded anew. `namespace:
    alphaswarm_silver_equities` beside `table: bars` is another way to write `table: alphaswarm_silver_equities.bars`,
    and `layer`, silver or gold, may say which one it must be.
    """

    rl_alias = "medallion_replay"

    class Config(LakeConfig):
        """Parameters of a pinned table."""

        fingerprint: str | None = Field(
            None,
            pattern=r"^[0-9a-f]{64}$",
            description="Fingerprint of all the table's bars, which they must have; null: it is not compared.",
        )

        @model_validator(mode="before")
        @classmethod
        def _layer_and_namespace(cls, data: object) -> object:
            return _one_table(data) if isinstance(data, Mapping) else data

        @model_validator(mode="after")
        def _refined_and_pinned(self) -> DeterministicMedallionReplay.Config:
            tables = {"table": self.table, "vix_table": self.vix_table, "fundamentals": self.fundamentals}
            for parameter, name in tables.items():
                if name is not None:
                    _refuse_unrefined(parameter, name)
            if self.snapshot_id is None and self.as_of is None:
                raise ValueError("a replay is pinned: give snapshot_id or as_of")
            return self

    def panel_of(self, bars: pd.DataFrame) -> MarketPanel:
        """The panel of the snapshot; others than that of `fingerprint` are refused."""
        panel = super().panel_of(bars)
        expected = self.config.fingerprint
        if expected is not None and panel.fingerprint != expected:
            raise DataError(
                f"the table {self.config.table}",
                f"its bars have the fingerprint {panel.fingerprint}, not {expected}",
                "Pin the snapshot that has it, with the same columns; or write the new one down.",
            )
        return panel


def read_rows(
    request: DataRequest,
    table: str,
    pin: PinConfig,
    *,
    columns: Sequence[str] | None = None,
    where: Mapping[str, Sequence[object]] | None = None,
) -> pa.Table:
    """The rows of a table as an Arrow table; without a lake an error.

    Args:
        request: Who hands the lake in.
        table: The table, as `core.contracts.TableReader` takes it.
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


def _in_order(rows: pa.Table, layout: str) -> pa.Table:
    """The rows by time and asset: in a table they have no order, and messages count them."""
    meanings = ("timestamp", "asset") if layout == "long" else ("timestamp",)
    keys = [next((name for name in rows.column_names if canonical(name) == meaning), None) for meaning in meanings]
    return rows.sort_by([(key, "ascending") for key in keys if key is not None]) if any(keys) else rows


def _frame(rows: pa.Table) -> pd.DataFrame:
    return rows.to_pandas(date_as_object=False)


def _one_table(data: Mapping[str, object]) -> dict[str, object]:
    """The parameters with the table as one name: a namespace stands before it, and a layer must be that of the name."""
    rest = dict(data)
    namespace, layer, table = rest.pop("namespace", None), rest.pop("layer", None), rest.get("table")
    if namespace is not None:
        if not isinstance(table, str) or "." in table:
            raise ValueError(f"namespace: {namespace!r} stands before the bare name of a table, and table is {table!r}")
        rest["table"] = table = f"{namespace}.{table}"
    if layer is not None:
        if layer not in _REFINED:
            raise ValueError(f"layer: {layer!r} is none that a replay reads: they are {' and '.join(_REFINED)}")
        if isinstance(table, str) and layer not in _words(table):
            raise ValueError(f"layer: the table {table!r} is not of the layer {layer}: its name lacks that word")
    return rest


def _words(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _refuse_unrefined(parameter: str, name: str) -> None:
    words = _words(name)
    if "bronze" in words:
        raise ValueError(f"{parameter}: {name!r} is of the bronze layer, which is raw and may be loaded anew")
    if not {*_REFINED} & {*words}:
        raise ValueError(
            f"{parameter}: {name!r} says no layer: its namespace or name must have the word silver or gold"
        )
