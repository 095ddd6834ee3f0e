from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.models import ModelRegistry
from tests.models.samples import CARTPOLE, ME, PENDULUM, add

ALL = {"keep_top_n": None, "max_age_days": None}


def age(registry: ModelRegistry, model_id: int, days: float) -> None:
    with write(registry.engine) as connection:
        made = {"made": int(time.time() - days * 86_400), "id": model_id}
        connection.execute(text("UPDATE models SET timestamp = :made WHERE id = :id"), made)


def test_the_best_of_each_scope_are_kept(registry: ModelRegistry, tmp_path: Path) -> None:
    carts = [add(registry, tmp_path / f"cart{number}", 100.0 + number) for number in range(5)]
    pendulums = [add(registry, tmp_path / f"pen{number}", -100.0 - number, scope=PENDULUM) for number in range(3)]
    unevaluated = add(registry, tmp_path / "unevaluated", None)
    planned = registry.plan_prune(keep_top_n=2, max_age_days=None)
    assert {row.id for row in planned} == {*(row.id for row in carts[:3]), pendulums[2].id, unevaluated.id}
    assert all("2 are kept" in (row.archived_because or "") for row in planned)
    assert len(registry.list()) == 9  # a plan changes nothing
    gone = registry.prune(keep_top_n=2, max_age_days=None, who="ada")
    assert [(row.id, row.archived_because) for row in gone] == [(row.id, row.archived_because) for row in planned]
    assert {row.id for row in registry.list()} == {carts[3].id, carts[4].id, pendulums[0].id, pendulums[1].id}
    entry = registry.promotions(carts[0].id)[-1]
    assert (entry.action, entry.who, entry.to_status) == ("prune", "ada", "archived")
    # Nothing is left to do.
    assert registry.prune(keep_top_n=2, max_age_days=None) == []


def test_old_models_go(registry: ModelRegistry, tmp_path: Path) -> None:
    old, young = add(registry, tmp_path / "old", 200.0), add(registry, tmp_path / "young")
    age(registry, old.id, 8)
    age(registry, young.id, 6)
    (row,) = registry.prune(keep_top_n=10, max_age_days=7)
    assert row.id == old.id
    assert row.archived_because == "it is 8 days old, and 7 is the most"
    assert registry.plan_prune(**ALL) == []


def test_equal_models_are_kept_by_age(registry: ModelRegistry, tmp_path: Path) -> None:
    rows = [add(registry, tmp_path / str(number)) for number in range(3)]
    assert [row.id for row in registry.prune(keep_top_n=1, max_age_days=None)] == [rows[1].id, rows[0].id]


def test_deployed_protected_and_parents_stay(registry: ModelRegistry, tmp_path: Path) -> None:
    grandparent = add(registry, tmp_path / "grandparent", 1.0, std=0.1)
    parent = add(registry, tmp_path / "parent", 2.0, std=0.1, parent_model_id=grandparent.id)
    live = add(registry, tmp_path / "live", 3.0, std=0.1, parent_model_id=parent.id)
    before = add(registry, tmp_path / "before", 4.0, std=0.1)
    long_before = add(registry, tmp_path / "long before", 5.0, std=0.1)
    aliased = add(registry, tmp_path / "aliased", 6.0, std=0.1)
    protected = add(registry, tmp_path / "protected", 7.0, std=0.1)
    childless = add(registry, tmp_path / "childless", 8.0, std=0.1)
    child = add(registry, tmp_path / "child", 9.0, std=0.1, parent_model_id=childless.id)
    best = add(registry, tmp_path / "best", 100.0)
    for row in (long_before, before, live):
        registry.promote(row.id, **ME)
    registry.set_alias(aliased.id, "canary", **ME)
    registry.protect(protected.id, True, **ME)
    for row in registry.list():
        age(registry, row.id, 100)
    gone = {row.id for row in registry.prune(keep_top_n=1, max_age_days=200)}
    assert gone == {long_before.id, childless.id, child.id}
    # The best is too old as well; what is deployed, and what it stands on, is never too old.
    assert [row.id for row in registry.prune(keep_top_n=1, max_age_days=50)] == [best.id]
    kept = {row.id for row in registry.list()}
    assert kept == {grandparent.id, parent.id, live.id, before.id, aliased.id, protected.id}
    registry.protect(protected.id, False, **ME)
    assert [row.id for row in registry.prune(keep_top_n=1, max_age_days=None)] == []  # it is the best one left
    assert [row.id for row in registry.prune(keep_top_n=None, max_age_days=1)] == [protected.id]


def test_a_parent_goes_with_its_last_child(registry: ModelRegistry, tmp_path: Path) -> None:
    parent = add(registry, tmp_path / "parent", 1.0, std=0.1)
    child = add(registry, tmp_path / "child", 2.0, std=0.1, parent_model_id=parent.id)
    best = add(registry, tmp_path / "best", 100.0, std=0.1)
    assert {row.id for row in registry.prune(keep_top_n=2, max_age_days=None)} == set()
    assert {row.id for row in registry.prune(keep_top_n=1, max_age_days=None)} == {parent.id, child.id}
    assert [row.id for row in registry.list()] == [best.id]


def test_models_of_runs_that_still_train_are_spared(registry: ModelRegistry, tmp_path: Path) -> None:
    training = add(registry, tmp_path / "training", None, run_id="live")
    ended = add(registry, tmp_path / "ended", None, run_id="over")
    add(registry, tmp_path / "best", 100.0)
    gone = registry.prune(keep_top_n=1, max_age_days=None, spared=["live"])
    assert [row.id for row in gone] == [ended.id]
    assert not registry.get(training.id).archived


@pytest.mark.parametrize("asked", [{"keep_top_n": 0, "max_age_days": None}, {"keep_top_n": None, "max_age_days": 0}])
def test_a_limit_below_one_is_refused(alone: ModelRegistry, asked: dict[str, int]) -> None:
    with pytest.raises(ModelError, match="below 1"):
        alone.prune(**asked)


def test_the_registry_holds_files_of_models_that_count(registry: ModelRegistry, tmp_path: Path) -> None:
    root = tmp_path / "models"
    evaluated = add(registry, root / "run" / "1")
    add(registry, root / "run" / "2", None)
    protected = add(registry, root / "run" / "3", None)
    aliased = add(registry, root / "run" / "4", None)
    parent = add(registry, root / "run" / "5", None)
    child = add(registry, root / "run" / "6", None, parent_model_id=parent.id)
    archived = add(registry, root / "run" / "7")
    add(registry, tmp_path / "models-elsewhere" / "8")
    registry.protect(protected.id, True, **ME)
    registry.set_alias(aliased.id, "canary", **ME)
    registry.archive(archived.id, because="a test")
    assert registry.held(root) == {evaluated.path, protected.path, aliased.path, parent.path}
    registry.archive(child.id, because="a test")
    assert registry.held(root / "run") == {evaluated.path, protected.path, aliased.path}
    assert registry.held(tmp_path / "mod") == set()


def test_scopes_are_pruned_apart_whatever_their_rewards(registry: ModelRegistry, tmp_path: Path) -> None:
    add(registry, tmp_path / "cart", 500.0)
    add(registry, tmp_path / "pendulum", -500.0, scope=PENDULUM)
    assert registry.prune(keep_top_n=1, max_age_days=None) == []
    assert set(registry.scopes()) == {CARTPOLE, PENDULUM}
