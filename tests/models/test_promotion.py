from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.models import ModelRegistry, NewModel, Scope
from tests.models.samples import CARTPOLE, ME, PENDULUM, add, checkpoint, evaluation


def places(registry: ModelRegistry, *rows: Any) -> list[str]:
    return [registry.get(row.id).deployment_status for row in rows]


def tamper(row: Any) -> None:
    (row.path / "state.safetensors").write_text("tampered")


def test_promotion_replaces_the_model_in_production(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    elsewhere = add(registry, tmp_path / "elsewhere", scope=PENDULUM)
    registry.promote(elsewhere.id, **ME)
    entry = registry.promote(a.id, who="ada", why="the first")
    assert (entry.who, entry.why, entry.from_status, entry.to_status) == ("ada", "the first", "staging", "production")
    assert (entry.alias, entry.action, entry.model_id) == ("champion", "promote", a.id)
    assert registry.by_alias("champion", CARTPOLE).id == a.id
    registry.promote(b.id, who="bob", why="better")
    assert places(registry, a, b, elsewhere) == ["staging", "production", "production"]
    assert registry.by_alias("champion", CARTPOLE).id == b.id
    log = registry.promotions(a.id)
    assert [(item.action, item.from_status, item.to_status, item.who) for item in log] == [
        ("promote", "staging", "production", "ada"),
        ("step_down", "production", "staging", "bob"),
    ]
    assert f"model {b.id}" in log[1].why
    assert log[0].at <= log[1].at


def test_production_needs_a_validation_that_passed(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "never", validate=False)
    with pytest.raises(ModelError, match="rl models validate"):
        registry.promote(row.id, **ME)
    failed = add(registry, tmp_path / "failed")
    registry.add_evaluation(failed.id, evaluation(episodes=1))
    registry.validate(failed.id)
    with pytest.raises(ModelError, match="did not pass"):
        registry.promote(failed.id, **ME)
    assert registry.promotions(failed.id) == []


def test_a_tampered_or_missing_file_is_refused_on_promotion(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    tamper(row)
    with pytest.raises(ModelError, match="changed"):
        registry.promote(row.id, **ME)
    (row.path / "checkpoint.json").unlink()
    with pytest.raises(ModelError, match="not there"):
        registry.promote(row.id, **ME)
    assert places(registry, row) == ["staging"]
    assert registry.promotions(row.id) == []


def test_a_model_without_checksum_is_refused(alone: ModelRegistry, tmp_path: Path) -> None:
    path = checkpoint(tmp_path / "model")
    row = alone.register(NewModel(path, "ppo", CARTPOLE, 1, None, {}))
    with pytest.raises(ModelError, match="no checksum"):
        alone.promote(row.id, **ME)


def test_rollback_goes_back_step_by_step(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b, c = (add(registry, tmp_path / name) for name in "abc")
    for row in (a, b, c):
        registry.promote(row.id, **ME)
    entry = registry.rollback(CARTPOLE, who="ada", why="c is wrong")
    assert (entry.model_id, entry.action, entry.who, entry.why) == (b.id, "rollback", "ada", "c is wrong")
    assert (entry.from_status, entry.to_status, entry.alias) == ("staging", "production", "champion")
    assert places(registry, a, b, c) == ["staging", "production", "staging"]
    assert registry.by_alias("champion").id == b.id
    registry.rollback("champion", **ME)
    assert places(registry, a, b, c) == ["production", "staging", "staging"]
    with pytest.raises(ModelError, match="none before it"):
        registry.rollback("champion", **ME)
    # What was taken back is not gone back to.
    registry.promote(c.id, **ME)
    assert registry.rollback(CARTPOLE, **ME).model_id == a.id


def test_a_tampered_file_is_refused_on_rollback(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    registry.promote(a.id, **ME)
    registry.promote(b.id, **ME)
    tamper(a)
    with pytest.raises(ModelError, match="changed"):
        registry.rollback(CARTPOLE, **ME)
    assert places(registry, a, b) == ["staging", "production"]
    assert registry.by_alias("champion").id == b.id


def test_rollback_to_a_model_that_fails_its_gates_is_refused(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    registry.promote(a.id, **ME)
    registry.promote(b.id, **ME)
    registry.add_evaluation(a.id, evaluation(episodes=1))
    registry.validate(a.id)
    with pytest.raises(ModelError, match="did not pass"):
        registry.rollback(CARTPOLE, **ME)
    assert places(registry, a, b) == ["staging", "production"]


def test_rollback_passes_over_a_model_that_left_by_itself(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b, c = (add(registry, tmp_path / name) for name in "abc")
    registry.promote(a.id, **ME)
    registry.promote(b.id, **ME)
    registry.promote(b.id, to="archived", **ME)
    with pytest.raises(ModelError, match="no model of it is in production"):
        registry.rollback(CARTPOLE, **ME)
    registry.promote(c.id, **ME)
    assert registry.rollback(CARTPOLE, **ME).model_id == a.id


def test_rollback_passes_over_archived_models(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b, c = (add(registry, tmp_path / name) for name in "abc")
    for row in (a, b, c):
        registry.promote(row.id, **ME)
    registry.archive(b.id, because="it was wrong")
    assert registry.rollback(CARTPOLE, **ME).model_id == a.id
    assert places(registry, a, b, c) == ["production", "archived", "staging"]
    registry.promote(c.id, **ME)
    registry.archive(a.id, because="it was wrong too")
    with pytest.raises(ModelError, match=f"model {a.id} before it is archived: it was wrong too"):
        registry.rollback(CARTPOLE, **ME)
    assert places(registry, a, b, c) == ["archived", "archived", "production"]


def test_rollback_never_returns_to_the_model_in_production(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    for row in (a, b, a):
        registry.promote(row.id, **ME)
    registry.archive(b.id, because="it was wrong")
    with pytest.raises(ModelError, match=f"model {b.id} before it is archived"):
        registry.rollback(CARTPOLE, **ME)


def test_rollback_of_an_unknown_place(registry: ModelRegistry, tmp_path: Path) -> None:
    for scope in (CARTPOLE, PENDULUM):
        registry.promote(add(registry, tmp_path / scope.env_id, scope=scope).id, **ME)
    with pytest.raises(ModelError, match="Did you mean 'champion'"):
        registry.rollback("champignon", **ME)
    with pytest.raises(ModelError, match="several scopes"):
        registry.rollback("champion", **ME)
    with pytest.raises(ModelError, match="no model of it is in production"):
        registry.rollback(Scope("Acrobot-v1"), **ME)


def test_aliases_name_one_model_of_a_scope(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    other = add(registry, tmp_path / "other", scope=PENDULUM)
    entry = registry.set_alias(a.id, "canary", **ME)
    assert (entry.action, entry.alias, entry.from_status, entry.to_status) == ("alias", "canary", "staging", "staging")
    registry.set_alias(other.id, "canary", **ME)
    registry.set_alias(b.id, "canary", **ME)
    assert registry.by_alias("canary", CARTPOLE).id == b.id
    assert registry.by_alias("canary", PENDULUM).id == other.id
    assert registry.aliases(a.id) == []
    with pytest.raises(ModelError, match="several scopes") as caught:
        registry.by_alias("canary")
    assert CARTPOLE.short in caught.value.why
    with pytest.raises(ModelError, match="no model has it"):
        registry.by_alias("champion")


def test_champion_is_the_model_in_production(registry: ModelRegistry, tmp_path: Path) -> None:
    a, b = add(registry, tmp_path / "a"), add(registry, tmp_path / "b")
    with pytest.raises(ModelError, match="rl models promote"):
        registry.set_alias(a.id, "champion", **ME)
    with pytest.raises(ModelError, match="rl models promote"):
        registry.promote(a.id, to="staging", alias="champion", **ME)
    registry.promote(a.id, **ME)
    # Another alias comes in addition.
    entry = registry.promote(b.id, alias="candidate", **ME)
    assert (entry.action, entry.alias) == ("promote", "champion")
    assert registry.aliases(a.id) == []
    assert registry.aliases(b.id) == ["candidate", "champion"]
    assert [(item.action, item.alias) for item in registry.promotions(b.id)] == [
        ("promote", "champion"),
        ("alias", "candidate"),
    ]
    # Both go back.
    registry.rollback(CARTPOLE, **ME)
    assert registry.aliases(a.id) == ["candidate", "champion"]
    assert registry.aliases(b.id) == []
    registry.promote(a.id, to="staging", **ME)
    assert registry.aliases(a.id) == ["candidate"]


@pytest.mark.parametrize("alias", ["", "Champion", "a b", "abcdef012345", "cafe", "1st", "x" * 61])
def test_a_bad_alias_is_refused(alone: ModelRegistry, tmp_path: Path, alias: str) -> None:
    row = add(alone, tmp_path / "model")
    with pytest.raises(ModelError, match="alias"):
        alone.set_alias(row.id, alias, **ME)


def test_archiving_and_bringing_back(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    registry.promote(row.id, **ME)
    registry.promote(row.id, to="archived", who="ada", why="out of date")
    assert registry.get(row.id).archived_because == "out of date"
    assert registry.aliases(row.id) == []
    registry.protect(row.id, True, **ME)
    assert registry.get(row.id).archived_because == "out of date"
    with pytest.raises(ModelError, match="archived already"):
        registry.promote(row.id, to="archived", **ME)
    with pytest.raises(ModelError, match="archived"):
        registry.set_alias(row.id, "canary", **ME)
    registry.promote(row.id, to="staging", **ME)
    assert (registry.get(row.id).deployment_status, registry.get(row.id).archived_because) == ("staging", None)
    with pytest.raises(ModelError, match="--off"):
        registry.promote(row.id, to="archived", **ME)
    registry.protect(row.id, False, **ME)
    registry.promote(row.id, to="archived", **ME)
    tamper(row)
    with pytest.raises(ModelError, match="changed"):
        registry.promote(row.id, to="staging", **ME)
    actions = [entry.action for entry in registry.promotions(row.id)]
    assert actions == ["promote", "promote", "protect", "promote", "unprotect", "promote"]


@pytest.mark.parametrize("unsaid", [{"who": " "}, {"why": ""}])
def test_who_and_why_must_be_said(alone: ModelRegistry, tmp_path: Path, unsaid: dict[str, str]) -> None:
    row = add(alone, tmp_path / "model")
    alone.promote(row.id, **ME)
    words = {**ME, **unsaid}
    for attempt in (
        lambda: alone.promote(row.id, to="staging", **words),
        lambda: alone.rollback(CARTPOLE, **words),
        lambda: alone.protect(row.id, True, **words),
        lambda: alone.set_alias(row.id, "canary", **words),
    ):
        with pytest.raises(ModelError, match="empty"):
            attempt()
    assert len(alone.promotions(row.id)) == 1


@pytest.mark.parametrize("hostile", [{"who": "me\x1b[2J"}, {"why": "good\nbad"}])
def test_who_and_why_have_no_control_characters(alone: ModelRegistry, tmp_path: Path, hostile: dict[str, str]) -> None:
    row = add(alone, tmp_path / "model")
    with pytest.raises(ModelError, match=f"the {'who' if 'who' in hostile else 'reason'} of a promotion.*control"):
        alone.promote(row.id, **{**ME, **hostile})
    with pytest.raises(ModelError, match=r"the alias.*control"):
        alone.set_alias(row.id, "cana\x9bry", **ME)
    assert alone.promotions(row.id) == []


def test_a_wrong_place_is_refused(alone: ModelRegistry, tmp_path: Path) -> None:
    row = add(alone, tmp_path / "model")
    with pytest.raises(ModelError, match="staging, production, archived"):
        alone.promote(row.id, to="heaven", **ME)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="in staging already"):
        alone.promote(row.id, to="staging", **ME)
