"""What happens to models is told: validations inside runs and out of them, promotions."""

from alphaswarm_rl.models import ModelRegistry, NewModel, Scope
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from tests.cli.calling import call
from tests.models.samples import add
from tests.runtime.conftest import tiny
from tests.telemetry.conftest import RANDOM


def test_a_change_of_a_models_place_is_an_event_with_its_facts(tmp_path, records, monkeypatch):
    home = tmp_path / "home"
    with ModelRegistry.open(Settings(home=home)) as registry:
        scope = Scope("cartpole", None, None, None)
        (tmp_path / "model").mkdir()
        model = registry.register(NewModel(tmp_path / "model", "ppo", scope, 100, None, {}))
    monkeypatch.setenv("RL_LOGS_ENABLE", "1")
    answer = call("models", "protect", str(model.id), "--reason", "the paper cites it", "--who", "ann")
    assert answer.code == 0, answer.err
    (record,) = records()
    assert record["eventName"] == "model.protect"
    facts = record["attributes"]
    assert (facts["model_id"], facts["who"], facts["why"]) == (str(model.id), "ann", "the paper cites it")


def test_a_validation_and_a_prune_outside_of_runs_are_events_with_their_facts(tmp_path, records, monkeypatch):
    with ModelRegistry.open(Settings(home=tmp_path / "home")) as registry:
        worse, better = add(registry, tmp_path / "worse", 100.0), add(registry, tmp_path / "better", 200.0)
    monkeypatch.setenv("RL_LOGS_ENABLE", "1")
    assert call("models", "validate", worse.id, "--min-episodes", 11).code == 1
    assert call("models", "validate", better.id).code == 0
    assert call("models", "prune", "--keep-top-n", 1, "--who", "ann").code == 0
    failed, passed, pruned = records()
    assert [record["eventName"] for record in (failed, passed, pruned)] == [
        "model.validated",
        "model.validated",
        "model.prune",
    ]
    facts = failed["attributes"]
    assert (facts["model_id"], facts["passed"], facts["profile"]) == (str(worse.id), False, "default")
    assert "min_episodes" in str(facts["failed"])
    assert passed["attributes"]["passed"] is True
    facts = pruned["attributes"]
    assert (facts["model_id"], facts["who"], facts["to_status"]) == (str(worse.id), "ann", "archived")
    assert "1 are kept" in facts["why"]


def test_a_validation_in_a_run_is_an_event_of_the_run(tmp_path, records):
    settings = Settings(home=tmp_path / "home", logs={"enable": True}, traces={"enable": True})
    result = RLRuntime(tiny(**RANDOM), settings).train()
    validated = [record for record in records() if record["eventName"] == "model.validated"]
    assert validated
    for record in validated:
        assert record["attributes"]["run_id"] == result.run_id
        assert record["traceId"] == result.run_id.replace("-", "")
