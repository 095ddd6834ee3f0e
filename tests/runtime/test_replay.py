import shutil

import pytest
from sqlalchemy import update

from alphaswarm_rl.core import catalogue
from alphaswarm_rl.core.errors import DataError, RunError, SpecError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.ledger.tables import runs
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import trading


def test_a_replay_is_a_second_row_of_the_same_version(train, settings, ledger):
    trained = train()
    replayed = RLRuntime.from_run(trained.run_id, settings).replay(seed=99)
    assert replayed.version_id == trained.version_id
    assert replayed.parent_run_id == trained.run_id
    assert replayed.checkpoint_sha256 == trained.checkpoint_sha256
    assert replayed.seed == 99
    assert replayed.metrics["mean_reward"] != trained.metrics["mean_reward"]
    assert len(ledger.versions("tiny")) == 1
    assert len(ledger.runs()) == 2
    (evaluation,) = ledger.evaluations(replayed.run_id)
    assert evaluation.phase == "replay"


def test_the_same_replay_twice_gives_the_same_returns(train, settings, ledger):
    runtime = RLRuntime.from_run(train().run_id, settings)
    first, second = runtime.replay(seed=5), runtime.replay(seed=5)
    assert first.run_id != second.run_id
    returns = [ledger.evaluations(result.run_id)[0].metrics["returns"] for result in (first, second)]
    assert returns[0] == returns[1]


def test_an_evaluation_with_the_parents_seed_repeats_trainings_own(train, settings, ledger):
    trained = train()
    evaluated = RLRuntime.from_run(trained.run_id, settings).evaluate()
    assert evaluated.seed == trained.seed
    returns = [ledger.evaluations(result.run_id)[-1].metrics["returns"] for result in (trained, evaluated)]
    assert returns[0] == returns[1]


@pytest.mark.parametrize("agent", [None, {"class": "random"}], ids=["ppo", "random"])
def test_a_stochastic_evaluation_repeats_itself_too(train, settings, ledger, agent):
    trained = train(evaluation={"deterministic": False}, **({} if agent is None else {"agent": agent}))
    evaluated = RLRuntime.from_run(trained.run_id, settings).evaluate()
    returns = [ledger.evaluations(result.run_id)[-1].metrics["returns"] for result in (trained, evaluated)]
    assert returns[0] == returns[1]


def test_a_run_of_another_version_is_an_error(train, settings):
    trained = train()
    other = RLRuntime(tiny(training={"total_timesteps": 640}), settings)
    with pytest.raises(RunError, match="another version"):
        other.replay(run=trained.run_id)


def test_a_window_for_an_environment_without_dates_is_refused(train, settings):
    runtime = RLRuntime.from_run(train().run_id, settings)
    with pytest.raises(SpecError, match="has no dates"):
        runtime.replay(Window("2024-01-01", "2024-03-31"))


def test_code_drift_is_a_notice_and_strict_refuses(train, settings, monkeypatch):
    trained = train()
    monkeypatch.setattr(catalogue.get("agent", "ppo"), "rl_version", 2)
    runtime = RLRuntime.from_run(trained.run_id, settings)
    assert runtime.replay(seed=1).notices == ["code differs: ppo 1 -> 2"]
    with pytest.raises(RunError, match="ppo 1 -> 2"):
        runtime.replay(seed=1, strict=True)


def test_as_many_episodes_as_nobody_can_mean_are_refused(train, settings, ledger):
    runtime = RLRuntime.from_run(train().run_id, settings)
    for episodes in (0, 2**53):
        with pytest.raises(RunError, match="judged by 1 to 9007199254740991"):
            runtime.replay(episodes=episodes)
    assert len(ledger.runs()) == 1


def test_the_run_arguments_are_stored(train, settings, ledger):
    replayed = RLRuntime.from_run(train().run_id, settings).replay(seed=5, episodes=2, deterministic=False)
    assert ledger.run(replayed.run_id).arguments == {"seed": 5, "episodes": 2, "deterministic": False}


def test_overrides_are_stored_by_every_verb(settings, ledger):
    overrides = {"seed": {"value": 5, "source": "flag --seed"}}
    first = RLRuntime(tiny(agent={"class": "random"}), settings, overrides=overrides).evaluate(seed=5)
    again = RLRuntime.from_run(first.run_id, settings, overrides=overrides).replay(seed=5)
    assert ledger.run(first.run_id).overrides == ledger.run(again.run_id).overrides == overrides


def test_a_spec_whose_agent_must_train_needs_a_checkpoint(settings):
    with pytest.raises(RunError, match="needs a trained policy"):
        RLRuntime(tiny(), settings).evaluate()


def test_an_evaluation_of_a_policy_that_learns_nothing_can_be_evaluated_again(settings):
    first = RLRuntime(tiny(agent={"class": "random"}), settings).evaluate()
    second = RLRuntime.from_run(first.run_id, settings).evaluate()
    assert second.metrics == first.metrics


@pytest.mark.parametrize("seed", ["-1", "x", 2**32])
def test_a_seed_that_is_none_is_refused(train, settings, seed):
    runtime = RLRuntime.from_run(train().run_id, settings)
    with pytest.raises(RunError, match="not a whole number"):
        runtime.replay(seed=seed)


@pytest.mark.parametrize("arguments", [{"episodes": "3"}, {"episodes": 0}, {"new_window": "2012"}])
def test_arguments_of_the_wrong_kind_are_refused(train, settings, arguments):
    runtime = RLRuntime.from_run(train().run_id, settings)
    with pytest.raises((RunError, SpecError)):
        runtime.replay(**arguments)


def test_a_runtime_replays_what_it_trained_last(settings, ledger):
    runtime = RLRuntime(tiny(), settings)
    runtime.train(seed=1)
    second = runtime.train(seed=2)
    replayed, evaluated = runtime.replay(), runtime.evaluate()
    assert replayed.parent_run_id == evaluated.parent_run_id == second.run_id
    assert replayed.version_id == second.version_id
    assert replayed.checkpoint_sha256 == second.checkpoint_sha256
    assert replayed.seed == 2


def test_a_rule_replays_its_own_run_too(settings):
    runtime = RLRuntime(tiny(agent={"class": "random"}), settings)
    assert runtime.replay().parent_run_id is None  # it needs no training
    trained = runtime.train()
    assert runtime.replay().parent_run_id == trained.run_id


def test_without_a_run_of_its_own_the_newest_training_of_the_version_is_replayed(train, settings, ledger):
    older, newest = train(), train()
    train(training={"total_timesteps": 640})  # another version
    unfinished = train().run_id
    with write(ledger.engine) as connection:
        connection.execute(update(runs).where(runs.c.id == unfinished).values(status="halted"))
    replayed = RLRuntime(tiny(), settings).replay()
    assert replayed.parent_run_id == newest.run_id != older.run_id
    shutil.rmtree(newest.checkpoint)
    assert RLRuntime(tiny(), settings).replay().parent_run_id == older.run_id


def test_a_folder_needs_no_run(train, settings):
    trained = train()
    assert RLRuntime(tiny(), settings).replay(checkpoint=trained.checkpoint).parent_run_id is None


def test_where_nothing_is_trained_a_replay_says_so(train, settings):
    train(training={"total_timesteps": 640})
    with pytest.raises(RunError, match="is completed and has its checkpoint"):
        RLRuntime(tiny(), settings).replay()


def test_a_window_is_a_pair_or_a_mapping_too(settings, ledger):
    runtime = RLRuntime(trading(), settings)
    runtime.train()
    expected = Window("2020-07-01", "2020-09-01")
    for written in (expected, ("2020-07-01", "2020-09-01"), {"start": "2020-07-01", "end": "2020-09-01"}):
        row = ledger.run(runtime.replay(written).run_id)
        assert (row.window_start, row.window_end) == (expected.start, expected.end)
        row = ledger.run(runtime.evaluate(window=written).run_id)
        assert (row.window_start, row.window_end) == (expected.start, expected.end)


def test_a_refused_replay_leaves_no_row(train, settings, ledger):
    trained = train()
    with pytest.raises(SpecError, match="has no dates"):
        RLRuntime.from_run(trained.run_id, settings).replay(Window("2015-01-01"))
    assert [row.id for row in ledger.runs()] == [trained.run_id]


def test_a_window_that_the_data_lack_is_refused_before_there_is_a_row(settings, ledger):
    trained = RLRuntime(trading(), settings).train()
    runtime = RLRuntime.from_run(trained.run_id, settings)
    for verb in (runtime.replay, lambda window: runtime.evaluate(window=window)):
        for window in (("2031-01-01", "2031-06-01"), ("2001-01-01", "2001-06-01")):
            with pytest.raises(DataError, match="There are bars from 2020-01-01"):
                verb(window)
    assert [row.id for row in ledger.runs()] == [trained.run_id]


def test_the_halt_of_one_run_is_released_by_its_name(train, settings, ledger):
    trained = train()
    ledger.engage(trained.run_id, "why not", "tester")
    with pytest.raises(RunError, match=f"rl halt {trained.run_id} --release"):
        RLRuntime.from_run(trained.run_id, settings).resume()


def test_unknown_runs_are_named(settings):
    with pytest.raises(RunError, match="nosuchrun"):
        RLRuntime.from_run("nosuchrun", settings)


def test_running_statistics_are_loaded_and_not_learned_again(train, settings, ledger):
    trained = train(obs={"normalize": "running"})
    evaluated = RLRuntime.from_run(trained.run_id, settings).evaluate()
    assert evaluated.metrics == {key: value for key, value in trained.metrics.items() if key in evaluated.metrics}
