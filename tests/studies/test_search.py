"""Searching: trials are ordinary runs, drawn alike whoever draws them, pruned truthfully, counted."""

import errno
import sqlite3
import subprocess
import sys

import pytest
from optuna.exceptions import StorageInternalError
from sqlalchemy import event
from sqlalchemy.exc import IntegrityError, OperationalError

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.core.errors import DiskError, MissingExtra, OptionError, RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime, RunFailed
from alphaswarm_rl.settings import Settings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies.tuning import Plan, TuningDocument, first_draw, tune, write_best
from alphaswarm_rl.studies.tuning.study import open_study
from tests.studies.documents import POLICIES, TRADING, base, document

#: Four validations, of which the last comes with the end.
SHORT_POLICY = base(agent={"class": "random"}, training={"total_timesteps": 4096, "n_envs": 8, "eval_freq": 1024})


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened


def params(report):
    return [row.params for row in report.trials if row.state != "interrupted"]


def test_a_trial_is_an_ordinary_run_whose_row_names_study_and_trial(settings, ledger):
    report = tune(document(name="rates"), settings, trials=1)
    (trial,) = report.trials
    run = ledger.run(trial.run_id)
    rate = trial.params["agent.kwargs.learning_rate"]
    assert (run.status, run.target, run.family, run.seed) == ("completed", "train", "tuned", 3)
    assert run.name == "rates trial 0"
    assert run.overrides == {"agent.kwargs.learning_rate": {"value": rate, "source": "study rates trial 0"}}
    assert ledger.version(run.version_id).payload["agent"]["kwargs"]["learning_rate"] == rate
    assert run.checkpoint is not None
    last = [row for row in ledger.evaluations(run.id) if row.phase == "validation"][-1]
    assert trial.value == last.mean_reward
    assert report.evaluation == run.mean_reward  # the evaluation, which chose nothing


def test_trials_with_equal_parameters_have_equal_hashes(settings, ledger):
    space = {"training.n_envs": {"type": "categorical", "choices": [2, 4]}}
    report = tune(document(space, name="few", trials=3), settings)
    runs = [ledger.run(row.run_id) for row in report.trials]
    for first, one in zip(report.trials, runs, strict=True):
        for second, other in zip(report.trials, runs, strict=True):
            equal = first.params == second.params
            assert (one.exec_hash == other.exec_hash, one.version_id == other.version_id) == (equal, equal)
    assert ledger.count_family("tuned").specs == len({str(row.params) for row in report.trials}) == 2


def test_one_seed_gives_one_sequence_and_another_another(settings, tmp_path):
    first = tune(document(trials=3, startup_trials=2), settings)
    again = tune(document(trials=3, startup_trials=2), Settings(home=tmp_path / "again"))
    other = tune(document(trials=1, startup_trials=2, seed=1), Settings(home=tmp_path / "other"))
    assert params(first) == params(again)
    assert [row.value for row in first.trials] == [row.value for row in again.trials]
    assert params(first)[0] == first_draw(first.plan)
    assert not any(rate in params(other) for rate in params(first))


def test_a_study_goes_on_to_the_documents_number_and_takes_more(settings, ledger):
    whole = tune(document(trials=1), settings)
    assert tune(document(trials=1), settings).trials == whole.trials
    longer = tune(document(trials=2), settings)
    assert longer.trials[:1] == whole.trials
    more = tune(document(trials=2), settings, trials=1)
    assert [row.number for row in more.trials] == [0, 1, 2]
    assert ledger.count_family("tuned").runs == 3


def test_a_trial_that_was_left_running_is_marked_and_drawn_again(settings):
    plan = Plan.of(TuningDocument.from_data(document(trials=2)))
    with open_study(plan, settings) as study:
        left = study.values_of(study.ask())
    report = tune(plan, settings)
    assert [row.state for row in report.trials] == ["interrupted", "completed", "completed"]
    assert report.trials[0].params == left == report.trials[1].params


def test_a_second_process_is_refused_and_other_studies_are_not(settings):
    plan = Plan.of(TuningDocument.from_data(document(trials=1)))
    with open_study(plan, settings):
        with pytest.raises(RunError, match="another process works on it"):
            tune(plan, settings)
        assert len(tune(document(trials=1, name="other"), settings).trials) == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        (document({"agent.kwargs.gamma": {"type": "float", "low": 0.9, "high": 0.99}}), "space"),
        (document(spec=base(training={"seed": 4})), "base"),
        (document(seed=1), "seed"),
        (document(metric="validation.mean_length"), "metric"),
        (document(pruning=False), "pruning"),
    ],
)
def test_a_study_that_has_begun_stays_what_it_is(settings, changed, named):
    with open_study(Plan.of(TuningDocument.from_data(document())), settings):
        pass
    with pytest.raises(RunError, match=f"begun with other values of {named}"):
        tune(changed, settings)


def test_a_study_whose_components_changed_is_another(settings, monkeypatch):
    plan = Plan.of(TuningDocument.from_data(document()))
    with open_study(plan, settings):
        pass
    monkeypatch.setattr(plan.base.agent.resolved[0], "rl_version", 99)
    with pytest.raises(RunError, match="begun with other values of components"):
        tune(document(), settings)


def test_a_worse_trial_is_pruned_and_its_run_says_so_and_can_go_on(settings, ledger):
    report = tune(document(POLICIES, SHORT_POLICY, trials=6, startup_trials=1), settings)
    pruned = [row for row in report.trials if row.state == "pruned"]
    assert pruned
    for row in pruned:
        assert row.params["agent"] == {"class": "constant"}
        run = ledger.run(row.run_id)
        assert run.status == "halted"
        assert run.halt_reason.startswith("pruned: validation.mean_reward")
        assert run.timesteps < 4096
        assert run.checkpoint is not None
        assert [event.stage for event in ledger.events(run.id)][-1] == "halted"
    assert report.best.params["agent"] == {"class": "random"}
    assert pruned[0] not in report.ranked
    assert RLRuntime.from_run(pruned[0].run_id, settings).resume().status == "completed"


def test_without_pruning_every_trial_is_completed(settings):
    report = tune(document(POLICIES, SHORT_POLICY, trials=4, startup_trials=1, pruning=False), settings)
    assert {row.state for row in report.trials} == {"completed"}
    assert {row.params["agent"]["class"] for row in report.trials} == {"random", "constant"}


def test_the_least_is_best_where_that_is_asked_for(settings):
    study = {"trials": 4, "direction": "minimize", "metric": "evaluation.mean_reward", "pruning": False}
    report = tune(document(POLICIES, SHORT_POLICY, **study), settings)
    assert report.best.value == min(row.value for row in report.trials)
    assert report.best.params["agent"] == {"class": "constant"}
    assert "The evaluation window chose it" in " ".join(report.summary)
    assert report.evaluation is None


def test_a_trial_that_fails_counts_and_three_in_a_row_end_the_study(settings, ledger):
    # Taken by the schema, refused by the space of actions, which has two: the run fails.
    space = {"agent.kwargs.policy.kwargs.action": {"type": "int", "low": 5, "high": 9}}
    spec = base(agent={"class": "constant"})
    with pytest.raises(RunFailed, match="the last 3 trials: each of them failed"):
        tune(document(space, spec, trials=9), settings)
    assert [run.status for run in ledger.runs()] == ["failed"] * 3
    report = tune(document(space, spec, trials=3), settings)
    assert [row.state for row in report.trials] == ["failed"] * 3
    assert all(row.error and row.run_id for row in report.trials)
    assert report.best is None
    with pytest.raises(RunError, match="no trial was completed"):
        report.best_spec_yaml()


def test_a_refused_request_ends_the_study_and_is_made_up_for(settings, ledger):
    ledger.engage("*", "enough", "test")
    with pytest.raises(RunError, match="kill switch"):
        tune(document(trials=1), settings)
    ledger.release("*", "go on", "test")
    report = tune(document(trials=1), settings)
    assert [row.state for row in report.trials] == ["interrupted", "completed"]
    assert report.trials[0].params == report.trials[1].params


def test_the_summary_counts_the_family_and_warns_of_the_best(settings):
    RLRuntime(base(), settings).train()
    report = tune(document(trials=2, pruning=False), settings)
    assert (report.family.family, report.family.runs, report.family.specs, report.family.trials) == ("tuned", 3, 3, 3)
    text = " ".join(report.summary)
    assert "3 training runs of 3 different specs" in text
    assert "the best of 2 is biased upwards" in text
    assert f"gives its run {report.evaluation:.6g}" in text


def test_the_best_trial_is_written_as_the_very_spec_that_ran_and_nothing_is_overwritten(settings, ledger, tmp_path):
    report = tune(document(trials=2), settings)
    path = tmp_path / "best.yaml"
    write_best(report, path)
    written = RLExperimentSpec.from_yaml_path(path)
    run = ledger.run(report.best.run_id)
    assert (written.spec_hash, written.exec_hash) == (run.spec_hash, run.exec_hash)
    assert "biased upwards" in path.read_text()
    with pytest.raises(OptionError, match="nothing is overwritten"):
        write_best(report, path)
    with pytest.raises(OptionError, match="cannot be written"):
        write_best(report, tmp_path / "no" / "best.yaml")


def test_the_extra_is_named_where_it_is_missing(settings, monkeypatch):
    for name in [name for name in sys.modules if name == "optuna" or name.startswith("optuna.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(MissingExtra, match=r"alphaswarm-rl\[tune\]"):
        tune(document(), settings)


def test_the_library_is_loaded_only_when_it_is_used():
    code = "import sys, alphaswarm_rl.studies.tuning; sys.exit('optuna' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_no_number_of_trials(settings):
    with pytest.raises(OptionError, match="1 or more"):
        tune(document(), settings, trials=0)


def test_a_trial_whose_parameters_contradict_each_other_fails_with_the_reason(settings):
    space = {
        "training.start": {"type": "categorical", "choices": ["2020-02-01", "2020-05-15"]},
        "training.end": {"type": "categorical", "choices": ["2020-04-01", "2020-06-01"]},
    }
    contradiction = {"training.start": "2020-05-15", "training.end": "2020-04-01"}
    plans = (Plan.of(TuningDocument.from_data(document(space, TRADING, trials=1, seed=seed))) for seed in range(99))
    plan = next(found for found in plans if first_draw(found) == contradiction)
    (trial,) = tune(plan, settings).trials
    assert (trial.state, trial.run_id) == ("failed", None)
    assert "start (2020-05-15) must lie before end (2020-04-01)" in trial.error


def test_a_study_whose_run_another_process_took_over_ends(settings, ledger, monkeypatch):
    def taken_over(*_, **__):
        error = Claim("11111111-2222-3333-4444-555555555555").stale(2)
        error.add_note("11111111-2222-3333-4444-555555555555")  # as the runtime notes it
        raise error

    monkeypatch.setattr(RLRuntime, "train", taken_over)
    with pytest.raises(StaleClaim) as stale:
        tune(document(trials=2), settings)
    assert stale.value.exit_code == 4
    with open_study(Plan.of(TuningDocument.from_data(document(trials=2))), settings) as study:
        assert [row.state for row in study.rows()] == ["interrupted"]


def test_a_trial_whose_disk_failed_is_made_up_for(settings, monkeypatch):
    expected = tune(document(trials=2, name="undisturbed"), settings)

    def fail(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(CheckpointStore, "save", fail)
        with pytest.raises(RunFailed, match="Input/output error"):
            tune(document(trials=2), settings)
    report = tune(document(trials=2), settings)
    assert [row.state for row in report.trials] == ["interrupted", "completed", "completed"]
    assert [row.value for row in report.trials[1:]] == [row.value for row in expected.trials]


def full_disk(study):
    """No page more for the file of a study."""
    engine = study._study._storage._backend.engine
    event.listen(engine, "checkout", lambda connection, *_: connection.execute("PRAGMA max_page_count = 1"))


def test_a_full_disk_under_a_study_is_an_error_with_a_reason(settings):
    plan = Plan.of(TuningDocument.from_data(document()))
    with pytest.raises(DiskError) as failed, open_study(plan, settings) as study:  # noqa: PT012
        full_disk(study)
        study.fail(study.ask(), "x" * 100_000)
    assert failed.value.exit_code == 1
    assert "studies.db" in failed.value.what
    assert failed.value.why.startswith("the disk is full")
    assert failed.value.remedy.endswith("Then run the same command again.")


def test_a_storage_that_fails_as_it_is_opened_has_a_reason_too(settings, monkeypatch):
    def broken(*_, **__):
        cause = sqlite3.OperationalError("disk I/O error")
        cause.sqlite_errorname = "SQLITE_IOERR_WRITE"
        raise OperationalError("CREATE TABLE", None, cause)

    monkeypatch.setattr("optuna.storages.RDBStorage", broken)
    with pytest.raises(DiskError, match="the disk cannot be read or written"):
        tune(document(), settings)


def test_what_is_no_fault_of_the_disk_stays_what_it_is(settings):
    plan = Plan.of(TuningDocument.from_data(document()))
    for mistake in (StorageInternalError("a mistake"), IntegrityError("INSERT", None, sqlite3.IntegrityError("key"))):
        with pytest.raises(type(mistake)) as raised, open_study(plan, settings):
            raise mistake
        assert raised.value is mistake
