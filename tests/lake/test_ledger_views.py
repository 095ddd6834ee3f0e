"""The ledger and the model registry in `rl sql`, on SQLite and on PostgreSQL."""

import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.lake import ledger_views
from alphaswarm_rl.lake.queries import query
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.settings import LedgerSettings, Settings
from tests.ledger.samples import SampleSpec
from tests.models.samples import add
from tests.postgres import database_url, new_database

__all__ = ["database_url", "new_database"]

SECRET = "correct-horse"


class PolicySpec(SampleSpec):
    """A spec whose agent is a policy, with a secret where none should be."""

    def as_data(self):
        policy = {"class": "policy", "kwargs": {"policy": {"class": "equal_weight", "kwargs": {}}}}
        return {**super().as_data(), "agent": policy, "password": SECRET, "source": f"s3://ann:{SECRET}@host/a"}


@pytest.fixture
def filled(database_url, tmp_path):
    """Settings of a ledger with two runs, an event and an evaluation, and of a registry with a promoted model."""
    settings = Settings(home=tmp_path / "home", ledger=LedgerSettings(url=database_url))
    with Ledger.open(settings) as ledger:
        version = ledger.persist_spec(PolicySpec())
        error = f"no answer from postgresql://ann:{SECRET}@db.example/ledger: password={SECRET}"
        run = ledger.create_run(version_id=version.id, target="train", seed=7, sharpe=1.5, error=error)
        ledger.append_event(run.id, 1, "start", run.created_at, {"note": f"http://ann:{SECRET}@host/x", "n": 1})
        judged = {"timesteps": 5, "seed": 7, "episodes": 2, "deterministic": True, "started_at": run.created_at}
        ledger.add_evaluation(run.id, phase="evaluate", mean_reward=float("nan"), **judged)
        ledger.create_run(version_id=version.id, target="evaluate", seed=8)
    with ModelRegistry.open(settings) as registry:
        model = add(registry, tmp_path / "model", 10.0)
        registry.promote(model.id, who="ann", why="because")
    return settings


def ask(settings, statement):
    return query(settings, statement, 100, lambda beginnings: beginnings).rows


def test_runs_and_versions_are_named_as_people_know_them(filled):
    found = ask(filled, "SELECT seed, agent, sharpe, target, started_at IS NOT NULL FROM runs ORDER BY seed")
    assert found == [[7, "equal_weight", 1.5, "train", True], [8, "equal_weight", None, "evaluate", True]]
    assert ask(filled, "SELECT slug, version, payload->>'$.agent.class' FROM versions") == [["cartpole", 1, "policy"]]


def test_what_runs_brought_joins_them(filled):
    joined = "FROM runs JOIN events ON run_id = runs.id"
    assert ask(filled, f"SELECT seed, seq, stage, payload->>'n' {joined}") == [[7, 1, "start", "1"]]
    evaluated = (
        "SELECT runs.seed, episodes, e.mean_reward, deterministic FROM evaluations e JOIN runs ON run_id = runs.id"
    )
    assert ask(filled, evaluated) == [[7, 2, None, True]]


def test_models_and_promotions(filled):
    promoted = "SELECT algorithm, mean_reward, who, why, to_status FROM models m JOIN promotions p ON p.model_id = m.id"
    assert ask(filled, promoted) == [["ppo", 10.0, "ann", "because", "production"]]
    assert ask(filled, "SELECT hyperparams->>'gamma', validated FROM MODELS") == [["0.99", True]]


@pytest.mark.parametrize("table", [*ledger_views.OF_THE_LEDGER, *ledger_views.OF_THE_REGISTRY])
def test_no_secret_is_shown(filled, table):
    assert ask(filled, f"FROM {table}")
    assert SECRET not in str(ask(filled, f"FROM {table}"))


def test_what_is_masked_stays_readable(filled):
    assert ask(filled, "SELECT error FROM runs WHERE error IS NOT NULL") == [
        ["no answer from postgresql://ann:***@db.example/ledger: password=***"]
    ]
    masked = ask(filled, "SELECT payload->>'password', payload->>'source', payload->>'number' FROM versions")
    assert masked == [["***", "s3://ann:***@host/a", "1"]]


def test_only_tables_that_a_statement_names_are_read(filled, monkeypatch):
    read = []
    plain = Ledger.plain_tables
    monkeypatch.setattr(Ledger, "plain_tables", lambda self, names: read.extend(names) or plain(self, names))
    monkeypatch.setattr(ModelRegistry, "plain_tables", lambda settings, names: read.extend(names) or {})
    ask(filled, "SELECT count(*) FROM rl_trajectories")
    assert read == []
    ask(filled, "SELECT count(*) FROM runs, Evaluations")
    assert read == ["runs", "evaluations"]
    with pytest.raises(DataError, match="models"):
        ask(filled, "FROM models")
    assert read[2:] == ["models"]


def test_all_are_listed(filled):
    listed = {name for (name,) in ask(filled, "SHOW TABLES")}
    assert listed >= {"runs", "versions", "evaluations", "events", "models", "promotions", "rl_trajectories"}
    assert ["agent"] in ask(filled, "SELECT column_name FROM (DESCRIBE runs)")


def test_without_a_registry_there_are_no_models_and_none_is_made(settings):
    for table in ledger_views.OF_THE_REGISTRY:
        assert ask(settings, f"SELECT count(*) FROM {table}") == [[0]]
    assert ask(settings, "SELECT count(*) FROM runs") == [[0]]
    assert not settings.registry_file.exists()
