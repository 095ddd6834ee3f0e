from __future__ import annotations

import time
from pathlib import Path

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.models import ModelRegistry
from tests.models.samples import CARTPOLE, ME, PENDULUM, add, evaluation, new_model

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
    old, young = add(registry, tmp_path / "old"), add(registry, tmp_path / "young", 200.0)
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
    # What is deployed, and what it stands on, is never too old; nor is the best.
    assert registry.prune(keep_top_n=1, max_age_days=50) == []
    kept = {row.id for row in registry.list()}
    assert kept == {grandparent.id, parent.id, live.id, before.id, aliased.id, protected.id, best.id}
    registry.protect(protected.id, False, **ME)
    assert [row.id for row in registry.prune(keep_top_n=None, max_age_days=1)] == [protected.id]


def test_models_that_passed_are_kept_before_those_that_did_not(registry: ModelRegistry, tmp_path: Path) -> None:
    never = add(registry, tmp_path / "never", 900.0, validate=False)
    failed = add(registry, tmp_path / "failed", 800.0)
    registry.add_evaluation(failed.id, evaluation(800.0, episodes=2))
    assert not registry.validate(failed.id).passed
    passed, worse = add(registry, tmp_path / "passed", 100.0), add(registry, tmp_path / "worse", 90.0)
    assert {row.id for row in registry.prune(keep_top_n=1, max_age_days=None)} == {never.id, failed.id, worse.id}
    assert registry.best() == passed


def test_the_best_of_a_scope_is_never_too_old(registry: ModelRegistry, tmp_path: Path) -> None:
    best, unproven = (
        add(registry, tmp_path / "best", 100.0),
        add(registry, tmp_path / "unproven", 900.0, validate=False),
    )
    for row in (best, unproven):
        age(registry, row.id, 100)
    assert [row.id for row in registry.prune(keep_top_n=None, max_age_days=10)] == [unproven.id]
    assert registry.best() == registry.get(best.id)


def test_files_are_the_same_whichever_way_leads_to_them(registry: ModelRegistry, tmp_path: Path) -> None:
    real, link = tmp_path / "disk", tmp_path / "home"
    real.mkdir()
    link.symlink_to(real)
    row = add(registry, link / "run" / "1")
    assert row.path == real / "run" / "1"
    for root in (link, real, link / "run" / ".." / "run", tmp_path / "other" / ".." / "home"):
        assert registry.held(root) == {row.path}
        assert registry.at(root) == [row]
    assert registry.register(new_model(real / "run" / "1")).id == row.id
    assert set(registry.in_use([link / "run"])) == set()
    registry.protect(row.id, True, **ME)
    assert set(registry.in_use([link / "run"])) == {link / "run"}


def test_what_is_deleted_is_released_unless_somebody_counts_on_it(registry: ModelRegistry, tmp_path: Path) -> None:
    before, live, aliased, protected, parent, free = (
        add(registry, tmp_path / name / "1") for name in ("before", "live", "aliased", "protected", "parent", "free")
    )
    child = add(registry, tmp_path / "child" / "1", parent_model_id=parent.id)
    for row in (before, live):
        registry.promote(row.id, **ME)
    registry.set_alias(aliased.id, "canary", **ME)
    registry.protect(protected.id, True, **ME)
    folders = [row.path.parent for row in (before, live, aliased, protected, parent, free)]
    assert registry.in_use(folders) == {
        folders[0]: f"model {before.id} of it is what a rollback returns to",
        folders[1]: f"model {live.id} of it is in production",
        folders[2]: f"model {aliased.id} of it has an alias",
        folders[3]: f"model {protected.id} of it is protected",
        folders[4]: f"model {parent.id} of it is the parent of model {child.id}",
    }
    for folder, row in zip(folders[:5], (before, live, aliased, protected, parent), strict=True):
        with pytest.raises(ModelError, match=f"model {row.id} "):
            registry.release({folders[5]: "it goes", folder: "it goes"})
    assert not registry.get(free.id).archived  # all or nothing
    assert registry.in_use([*folders[4:], child.path.parent]) == {}  # a parent goes with its child
    registry.release({folders[5]: "it goes", folders[4]: "with its child", child.path.parent: "with its parent"})
    assert registry.get(free.id).archived_because == "it goes"
    assert registry.get(parent.id).archived_because == "with its child"
    registry.release({folders[1]: "by force"}, force=True)
    assert registry.get(live.id).archived


def test_a_folder_that_stays_keeps_the_parents_of_all_its_models(registry: ModelRegistry, tmp_path: Path) -> None:
    parent = add(registry, tmp_path / "first" / "1")
    add(registry, tmp_path / "second" / "1", parent_model_id=parent.id)
    protected = add(registry, tmp_path / "second" / "2")
    registry.protect(protected.id, True, **ME)
    assert set(registry.in_use([tmp_path / "first", tmp_path / "second"])) == {tmp_path / "first", tmp_path / "second"}


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
    best, unproven = add(registry, root / "run" / "1", 200.0), add(registry, root / "run" / "9", 300.0, validate=False)
    add(registry, root / "run" / "2", None)
    add(registry, root / "run" / "10", 150.0)  # a score alone holds nothing
    add(registry, root / "run" / "11", 250.0, validate=False)
    protected = add(registry, root / "run" / "3", None)
    aliased = add(registry, root / "run" / "4", None)
    parent = add(registry, root / "run" / "5", None)
    child = add(registry, root / "run" / "6", None, parent_model_id=parent.id)
    archived = add(registry, root / "run" / "7")
    add(registry, tmp_path / "models-elsewhere" / "8")
    registry.protect(protected.id, True, **ME)
    registry.set_alias(aliased.id, "canary", **ME)
    registry.archive(archived.id, because="a test")
    assert registry.held(root) == {best.path, unproven.path, protected.path, aliased.path, parent.path}
    registry.archive(child.id, because="a test")
    assert registry.held(root / "run") == {best.path, unproven.path, protected.path, aliased.path}
    live = add(registry, root / "run" / "12", 50.0)
    registry.promote(live.id, **ME)
    assert live.path in registry.held(root)
    assert registry.held(tmp_path / "mod") == set()


def test_scopes_are_pruned_apart_whatever_their_rewards(registry: ModelRegistry, tmp_path: Path) -> None:
    add(registry, tmp_path / "cart", 500.0)
    add(registry, tmp_path / "pendulum", -500.0, scope=PENDULUM)
    assert registry.prune(keep_top_n=1, max_age_days=None) == []
    assert set(registry.scopes()) == {CARTPOLE, PENDULUM}
