"""`rl db`."""

import sqlite3

from tests.models.test_schema import ORIGINAL_SQL


def test_status_makes_nothing(rl, home):
    status = rl("db", "status", "--json").json
    assert status["state"] == "empty"
    assert status["revision"] is None
    assert not home.exists()


def test_upgrade(rl):
    upgraded = rl("db", "upgrade", "--json").json
    assert upgraded["revision"] == upgraded["head"]
    assert upgraded["from"] is None
    assert rl("db", "status", "--json").json["state"] == "current"
    assert "current" in rl("db", "status").out


def test_upgrade_brings_a_registry_of_the_original_sql_along(rl, home):
    home.mkdir()
    with sqlite3.connect(home / "rl_registry.db") as connection:
        connection.executescript(ORIGINAL_SQL)
    connection.close()
    assert rl("db", "status", "--json").json["registry"]["state"] == "older"
    registry = rl("db", "upgrade", "--json").json["registry"]
    assert (registry["from"], registry["revision"], registry["head"]) == (None, "0001", "0001")
    assert rl("db", "status", "--json").json["registry"]["state"] == "current"
    assert "registry" in rl("db", "status").out
    with sqlite3.connect(home / "rl_registry.db") as connection:
        assert connection.execute("SELECT version_num FROM rl_model_alembic_version").fetchall() == [("0001",)]
        assert connection.execute("SELECT tags FROM models").fetchall() == []


def test_upgrade_makes_no_registry(rl, home):
    assert rl("db", "upgrade", "--json").json["registry"] is None
    assert rl("db", "status", "--json").json["registry"] is None
    assert not (home / "rl_registry.db").exists()


def test_a_newer_database(rl, home):
    rl("db", "upgrade")
    with sqlite3.connect(home / "ledger.db") as connection:
        connection.execute("UPDATE rl_alembic_version SET version_num = '9999'")
    status = rl("db", "status", "--json")
    assert status.code == 1
    assert status.json["state"] == "newer"
    upgraded = rl("db", "upgrade")
    assert upgraded.code == 2
    assert "newer version" in upgraded.err
    assert rl("runs", "list").code == 2


def test_an_unusable_url_keeps_its_secret(rl):
    answer = rl("db", "status", "--db-url", "mysql://me:hunter2@host/name")
    assert answer.code == 2
    assert "hunter2" not in answer.err


def test_a_file_that_is_no_database(rl, home):
    home.mkdir()
    (home / "ledger.db").write_text("this is no database, and long enough to be seen as none" * 20)
    assert rl("db", "status").code == 2
    assert rl("runs", "list", "--json").error["type"] == "LedgerError"
