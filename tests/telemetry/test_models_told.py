"""What happens to models is told: validations inside runs and out of them, promotions."""

from alphaswarm_rl.models import ModelRegistry, NewModel, Scope
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings
from tests.cli.calling import call
from tests.runtime.conftest import tiny
from tests.telemetry.conftest import RANDOM


def test_a_change_of_a_models_place_is_an_event_with_its_facts(tmp_path, records, monkeypatch):
    home = tmp_path / "home"
    with ModelRegistry.open(Settings(home=home)) as registry:
        scope = Scope("cartpole", None, None, None)
        model = registry.register(NewModel(tmp_path / "model", "ppo", scope, 100, None, {}))
    monkeypatch.setenv("RL_LOGS_ENABLE", "1")
    said = call("models", "protect", str(model.id), "--reason", "the paper cites it", "--who", "ann")
    assert said.code == 0, said.err
    (record,) = records()
    assert record["eventName"] == "model.protect"
    facts = record["attributes"]
    assert (facts["model_id"], facts["who"], facts["why"]) == (str(model.id), "ann", "the paper cites it")


def test_a_validation_in_a_run_is_an_event_of_the_run(tmp_path, records):
    settings = Settings(home=tmp_path / "home", logs={"enable": True}, traces={"enable": True})
    result = RLRuntime(tiny(**RANDOM), settings).train()
    validated = [record for record in records() if record["eventName"] == "model.validated"]
    assert validated
    for record in validated:
        assert record["attributes"]["run_id"] == result.run_id
        assert record["traceId"] == result.run_id.replace("-", "")
