"""`rl db`."""

import shutil
import sqlite3

import pytest

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
    assert (registry["from"], registry["revision"], registry["head"]) == (None, "0003", "0003")
    assert rl("db", "status", "--json").json["registry"]["state"] == "current"
    assert "registry" in rl("db", "status").out
    with sqlite3.connect(home / "rl_registry.db") as connection:
        assert connection.execute("SELECT version_num FROM rl_model_alembic_version").fetchall() == [("0003",)]
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


#: Commands that need the ledger, of every kind. Not `rl halt --reason`: a halt is a file first, and always taken.
NEEDING_THE_LEDGER = [
    "runs list",
    "runs show latest",
    "runs events latest",
    "runs rm latest --yes",
    "runs gc --yes",
    "runs trajectories latest",
    "halt --status",
    "halt --log",
    "halt --release --reason now",
    "specs list",
    "train cartpole_random",
    "resume latest",
    "evaluate latest",
    "replay latest",
    "infer --run latest --episodes 1",
    "sql SELECT(1)",
    "lake verify",
    "lake commit",
    "store sync",
    "components list",
    "db upgrade",
]


@pytest.fixture
def foreign(rl, home):
    """A home whose ledger file was replaced by that of another one."""
    assert rl("db", "upgrade").code == 0
    assert rl("db", "upgrade", "--home", home.parent / "other").code == 0
    shutil.copy(home.parent / "other" / "ledger.db", home / "ledger.db")
    return home


@pytest.mark.parametrize("command", NEEDING_THE_LEDGER)
def test_a_foreign_ledger_is_refused_by_every_command(rl, foreign, command):
    before = (foreign / "ledger.json").read_bytes()
    answer = rl(*command.split(), "--json")
    assert answer.code == 2
    assert answer.error["type"] == "LedgerError"
    assert "it is another ledger" in answer.error["why"]
    assert "rl db adopt --reason" in answer.error["remedy"]
    assert (foreign / "ledger.json").read_bytes() == before


@pytest.mark.parametrize(
    "command", ["runs list", "halt --status", "train cartpole_random", "db upgrade", "db adopt --reason x"]
)
def test_a_ledger_that_is_gone_is_refused_and_not_made(rl, home, command):
    rl("db", "upgrade")
    (home / "ledger.db").unlink()
    answer = rl(*command.split(), "--json")
    assert answer.code == 2
    assert "it is not there" in answer.error["why"]
    assert "adopt" not in answer.error["remedy"]
    assert not (home / "ledger.db").exists()


def test_doctor_and_status_name_a_foreign_ledger(rl, foreign):
    for is_gone in (False, True):
        if is_gone:
            (foreign / "ledger.db").unlink()
        answer = rl("doctor", "--json")
        assert answer.code == 1
        finding = next(finding for finding in answer.json["findings"] if finding["name"] == "ledger")
        assert finding["state"] == "broken"
        assert "rl db rebuild" in finding["data"]["remedy"]
        status = rl("db", "status", "--json")
        assert status.code == 1
        assert status.json["adopted"]["id"] != status.json["ledger_id"]


def test_the_operator_can_say_that_a_ledger_is_right(rl, foreign):
    assert rl("db", "adopt").code == 2
    assert rl("db", "adopt", "--reason", " ").code == 2
    assert "moved" in rl("db", "adopt", "--reason", "moved to the new disk").out
    assert rl("runs", "list").code == 0
    status = rl("db", "status", "--json")
    assert status.code == 0
    assert status.json["adopted"]["reason"] == "moved to the new disk"
    assert status.json["adopted"]["id"] == status.json["ledger_id"]
    assert rl("doctor").code == 0
