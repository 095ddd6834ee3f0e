"""The six tables: their columns, names and how an older one is brought up to date.

Iceberg gives a new table's columns their field ids in the order in which they stand here, and a column that is added
later the next one. So columns are only ever added, at the end, and all are optional: files written before one came
read as null there. `tests/lake/test_tables.py` holds the ids. What stands in a column is made in `recording/rows.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, get_args

import pyarrow as pa

from alphaswarm_rl.lake.run_ends import run_type
from alphaswarm_rl.settings import TrajectorySettings

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

Kind = Literal["trajectories", "equity_curves", "action_logs", "reward_decomposition", "positions", "fills"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_DOUBLES = pa.list_(pa.float64())
_FLOATS = pa.list_(pa.float32())
_TIME = pa.timestamp("us", tz="UTC")


#: What every row begins with: whose step it is. `ts` is the bar's time, null where there are no bars.
_KEY = (
    ("run_id", pa.string()),
    ("spec_hash", pa.string()),
    ("phase", pa.string()),
    ("env_idx", pa.int32()),
    ("episode", pa.int64()),
    ("step", pa.int64()),
    ("ts", _TIME),
)

COLUMNS: dict[Kind, tuple[tuple[str, pa.DataType], ...]] = {
    "trajectories": (
        *_KEY,
        ("obs_hash", pa.int64()),
        ("action", _DOUBLES),
        ("reward", pa.float64()),
        ("value", pa.float64()),
        ("log_prob", pa.float64()),
        ("terminated", pa.bool_()),
        ("truncated", pa.bool_()),
        ("info", pa.string()),
        # Only where they were asked for: what the agent saw, and the last sight of an episode that ended.
        ("observation", _FLOATS),
        ("final_observation", _FLOATS),
    ),
    "equity_curves": (
        *_KEY,
        ("portfolio_value", pa.float64()),
        ("drawdown", pa.float64()),
        ("cash", pa.float64()),
        # Of steps whose trades are known: money of the step, and parts of the equity.
        ("cost", pa.float64()),
        ("carry", pa.float64()),
        ("turnover", pa.float64()),
        ("gross_exposure", pa.float64()),
        ("net_exposure", pa.float64()),
    ),
    "action_logs": (
        *_KEY,
        ("asset_idx", pa.int32()),
        ("action_value", pa.float64()),
    ),
    "reward_decomposition": (
        *_KEY,
        ("term_name", pa.string()),
        ("contribution", pa.float64()),
    ),
    # One row per asset and step, and one for cash, whose number is -1: its quantity is money, and its price 1.
    "positions": (
        *_KEY,
        ("asset_idx", pa.int32()),
        ("symbol", pa.string()),
        ("quantity_before", pa.float64()),
        ("quantity", pa.float64()),
        ("price_before", pa.float64()),
        ("price", pa.float64()),
        ("value_before", pa.float64()),
        ("value", pa.float64()),
        ("weight_before", pa.float64()),
        ("weight", pa.float64()),
        ("targets", _DOUBLES),
        ("carry", pa.float64()),
        ("split_quantity", pa.float64()),
        ("dividends", pa.float64()),
    ),
    "fills": (
        *_KEY,
        ("fill_idx", pa.int32()),
        ("asset_idx", pa.int32()),
        ("symbol", pa.string()),
        ("side", pa.string()),
        ("quantity", pa.float64()),
        ("price", pa.float64()),
        ("commission", pa.float64()),
        ("spread", pa.float64()),
        ("impact", pa.float64()),
        ("reason", pa.string()),
    ),
}

#: The number of cash among the positions of a step.
CASH_IDX = -1

#: Strings of which a file has few different ones, and those of them that are the same in all its rows.
REPEATED = ("run_id", "spec_hash", "phase", "term_name", "symbol", "side", "reason")
_CONSTANT = ("run_id", "spec_hash", "phase")

#: What every row has. In the tables all columns are optional, so that more can be added.
NEVER_NULL = frozenset(
    {"run_id", "spec_hash", "phase", "env_idx", "episode", "step", "reward", "terminated", "truncated"}
    | {"asset_idx", "action_value", "term_name", "contribution", "fill_idx", "symbol", "side", "quantity", "price"}
    | {"quantity_before", "price_before", "value_before", "weight_before", "weight", "split_quantity"}
    | {"dividends", "commission", "spread", "impact", "reason"}
)

#: Manifests carry no statistics of columns: DuckDB reads those of the files themselves, and planning stays quick. A
#: commit copies the list of earlier metadata files many times over, so that is short, and the sweep deletes them.
PROPERTIES = {
    "write.metadata.metrics.default-mode": "none",
    "write.metadata.previous-versions-max": "3",
    "commit.retry.num-retries": "0",
}


def identifier(kind: Kind, settings: TrajectorySettings) -> str:
    """The table of that kind, as `namespace.name`."""
    names: dict[Kind, str] = {
        "trajectories": settings.table,
        "equity_curves": settings.equity_table,
        "action_logs": settings.action_log_table,
        "reward_decomposition": settings.reward_decomp_table,
        "positions": settings.positions_table,
        "fills": settings.fills_table,
    }
    return f"{settings.namespace}.{names[kind]}"


def arrow_schema(kind: Kind) -> pa.Schema:
    """The columns as a file has them; without field ids, as Iceberg wants files that are added."""
    return pa.schema(COLUMNS[kind])


def write_schema(kind: Kind) -> pa.Schema:
    """The columns as the writer gets them: what repeats is said once, and what is there in every row declared so.

    What is the same in many rows comes in runs: whose rows they are, and of action logs and positions, which have many
    rows for every step, the whole key. Other strings that repeat come as dictionaries.
    """
    return pa.schema(
        [
            pa.field(name, _write_type(kind, name, type_), nullable=name not in NEVER_NULL)
            for name, type_ in COLUMNS[kind]
        ]
    )


def _write_type(kind: Kind, name: str, type_: pa.DataType) -> pa.DataType:
    if name in _CONSTANT or (kind in ("action_logs", "positions") and (name, type_) in _KEY):
        return run_type(type_)
    return pa.dictionary(pa.int32(), type_) if name in REPEATED else type_


def iceberg_schema(kind: Kind) -> Schema:
    """The columns as a new table has them."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import NestedField

    return Schema(
        *(
            NestedField(number, name, _iceberg_type(type_), required=False)
            for number, (name, type_) in enumerate(COLUMNS[kind], start=1)
        )
    )


def partition_spec() -> Any:
    """One partition per run."""
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import IdentityTransform

    return PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="run_id"))


def upgrade(table: Table, kind: Kind) -> bool:
    """Adds the columns that an older table lacks; says whether there were any."""
    from pyiceberg.table import TableProperties

    existing = set(table.schema().column_names)
    missing = [(name, type_) for name, type_ in COLUMNS[kind] if name not in existing]
    if missing:
        with table.transaction() as transaction, transaction.update_schema() as update:
            for name, type_ in missing:
                update.add_column(name, _iceberg_type(type_))
        # Files are read by the names of their columns, so the new ones must be in the table's mapping of names.
        mapping = table.schema().name_mapping.model_dump_json()
        with table.transaction() as transaction:
            transaction.set_properties({TableProperties.DEFAULT_NAME_MAPPING: mapping})
    return bool(missing)


def _iceberg_type(type_: pa.DataType) -> Any:
    from pyiceberg import types

    plain = {
        pa.string(): types.StringType(),
        pa.int32(): types.IntegerType(),
        pa.int64(): types.LongType(),
        pa.float32(): types.FloatType(),
        pa.float64(): types.DoubleType(),
        pa.bool_(): types.BooleanType(),
        _TIME: types.TimestamptzType(),
    }
    if not pa.types.is_list(type_):
        return plain[type_]
    # Iceberg numbers elements anew after all columns.
    return types.ListType(1000, plain[type_.value_type], element_required=False)
