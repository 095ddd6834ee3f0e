"""Operations that look at runs, specs, models and the lake: what they give, and what they refuse."""

import threading
from datetime import timedelta

import pytest

from alphaswarm_rl.core.errors import DataError, ModelError, OptionError, RunError, TrackingError
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.operations.components import ListComponents, list_components
from alphaswarm_rl.operations.db import database_status, upgrade_database
from alphaswarm_rl.operations.lake import SweepFiles, commit_segments, compact_files, sweep_files, verify_tables
from alphaswarm_rl.operations.model_lifecycle import (
    PromoteModel,
    RollBack,
    ValidateModel,
    promote_model,
    roll_back,
    validate_model,
)
from alphaswarm_rl.operations.models import FindBest, ListModels, best_model, list_models
from alphaswarm_rl.operations.operation import NamedRuns
from alphaswarm_rl.operations.run_steps import EquityQuery, equity
from alphaswarm_rl.operations.runs import ExportRun, ListRuns, RunEvents, export_run, list_runs, run_events
from alphaswarm_rl.operations.specs import ValidateSpecs, validate_specs
from alphaswarm_rl.operations.sql import Query, run_query
from alphaswarm_rl.operations.store import SyncStore, store_status, sync_store
from tests.lake.rows import RUN, spool
from tests.ledger.samples import SampleSpec
from tests.models.samples import PENDULUM, add


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        yield ledger


@pytest.fixture
def run(ledger):
    """A live run of this process."""
    version = ledger.persist_spec(SampleSpec())
    return ledger.create_run(version_id=version.id, target="train", seed=1, id=RUN)


def test_events_are_followed_until_the_run_ends(settings, ledger, run):
    ledger.append_event(RUN, 1, "start", utc_now(), {})
    found = run_events(settings, RunEvents(RUN, follow=True))
    assert next(found).seq == 1

    def end():
        ledger.append_event(RUN, 2, "done", utc_now(), {})
        ledger.finish_run(RUN, "completed")

    threading.Timer(0.1, end).start()
    assert [event.stage for event in found] == ["done"]
    assert [event.seq for event in run_events(settings, RunEvents("latest", after=1))] == [2]


def test_events_of_an_unknown_run_are_refused_at_once(settings, ledger):
    with pytest.raises(RunError):
        run_events(settings, RunEvents("abcdef"))


def test_an_export_overwrites_nothing(settings, run, tmp_path):
    folder = tmp_path / "out"
    done = export_run(settings, ExportRun(RUN, folder))
    assert sorted(path.name for path in folder.iterdir()) == sorted(done.files)
    with pytest.raises(OptionError, match="it is not empty"):
        export_run(settings, ExportRun(RUN, folder))


def test_runs_are_listed_by_what_is_asked_for(settings, run):
    assert [row.id for row in list_runs(settings, ListRuns(target="train")).runs] == [RUN]
    assert list_runs(settings, ListRuns(target="evaluate")).runs == ()


def test_segments_of_unknown_runs_and_other_stores_stay(settings, ledger, run):
    unknown = RUN.replace("1", "9")
    with Lake(settings) as lake:
        spool(lake)
        spool(lake, unknown)
    ledger.update_run(RUN, recording={"store": "parquet"})
    done = commit_segments(settings, NamedRuns())
    assert (done.segments, done.runs) == (0, ())
    assert any(f"run {unknown}: the ledger has no such run" in problem for problem in done.problems)
    problem = f"run {RUN}: its steps belong to the parquet store"
    assert f"{problem}; it cannot go on; remove it: rl runs rm {RUN}" in done.problems
    ledger.update_run(RUN, checkpoint="somewhere")
    assert f"{problem}; go on with it: rl resume {RUN}" in commit_segments(settings, NamedRuns()).problems
    ledger.update_run(RUN, recording={"store": "iceberg"})
    assert commit_segments(settings, NamedRuns((RUN,))).segments == len(KINDS)
    steps = equity(settings, EquityQuery("latest", limit=2))
    assert (len(steps.rows), steps.more, steps.why_empty) == (2, True, None)
    assert equity(settings, EquityQuery("latest", limit=3)).more is False
    assert "episode 7" in equity(settings, EquityQuery("latest", episode=7)).why_empty


def test_only_completed_runs_are_compacted(settings, ledger, run):
    with pytest.raises(RunError, match="Compact it once it is completed"):
        compact_files(settings, NamedRuns((RUN,)))
    ledger.finish_run(RUN, "completed")
    assert compact_files(settings, NamedRuns((RUN,))).runs == {}
    assert verify_tables(settings, NamedRuns()).ok


def test_young_files_are_not_swept(settings):
    with pytest.raises(OptionError, match="on their way into a table"):
        sweep_files(settings, SweepFiles(timedelta(minutes=1)))


@pytest.mark.parametrize(
    "statement", ["DROP VIEW rl_trajectories", "SELECT 1; SELECT 2", "EXPLAIN ANALYZE SET threads = 1"]
)
def test_sql_only_reads(settings, statement):
    with pytest.raises(DataError, match="Give one SELECT"):
        run_query(settings, Query(statement))


def test_sql_says_when_there_is_more(settings):
    result = run_query(settings, Query("FROM range(3) t(n)", limit=2))
    assert (result.columns, result.rows, result.more) == (["n"], [[0], [1]], True)
    assert run_query(settings, Query("FROM range(2) t(n)", limit=2)).more is False


def test_a_store_moves_named_runs_alone(settings, run):
    with pytest.raises(OptionError, match="none is named"):
        sync_store(settings, SyncStore(to="http://elsewhere"))
    with pytest.raises(TrackingError, match="it was not tracked here"):
        store_status(settings, NamedRuns((RUN,)))
    assert store_status(settings, NamedRuns()).tracked is False


def test_specs_without_a_file_do_not_pass(tmp_path):
    def settings():
        raise AssertionError("no settings are needed")

    assert not validate_specs(settings, ValidateSpecs((str(tmp_path),))).passed
    (tmp_path / "bad.yaml").write_text("name: x\nagnet: {class: random}\n")
    checked = validate_specs(settings, ValidateSpecs((str(tmp_path), "cartpole_ppo")))
    assert (checked.broken, checked.passed) == (1, False)


def test_a_look_at_a_database_makes_none(settings):
    found = database_status(settings)
    assert (found.state, found.usable) == ("empty", True)
    assert not settings.home.exists()
    done = upgrade_database(settings)
    assert (done.before, done.revision) == (None, found.head)
    assert database_status(settings).state == "current"


def test_components_of_one_kind_in_any_spelling(settings):
    kinds = {row.rl_kind for row in list_components(settings, ListComponents("rl_env", mirrored=False)).components}
    assert kinds == {"env"}


def test_models_of_a_registry_that_is_not_there(settings):
    assert list_models(settings, ListModels()).missing == settings.registry_file
    with pytest.raises(ModelError):
        best_model(settings, FindBest())
    assert not settings.registry_file.exists()


def test_a_rollback_needs_one_scope_with_a_live_model(settings, tmp_path, monkeypatch):
    monkeypatch.setattr("getpass.getuser", lambda: "somebody")
    with ModelRegistry.open(settings) as registry:
        first, second = (add(registry, tmp_path / str(number), 100.0 + number) for number in range(2))
        other = add(registry, tmp_path / "other", scope=PENDULUM)
    with pytest.raises(ModelError, match="no model is in production"):
        roll_back(settings, RollBack("why"))
    for model in (first, second):
        assert promote_model(settings, PromoteModel(model.id, "why")).who == "somebody"
    back = roll_back(settings, RollBack("why", who="me"))
    assert (back.model_id, back.who) == (first.id, "me")
    promote_model(settings, PromoteModel(other.id, "why"))
    with pytest.raises(ModelError, match="2 scopes have one"):
        roll_back(settings, RollBack("why"))


def test_an_archived_model_is_not_judged(settings, tmp_path):
    with ModelRegistry.open(settings) as registry:
        model = add(registry, tmp_path / "model")
        assert len(registry.validations(model.id)) == 1
        validate_model(settings, ValidateModel(model.id, dry_run=True))
        assert len(registry.validations(model.id)) == 1
        assert validate_model(settings, ValidateModel(model.id)).passed
        assert len(registry.validations(model.id)) == 2
    promote_model(settings, PromoteModel(model.id, "why", to="archived"))
    with pytest.raises(ModelError, match="it is archived"):
        validate_model(settings, ValidateModel(model.id))
