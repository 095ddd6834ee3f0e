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
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_table_has_the_field_ids_of_the_first_version(lake, kind):
    fields = lake.table(kind).schema().fields
    assert {field.name: field.field_id for field in fields[: len(FIRST[kind])]} == {
        name: number for number, name in enumerate(FIRST[kind], start=1)
    }


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
