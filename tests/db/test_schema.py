from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import CheckConstraint, Engine, MetaData, inspect, text

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db import schema
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import LEDGER, REGISTRY, Schema
from alphaswarm_rl.ledger.tables import metadata as ledger_metadata
from alphaswarm_rl.models.tables import metadata as registry_metadata

SCHEMAS = pytest.mark.parametrize(
    ("found", "metadata"),
    [pytest.param(LEDGER, ledger_metadata, id="ledger"), pytest.param(REGISTRY, registry_metadata, id="registry")],
)
ATTEMPTS = pytest.mark.parametrize("attempt", [Schema.ensure_ready, Schema.upgrade])


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    engine = open_engine(database_url)
    yield engine
    engine.dispose()


def _stamp(engine: Engine, found: Schema, number: str) -> None:
    with write(engine) as connection:
        connection.execute(text(f"UPDATE {found.version_table} SET version_num = :number"), {"number": number})


def _tables(engine: Engine) -> set[str]:
    with read(engine) as connection:
        return set(inspect(connection).get_table_names())


def _scripts(found: Schema) -> ScriptDirectory:
    folder = Path(schema.__file__).parent / "migrations"
    config = Config()
    config.set_main_option("script_location", str(folder))
    config.set_main_option("version_locations", str(folder / found.name))
    config.set_main_option("path_separator", "newline")
    return ScriptDirectory.from_config(config)


@SCHEMAS
def test_an_empty_database_gets_its_tables_by_itself(engine: Engine, found: Schema, metadata: MetaData) -> None:
    assert found.revision(engine) is None
    found.ensure_ready(engine)
    assert found.revision(engine) == found.head
    assert _tables(engine) - {"sqlite_sequence"} == {*metadata.tables, found.version_table}
    found.ensure_ready(engine)


@SCHEMAS
def test_the_migrated_tables_are_the_tables_that_are_used(engine: Engine, found: Schema, metadata: MetaData) -> None:
    found.upgrade(engine)
    with read(engine) as connection:
        options = {"compare_type": True, "compare_server_default": True, "version_table": found.version_table}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), metadata) == []
        for table in metadata.tables.values():
            checks = {str(check["name"]) for check in inspect(connection).get_check_constraints(table.name)}
            assert checks == {str(item.name) for item in table.constraints if isinstance(item, CheckConstraint)}


@pytest.mark.parametrize(("found", "start"), [(one, start) for one in (LEDGER, REGISTRY) for start in one.revisions])
def test_every_earlier_revision_can_be_upgraded(engine: Engine, found: Schema, start: str) -> None:
    assert found.upgrade(engine, start) == start
    assert found.upgrade(engine) == found.head
    found.ensure_ready(engine)


@SCHEMAS
def test_there_is_one_line_of_revisions_and_files_are_named_by_them(found: Schema, metadata: MetaData) -> None:
    assert found.revisions == tuple(f"{number:04d}" for number in range(1, len(found.revisions) + 1))
    walked = [script.revision for script in _scripts(found).walk_revisions()]
    assert found.revisions == tuple(reversed(walked))
    assert found.head == found.revisions[-1]


def test_both_live_in_one_database(engine: Engine) -> None:
    LEDGER.ensure_ready(engine)
    REGISTRY.ensure_ready(engine)
    assert (LEDGER.revision(engine), REGISTRY.revision(engine)) == (LEDGER.head, REGISTRY.head)
    LEDGER.ensure_ready(engine)
    assert LEDGER.upgrade(engine) == LEDGER.head


def test_an_older_ledger_is_refused_with_the_command_that_mends_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    LEDGER.upgrade(engine)
    monkeypatch.setitem(vars(LEDGER), "revisions", (*LEDGER.revisions, "9999"))
    with pytest.raises(LedgerError, match="rl db upgrade") as caught:
        LEDGER.ensure_ready(engine)
    assert "9999" in caught.value.why


def test_an_older_registry_is_upgraded_when_it_is_opened(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    upgraded: list[Engine] = []
    REGISTRY.upgrade(engine)
    monkeypatch.setitem(vars(REGISTRY), "revisions", (*REGISTRY.revisions, "9999"))
    monkeypatch.setattr(Schema, "upgrade", lambda self, engine: upgraded.append(engine))
    REGISTRY.ensure_ready(engine)
    assert upgraded == [engine]


@SCHEMAS
@ATTEMPTS
def test_a_newer_database_is_refused(
    engine: Engine, attempt: Callable[[Schema, Engine], object], found: Schema, metadata: MetaData
) -> None:
    found.upgrade(engine)
    _stamp(engine, found, "9999")
    with pytest.raises(LedgerError, match="newer version") as caught:
        attempt(found, engine)
    assert "pip install --upgrade alphaswarm-rl" in caught.value.remedy
    assert found.revision(engine) == "9999"


@ATTEMPTS
def test_tables_of_our_names_that_no_migration_made_are_refused(
    engine: Engine, attempt: Callable[[Schema, Engine], object]
) -> None:
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE rl_runs (id TEXT)"))
    with pytest.raises(LedgerError, match="rl_runs"):
        attempt(LEDGER, engine)
    assert _tables(engine) == {"rl_runs"}


@SCHEMAS
def test_tables_of_other_programs_are_left_alone(engine: Engine, found: Schema, metadata: MetaData) -> None:
    with write(engine) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num TEXT)"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('of another program')"))
    found.ensure_ready(engine)
    with read(engine) as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one() == "of another program"


@SCHEMAS
def test_a_migration_that_fails_leaves_nothing_behind(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, found: Schema, metadata: MetaData
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("alembic.runtime.migration.HeadMaintainer.update_to_step", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        found.upgrade(engine)
    assert _tables(engine) - {"sqlite_sequence"} == set()
    monkeypatch.undo()
    found.ensure_ready(engine)


def test_a_current_database_is_opened_without_alembic(engine: Engine, database_url: str) -> None:
    LEDGER.upgrade(engine)
    REGISTRY.upgrade(engine)
    code = (
        "import sys; from alphaswarm_rl.db.engine import open_engine; from alphaswarm_rl.db.schema import *; "
        "engine = open_engine(sys.argv[1]); LEDGER.ensure_ready(engine); REGISTRY.ensure_ready(engine); "
        "sys.exit('alembic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, database_url], check=False).returncode == 0
