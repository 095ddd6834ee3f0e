from __future__ import annotations

import math
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.errors import LedgerError, ModelError
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.models import ModelRegistry, NewModel, Scope, verified_sha256
from alphaswarm_rl.models.gates import Evidence, Verdict, gate, profile
from tests.models.samples import CARTPOLE, ME, PENDULUM, add, checkpoint, evaluation, new_model


def test_a_registered_model_is_staged_and_not_validated(registry: ModelRegistry, tmp_path: Path) -> None:
    given = new_model(tmp_path / "model", run_id="run", spec_hash="s", exec_hash="e", git_commit="c", tags=["a", "b"])
    row = registry.register(given)
    assert registry.get(row.id) == row
    assert (row.validated, row.deployment_status, row.protected, row.mean_reward) == (False, "staging", False, None)
    assert (row.path, row.scope, row.sha256, row.tags) == (given.model_path, CARTPOLE, given.sha256, ("a", "b"))
    assert (row.run_id, row.spec_hash, row.exec_hash, row.git_commit) == ("run", "s", "e", "c")
    assert row.hyperparams == {"gamma": 0.99}


def test_the_same_file_again_is_the_same_row(registry: ModelRegistry, tmp_path: Path) -> None:
    row = registry.register(new_model(tmp_path / "model"))
    assert registry.register(new_model(tmp_path / "model")).id == row.id
    assert len(registry.list()) == 1


def test_a_tag_has_no_control_characters(registry: ModelRegistry, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"a tag of the model: it contains the control character U\+007F"):
        registry.register(new_model(tmp_path / "model", tags=["a", "b\x7f"]))
    assert registry.list() == []


def test_the_same_file_again_gets_further_tags_and_its_parent(registry: ModelRegistry, tmp_path: Path) -> None:
    parent = registry.register(new_model(tmp_path / "parent"))
    row = registry.register(new_model(tmp_path / "model", tags=["a", "b"]))
    again = registry.register(new_model(tmp_path / "model", tags=["c", "a"], parent_model_id=parent.id))
    assert (again.id, again.tags, again.parent_model_id) == (row.id, ("a", "b", "c"), parent.id)
    assert registry.register(new_model(tmp_path / "model")) == again == registry.get(row.id)


def test_a_parent_is_an_older_model_of_the_same_scope(registry: ModelRegistry, tmp_path: Path) -> None:
    elsewhere = registry.register(new_model(tmp_path / "elsewhere", PENDULUM))
    parent = registry.register(new_model(tmp_path / "parent"))
    with pytest.raises(ModelError, match="same scope"):
        registry.register(new_model(tmp_path / "model", parent_model_id=elsewhere.id))
    row = registry.register(new_model(tmp_path / "model", parent_model_id=parent.id))
    assert row.parent_model_id == parent.id
    other = registry.register(new_model(tmp_path / "other"))
    for path, wrong in (("model", other), ("parent", row), ("parent", parent)):
        with pytest.raises(ModelError, match="its parent is"):
            registry.register(new_model(tmp_path / path, parent_model_id=wrong.id))


def test_another_file_at_the_same_place_archives_the_old_row(registry: ModelRegistry, tmp_path: Path) -> None:
    old = add(registry, tmp_path / "model")
    registry.promote(old.id, **ME)
    path = checkpoint(tmp_path / "model", "other weights")
    new = registry.register(NewModel(path, "ppo", CARTPOLE, 1000, verified_sha256(path, None), {}))
    assert new.id != old.id
    archived = registry.get(old.id)
    assert (archived.deployment_status, archived.archived_because) == ("archived", "its file was replaced")
    assert [entry.action for entry in registry.promotions(old.id)] == ["promote", "archive"]
    assert registry.at(path) == [new]
    # What came back is a row of its own: the archived one stays archived.
    assert registry.register(new_model(tmp_path / "model")).id not in (old.id, new.id)
    with pytest.raises(ModelError, match="champion"):
        registry.by_alias("champion")


@pytest.mark.usefixtures("own_gates")
def test_an_evaluation_and_what_gates_say_of_it_come_together(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    seen = []

    @gate("watching")
    def watching(evidence: Evidence) -> Verdict:
        assert evidence.newest is not None
        # Nobody sees the new evaluation while its gates are at work: the model stays the one that passed.
        seen.append((evidence.newest.mean_reward, evidence.model.mean_reward, registry.has_passed(row.id)))
        return Verdict("watching", True, "seen", None, None)

    profile("watched", "watching")
    stored = registry.validate(row.id, evaluation=evaluation(120.0), profile="watched")
    assert seen == [(120.0, 120.0, True)]
    assert stored.evaluation_id == registry.evaluations(row.id)[-1].id
    assert (registry.get(row.id).mean_reward, registry.has_passed(row.id)) == (120.0, True)
    assert [found.mean_reward for found in registry.evaluations(row.id)] == [100.0, 120.0]


def test_a_validation_that_is_tried_leaves_nothing(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    tried = registry.validate(row.id, evaluation=evaluation(None), dry_run=True)
    assert not tried.passed
    assert registry.get(row.id) == row
    assert len(registry.evaluations(row.id)) == len(registry.validations(row.id)) == 1


@pytest.mark.usefixtures("own_gates")
def test_an_evaluation_that_overtakes_is_judged_too(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model")
    seen = []

    @gate("overtaken")
    def overtaken(evidence: Evidence) -> Verdict:
        seen.append([found.mean_reward for found in evidence.evaluations])
        if len(seen) == 1:
            registry.add_evaluation(row.id, evaluation(7.0))
        return Verdict("overtaken", True, "seen", None, None)

    profile("overtaken", "overtaken")
    registry.validate(row.id, evaluation=evaluation(120.0), profile="overtaken")
    assert seen == [[100.0, 120.0], [100.0, 7.0, 120.0]]
    assert [found.mean_reward for found in registry.evaluations(row.id)] == seen[-1]


def test_an_evaluation_fills_the_row(registry: ModelRegistry, tmp_path: Path) -> None:
    row = registry.register(new_model(tmp_path / "model"))
    registry.add_evaluation(row.id, evaluation(1.0, 2.0, window_start="2019-01-01"))
    returns = [90.0, 100.0, 110.0]
    stored = registry.add_evaluation(
        row.id,
        evaluation(
            100.0, 8.16, episodes=3, returns=returns, seed=11, window_start="2020-01-01", window_end="2020-12-31",
            in_sample=False, source="validation", run_id="r", metrics={"sharpe": math.nan},
        ),
    )  # fmt: skip
    row = registry.get(row.id)
    assert (row.mean_reward, row.std_reward, row.mean_episode_length) == (100.0, 8.16, 20.0)
    assert (row.eval_episodes, row.eval_seed) == (3, 11)
    assert (row.eval_window_start, row.eval_window_end) == ("2020-01-01", "2020-12-31")
    # 100 - t(0.95, 2) * 10 / sqrt(3), with t = 2.919986
    assert row.lower_bound == pytest.approx(100 - 2.9199856 * 10 / math.sqrt(3))
    assert stored == registry.evaluations(row.id)[-1]
    assert (stored.returns, stored.metrics, stored.in_sample) == ((90.0, 100.0, 110.0), {"sharpe": None}, False)
    assert len(registry.evaluations(row.id)) == 2


def test_models_are_listed_by_lower_bound_and_those_without_by_mean(registry: ModelRegistry, tmp_path: Path) -> None:
    wide = add(registry, tmp_path / "wide", 110.0, std=50.0)
    tight = add(registry, tmp_path / "tight", 100.0, std=1.0)
    older = add(registry, tmp_path / "older", 90.0, std=1.0)
    newer = add(registry, tmp_path / "newer", 90.0, std=1.0)
    nothing = add(registry, tmp_path / "nothing", None)
    high, low, low_too = (registry.register(new_model(tmp_path / name)) for name in ("high", "low", "low too"))
    for row, mean in ((high, 500.0), (low, 400.0), (low_too, 400.0)):
        registry.add_evaluation(row.id, evaluation(mean, 0.0, episodes=1))
    expected = [tight, newer, older, wide, high, low_too, low, nothing]
    assert [row.id for row in registry.list()] == [row.id for row in expected]
    assert [row.id for row in registry.list(top_n=2)] == [tight.id, newer.id]


def test_of_equal_lower_bounds_the_newest_is_the_best_whatever_its_mean(
    registry: ModelRegistry, tmp_path: Path
) -> None:
    add(registry, tmp_path / "older", 110.0, std=0.0)
    newer = add(registry, tmp_path / "newer", 90.0, std=0.0)
    with write(registry.engine) as connection:
        connection.execute(text("UPDATE models SET lower_bound = 80"))
    best = registry.best()
    assert best is not None
    assert best.id == newer.id


def test_models_are_chosen(registry: ModelRegistry, tmp_path: Path) -> None:
    a = add(registry, tmp_path / "a", 10.0, tags=["nightly", "A"])
    b = add(registry, tmp_path / "b", 20.0, algorithm="dqn", validate=False)
    c = add(registry, tmp_path / "c", -5.0, std=1.0, scope=PENDULUM, tags=["a"])
    registry.archive(b.id, because="a test")

    def ids(**asked: Any) -> list[int]:
        return [row.id for row in registry.list(**asked)]

    assert ids() == [a.id, c.id]
    assert ids(archived=True) == [b.id, a.id, c.id]
    assert ids(validated=True) == [a.id, c.id]
    assert ids(validated=False, archived=True) == [b.id]
    assert ids(env_id="Pendulum-v1") == ids(scope=PENDULUM) == [c.id]
    assert ids(algorithm="dqn", archived=True) == [b.id]
    assert ids(tag="nightly") == ids(tag="A") == [a.id]
    assert ids(tag="a") == [c.id]  # and not A
    assert ids(tag="night") == []
    assert ids(min_mean_reward=-5.0) == [a.id, c.id]
    assert ids(min_mean_reward=0.0) == [a.id]


def test_a_model_of_a_policy_is_found_by_the_policys_name(registry: ModelRegistry, tmp_path: Path) -> None:
    def runs(policy: str) -> dict[str, Any]:
        return {"policy": {"class": policy, "kwargs": {}}}

    fixed = add(registry, tmp_path / "a", algorithm="policy", hyperparams=runs("equal_weight"))
    longer = add(registry, tmp_path / "b", algorithm="policy", hyperparams=runs("equal_weights"))
    other = add(registry, tmp_path / "c", algorithm="ppo", hyperparams=runs("equal_weight"))
    assert [row.id for row in registry.list(algorithm="equal_weight")] == [fixed.id]
    assert {row.id for row in registry.list(algorithm="policy")} == {fixed.id, longer.id}
    assert (fixed.agent, longer.agent, other.agent) == ("equal_weight", "equal_weights", "ppo")


def test_best_is_the_best_of_one_scope(registry: ModelRegistry, tmp_path: Path) -> None:
    assert registry.best() is None
    add(registry, tmp_path / "good", 100.0)
    best = add(registry, tmp_path / "better", 120.0)
    add(registry, tmp_path / "unvalidated", 500.0, validate=False)
    archived = add(registry, tmp_path / "archived", 500.0)
    registry.archive(archived.id, because="a test")
    assert registry.best() == registry.best(CARTPOLE) == best
    other = add(registry, tmp_path / "other", 1000.0, scope=PENDULUM)
    seen = Scope(CARTPOLE.env_id, CARTPOLE.env_signature, "Box(5)", CARTPOLE.action_signature)
    add(registry, tmp_path / "seen", 1000.0, scope=seen)
    with pytest.raises(ModelError, match="--scope") as caught:
        registry.best()
    assert all(scope.short in caught.value.why for scope in (CARTPOLE, PENDULUM, seen))
    with pytest.raises(ModelError, match="2 scopes"):
        registry.best(env_id="CartPole-v1")
    assert registry.best(CARTPOLE) == best
    assert registry.best(env_id="Pendulum-v1") == other
    assert registry.best(PENDULUM, algorithm="dqn") is None


def test_best_takes_the_newest_of_equals(registry: ModelRegistry, tmp_path: Path) -> None:
    rows = [add(registry, tmp_path / str(number)) for number in range(3)]
    assert registry.best() == rows[-1]


def test_a_flag_that_was_set_by_hand_is_no_validation(registry: ModelRegistry, tmp_path: Path) -> None:
    row = add(registry, tmp_path / "model", validate=False)
    with write(registry.engine) as connection:
        connection.execute(text("UPDATE models SET validated = (1 = 1)"))
    assert registry.best() is None
    assert registry.list(validated=True) == []
    with pytest.raises(ModelError, match="did not pass"):
        registry.promote(row.id, **ME)


def test_an_evaluation_that_no_gate_judged_takes_the_validation_away(registry: ModelRegistry, tmp_path: Path) -> None:
    first, second = add(registry, tmp_path / "first", 100.0), add(registry, tmp_path / "second", 90.0)
    registry.add_evaluation(second.id, evaluation(1e6))  # and the process is killed here
    assert not registry.get(second.id).validated
    assert registry.best() == first
    with pytest.raises(ModelError, match="newest evaluation"):
        registry.promote(second.id, **ME)
    # A flag that is set by hand does not help: the newest validation saw another evaluation.
    with write(registry.engine) as connection:
        connection.execute(text("UPDATE models SET validated = (1 = 1)"))
    assert registry.best() == first
    assert not registry.has_passed(second.id)
    assert registry.validate(second.id).evaluation_id == registry.evaluations(second.id)[-1].id
    assert registry.best() == registry.get(second.id)
    assert registry.has_passed(second.id)


def test_models_are_found_by_checksum(registry: ModelRegistry, tmp_path: Path) -> None:
    first = registry.register(new_model(tmp_path / "x" / "same"))
    assert first.sha256 is not None
    assert registry.find(sha256=first.sha256) == first
    second = registry.register(new_model(tmp_path / "y" / "same"))
    assert registry.find(sha256=first.sha256) == second
    registry.archive(second.id, because="a test")
    registry.archive(second.id, because="another")  # it stays as it is
    assert registry.get(second.id).archived_because == "a test"
    assert registry.find(sha256=first.sha256) == first
    assert registry.find(sha256="0" * 64) is None


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"algorithm": " "}, "algorithm"),
        ({"scope": Scope("")}, "environment"),
        ({"sha256": "abc"}, "SHA-256"),
        ({"total_timesteps": -1}, "-1 transitions"),
        ({"tags": ["a,b"]}, "tag"),
        ({"tags": [""]}, "tag"),
        ({"tags": ['say "x"']}, "tag"),
        ({"parent_model_id": 99}, "no such model"),
    ],
)
def test_bad_models_are_refused(alone: ModelRegistry, tmp_path: Path, wrong: dict[str, Any], why: str) -> None:
    given = {**vars(new_model(tmp_path / "model")), **wrong}
    with pytest.raises(ModelError, match=why):
        alone.register(NewModel(**given))
    assert alone.list() == []


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"episodes": 0}, "0 episodes"),
        ({"returns": [1.0]}, "1 returns"),
        ({"std": -1.0}, "std_reward is -1"),
        ({"mean_episode_length": -1.0}, "mean_episode_length"),
        ({"source": "hearsay"}, "hearsay"),
    ],
)
def test_bad_evaluations_are_refused(alone: ModelRegistry, tmp_path: Path, wrong: dict[str, Any], why: str) -> None:
    row = alone.register(new_model(tmp_path / "model"))
    with pytest.raises(ModelError, match=why):
        alone.add_evaluation(row.id, evaluation(**wrong))
    assert alone.evaluations(row.id) == []


def test_an_unknown_id_is_an_error_everywhere(alone: ModelRegistry, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="none yet"):
        alone.get(1)
    known = add(alone, tmp_path / "model")
    for attempt in (
        lambda: alone.get(99),
        lambda: alone.add_evaluation(99, evaluation()),
        lambda: alone.validate(99),
        lambda: alone.evaluations(99),
        lambda: alone.validations(99),
        lambda: alone.promotions(99),
        lambda: alone.promote(99, **ME),
        lambda: alone.protect(99, True, **ME),
        lambda: alone.set_alias(99, "canary", **ME),
        lambda: alone.archive(99, because="x"),
    ):
        with pytest.raises(ModelError, match="no such model") as caught:
            attempt()
        assert str(known.id) in caught.value.remedy


def test_a_full_disk_is_an_error_and_loses_nothing(alone: ModelRegistry, tmp_path: Path, settings: Any) -> None:
    row = add(alone, tmp_path / "model")
    alone.close()
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from alphaswarm_rl.models import ModelRegistry\n"
        "from alphaswarm_rl.settings import Settings\n"
        "from tests.models.samples import evaluation\n"
        f"registry = ModelRegistry.open(Settings(home=Path({str(settings.home)!r})))\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 17, resource.RLIM_INFINITY))\n"
        f"while True: registry.add_evaluation({row.id}, evaluation(metrics={{'notes': 'x' * 20000}}))\n"
    )
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=root)
    assert done.returncode == 1
    assert LedgerError.__name__ in done.stderr.splitlines()[-1]
    assert alone.get(row.id).mean_reward == 100.0
    stored = alone.evaluations(row.id)
    assert [len(item.metrics.get("notes", "")) for item in stored[1:]] == [20000] * (len(stored) - 1)
    alone.add_evaluation(row.id, evaluation())
