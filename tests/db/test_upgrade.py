"""A ledger with rows of an older version is upgraded in place."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from sqlalchemy import Engine, MetaData, text
from sqlalchemy.exc import DBAPIError

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import LEDGER
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import LedgerSettings, Settings
from tests.db.first_revision import NOON, ROWS, insert


@pytest.fixture
def first(database_url: str) -> Iterator[Engine]:
    """A ledger of the first revision with a row in every table that was changed since, and in those they need."""
    engine = open_engine(database_url)
    LEDGER.upgrade(engine, "0001")
    with write(engine) as connection:
        insert(connection)
    yield engine
    engine.dispose()


def test_rows_of_the_first_revision_are_kept_and_get_the_new_columns(
    first: Engine, database_url: str, tmp_path: Path
) -> None:
    settings = Settings(home=tmp_path / "home", ledger=LedgerSettings(url=database_url))
    with pytest.raises(LedgerError, match="rl db upgrade"):
        Ledger.open(settings)
    LEDGER.upgrade(first)
    with Ledger.open(settings) as ledger:
        run = ledger.run("run-0001")
        assert (run.seed, run.result_summary, run.recording, run.trace_id) == (7, {"reward": 1.5}, {}, None)
        assert (run.created_at, ledger.version("version").payload) == (NOON, {"slug": "cartpole"})
        curve, steps = sorted(ledger.refs(), key=lambda ref: ref.first_step is not None)
        for ref in (curve, steps):
            assert (ref.row_count, ref.checksum, ref.first_segment, ref.last_segment) == (10, "", 0, 0)
        assert (curve.final_value, steps.last_step) == (1.5, 9)


def test_the_deepest_fall_of_recorded_curves_gets_the_sign_that_it_has_everywhere(first: Engine) -> None:
    refs = ROWS["rl_equity_curve_refs"]
    with write(first) as connection:
        tables = MetaData()
        tables.reflect(connection)
        for name, deepest in (("fell", 0.25), ("rose", 0.0), ("right", -0.5)):
            row = refs | {"id": name, "first_episode": 5, "max_drawdown": deepest}
            connection.execute(tables.tables["rl_equity_curve_refs"].insert().values(row))
    LEDGER.upgrade(first)
    with read(first) as connection:
        rows = connection.execute(text("SELECT id, max_drawdown FROM rl_equity_curve_refs")).mappings()
        found = {row["id"]: row["max_drawdown"] for row in rows}
    assert found == {"two": None, "fell": -0.25, "rose": 0.0, "right": -0.5}


def test_versions_stay_immutable(first: Engine) -> None:
    LEDGER.upgrade(first)
    for change in ("UPDATE rl_experiment_versions SET notes = 'x'", "DELETE FROM rl_experiment_versions"):
        with pytest.raises(DBAPIError, match="a stored version is never changed or deleted"), write(first) as bare:
            bare.execute(text(change))


def test_an_upgrade_that_fails_leaves_the_ledger_as_it_was(first: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    from alembic import op

    add = op.add_column

    def fail_at_the_last(table: str, *rest: Any) -> None:
        if table == "rl_runs":
            raise RuntimeError("in the middle")
        add(table, *rest)

    monkeypatch.setattr("alembic.op.add_column", fail_at_the_last)
    with pytest.raises(RuntimeError, match="in the middle"):
        LEDGER.upgrade(first)
    with read(first) as connection:
        tables = MetaData()
        tables.reflect(connection)
    assert "checksum" not in tables.tables["rl_trajectory_refs"].c
    monkeypatch.undo()
    LEDGER.upgrade(first)


def test_a_ledger_of_an_earlier_version_gets_an_id_and_the_order_of_its_runs(first: Engine) -> None:
    later = ROWS["rl_runs"] | {"id": "run-0000", "created_at": NOON + timedelta(seconds=1)}
    twin = ROWS["rl_runs"] | {"id": "run-0002"}
    with write(first) as connection:
        tables = MetaData()
        tables.reflect(connection)
        for row in (later, twin):
            connection.execute(tables.tables["rl_runs"].insert().values(row))
    LEDGER.upgrade(first)
    ledger = Ledger(first)
    assert UUID(ledger.id).version == 4
    # The newest first, as until now: by the clock, and of one moment by the id.
    assert [(run.id, run.number) for run in ledger.runs()] == [("run-0000", 3), ("run-0001", 2), ("run-0002", 1)]
    assert ledger.create_run(version_id="version", target="train", seed=1).number == 4


def test_two_ledgers_have_two_ids(new_database: Callable[[], str]) -> None:
    ids = set()
    for _ in range(2):
        engine = open_engine(new_database())
        LEDGER.upgrade(engine)
        ids.add(Ledger(engine).id)
        engine.dispose()
    assert len(ids) == 2
