"""Field ids never change: a column that is added takes the next, at the end."""

import pytest

from alphaswarm_rl.lake.tables import KINDS, NEVER_NULL, arrow_schema, iceberg_schema, write_schema

KEY = ["run_id", "spec_hash", "phase", "env_idx", "episode", "step", "ts"]
#: The columns of version 1, in the order of their ids.
FIRST = {
    "trajectories": [
        *KEY,
        "obs_hash",
        "action",
        "reward",
        "value",
        "log_prob",
        "terminated",
        "truncated",
        "info",
        "observation",
        "final_observation",
    ],
    "equity_curves": [*KEY, "portfolio_value", "drawdown", "cash"],
    "action_logs": [*KEY, "asset_idx", "action_value"],
    "reward_decomposition": [*KEY, "term_name", "contribution"],
    "positions": [
        *KEY,
        "asset_idx",
        "symbol",
        "quantity_before",
        "quantity",
        "price_before",
        "price",
        "value_before",
        "value",
        "weight_before",
        "weight",
        "targets",
        "carry",
        "split_quantity",
        "dividends",
    ],
    "fills": [
        *KEY,
        "fill_idx",
        "asset_idx",
        "symbol",
        "side",
        "quantity",
        "price",
        "commission",
        "spread",
        "impact",
        "reason",
    ],
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_table_has_the_field_ids_of_the_first_version(lake, kind):
    fields = lake.table(kind).schema().fields
    assert {field.name: field.field_id for field in fields[: len(FIRST[kind])]} == {
        name: number for number, name in enumerate(FIRST[kind], start=1)
    }


def test_columns_that_came_later_follow_the_first_ones(lake):
    fields = {field.name: field.field_id for field in lake.table("equity_curves").schema().fields}
    later = ("cost", "carry", "turnover", "gross_exposure", "net_exposure")
    assert {name: fields[name] for name in later} == dict(zip(later, range(11, 16), strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_column_of_a_table_is_optional_and_partitions_are_runs(lake, kind):
    table = lake.table(kind)
    assert not any(field.required for field in table.schema().fields)
    assert [(field.name, str(field.transform)) for field in table.spec().fields] == [("run_id", "identity")]


@pytest.mark.parametrize("kind", KINDS)
def test_writer_file_and_table_have_the_same_columns(kind):
    names = [field.name for field in iceberg_schema(kind).fields]
    assert arrow_schema(kind).names == write_schema(kind).names == names
    assert {field.name for field in write_schema(kind) if not field.nullable} == NEVER_NULL & set(names)
