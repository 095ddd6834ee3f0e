from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import CheckConstraint, Engine, inspect, text

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import VERSION_TABLE, ensure_ready, head, revision, revisions, upgrade
from alphaswarm_rl.ledger.tables import metadata


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


def _stamp(engine: Engine, number: str) -> None:
    with write(engine) as connection:
        connection.execute(text(f"UPDATE {VERSION_TABLE} SET version_num = :number"), {"number": number})


def _tables(engine: Engine) -> set[str]:
    with read(engine) as connection:
        return set(inspect(connection).get_table_names())


def test_an_empty_database_gets_its_tables_by_itself(engine: Engine) -> None:
    assert revision(engine) is None
    ensure_ready(engine)
    assert revision(engine) == head()
    assert _tables(engine) == {*metadata.tables, VERSION_TABLE}
    ensure_ready(engine)


def test_the_migrated_tables_are_the_tables_the_ledger_uses(engine: Engine) -> None:
    upgrade(engine)
    with read(engine) as connection:
        options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        for table in metadata.tables.values():
            checks = {str(check["name"]) for check in inspect(connection).get_check_constraints(table.name)}
            assert checks == {str(item.name) for item in table.constraints if isinstance(item, CheckConstraint)}


@pytest.mark.parametrize("start", revisions())
def test_every_earlier_revision_can_be_upgraded(engine: Engine, start: str) -> None:
    assert upgrade(engine, start) == start
    assert upgrade(engine) == head()
    ensure_ready(engine)


def test_there_is_one_line_of_revisions() -> None:
    assert revisions() == tuple(f"{number:04d}" for number in range(1, len(revisions()) + 1))
    assert head() == revisions()[-1]


def test_an_older_database_is_refused_with_the_command_that_mends_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    upgrade(engine)
    known = (*revisions(), "9999")
    monkeypatch.setattr("alphaswarm_rl.db.schema.revisions", lambda: known)
    with pytest.raises(LedgerError, match="rl db upgrade") as caught:
        ensure_ready(engine)
    assert "9999" in caught.value.why


@pytest.mark.parametrize("attempt", [ensure_ready, upgrade])
def test_a_newer_database_is_refused(engine: Engine, attempt: Callable[[Engine], object]) -> None:
    upgrade(engine)
    _stamp(engine, "9999")
    with pytest.raises(LedgerError, match="newer version") as caught:
        attempt(engine)
    assert "pip install --upgrade alphaswarm-rl" in caught.value.remedy
    assert revision(engine) == "9999"


@pytest.mark.parametrize("attempt", [ensure_ready, upgrade])
def test_tables_of_our_names_that_no_migration_made_are_refused(
    engine: Engine, attempt: Callable[[Engine], object]
) -> None:
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE rl_runs (id TEXT)"))
    with pytest.raises(LedgerError, match="rl_runs"):
        attempt(engine)
    assert _tables(engine) == {"rl_runs"}


def test_tables_of_other_programs_are_left_alone(engine: Engine) -> None:
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('of another program')"))
    ensure_ready(engine)
    with read(engine) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "of another program"


def test_a_migration_that_fails_leaves_nothing_behind(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("alembic.op.create_index", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        upgrade(engine)
    assert _tables(engine) == set()
    monkeypatch.undo()
    ensure_ready(engine)
