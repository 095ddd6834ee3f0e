"""What scores are judged on: data, dates, episodes, costs."""

import logging
from collections import Counter

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.judgement import judgement_differences
from alphaswarm_rl.inference.builder import Builder
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.runtime import RLRuntime, RunFailed
from alphaswarm_rl.runtime.model_judging import judge_models
from alphaswarm_rl.settings import RegistrySettings, StoreSettings
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import halted_run
from tests.runtime.test_trading import LATER, trading

RULE = {"class": "random"}


def judged(ledger, result):
    return ledger.evaluations(result.run_id)[-1].judgement


def test_policies_that_look_back_differently_and_see_other_features_are_judged_alike(settings, ledger):
    """The first bar that is traded is the same, whatever is looked at before it."""
    first = RLRuntime(trading(agent=RULE, env_kwargs={"episode_bars": None}), settings).evaluate()
    other = trading(
        agent=RULE,
        env_kwargs={"episode_bars": None},
        bars={"features": ["rsi"], "scaler": "none"},
        obs={"normalize": "fixed"},
    )
    second = RLRuntime(other, settings).evaluate()
    ours, theirs = judged(ledger, first), judged(ledger, second)
    assert judgement_differences(ours, theirs) == []
    assert ours.dated
    assert (ours.start, ours.episodes, ours.costs["fill"]) == ("2020-08-03", 1, "next_close")
    rows = [ledger.run(result.run_id).data_fingerprint for result in (first, second)]
    assert rows[0] != rows[1]


def test_other_dates_bars_and_costs_are_named(settings, ledger):
    def judgement(window=None, **changes):
        return judged(ledger, RLRuntime(trading(agent=RULE, **changes), settings).evaluate(window=window))

    base = judgement()
    differ = {
        "dates": judgement(window=LATER),
        "bars": judgement(bars={"seed": 2}),
        "costs": judgement(env_kwargs={"costs": {"half_spread_bps": 9.0}}),
        "acting": judgement(evaluation={"deterministic": False}),
        "episodes": judgement(evaluation={"episodes": 3}),
    }
    respects = {
        name: [line.partition(":")[0] for line in judgement_differences(base, other)] for name, other in differ.items()
    }
    assert respects == {
        "dates": ["data", "first bar", "last bar"],
        "bars": ["data"],
        "costs": ["half_spread_bps"],
        "acting": ["deterministic"],
        "episodes": ["episodes"],
    }


def test_a_window_that_is_played_again_and_again_is_one_episode(settings, ledger):
    rule = {"class": "policy", "kwargs": {"policy": {"class": "buy_and_hold"}}}
    spec = trading(agent=rule, env_kwargs={"episode_bars": None}, evaluation={"episodes": 3})
    assert judged(ledger, RLRuntime(spec, settings).evaluate()).episodes == 1


def test_an_environment_without_dates_has_a_judgement_without_them(settings, ledger):
    found = judged(ledger, RLRuntime(tiny(agent=RULE), settings).evaluate())
    assert not found.dated
    assert (found.window, found.costs) == ("no dates", {})


# -- checkpoints are judged on the validation window -----------------------------------------------------------------

VALIDATION = {"end": "2020-06-01", "validation_start": "2020-06-01", "validation_end": "2020-08-03"}
NATIVE = {"class": "ppo_inhouse", "kwargs": {"n_steps": 16, "batch_size": 32, "n_epochs": 1, "net_arch": [8]}}
WHOLE = {"episode_bars": None}
KEYS = ("phase", "env_idx", "episode", "step")


def validated_spec(**changes):
    training = {**VALIDATION, "total_timesteps": 256, **changes.pop("training", {})}
    return trading(**{"agent": NATIVE, "env_kwargs": WHOLE, **changes, "training": training})


@pytest.fixture
def often(settings):
    """Settings of a run that saves four times and keeps one checkpoint."""
    return settings.model_copy(update={"store": StoreSettings(checkpoint_freq=64, keep_last=1)})


@pytest.fixture
def registry(settings):
    with ModelRegistry.open(settings) as opened:
        yield opened


def models_of(registry, result):
    rows = [row for row in registry.list(archived=True) if row.run_id == result.run_id]
    return sorted(rows, key=lambda row: row.total_timesteps)


def not_judging(settings):
    return settings.model_copy(update={"registry": RegistrySettings(judge_checkpoints=False)})


def story(ledger, result):
    """What a training leaves beside its models and its recorded rows: weights, evaluations, events."""
    run = ledger.run(result.run_id)
    return {
        "weights": result.checkpoint_sha256,
        "hashes": (run.spec_hash, run.exec_hash),
        "metrics": result.metrics,
        "evaluations": [(row.phase, row.timesteps, row.metrics) for row in ledger.evaluations(run.id)],
        "notices": run.notices,
        "events": [
            event.stage
            for event in ledger.events(run.id)
            if event.stage not in ("model.validated", "train.step")  # how often steps are told is a matter of time
        ],
    }


@pytest.mark.parametrize("seeks_best", [False, True], ids=["", "eval_during_training"])
def test_judging_checkpoints_changes_neither_weights_nor_rows(often, ledger, registry, seeks_best):
    training = {"eval_during_training": True, "eval_freq": 128} if seeks_best else {}
    spec = validated_spec(training=training)
    runtimes = RLRuntime(spec, often), RLRuntime(spec, not_judging(often))
    judged_run, plain = (runtime.train() for runtime in runtimes)
    assert story(ledger, judged_run) == story(ledger, plain)
    for kind in ("trajectories", "equity_curves"):
        ours, theirs = (
            runtime.rows(kind, run.run_id).drop_columns(["run_id"]).sort_by([(key, "ascending") for key in KEYS])
            for runtime, run in zip(runtimes, (judged_run, plain), strict=True)
        )
        assert ours.num_rows > 0
        assert ours.equals(theirs)
    scores = [[row.judgement_key for row in models_of(registry, run)] for run in (judged_run, plain)]
    assert None not in scores[0]
    assert len(set(scores[0])) == 1
    assert None in scores[1]


def test_each_checkpoint_is_judged_once_on_the_validation_window_and_the_cost_is_said(often, ledger, registry, caplog):
    with caplog.at_level(logging.INFO):
        result = RLRuntime(validated_spec(training={"eval_during_training": True, "eval_freq": 128}), often).train()
    rows = models_of(registry, result)
    assert [row.total_timesteps for row in rows] == [64, 128, 192, 256]
    for row in rows:
        choosing = [each for each in registry.evaluations(row.id) if each.judgement_key is not None]
        (only,) = choosing
        assert (only.source, only.in_sample, only.window_start) == ("validation", False, "2020-06-01")
        assert only.judged_on.end == "2020-07-31"
    # What the training's own validations found is what judging finds.
    validations = {row.timesteps: row for row in ledger.evaluations(result.run_id) if row.phase == "validation"}
    assert set(validations) == {128, 256}
    assert rows[1].mean_reward == validations[128].mean_reward
    assert "judged 2 checkpoints on 2020-06-01 to 2020-08-03 in" in caplog.text  # those without a validation
    events = [event.payload for event in ledger.events(result.run_id) if event.stage == "model.validated"]
    judged = [event for event in events if "judged_on" in event]
    assert [event["judged_on"] for event in judged] == ["2020-06-01 to 2020-07-31"] * 2
    assert all(event["seconds"] >= 0 for event in judged)


@pytest.mark.parametrize(
    ("training", "built"),
    [
        ({}, {"train": 1, "evaluate": 1, "validation": 1}),
        # A training that seeks its best model has an environment of those dates already.
        ({"eval_during_training": True, "eval_freq": 128}, {"train": 1, "evaluate": 1, "validation": 1}),
        # Other dates than those of its validations: one more, for all checkpoints.
        (
            {"eval_during_training": True, "eval_freq": 128, "end": "2020-07-01"},
            {"train": 1, "evaluate": 1, "validation": 1, "judged": 1},
        ),
    ],
    ids=["judged", "judged and validated", "judged on a part"],
)
def test_all_checkpoints_are_judged_in_one_environment(often, registry, training, built, monkeypatch):
    windows = {
        ("2020-08-03", "2020-11-02"): "evaluate",
        ("2020-06-01", "2020-08-03"): "validation",
        ("2020-07-01", "2020-08-03"): "judged",
    }
    counts, build_env = Counter(), Builder.build_env

    def counting(self, stream, **arguments):
        window = arguments["window"]
        counts["train" if arguments["phase"] == "train" else windows[window.start, window.end]] += 1
        return build_env(self, stream, **arguments)

    monkeypatch.setattr(Builder, "build_env", counting)
    result = RLRuntime(validated_spec(training=training), often).train()
    assert counts == built
    rows = models_of(registry, result)
    assert len(rows) == 4
    assert all(row.judgement_key is not None for row in rows)


def test_a_judgement_holds_no_file_but_the_best(often, registry):
    rows = models_of(registry, RLRuntime(validated_spec(), often).train())
    kept = [row for row in rows if not row.archived]
    best = max(rows, key=lambda row: row.mean_reward)
    assert {row.id for row in kept} <= {best.id, rows[-1].id}
    assert all(row.path.is_dir() == (row in kept) for row in rows)
    gone = [row for row in rows if row.archived]
    assert gone
    assert all("newer checkpoints" in row.archived_because for row in gone)
    assert all(len(registry.evaluations(row.id)) >= 1 for row in gone)  # scores stay


@pytest.mark.parametrize("after", ["checkpoint", "judgement"])
def test_a_training_that_broke_off_and_was_resumed_has_each_judgement_once(often, ledger, registry, after, monkeypatch):
    spec = validated_spec()
    whole = RLRuntime(spec, often).train()
    from alphaswarm_rl.models.listener import ModelListener

    judge = ModelListener.on_judgement

    def die(self, evaluated):
        if after == "judgement":
            judge(self, evaluated)
        if evaluated.timesteps == 128:
            raise ConnectionError("the power is gone")
        if after == "checkpoint":
            judge(self, evaluated)

    monkeypatch.setattr(ModelListener, "on_judgement", die)
    with pytest.raises(RunFailed) as caught:
        RLRuntime(spec, often).train()
    monkeypatch.undo()
    (run_id,) = caught.value.__notes__
    resumed = RLRuntime.from_run(run_id, often).resume()
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256

    def scores(result):
        return [
            (row.total_timesteps, [(each.source, each.mean_reward) for each in registry.evaluations(row.id)])
            for row in models_of(registry, result)
        ]

    assert scores(resumed) == scores(whole)


def test_without_a_validation_window_nothing_is_judged_and_the_model_is_never_the_best(often, registry):
    result = RLRuntime(trading(agent=NATIVE, env_kwargs=WHOLE), often).train()
    last = models_of(registry, result)[-1]
    assert (last.judgement_key, last.eval_window_start) == (None, "2020-08-03")
    assert registry.best() is None
    with pytest.raises(ModelError, match=r"training\.validation_start") as caught:
        judge_models(last.id, often)
    assert caught.value.why == "its spec has no validation window, so it is never the best of its scope"


NEVER_BEST = (
    "models of this run are never the best: the spec has dates and no validation window, and only scores on that "
    "choose; it is named by training.validation_start and validation_end"
)


@pytest.mark.parametrize(
    ("spec", "settled", "notices"),
    [
        (trading(agent=NATIVE, env_kwargs=WHOLE), {}, [NEVER_BEST]),
        (trading(agent=NATIVE, env_kwargs=WHOLE, evaluation={"episodes": 0}), {}, [NEVER_BEST]),
        (trading(agent=NATIVE, env_kwargs=WHOLE), {"judge_checkpoints": False}, [NEVER_BEST]),
        (validated_spec(), {}, []),
        (trading(agent=NATIVE, env_kwargs=WHOLE), {"enable": False}, []),
        (trading(agent=RULE, env_kwargs=WHOLE), {}, []),
        (tiny(), {}, []),
    ],
    ids=["no window", "no evaluation", "not judging", "a window", "no registry", "a rule", "no dates"],
)
def test_dates_without_a_validation_window_are_noticed_in_the_row_of_the_training(
    settings, ledger, spec, settled, notices
):
    settings = settings.model_copy(update={"registry": RegistrySettings(**settled)})
    result = RLRuntime(spec, settings).train()
    row = ledger.run(result.run_id)
    assert [notice for notice in row.notices if "never the best" in notice] == notices
    assert result.notices == row.notices
    # The run that judges such a policy has nothing to do with it.
    if spec.evaluation.episodes:
        assert NEVER_BEST not in RLRuntime.from_run(result.run_id, settings).evaluate().notices


def test_a_resumed_training_says_it_once(settings, ledger):
    spec = trading(agent=NATIVE, env_kwargs=WHOLE, training={"total_timesteps": 4096, "log_interval": 1})
    stopped = halted_run(spec, settings)
    resumed = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert (resumed.run_id, resumed.status) == (stopped.run_id, "completed")
    assert ledger.run(stopped.run_id).notices.count(NEVER_BEST) == 1


def test_bars_of_training_are_left_out_of_the_judgement(often, registry):
    overlap = {"end": "2020-07-01"}
    (row,) = models_of(registry, RLRuntime(validated_spec(training={**overlap, "total_timesteps": 64}), often).train())
    (score, _) = registry.evaluations(row.id)
    assert (score.window_start, score.in_sample, score.judgement_key) == ("2020-07-01", False, row.judgement_key)
    result = RLRuntime(validated_spec(training={"end": "2020-09-01", "total_timesteps": 64}), often).train()
    none = "no checkpoint is judged: training sees all of 2020-06-01 to 2020-08-03; name other dates by "
    assert f"{none}training.validation_start and validation_end" in result.notices
    assert models_of(registry, result)[-1].judgement_key is None


# -- rl models judge -------------------------------------------------------------------------------------------------


def test_two_models_are_judged_alike_without_the_bars_that_either_was_trained_on(often, ledger, registry):
    short = {"total_timesteps": 64}
    older = models_of(registry, RLRuntime(validated_spec(training=short), often).train())[-1]
    later = {"end": "2020-07-01", "validation_start": "2020-05-01", "validation_end": "2020-10-01", **short}
    newer = models_of(registry, RLRuntime(validated_spec(training=later, bars={}), often).train())[-1]
    assert registry.better(older.id, newer.id) is None
    found = judge_models(older.id, often, against=newer.id)
    # The older one's window, 1 June to 3 August, less what the newer one was trained on.
    assert (found.window.start, found.window.end) == ("2020-07-01", "2020-08-03")
    assert found.differences == ()
    first, second = found.evaluations
    assert (first.model_id, second.model_id) == (older.id, newer.id)
    assert first.judgement_key == second.judgement_key is not None
    assert found.better == registry.better(older.id, newer.id)
    assert found.better == (older.id if first.mean_reward > second.mean_reward else newer.id)
    runs = [ledger.run(each.run_id) for each in found.evaluations]
    assert [run.seed for run in runs] == [0, 0]
    assert {run.arguments["validation"] for run in runs} == {True}
    assert [row.phase for run in runs for row in ledger.evaluations(run.id)] == ["validation", "validation"]
    # Alone it is judged as its training judged it.
    alone = judge_models(older.id, often)
    assert [each.model_id for each in alone.evaluations] == [older.id]
    trained = registry.evaluations(older.id)[0]
    assert (alone.evaluations[0].returns, alone.evaluations[0].judgement_key) == (
        trained.returns,
        trained.judgement_key,
    )
    assert (alone.better, alone.differences) == (None, ())


def test_a_checkpoint_is_judged_with_the_statistics_of_its_training_and_as_its_spec_acts(often, registry):
    """What a server makes of the stored checkpoint, its observations normalised and its actions drawn."""
    spec = validated_spec(
        training={"total_timesteps": 64}, obs={"normalize": "running"}, evaluation={"deterministic": False}
    )
    (row,) = models_of(registry, RLRuntime(spec, often).train())
    (trained, _) = registry.evaluations(row.id)
    (alone,) = judge_models(row.id, often).evaluations
    assert (alone.returns, alone.deterministic) == (trained.returns, False)


def test_what_cannot_be_judged_alike_is_refused(often, registry, settings):
    trained = RLRuntime(validated_spec(training={"total_timesteps": 64}), often).train()
    row = models_of(registry, trained)[-1]
    with pytest.raises(ModelError, match="against itself"):
        judge_models(row.id, often, against=row.id)
    cart = models_of(registry, RLRuntime(tiny(training={"total_timesteps": 128}), often).train())[-1]
    with pytest.raises(ModelError, match="of one scope"):
        judge_models(row.id, often, against=cart.id)
    with pytest.raises(ModelError, match="every evaluation chooses"):
        judge_models(cart.id, often)
    everything = {"end": None, "validation_start": None, "validation_end": None, "total_timesteps": 64}
    greedy = models_of(registry, RLRuntime(validated_spec(training=everything), often).train())[-1]
    with pytest.raises(ModelError, match="has no bar that neither model was trained on"):
        judge_models(row.id, often, against=greedy.id)
