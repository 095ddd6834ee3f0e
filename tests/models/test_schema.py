from __future__ import annotations

import json
import re
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest
from sqlalchemy import inspect, text

from alphaswarm_rl.core.errors import LedgerError, ModelError
from alphaswarm_rl.db.engine import open_engine, read, write
from alphaswarm_rl.db.schema import LEDGER, REGISTRY
from alphaswarm_rl.db.schema import ORIGINAL_MODEL_COLUMNS as ORIGINAL
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry, ModelRow
from alphaswarm_rl.models.rows import UNDATED
from alphaswarm_rl.models.tables import metadata, models
from alphaswarm_rl.settings import LedgerSettings, RegistrySettings, Settings
from tests.models.samples import CARTPOLE, ME, add, settings_at

# As the original documents give them.
ORIGINAL_SQL = """
CREATE TABLE models (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_path TEXT NOT NULL,
  algorithm TEXT NOT NULL,
  env_id TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  total_timesteps INTEGER,
  mean_reward REAL,
  std_reward REAL,
  mean_episode_length REAL,
  hyperparams TEXT,  -- JSON
  git_commit TEXT,
  validated BOOLEAN DEFAULT 0
);

CREATE INDEX idx_timestamp ON models(timestamp);
CREATE INDEX idx_mean_reward ON models(mean_reward);
CREATE INDEX idx_validated ON models(validated);
"""
ORIGINAL_QUERY = "SELECT model_path FROM models WHERE validated=1 ORDER BY mean_reward DESC LIMIT 1"
ORIGINAL_INSERT = (
    "INSERT INTO models (model_path, algorithm, env_id, timestamp, total_timesteps, mean_reward, std_reward, "
    "mean_episode_length, hyperparams, git_commit, validated) VALUES (?, 'ppo', 'CartPole-v1', 1, 1000, ?, 1.0, 20.0, "
    "?, 'abc', ?)"
)


@pytest.fixture
def original(settings: Settings) -> Path:
    """A registry file that the original SQL made, with rows of its time."""
    path = settings.below_home(settings.registry.db_path)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.executescript(ORIGINAL_SQL)
        connection.execute(ORIGINAL_INSERT, ("./good.zip", 100.0, '{"gamma": 0.99}', 1))
        connection.execute(ORIGINAL_INSERT, ("./better.zip", 200.0, "gamma=0.99", 1))
        connection.execute(ORIGINAL_INSERT, ("./unproven.zip", 300.0, None, 0))
        connection.execute(ORIGINAL_INSERT, ("./odd.zip", None, "[1, 2]", None))
    connection.close()
    return path


def columns(path: Path) -> dict[str, tuple[str, str | None]]:
    with sqlite3.connect(path) as connection:
        return {row[1]: (row[2], row[4]) for row in connection.execute("PRAGMA table_info(models)")}


def indexes(path: Path) -> set[str]:
    with sqlite3.connect(path) as connection:
        return {row[1] for row in connection.execute("PRAGMA index_list(models)")}


def test_a_new_file_has_the_original_table_and_indexes(settings: Settings, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "original.db") as connection:
        connection.executescript(ORIGINAL_SQL)
    ModelRegistry.open(settings).close()
    path = settings.below_home(settings.registry.db_path)
    assert path.name == "rl_registry.db"
    expected = columns(tmp_path / "original.db")
    assert tuple(expected) == ORIGINAL
    assert list(columns(path).items())[: len(ORIGINAL)] == list(expected.items())
    assert indexes(path) >= indexes(tmp_path / "original.db")
    with sqlite3.connect(path) as connection:
        (made,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'models'").fetchone()
    assert re.search(r"id INTEGER .*PRIMARY KEY AUTOINCREMENT", made)


def test_a_file_of_the_original_sql_is_upgraded_in_place(settings: Settings, original: Path) -> None:
    with ModelRegistry.open(settings) as registry:
        rows = {Path(row.model_path).name: row for row in registry.list()}
        assert list(columns(original)) == [column.name for column in models.columns]
        assert [rows[name].validated for name in ("good.zip", "better.zip", "unproven.zip")] == [True, True, False]
        assert rows["good.zip"].hyperparams == {"gamma": 0.99}
        assert rows["better.zip"].hyperparams == {"text": "gamma=0.99"}
        assert rows["unproven.zip"].hyperparams == {}
        assert (rows["odd.zip"].hyperparams, rows["odd.zip"].validated) == ({"text": "[1, 2]"}, False)
        assert {row.deployment_status for row in rows.values()} == {"staging"}
        # What was validated then has its entry in the history, so that `validated` is derived from it from now on.
        assert [row.profile for row in registry.validations(rows["good.zip"].id)] == ["seed-legacy"]
        assert registry.validations(rows["unproven.zip"].id) == []
        best = registry.best()
        assert best is not None
        assert best.model_path == "./better.zip"
    # Opening again changes nothing.
    with ModelRegistry.open(settings) as registry:
        assert len(registry.list()) == 4
        assert len(registry.validations(best.id)) == 1


def test_the_original_query_and_insert_still_work(settings: Settings, original: Path, tmp_path: Path) -> None:
    with ModelRegistry.open(settings) as registry:
        with sqlite3.connect(original) as connection:
            assert connection.execute(ORIGINAL_QUERY).fetchall() == [("./better.zip",)]
            connection.execute(ORIGINAL_INSERT, ("./late.zip", 400.0, None, 0))
        connection.close()
        late = next(row for row in registry.list() if row.model_path == "./late.zip")
        assert (late.tags, late.protected, late.scope.env_signature) == ((), False, None)
        ours = add(registry, tmp_path / "ours", 500.0, scope=late.scope)
        with sqlite3.connect(original) as connection:
            assert connection.execute(ORIGINAL_QUERY).fetchall() == [(ours.model_path,)]


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(
    settings: Settings, original: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("in the middle")

    monkeypatch.setattr("sqlalchemy.schema.Index.create", fail)
    with pytest.raises(RuntimeError, match="in the middle"):
        ModelRegistry.open(settings)
    assert tuple(columns(original)) == ORIGINAL
    monkeypatch.undo()
    with ModelRegistry.open(settings) as registry:
        assert len(registry.list()) == 4


def test_scores_of_before_are_kept_and_those_with_dates_are_compared_with_nothing(
    database_url: str, tmp_path: Path
) -> None:
    engine = open_engine(database_url)
    LEDGER.upgrade(engine)
    assert REGISTRY.upgrade(engine, "0002") == "0002"
    # Per model: the newest window in its row, and its evaluation's window, in_sample, metrics.
    before = {
        "undated": (None, None, None, {}),
        "dated": ("2020-01-01", "2020-01-01", False, {}),
        "trained on": (None, None, True, {}),
        "added with dates": (None, None, None, {"dated": True}),
        "added without dates": (None, None, None, {"dated": False}),
        "rule": (None, None, False, {}),
    }
    with write(engine) as connection:
        for number, (name, (in_row, start, in_sample, metrics)) in enumerate(before.items(), start=1):
            connection.execute(
                text(
                    "INSERT INTO models (model_path, algorithm, env_id, timestamp, mean_reward, lower_bound, "
                    "validated, eval_window_start) VALUES (:path, 'ppo', 'E', 1, :mean, :mean, true, :start)"
                ),
                {"path": name, "mean": 100.0 * number, "start": in_row},
            )
            values = {"id": number, "start": start, "seen": in_sample, "metrics": json.dumps(metrics)}
            connection.execute(
                text(
                    "INSERT INTO rl_model_evaluations (model_id, at, episodes, mean_reward, window_start, in_sample, "
                    "source, metrics) VALUES (:id, '2024-01-01 00:00:00', 10, 1.0, :start, :seen, 'evaluate', :metrics)"
                ),
                values,
            )
            connection.execute(
                text(
                    "INSERT INTO rl_model_validations (model_id, at, profile, passed, checks, evidence, limits, "
                    "evaluation_id) VALUES (:id, '2024-01-01 00:00:00', 'default', true, '[]', '{}', '{}', :id)"
                ),
                {"id": number},
            )
    engine.dispose()
    with ModelRegistry.open(settings_at(database_url, tmp_path)) as registry:
        rows = {row.model_path: row for row in registry.list()}
        keys = {name: row.judgement_key for name, row in rows.items()}
        assert keys == {
            "undated": UNDATED,
            "dated": None,
            "trained on": None,
            "added with dates": None,
            "added without dates": UNDATED,
            "rule": UNDATED,
        }
        assert [rows[name].mean_reward for name in before] == [100.0 * number for number in range(1, 7)]
        assert all(row.judgement is None for each in rows.values() for row in registry.evaluations(each.id))
        best = registry.best()
        assert best is not None
        assert best.model_path == "rule"
        assert [row.model_path for row in registry.list()][:3] == ["rule", "added without dates", "undated"]
        # The histories are as append-only as before.
        with pytest.raises(Exception, match="never changed or deleted"), write(registry.engine) as connection:
            connection.execute(text("UPDATE rl_model_evaluations SET judgement_key = 'x'"))


def test_rows_have_the_tables_columns_in_its_order() -> None:
    assert [field.name for field in fields(ModelRow)] == [column.name for column in models.columns]


def test_somebody_elses_table_is_refused(settings: Settings) -> None:
    path = settings.below_home(settings.registry.db_path)
    path.parent.mkdir(parents=True)
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE models (id INTEGER, car TEXT)")
    connection.close()
    with pytest.raises(ModelError, match="--registry-db") as caught:
        ModelRegistry.open(settings)
    assert "model_path" in caught.value.why
    assert list(columns(path)) == ["id", "car"]


def test_a_file_that_is_no_database_is_refused(settings: Settings) -> None:
    path = settings.below_home(settings.registry.db_path)
    path.parent.mkdir(parents=True)
    path.write_text("not a database, and long enough to be taken for one" * 20)
    with pytest.raises(LedgerError, match="not an SQLite database"):
        ModelRegistry.open(settings)


def test_it_is_a_file_of_its_own_unless_the_ledger_has_a_url(tmp_path: Path) -> None:
    home, url = tmp_path / "home", "postgresql://user:secret@host/name"
    assert Settings(home=home).registry_url == f"sqlite:///{home}/rl_registry.db"
    assert Settings(home=home, ledger=LedgerSettings(url=url)).registry_url == url
    named = Settings(
        home=home, ledger=LedgerSettings(url=url), registry=RegistrySettings(db_path=Path("rl_registry.db"))
    )
    assert named.registry_url == f"sqlite:///{home}/rl_registry.db"


@pytest.mark.parametrize("first", [ModelRegistry.open, Ledger.open])
def test_registry_and_ledger_share_a_database_whoever_comes_first(first, database_url: str, tmp_path: Path) -> None:
    settings = settings_at(database_url, tmp_path)
    first(settings).close()
    with ModelRegistry.open(settings) as registry, Ledger.open(settings) as ledger:
        assert registry.list() == []
        assert ledger.runs() == []
    engine = open_engine(database_url)
    with read(engine) as connection:
        assert set(inspect(connection).get_table_names()) >= {*metadata.tables, "rl_runs"}
    engine.dispose()


@pytest.mark.parametrize("table", ["rl_model_evaluations", "rl_model_validations", "rl_model_promotions"])
@pytest.mark.parametrize("change", ["UPDATE {} SET model_id = 2", "DELETE FROM {}"])
def test_histories_are_append_only(registry: ModelRegistry, tmp_path: Path, table: str, change: str) -> None:
    row = add(registry, tmp_path / "model")
    registry.promote(row.id, **ME)
    with pytest.raises(Exception, match="never changed or deleted"), write(registry.engine) as connection:
        connection.execute(text(change.format(table)))
    assert len(registry.promotions(row.id)) == 1


def test_the_log_is_not_replaced_in_sqlite(alone: ModelRegistry, tmp_path: Path) -> None:
    row = add(alone, tmp_path / "model")
    alone.promote(row.id, **ME)
    with pytest.raises(Exception, match="never changed"), write(alone.engine) as connection:
        connection.execute(text("INSERT OR REPLACE INTO rl_model_promotions SELECT * FROM rl_model_promotions"))


def test_scopes_have_short_names(registry: ModelRegistry, tmp_path: Path) -> None:
    add(registry, tmp_path / "model")
    assert registry.scopes() == [CARTPOLE]
    assert registry.scope(CARTPOLE.short) == registry.scope(CARTPOLE.short[:4]) == CARTPOLE
    with pytest.raises(ModelError, match=CARTPOLE.short):
        registry.scope("0" * 12)
