"""Checkpoints become models, evaluations fill them, gates decide."""

from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.models.listener import ModelListener
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import NewModel, Scope
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.model_runs import evaluate_model
from alphaswarm_rl.runtime.result import RunFailed
from alphaswarm_rl.settings import GatesSettings, RegistrySettings, StoreSettings
from tests.runtime.conftest import ledger, tiny, train
from tests.runtime.test_resume import halted_run
from tests.runtime.test_trading import trading

__all__ = ["ledger", "train"]

RANDOM = {"class": "random"}
NO_EVALUATION = {"evaluation": {"episodes": 0}}


def changed(settings, **sections):
    return settings.model_copy(update=sections)


@pytest.fixture
def often(settings):
    """Settings of a run that saves every 128 transitions and keeps all."""
    return changed(settings, store=StoreSettings(checkpoint_freq=128, keep_last=100))


@pytest.fixture
def registry(settings):
    with ModelRegistry.open(settings) as opened:
        yield opened


def by_step(registry, run_id, *, archived=False):
    rows = [row for row in registry.list(archived=archived) if row.run_id == run_id]
    return {row.total_timesteps: row for row in rows}


def validated_events(ledger, run_id):
    return [event.payload for event in ledger.events(run_id) if event.stage == "model.validated"]


def test_every_checkpoint_is_a_row_that_is_not_validated(train, often, registry, ledger):
    result = train(using=often, **NO_EVALUATION)
    rows = by_step(registry, result.run_id)
    assert sorted(rows) == [128, 256, 384, 512]
    run = ledger.run(result.run_id)
    last = rows[512]
    assert (last.model_path, last.sha256) == (result.checkpoint, result.checkpoint_sha256)
    assert (last.spec_hash, last.exec_hash, last.git_commit) == (
        run.spec_hash,
        run.exec_hash,
        run.code_fingerprint["git_commit"],
    )
    assert (last.algorithm, last.env_id, last.hyperparams["n_steps"]) == ("ppo", "cartpole", 32)
    assert last.parent_model_id is None
    assert last.observation_signature.startswith("Box(")
    assert last.action_signature == "Discrete(2)"
    assert not any(row.validated or row.mean_reward is not None for row in rows.values())
    assert len({row.scope for row in rows.values()}) == 1


def test_an_evaluation_fills_its_row_and_the_gates_decide_at_once(train, often, registry, ledger):
    result = train(using=often, evaluation={"episodes": 12})
    rows = by_step(registry, result.run_id)
    row = rows[512]
    assert (row.mean_reward, row.std_reward) == (result.metrics["mean_reward"], result.metrics["std_reward"])
    assert (row.eval_episodes, row.eval_seed, row.mean_episode_length) == (12, 3, result.metrics["mean_length"])
    assert row.lower_bound < row.mean_reward
    assert row.validated
    assert not rows[384].validated
    (evaluation,) = registry.evaluations(row.id)
    assert (evaluation.source, evaluation.run_id) == ("evaluate", result.run_id)
    assert list(evaluation.returns) == ledger.evaluations(result.run_id)[-1].metrics["returns"]
    (event,) = validated_events(ledger, result.run_id)
    assert event == {"model_id": row.id, "passed": True, "profile": "default", "failed": []}


def test_a_model_that_fails_says_by_which_gate(train, settings, registry, ledger):
    result = train()  # four episodes, and ten are asked for
    (event,) = validated_events(ledger, result.run_id)
    assert (event["passed"], event["failed"]) == (False, ["min_episodes"])
    assert not by_step(registry, result.run_id)[512].validated


def test_an_evaluation_that_comes_before_its_checkpoint_waits_for_it(train, often, registry, ledger):
    result = train(using=often, training={"eval_during_training": True, "eval_freq": 128}, evaluation={"episodes": 3})
    rows = by_step(registry, result.run_id)
    for step in (128, 256, 384):
        (evaluation,) = registry.evaluations(rows[step].id)
        assert evaluation.source == "validation"
        stored = [row for row in ledger.evaluations(result.run_id) if row.timesteps == step]
        assert rows[step].mean_reward == stored[0].mean_reward
    assert [row.source for row in registry.evaluations(rows[512].id)] == ["validation", "evaluate"]


def test_an_evaluation_of_a_policy_that_is_never_saved_belongs_to_no_model(train, settings, registry, ledger):
    result = train(training={"eval_during_training": True, "eval_freq": 128, "total_timesteps": 1024})
    rows = by_step(registry, result.run_id)
    validations = [row for row in ledger.evaluations(result.run_id) if row.phase == "validation"]
    found = [row for model in rows.values() for row in registry.evaluations(model.id) if row.source == "validation"]
    assert len(rows) < len(validations)
    assert len(found) == len(rows)
    returns = {row.timesteps: tuple(row.metrics["returns"]) for row in validations}
    for step, model in rows.items():
        (mine,) = [row for row in registry.evaluations(model.id) if row.source == "validation"]
        assert mine.returns == returns[step]


def test_the_gates_see_the_training_curve_up_to_the_model(train, settings, registry, ledger):
    strict = changed(settings, gates=GatesSettings(profile="strict"))
    result = train(using=strict, training={"total_timesteps": 2048}, evaluation={"episodes": 12})
    model = by_step(registry, result.run_id)[2048]
    (validation,) = registry.validations(model.id)
    episodes = ledger.episodes(result.run_id, phase="train")
    assert len(validation.evidence["curve"]) == len(episodes) > 20
    assert {check.gate for check in validation.checks} > {"converged", "holdout"}


def test_evaluate_adds_to_the_model_and_replay_does_not(train, settings, registry):
    trained = train()
    model = by_step(registry, trained.run_id)[512]
    runtime = RLRuntime.from_run(trained.run_id, settings)
    runtime.replay(seed=11, episodes=12)
    assert len(registry.evaluations(model.id)) == 1
    judged = runtime.evaluate(episodes=12)
    mine = registry.evaluations(model.id)
    assert [row.run_id for row in mine] == [trained.run_id, judged.run_id]
    assert registry.get(model.id).validated  # it has enough episodes now
    assert len(by_step(registry, trained.run_id)) == 1


def test_of_two_runs_with_the_same_bytes_the_one_that_was_named_gets_the_evaluation(train, settings, registry):
    first, second = train(), train()
    assert first.checkpoint_sha256 == second.checkpoint_sha256
    RLRuntime.from_run(first.run_id, settings).evaluate(episodes=12)
    assert len(registry.evaluations(by_step(registry, first.run_id)[512].id)) == 2
    assert len(registry.evaluations(by_step(registry, second.run_id)[512].id)) == 1


def test_a_reward_of_another_meaning_is_not_added(settings, registry):
    trained = RLRuntime(trading(agent=RANDOM), settings).train()
    model = by_step(registry, trained.run_id)[128]
    other = trading(agent=RANDOM, reward={"class": "log_return"})
    RLRuntime(other, settings).evaluate(checkpoint=trained.checkpoint)
    assert len(registry.evaluations(model.id)) == 1


def test_a_model_is_judged_by_its_id_under_its_stored_version(train, settings, registry):
    trained = train()
    model = by_step(registry, trained.run_id)[512]
    result, validation = evaluate_model(model.id, settings, episodes=15, seed=4)
    assert (result.parent_run_id, result.version_id) == (trained.run_id, trained.version_id)
    assert validation.passed
    assert registry.get(model.id).eval_episodes == 15
    with pytest.raises(ModelError, match="no such model"):
        evaluate_model(999, settings)
    registry.archive(model.id, because="test")
    with pytest.raises(ModelError, match="archived: test"):
        evaluate_model(model.id, settings)


def test_an_evaluation_that_is_not_the_models_own_is_told(train, settings, registry):
    trained = train()
    (row,) = registry.list()
    registry.archive(row.id, because="test")
    wrong = registry.register(
        NewModel(row.path, row.algorithm, Scope("other"), row.total_timesteps, row.sha256, hyperparams={})
    )
    with pytest.raises(ModelError, match="not its own"):
        evaluate_model(wrong.id, settings)
    assert registry.evaluations(wrong.id) == []
    assert trained.checkpoint_sha256 == row.sha256


def test_a_resumed_run_registers_each_step_once(settings, registry):
    often = changed(settings, store=StoreSettings(checkpoint_freq=4096, keep_last=100))
    stopped = halted_run(tiny(agent=RANDOM, training={"total_timesteps": 40_000, "n_envs": 8}), often)
    for row in registry.list():  # as if the process had died before it registered anything
        registry.archive(row.id, because="test")
    resumed = RLRuntime.from_run(stopped.run_id, often).resume()
    rows = [row for row in registry.list() if row.run_id == resumed.run_id]
    steps = sorted(row.total_timesteps for row in rows)
    assert steps == sorted(set(steps))
    assert stopped.timesteps in steps
    assert 40_000 in steps
    assert all(Path(row.model_path).is_dir() for row in rows)


def test_an_evaluation_is_not_lost_whenever_catching_up_is_cut_short(settings, registry, ledger, monkeypatch):
    judging = {"total_timesteps": 40_000, "n_envs": 8, "log_interval": 1, "eval_during_training": True}
    stopped = halted_run(tiny(agent=RANDOM, training={**judging, "eval_freq": 1024}), settings)
    with monkeypatch.context() as patch:  # the process dies once the ledger has what the registry has not heard of

        def die(*_):
            raise RuntimeError("died")

        patch.setattr(ModelListener, "on_evaluation", die)
        for _ in range(2):
            with pytest.raises(RunFailed):
                RLRuntime.from_run(stopped.run_id, settings).resume()
    at = stopped.timesteps
    judged = [row for row in ledger.evaluations(stopped.run_id) if row.timesteps == at]
    assert [row.phase for row in judged] == ["validation"]
    assert registry.evaluations(by_step(registry, stopped.run_id)[at].id) == []

    RLRuntime.from_run(stopped.run_id, settings).resume()
    (evaluation,) = registry.evaluations(by_step(registry, stopped.run_id, archived=True)[at].id)
    assert (evaluation.source, evaluation.mean_reward) == ("validation", judged[0].mean_reward)
    assert len([row for row in ledger.evaluations(stopped.run_id) if row.timesteps == at]) == 1


def test_retention_of_the_run_archives_what_is_neither_the_best_nor_in_use(train, settings, registry):
    frugal = changed(settings, store=StoreSettings(checkpoint_freq=128, keep_last=1))
    result = train(using=frugal, training={"eval_during_training": True, "eval_freq": 256}, evaluation={"episodes": 3})
    assert result.status == "completed"
    rows = by_step(registry, result.run_id, archived=True)
    gone = {step for step, row in rows.items() if not Path(row.model_path).exists()}
    assert {128, 384} <= gone <= {128, 256, 384}  # 256 was the best when it was saved
    for step, row in rows.items():
        assert row.archived == (step in gone)
    assert "newer checkpoints" in rows[128].archived_because


def test_what_is_protected_outlives_the_runs_retention(settings, registry):
    frugal = changed(settings, store=StoreSettings(checkpoint_freq=128, keep_last=1))

    def protecting(event):
        if event.stage == "train.checkpoint" and event.payload["timesteps"] == 128:
            (row,) = registry.at(Path(event.payload["path"]))
            registry.protect(row.id, True, who="test", why="test")

    result = RLRuntime(tiny(**NO_EVALUATION), frugal, sinks=[protecting]).train()
    assert sorted(by_step(registry, result.run_id)) == [128, 512]


def test_the_registry_can_be_switched_off_and_changes_no_byte(train, settings, tmp_path):
    off = changed(settings, home=tmp_path / "other", registry=RegistrySettings(enable=False))
    with_it, without = train(), train(using=off)
    assert with_it.checkpoint_sha256 == without.checkpoint_sha256
    assert with_it.metrics == without.metrics
    assert (settings.home / "rl_registry.db").exists()
    assert not (off.home / "rl_registry.db").exists()


def test_an_unknown_profile_is_told_before_the_training(train, settings, ledger):
    with pytest.raises(ModelError, match="strict"):
        train(using=changed(settings, gates=GatesSettings(profile="strickt")))
    (run,) = ledger.runs()
    assert (run.status, run.timesteps) == ("failed", 0)


def failed_gates(registry, row):
    """The gates that the newest validation of a model did not pass."""
    return {check.gate for check in registry.validations(row.id)[-1].checks if not check.passed}


def asking(settings, least):
    return changed(settings, registry=RegistrySettings(min_reward=least, min_episodes=2))


@pytest.mark.parametrize(("least", "passes"), [(-2000.0, True), (-300.0, False), (0.0, False)])
def test_negative_means_are_judged_on_their_merits(train, settings, registry, least, passes):
    result = train(
        using=asking(settings, least),
        env={"class": "gymnasium", "kwargs": {"id": "Pendulum-v1"}},
        agent=RANDOM,
        training={"total_timesteps": 400},
        evaluation={"episodes": 6},
    )
    row = by_step(registry, result.run_id)[400]
    assert row.env_id == "Pendulum-v1"
    assert row.mean_reward < 0
    failed = failed_gates(registry, row)
    assert ("reward_lower_bound" not in failed) is passes
    # Nothing made this policy: it passes nowhere, whatever it earns.
    assert {"trained", "not_constant"} <= failed
    assert not row.validated


@pytest.mark.parametrize(("share", "passes"), [(3.0, True), (0.5, False)])
def test_a_losing_trading_run_passes_or_fails_on_its_merits(settings, registry, share, passes):
    spec = trading(
        agent=RANDOM,
        bars={"drift": -0.9},
        env_kwargs={"costs": {"commission_rate": 0.01}},
        evaluation={"episodes": 6},
    )
    lost = RLRuntime(spec, changed(settings, home=settings.home / "first")).train().metrics["mean_reward"]
    assert lost < 0
    result = RLRuntime(spec, asking(settings, share * lost)).train()
    row = by_step(registry, result.run_id)[128]
    assert (row.mean_reward, row.validated) == (lost, False)
    failed = failed_gates(registry, row)
    assert ("reward_lower_bound" not in failed) is passes
    # On a market that falls it is no worse than equal weights, and worse than cash.
    assert {"trained", "measure_lower_bound", "not_worse_than_cash"} <= failed


def test_an_evaluation_of_a_trading_run_leaves_its_curve(settings, registry):
    result = RLRuntime(trading(), settings).train()
    row = by_step(registry, result.run_id)[128]
    (evaluation,) = registry.evaluations(row.id)
    curves = evaluation.metrics["curves"]
    assert curves["bars"] == len(curves["returns"]) == len(curves["equal_weight"]) == result.metrics["mean_length"]
    assert curves["max_drawdown"] == result.metrics["max_drawdown"]
    assert set(curves["profits"]) == {"SYN0", "SYN1"}
    assert evaluation.metrics["updates"] > 0
    assert "min_bars" in failed_gates(registry, row)  # three months
    assert "trained" not in failed_gates(registry, row)


def test_models_are_compared_where_rewards_observations_and_actions_mean_the_same(train, settings, registry):
    def scope(**changes):
        return by_step(registry, train(**NO_EVALUATION, **changes).run_id)[512].scope

    assert scope() == scope(training={"seed": 9}) == scope(agent=RANDOM) == scope(obs={"normalize": "running"})
    assert scope() != scope(env={"class": "cartpole", "kwargs": {"max_episode_steps": 50}})
    gym = scope(env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}})
    assert gym.env_id == "CartPole-v1"
    assert gym != scope()


def test_a_window_is_no_part_of_the_scope_and_is_kept_with_the_evaluation(settings, registry):
    trained = RLRuntime(trading(agent=RANDOM), settings).train()
    model = by_step(registry, trained.run_id)[128]
    RLRuntime.from_run(trained.run_id, settings).evaluate(window=Window("2020-11-02", "2021-01-01"))
    first, second = registry.evaluations(model.id)
    assert first.window_start < second.window_start
    assert (first.in_sample, second.in_sample) == (False, False)
