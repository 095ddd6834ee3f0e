"""What chooses the best model of a training: a dry run says it, and where nothing can, the row does too."""

import pytest

from alphaswarm_rl.core.errors import UnfitCheckpoint
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import RegistrySettings
from tests.runtime.conftest import tiny
from tests.runtime.test_judgements import NATIVE, VALIDATION, validated_spec
from tests.runtime.test_trading import trading

WINDOW = "2020-06-01 to 2020-08-03"
NO_WINDOW = "nothing: there are dates and no training.validation_start and validation_end"
BY_WEIGHTS = (
    f"no checkpoint is judged: the training that the weights come from sees all of {WINDOW}; name other dates by "
    "training.validation_start and validation_end"
)


def planned(spec, settings, **registry):
    changed = settings.model_copy(update={"registry": RegistrySettings(**registry)})
    return RLRuntime(spec, changed).rehearse()


@pytest.mark.parametrize(
    ("changes", "registry", "words"),
    [
        ({}, {}, f"each checkpoint judged by 1 episode on {WINDOW}"),
        (
            {"training": {"eval_during_training": True, "eval_freq": 64}},
            {},
            f"validations of 1 episode every 64 transitions on {WINDOW}; "
            f"each checkpoint judged by 1 episode on {WINDOW}",
        ),
        (
            {"training": {"eval_during_training": True}, "evaluation": {"episodes": 3}},
            {"judge_checkpoints": False},
            f"validations of 3 episodes every 25 transitions on {WINDOW}",
        ),
        ({"evaluation": {"episodes": 2}}, {}, f"each checkpoint judged by 2 episodes on {WINDOW}"),
        ({"training": {"end": "2020-07-01"}}, {}, "each checkpoint judged by 1 episode on 2020-07-01 to 2020-08-03"),
        (
            {},
            {"judge_checkpoints": False},
            "nothing: registry.judge_checkpoints and training.eval_during_training are off",
        ),
        ({}, {"enable": False}, "nothing: registry.enable and training.eval_during_training are off"),
        ({"evaluation": {"episodes": 0}}, {}, "nothing: evaluation.episodes is 0"),
        ({"training": {"validation_start": None, "validation_end": None}}, {}, NO_WINDOW),
        ({"agent": {"class": "random"}}, {}, f"each checkpoint judged by 1 episode on {WINDOW}"),
    ],
)
def test_a_dry_run_says_what_will_choose(settings, changes, registry, words):
    plan = planned(validated_spec(**changes), settings, **registry)
    assert plan.best_model == words


def test_a_validation_window_without_a_bar_is_not_said_to_be_trained_on(settings):
    beyond = {"validation_start": "2031-01-01", "validation_end": "2032-01-01"}
    plan = planned(validated_spec(training=beyond), settings)
    assert plan.best_model == (
        "nothing: no checkpoint is judged: the data has no bar in 2031-01-01 to 2032-01-01; name other dates by "
        "training.validation_start and validation_end"
    )
    assert list(plan.windows) == ["training", "evaluation"]


def test_a_dry_run_shows_the_dates_on_which_checkpoints_are_judged(settings):
    plan = planned(validated_spec(training={"end": "2020-07-01"}), settings)
    assert list(plan.windows) == ["training", "validation", "evaluation"]
    judged = plan.windows["validation"]
    assert (judged.start, judged.first_bar, judged.last_bar) == ("2020-07-01", "2020-07-01", "2020-07-31")
    sought = planned(validated_spec(training={"eval_during_training": True, "end": "2020-07-01"}), settings)
    assert sought.windows["validation"].start == "2020-06-01"


def test_a_dry_run_says_whether_the_evaluation_is_in_sample(settings):
    assert planned(validated_spec(), settings).in_sample is False
    assert planned(validated_spec(evaluation={"start": "2020-07-01"}), settings).in_sample is True
    assert planned(validated_spec(evaluation={"episodes": 0}), settings).in_sample is None


def test_without_dates_the_evaluation_at_the_end_chooses_or_validations_do(settings):
    assert planned(tiny(), settings).best_model == "the evaluation at the end"
    asked = tiny(training={"eval_during_training": True, "eval_freq": 128})
    assert planned(asked, settings).best_model == "validations of 4 episodes every 128 transitions"
    rule = tiny(agent={"class": "random"})
    assert planned(rule, settings).best_model == "nothing: the agent learns nothing"


def test_a_warm_start_on_the_validation_window_of_its_weights_says_that_nothing_is_judged(settings):
    short = {"total_timesteps": 32}
    first = RLRuntime(validated_spec(training=short), settings).train()
    begun = {**short, "init_from": first.run_id}
    runtime = RLRuntime(validated_spec(training=begun), settings)
    plan = runtime.rehearse()
    assert plan.best_model == f"nothing: {BY_WEIGHTS}"
    assert plan.notices.count(BY_WEIGHTS) == 1
    assert any(notice.startswith(f"initial weights: run {first.run_id}") for notice in plan.notices)
    assert list(runtime.train().notices).count(BY_WEIGHTS) == 1
    # Later dates are judged.
    later = {"validation_start": "2020-08-03", "validation_end": "2020-09-01"}
    spec = validated_spec(training={**begun, **later}, evaluation={"start": "2020-09-01"})
    assert planned(spec, settings).best_model == "each checkpoint judged by 1 episode on 2020-08-03 to 2020-09-01"


def test_a_dry_run_refuses_weights_that_do_not_fit(settings):
    short = {"total_timesteps": 32}
    first = RLRuntime(validated_spec(training=short), settings).train()
    begun = {**short, "init_from": first.run_id}
    agents = {
        "of the agent 'ppo_inhouse', and this spec's is 'a2c_inhouse'. Begin with a checkpoint of the same agent": {
            "class": "a2c_inhouse"
        },
        "it does not fit.*Begin with a checkpoint of the same agent, networks and normalisation": {
            **NATIVE,
            "kwargs": {**NATIVE["kwargs"], "net_arch": [9]},
        },
    }
    for why, agent in agents.items():
        with pytest.raises(UnfitCheckpoint, match=why) as refused:
            RLRuntime(validated_spec(training=begun, agent=agent), settings).rehearse()
        assert refused.value.exit_code == 2
    spec = trading(agent=NATIVE, training={**VALIDATION, **begun}, bars={"n_assets": 4})
    with pytest.raises(UnfitCheckpoint, match="it was trained for the observation space"):
        RLRuntime(spec, settings).rehearse()
