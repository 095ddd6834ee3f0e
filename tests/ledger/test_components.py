from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from sqlalchemy import Table

from alphaswarm_rl.ledger import Ledger, rows, tables


def _row(alias: str, **columns: Any) -> dict[str, Any]:
    return {"rl_kind": "agent", "alias": alias, "module_path": "m", "class_name": "C", "rl_version": 1, **columns}


def test_the_mirror_is_written_once_per_fingerprint(ledger: Ledger) -> None:
    assert ledger.components_fingerprint() is None
    assert ledger.sync_components([_row("ppo", tags=["on-policy"], schema={"type": "object"})], "one") is True
    assert ledger.sync_components([_row("ignored")], "one") is False
    assert ledger.components_fingerprint() == "one"
    (row,) = ledger.components()
    assert (row.alias, row.tags, row.schema, row.description) == ("ppo", ["on-policy"], {"type": "object"}, "")


def test_a_new_fingerprint_removes_what_is_stale_and_keeps_birthdays(ledger: Ledger) -> None:
    ledger.sync_components([_row("ppo"), _row("old")], "one")
    before = {row.alias: row for row in ledger.components()}
    assert ledger.sync_components([_row("ppo", rl_version=2), _row("sac"), _row("x", rl_kind="env")], "two") is True
    after = {row.alias: row for row in ledger.components("agent")}
    assert set(after) == {"ppo", "sac"}
    assert (after["ppo"].id, after["ppo"].created_at) == (before["ppo"].id, before["ppo"].created_at)
    assert after["ppo"].rl_version == 2
    assert after["ppo"].updated_at > before["ppo"].updated_at
    assert {row.fingerprint for row in ledger.components()} == {"two"}


def test_a_mirror_with_a_mistake_is_not_written(ledger: Ledger) -> None:
    with pytest.raises(TypeError, match="fingerprint"):
        ledger.sync_components([_row("ppo", fingerprint="mine")], "one")
    assert ledger.components() == []


@pytest.mark.parametrize(
    ("row", "table"),
    [
        (rows.SpecRow, tables.specs),
        (rows.VersionRow, tables.versions),
        (rows.RunRow, tables.runs),
        (rows.EvaluationRow, tables.evaluations),
        (rows.EpisodeRow, tables.episodes),
        (rows.EventRow, tables.events),
        (rows.ComponentRow, tables.components),
        (rows.HaltRow, tables.kill_switch),
        (rows.HaltLogRow, tables.kill_switch_log),
    ],
)
def test_a_row_has_the_columns_of_its_table(row: type[Any], table: Table) -> None:
    assert [field.name for field in fields(row)] == list(table.c.keys())
