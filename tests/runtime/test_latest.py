"""`latest` is the newest run that a verb can use; and a training says which model was judged."""

from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import DataError, RunError
from alphaswarm_rl.ledger.runs import PRUNED
from alphaswarm_rl.operations.compare import CompareRuns, compare
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import POLICY, halted_run
from tests.runtime.test_trading import PPO, trading

VERBS = ("evaluate", "replay", "resume")


def fail_without_a_checkpoint(settings):
    """A run that is newer than all others, and of no use to anybody."""
    with pytest.raises(DataError):
        RLRuntime(trading(agent=PPO, training={"start": "2040-01-01", "end": None}), settings).train()


def latest(settings, verb):
    return RLRuntime.from_run("latest", settings, verb=verb)._run.id


def test_latest_passes_over_runs_that_the_verb_cannot_use(settings, ledger, train):
    stopped = halted_run(tiny(**POLICY), settings)
    trained = train()
    fail_without_a_checkpoint(settings)
    assert [latest(settings, verb) for verb in VERBS] == [trained.run_id, trained.run_id, stopped.run_id]
    assert latest(settings, None) == ledger.run("latest").id == ledger.runs()[0].id != trained.run_id
    replayed = RLRuntime.from_run("latest", settings, verb="replay").replay(seed=5)
    assert replayed.parent_run_id == trained.run_id
    assert latest(settings, "replay") == replayed.run_id


def test_a_pruned_trial_is_resumed_by_its_id_alone(settings, ledger):
    stopped = halted_run(tiny(**POLICY), settings)
    pruned = halted_run(tiny(**POLICY), settings)
    ledger.update_run(pruned.run_id, halt_reason=f"{PRUNED} validation.mean_reward 1 at step 64")
    assert latest(settings, "resume") == stopped.run_id
    assert RLRuntime.from_run(pruned.run_id, settings, verb="resume")._run.id == pruned.run_id


def test_a_run_whose_agent_needs_no_checkpoint_can_be_judged(settings):
    judged = RLRuntime(tiny(agent={"class": "random"}), settings).evaluate()
    assert judged.checkpoint is None
    assert latest(settings, "replay") == latest(settings, "evaluate") == judged.run_id


def test_a_run_whose_files_are_gone_is_not_the_latest(settings, ledger, train):
    first, second = train(), train()
    ledger.mark_removed(second.run_id)
    assert latest(settings, "replay") == first.run_id


def test_baselines_beside_a_run_are_never_the_latest(settings, ledger, train):
    trained = train()
    compare(settings, CompareRuns((trained.run_id,), baselines=True))
    beside = [run for run in ledger.runs() if run.beside is not None]
    assert {run.beside for run in beside} == {trained.run_id}
    assert len(beside) == 2
    assert [latest(settings, verb) for verb in (None, "evaluate", "replay")] == [trained.run_id] * 3
    # They are not judged again beside another run that was judged alike, and by its id each is a run like others.
    judged = RLRuntime.from_run(trained.run_id, settings).evaluate()
    compare(settings, CompareRuns((judged.run_id,), baselines=True))
    assert len(ledger.runs()) == 4
    assert latest(settings, "evaluate") == judged.run_id == ledger.run("latest").id
    assert RLRuntime.from_run(beside[0].id, settings, verb="evaluate")._run.id == beside[0].id
    # A rule that a user judges is the user's own.
    rule = RLRuntime(tiny(agent={"class": "random"}), settings).evaluate()
    assert ledger.run("latest").id == rule.run_id == latest(settings, "evaluate")


def test_where_there_are_baselines_alone_none_is_the_latest(settings, ledger):
    rule = RLRuntime(tiny(agent={"class": "random"}), settings).evaluate(beside="somebody")
    assert ledger.runs()[0].id == rule.run_id
    with pytest.raises(RunError, match="has no run, beside baselines"):
        ledger.run("latest")
    with pytest.raises(RunError, match="no run has a checkpoint"):
        latest(settings, "evaluate")


def test_evaluate_takes_latest_as_its_run(settings, train):
    trained = train()
    fail_without_a_checkpoint(settings)
    assert RLRuntime(tiny(), settings).evaluate(run="latest").parent_run_id == trained.run_id


@pytest.mark.parametrize(
    ("verb", "why"),
    [
        ("evaluate", "no run has a checkpoint or an agent that needs none"),
        ("replay", "no run has a checkpoint or an agent that needs none"),
        ("resume", "no training run has stopped with a checkpoint"),
    ],
)
def test_where_there_is_none_the_error_says_what_was_looked_for(settings, verb, why):
    fail_without_a_checkpoint(settings)
    with pytest.raises(RunError, match=why):
        latest(settings, verb)


# -- which model was judged -----------------------------------------------------------------------------------------


def test_a_training_says_that_the_last_model_was_judged_and_which_is_the_best(train, ledger):
    trained = train(training={"eval_during_training": True, "eval_freq": 128, "total_timesteps": 1536})
    assert trained.judged == "last checkpoint"
    done = ledger.events(trained.run_id)[-1]
    assert (done.stage, done.payload["judged"]) == ("done", "last checkpoint")
    assert done.payload["best_checkpoint"] == trained.best_checkpoint
    assert Path(trained.best_checkpoint).is_dir()


def test_without_an_evaluation_nothing_was_judged(train, ledger):
    trained = train(evaluation={"episodes": 0})
    assert trained.judged is None
    assert "judged" not in ledger.events(trained.run_id)[-1].payload
