"""What is a trial, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from alphaswarm_rl.core.types import JsonObject
from alphaswarm_rl.ledger import FamilyCount, Ledger
from alphaswarm_rl.ledger.trials import count_trials, trial_of
from alphaswarm_rl.spec import RLExperimentSpec


def spec(**changes: Any) -> RLExperimentSpec:
    document: JsonObject = {
        "name": "Tried",
        "data_pipeline": {"class": "synthetic"},
        "env": {"class": "stock_portfolio"},
        "agent": {"class": "ppo", "kwargs": {"gamma": 0.9}},
        "training": {"total_timesteps": 1000, "start": "2010-01-01", "end": "2015-01-01"},
        "evaluation": {"start": "2016-01-01"},
    }
    for path, value in changes.items():
        section, _, name = path.partition("__")
        document[section] = {**document.get(section, {}), name: value} if name else value
    return RLExperimentSpec.from_data(document)


def trial(**changes: Any) -> str | None:
    found = spec(**changes)
    return trial_of(found.spec_hash, found.as_data())


@pytest.mark.parametrize(
    "changes",
    [
        {"training__seed": 5},
        {"training__start": "2011-01-01", "training__end": "2016-01-01", "evaluation__start": "2016-06-01"},
        {"training__validation_start": "2015-01-01", "training__validation_end": "2016-01-01"},
        {"evaluation__end": "2020-01-01"},
        {"name": "Another name", "description": "Words.", "annotations": ["a note"]},
        {"training__log_interval": 3, "mlflow": {"experiment": "mine"}},
    ],
    ids=["seed", "fold", "validation", "longer test", "words", "reporting"],
)
def test_it_is_the_same_trial_with(changes: JsonObject) -> None:
    assert spec(**changes).spec_hash != spec().spec_hash
    assert trial(**changes) == trial()


@pytest.mark.parametrize(
    "changes",
    [
        {"agent": {"class": "ppo", "kwargs": {"gamma": 0.95}}},
        {"agent": {"class": "a2c"}},
        {"reward": {"class": "log_return"}},
        {"training__total_timesteps": 2000},
        {"obs": {"normalize": "running"}},
        {"universe": {"symbols": ["AAPL"]}},
        {"data_pipeline": {"class": "synthetic", "kwargs": {"seed": 9}}},
        {"training__init_from": {"sha256": "a" * 64}},
    ],
    ids=["parameter", "agent", "reward", "longer", "normalised", "universe", "data", "initial weights"],
)
def test_it_is_another_trial_with(changes: JsonObject) -> None:
    assert trial(**changes) != trial()


def test_which_weights_it_began_with_does_not_matter() -> None:
    first, second = (trial(training__init_from={"sha256": digit * 64}) for digit in "ab")
    assert first == second


def test_a_baseline_is_no_trial() -> None:
    assert trial(agent={"class": "equal_weight"}) is None
    assert trial(agent={"class": "policy", "kwargs": {"policy": {"class": "equal_weight"}}}) is None


def test_fields_that_came_later_make_no_trial_of_an_old_version() -> None:
    new = spec()
    old = new.as_data()
    del old["training"]["init_from"]
    assert trial_of("0" * 64, old) == trial_of(new.spec_hash, new.as_data())


def test_a_version_that_cannot_be_read_is_one_of_its_own() -> None:
    unknown = {**spec().as_data(), "agent": {"class": "of_a_plugin_that_is_gone", "kwargs": {}}}
    assert trial_of("1" * 64, unknown) == "1" * 64
    assert count_trials([("1" * 64, unknown), ("2" * 64, unknown), ("1" * 64, unknown)]) == 2


def test_a_ledger_counts_trials(ledger: Ledger) -> None:
    def run(target: str = "train", parent: str | None = None, **changes: Any) -> str:
        found = spec(**changes)
        version = ledger.persist_spec(found)
        seed = changes.get("training__seed", 0)
        return ledger.create_run(version_id=version.id, target=target, seed=seed, parent_run_id=parent).id

    assert ledger.count_family("tried") == FamilyCount("tried", runs=0, specs=0, trials=0)
    first = run()
    run()  # again
    run(training__seed=1)
    run(training__start="2011-01-01", parent=first)
    run(agent={"class": "equal_weight"})
    run("replay", first, evaluation__start="2017-01-01")
    run("evaluate", first, reward={"class": "log_return"})
    assert ledger.count_family("tried").trials == 1
    second = run(agent={"class": "ppo", "kwargs": {"gamma": 0.95}})
    ledger.finish_run(second, "failed")
    ledger.mark_removed(second)
    found = ledger.count_family("tried")
    assert (found.runs, found.trials) == (6, 2)
