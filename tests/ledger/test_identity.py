"""A home and its ledger: what is adopted, what is refused, and who may say that it is right."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from threading import Thread

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger import Ledger, identity
from alphaswarm_rl.ledger.identity import adopt, adoption, trace_of_runs
from alphaswarm_rl.settings import LakeSettings, LedgerSettings, RegistrySettings, Settings, StoreSettings
from tests.ledger.samples import new_run

RUN = "0a1b2c3d-0000-4000-8000-0123456789ab"
#: What runs leave behind, by its place in the home.
TRACES = [
    f"models/{RUN}",
    f"logs/{RUN}.jsonl",
    f"lake/spool/{RUN}",
    f"lake/warehouse/rl/trajectories/data/run_id={RUN}",
    f"trajectories/rl.trajectories/run_id={RUN}",
]
#: A model that `rl models add` copied into the home.
ADDED = "models/added-0123456789ab"
#: What people keep there beside it.
OTHERS = ["models/added-0123", "models/my-notes", "logs/today.txt", "lake/warehouse/prices/bars", "lake/spool/x"]


@pytest.fixture
def settings(tmp_path: Path, database_url: str) -> Settings:
    return Settings(home=tmp_path / "home", ledger=LedgerSettings(url=database_url))


def leave(settings: Settings, *places: str) -> None:
    for place in places:
        settings.below_home(Path(place)).mkdir(parents=True)


def refusal(settings: Settings) -> str:
    with pytest.raises(LedgerError) as caught:
        Ledger.open(settings)
    exists = "not there" not in caught.value.why and "empty file" not in caught.value.why
    assert ("rl db adopt --reason" in caught.value.remedy) == exists
    assert "rl db rebuild" in caught.value.remedy
    return caught.value.why


def file_of(settings: Settings) -> Path:
    return settings.below_home(Path("ledger.json"))


def test_a_home_adopts_the_first_ledger_that_it_meets(settings: Settings) -> None:
    assert adoption(settings) is None
    with Ledger.open(settings) as ledger:
        found = adoption(settings)
        assert found is not None
        assert (found.id, found.reason, found.empty) == (ledger.id, "first contact", False)
    before = file_of(settings).read_bytes()
    with Ledger.open(settings) as ledger:
        new_run(ledger)
    Ledger.open(settings).close()
    assert file_of(settings).read_bytes() == before
    assert sorted(path.name for path in settings.home.iterdir()) == ["ledger.json", "ledger.json.lock"]


def test_another_ledger_is_refused(settings: Settings, new_database: Callable[[], str]) -> None:
    with Ledger.open(settings) as ledger:
        new_run(ledger)
        ours = ledger.id
    other = settings.model_copy(update={"ledger": LedgerSettings(url=new_database())})
    with Ledger.open_any(other) as ledger:
        new_run(ledger)
        why = refusal(other)
        assert ledger.id in why
        assert ours in why
        assert adopt(ledger.engine, other, "moved to another server").id == ledger.id
    with Ledger.open(other) as ledger:
        assert ledger.runs()
    assert "another ledger" in refusal(settings)


def test_who_adopted_what_and_why_is_kept(settings: Settings, new_database: Callable[[], str]) -> None:
    Ledger.open(settings).close()
    other = settings.model_copy(update={"ledger": LedgerSettings(url=new_database())})
    with Ledger.open_any(other) as ledger:
        with pytest.raises(LedgerError, match="reason"):
            adopt(ledger.engine, other, " ")
        adopt(ledger.engine, other, "restored", "ops")
        kept = json.loads(file_of(settings).read_text())["adopted"]
    assert [(entry["reason"], entry["empty"]) for entry in kept] == [("first contact", False), ("restored", True)]
    assert kept[1]["by"] == "ops"
    assert "@" in kept[0]["by"]


@pytest.mark.parametrize("place", TRACES)
def test_an_empty_ledger_beside_what_a_run_left_is_refused(settings: Settings, place: str) -> None:
    leave(settings, *OTHERS, place)
    Ledger.open_any(settings).close()
    why = refusal(settings)
    assert "it has no runs" in why
    assert place in why
    assert adoption(settings) is None


def test_an_empty_ledger_beside_what_runs_left_in_other_folders_is_refused(settings: Settings) -> None:
    folders = Settings(
        home=settings.home,
        ledger=settings.ledger,
        store=StoreSettings(model_dir=settings.home.parent / "elsewhere"),
        lake=LakeSettings(warehouse=str(settings.home.parent / "tables")),
    )
    assert trace_of_runs(folders) is None
    steps = settings.home.parent / f"tables/rl/trajectories/data/run_id={RUN}"
    steps.mkdir(parents=True)
    assert trace_of_runs(folders) == steps
    models = settings.home.parent / "elsewhere" / RUN
    models.mkdir(parents=True)
    assert trace_of_runs(folders) == models
    shared = folders.model_copy(update={"lake": LakeSettings(warehouse="s3://bucket/tables")})
    models.rmdir()
    assert trace_of_runs(shared) is None


def test_a_first_run_that_is_made_meanwhile_is_no_trouble(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    def look(settings: Settings) -> Path:
        with Ledger.open_any(settings) as ledger:
            new_run(ledger)
        return Path(TRACES[0])

    Ledger.open_any(settings).close()
    monkeypatch.setattr(identity, "trace_of_runs", look)
    with Ledger.open(settings) as ledger:
        assert len(ledger.runs()) == 1


def test_what_others_keep_there_is_no_run(settings: Settings) -> None:
    leave(settings, *OTHERS)
    Ledger.open(settings).close()
    assert adoption(settings) is not None


def test_an_adopted_ledger_that_was_emptied_is_refused(settings: Settings) -> None:
    with Ledger.open(settings) as ledger:
        new_run(ledger)
        leave(settings, TRACES[0])
        Ledger.open(settings).close()
        with write(ledger.engine) as connection:
            connection.execute(text("DELETE FROM rl_runs"))
    assert "it has no runs" in refusal(settings)


def test_an_empty_ledger_that_is_right_stays_right_until_it_has_runs(settings: Settings) -> None:
    leave(settings, TRACES[0])
    with Ledger.open_any(settings) as ledger:
        adopt(ledger.engine, settings, "the old one is not needed")
    for _ in range(2):
        Ledger.open(settings).close()
    with Ledger.open(settings) as ledger:
        new_run(ledger)
        Ledger.open(settings).close()
        with write(ledger.engine) as connection:
            connection.execute(text("DELETE FROM rl_runs"))
    assert "it has no runs" in refusal(settings)


def test_a_ledger_file_that_is_gone_is_not_made_anew(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    Ledger.open(settings).close()
    file = settings.home / "ledger.db"
    file.unlink()
    assert "it is not there" in refusal(settings)
    assert not file.exists()
    file.touch()
    assert "it is an empty file" in refusal(settings)
    assert file.stat().st_size == 0
    file_of(settings).unlink()
    Ledger.open(settings).close()


def test_a_first_ledger_is_not_made_beside_what_a_run_left(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    leave(settings, TRACES[2])
    why = refusal(settings)
    assert "it is not there" in why
    assert TRACES[2] in why
    assert not (settings.home / "ledger.db").exists()


def test_a_copy_that_was_put_back_is_the_same_ledger(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    with Ledger.open(settings) as ledger:
        new_run(ledger)
        found = ledger.id
    file = settings.home / "ledger.db"
    copy = file.read_bytes()
    file.unlink()
    file.write_bytes(copy)
    with Ledger.open(settings) as ledger:
        assert ledger.id == found


@pytest.mark.parametrize("content", ["", "{", "[]", '{"adopted": [{"id": 1}]}', '{"adopted": 3}', "[" * 99_999])
def test_a_damaged_file_is_named(settings: Settings, content: str) -> None:
    settings.home.mkdir()
    file_of(settings).write_text(content)
    with pytest.raises(LedgerError) as caught:
        Ledger.open(settings)
    assert str(file_of(settings)) in caught.value.what
    assert file_of(settings).read_text() == content


def test_a_home_that_cannot_be_written_is_named(settings: Settings) -> None:
    settings.home.write_text("a file")
    with pytest.raises(LedgerError) as caught:
        Ledger.open(settings)
    assert caught.value.what == f"the home {settings.home}"
    assert (caught.value.why, caught.value.exit_code) == ("it is no folder", 2)


def test_a_ledger_without_its_id_is_damaged(settings: Settings) -> None:
    with Ledger.open(settings) as ledger, write(ledger.engine) as connection:
        connection.execute(text("DELETE FROM rl_ledger"))
    with pytest.raises(LedgerError, match="rl_ledger"):
        Ledger.open(settings)


def test_a_fifo_in_the_place_of_the_file_keeps_nobody_waiting(settings: Settings) -> None:
    settings.home.mkdir()
    os.mkfifo(file_of(settings))
    with pytest.raises(LedgerError, match="is a FIFO, not a regular file"):
        Ledger.open(settings)


@pytest.mark.parametrize(("reason", "actor", "what"), [("a\x1bb", None, "reason"), ("a", "a\nn", "actor")])
def test_reason_and_actor_have_no_control_characters(
    settings: Settings, reason: str, actor: str | None, what: str
) -> None:
    refused = pytest.raises(LedgerError, match=f"the {what} of an adoption: it contains the control character")
    with Ledger.open_any(settings) as ledger, refused:
        adopt(ledger.engine, settings, reason, actor)
    assert adoption(settings) is None


def registry_of(settings: Settings, *statements: str) -> Settings:
    """The settings with a registry file of their own, after these statements."""
    settings.home.mkdir()
    found = settings.model_copy(update={"registry": RegistrySettings(db_path=Path("models.db"))})
    with closing(sqlite3.connect(settings.home / "models.db")) as connection, connection:
        for statement in statements:
            connection.execute(statement)
    return found


def test_an_empty_ledger_beside_a_registry_that_knows_a_model_of_a_run_is_refused(settings: Settings) -> None:
    found = registry_of(settings, "CREATE TABLE models (run_id TEXT)", "INSERT INTO models VALUES ('0a1b')")
    Ledger.open_any(found).close()
    assert "models.db" in refusal(found)


@pytest.mark.parametrize(
    "statements",
    [
        [],
        ["CREATE TABLE models (run_id TEXT)"],
        ["CREATE TABLE models (run_id TEXT)", "INSERT INTO models VALUES (NULL)"],
        ["CREATE TABLE models (id INTEGER)", "INSERT INTO models VALUES (1)"],
    ],
)
def test_models_that_somebody_added_may_lie_beside_an_empty_ledger(settings: Settings, statements: list[str]) -> None:
    found = registry_of(settings, *statements)
    for _ in range(2):
        Ledger.open(found).close()


def test_a_model_that_somebody_added_may_lie_beside_the_adopted_ledger_until_that_is_lost(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path / "home")
    Ledger.open(settings).close()
    leave(settings, ADDED)
    for _ in range(2):
        Ledger.open(settings).close()
    (settings.home / "ledger.db").unlink()
    file_of(settings).unlink()
    assert f"it is not there, and somebody added the model {settings.home / ADDED}" in refusal(settings)
    Ledger.open_any(settings).close()
    assert f"it has no runs, and somebody added the model {settings.home / ADDED}" in refusal(settings)
    with Ledger.open_any(settings) as ledger:
        adopt(ledger.engine, settings, "the old one is not needed")
    Ledger.open(settings).close()


def test_an_emptied_ledger_beside_models_that_somebody_added_is_refused(settings: Settings) -> None:
    leave(settings, ADDED)
    with Ledger.open_any(settings) as ledger:
        new_run(ledger)
        Ledger.open(settings).close()
        with write(ledger.engine) as connection:
            connection.execute(text("DELETE FROM rl_runs"))
    assert "somebody added the model" in refusal(settings)


def test_a_registry_that_cannot_be_read_may_know_one(settings: Settings) -> None:
    found = registry_of(settings)
    (found.home / "models.db").write_bytes(b"no database" * 99)
    Ledger.open_any(found).close()
    assert "models.db" in refusal(found)


def test_no_adoption_is_lost_where_many_are_made_at_once(settings: Settings) -> None:
    with Ledger.open_any(settings) as ledger:
        reasons = [f"reason {number}" for number in range(12)]
        threads = [Thread(target=adopt, args=(ledger.engine, settings, reason)) for reason in reasons]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    kept = json.loads(file_of(settings).read_text())["adopted"]
    assert sorted(entry["reason"] for entry in kept) == sorted(reasons)


def test_whoever_meets_a_ledger_second_has_the_first_ones(
    settings: Settings, new_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = settings.model_copy(update={"ledger": LedgerSettings(url=new_database())})
    look = identity.trace_of_runs

    def first(settings: Settings) -> Path | None:
        monkeypatch.setattr(identity, "trace_of_runs", look)
        Ledger.open(other).close()
        return None

    monkeypatch.setattr(identity, "trace_of_runs", first)
    Ledger.open_any(settings).close()
    assert "another ledger" in refusal(settings)
    assert [entry.reason for entry in identity._adoptions(settings)] == ["first contact"]
