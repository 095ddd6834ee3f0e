"""Plans: the space is held against the base spec before anything is run."""

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphaswarm_rl.core.errors import AlphaSwarmError, SpecError
from alphaswarm_rl.studies.changes import overlap, value_at, with_value
from alphaswarm_rl.studies.tuning import Parameter, Plan, TuningDocument, first_draw
from tests.studies.documents import POLICIES, RATE, TRADING, base, document

WEIGHT = {"reward.kwargs.weight": {"type": "float", "low": 0.0, "high": 2.0}}


def plan(space=None, spec=None, fixed=(), **study):
    return Plan.of(TuningDocument.from_data(document(space, spec, **study)), fixed=fixed)


def refused(*words, **arguments):
    with pytest.raises(AlphaSwarmError) as caught:
        plan(**arguments)
    for word in words:
        assert word in str(caught.value)


def one(path, **parameter):
    return {path: {"type": "float", "low": 0.1, "high": 0.9, **parameter}}


def test_a_spec_has_the_values_at_their_paths_and_keeps_its_slug():
    space = {**RATE, "agent.kwargs.net_arch": {"type": "categorical", "choices": [[8], [16, 16]]}}
    found = plan(space).spec_for({"agent.kwargs.learning_rate": 0.005, "agent.kwargs.net_arch": [16, 16]})
    assert found.agent.kwargs["learning_rate"] == 0.005
    assert found.agent.kwargs["net_arch"] == [16, 16]
    assert found.slug == "tuned"
    assert found.agent.kwargs["n_steps"] == 32


def test_whole_components_can_be_chosen_between():
    chosen = plan(POLICIES).spec_for({"agent": {"class": "constant"}})
    assert chosen.agent.kwargs["policy"]["class"] == "constant"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("agent.kwargs.learning_rat", ["'agent.kwargs' of the base spec has no 'learning_rat'", "'learning_rate'"]),
        ("trainig.n_envs", ["a spec has no 'trainig'", "'training'"]),
        ("training.advantage.kwargs.gamma", ["'training.advantage' of the base spec is null"]),
        ("agent.kwargs.net_arch.1", ["a list of 1", "Count its entries from 0"]),
        ("training.total_timesteps.x", ["is 256 and has no 'x'"]),
    ],
)
def test_a_path_that_is_not_there_names_what_is(path, words):
    refused(f"space path {path!r}", *words, space=one(path))


@pytest.mark.parametrize(
    "path",
    ["name", "annotations", "mlflow.experiment", "trajectory_store", "training.log_interval", "universe.metadata"],
)
def test_fields_that_change_nothing_that_is_computed_are_refused(path):
    space = {path: {"type": "categorical", "choices": ["one", "two"]}}
    refused(f"space path {path!r}", "changes nothing about what is computed", space=space)


def test_seeds_are_not_searched():
    refused("the best of several is chance", space={"training.seed": {"type": "int", "low": 0, "high": 9}})


@pytest.mark.parametrize("path", ["evaluation.episodes", "training.eval_freq", "training.validation_start"])
def test_how_trials_are_judged_is_not_searched(path):
    space = {path: {"type": "int", "low": 1, "high": 9}}
    refused("changes how trials are judged", space=space)


def test_what_a_reward_is_may_be_searched_by_other_metrics_alone():
    refused("it changes what a reward is", "validation.sharpe", space=WEIGHT, spec=TRADING)
    assert plan(WEIGHT, TRADING, metric="validation.sharpe").metric.name == "sharpe"


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (one("agent.kwargs.gamma", high=1.5), ["does not take 1.5", "gamma", "less than or equal to 1"]),
        (one("agent.kwargs.learning_rate", low=-1.0), ["does not take -1.0", "learning_rate"]),
        (one("agent.kwargs.n_steps", low=8.0, high=64.0), ["n_steps", "integer"]),
        ({"agent.kwargs.net_arch": {"type": "categorical", "choices": [[8], "deep"]}}, ['does not take "deep"']),
        ({"agent": {"type": "categorical", "choices": [{"class": "random"}, {"class": "pppo"}]}}, ["'ppo'"]),
        ({"obs.clip_range": {"type": "categorical", "choices": [5, [-5.0, 5.0]]}}, ["mean the same spec"]),
    ],
)
def test_extremes_that_the_schema_refuses_are_named_before_anything_runs(space, words):
    refused("space path", *words, space=space)


def test_paths_that_overlap_are_refused():
    refused("it overlaps with 'agent'", space={**POLICIES, **RATE})
    refused("'agent.kwargs.learning_rate'", "a flag", space=RATE, fixed=["agent.kwargs.learning_rate"])
    assert overlap("agent", "agent.kwargs.gamma")
    assert not overlap("agent.kwargs.gamma", "agent.kwargs.gamma_end")


@pytest.mark.parametrize(
    ("study", "spec", "words"),
    [
        ({}, base(training={"eval_during_training": False}), ["makes no validations", "evaluation.mean_reward"]),
        ({"metric": "validation.sharpe"}, base(), ["has no account", "mean_reward"]),
        (
            {"metric": "evaluation.mean_reward"},
            base(training={"eval_during_training": False}),
            ["study.pruning", "pruning: false"],
        ),
        (
            {"metric": "evaluation.mean_reward", "pruning": False},
            base(training={"eval_during_training": False}, evaluation={"episodes": 0}),
            ["makes no evaluation"],
        ),
    ],
)
def test_a_metric_that_no_run_would_have_is_refused(study, spec, words):
    refused(*words, spec=spec, **study)


def test_of_dated_bases_only_the_validation_window_chooses():
    undated = base()
    assert str(plan(spec=undated, metric="evaluation.mean_reward").metric) == "evaluation.mean_reward"
    space = {"env.kwargs.episode_bars": {"type": "int", "low": 20, "high": 30}}
    refused(
        "the evaluation window is reported and chooses nothing",
        "validation.sharpe",
        space=space,
        spec=TRADING,
        metric="evaluation.sharpe",
    )
    everywhere = {**TRADING, "training": {"eval_during_training": True}}
    refused("no validation window", "validation_start", space=space, spec=everywhere, metric="validation.sharpe")
    assert plan(space, TRADING, metric="validation.sharpe").metric.window == "validation"


def test_trials_under_other_costs_could_not_be_compared():
    for path, low, high in (("costs.half_spread_bps", 1.0, 2.0), ("initial_cash", 1000.0, 2000.0)):
        space = {f"env.kwargs.{path}": {"type": "float", "low": low, "high": high}}
        refused("how trials are judged", space=space, spec=TRADING, metric="validation.sharpe")
    sizings = {"env.kwargs.sizing": {"type": "categorical", "choices": ["at_fill", "at_decision"]}}
    refused("how trials are judged", space=sizings, spec=TRADING, metric="validation.sharpe")


def test_a_base_that_cannot_be_trained_is_refused():
    with pytest.raises(SpecError, match="it has no env"):
        plan(spec={"name": "no env"}, space={"training.n_envs": {"type": "int", "low": 1, "high": 2}})


PATHS = st.lists(st.sampled_from("abc"), min_size=1, max_size=4)


@given(PATHS, st.integers())
def test_a_value_that_was_put_is_found_and_the_rest_is_as_it_was(keys, value):
    data = {"z": [0, 1]}
    holder = data
    for key in keys[:-1]:
        holder[key] = {"other": 1}
        holder = holder[key]
    holder[keys[-1]] = None
    before = copy.deepcopy(data)
    changed = with_value(data, ".".join(keys), value)
    assert data == before
    assert value_at(changed, ".".join(keys)) == value
    assert with_value(changed, ".".join(keys), None) == before


@given(st.integers(0, 2**32 - 1))
def test_what_is_drawn_lies_in_the_space_and_is_drawn_again_for_the_same_seed(seed):
    space = {
        "agent.kwargs.gamma": {"type": "float", "low": 0.9, "high": 0.99, "step": 0.01},
        "agent.kwargs.n_steps": {"type": "int", "low": 16, "high": 64, "step": 16},
        "agent.kwargs.learning_rate": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True},
    }
    searched = Plan(
        PLAN.base, {path: Parameter(**found) for path, found in sorted(space.items())},
        PLAN.study.model_copy(update={"seed": seed}), PLAN.metric,
    )  # fmt: skip
    drawn = first_draw(searched)
    assert drawn == first_draw(searched)
    assert drawn["agent.kwargs.n_steps"] in (16, 32, 48, 64)
    assert 1e-4 <= drawn["agent.kwargs.learning_rate"] <= 1e-2
    assert min(abs(drawn["agent.kwargs.gamma"] - (0.9 + 0.01 * k)) for k in range(10)) < 1e-9
    assert searched.spec_for(drawn).agent.kwargs["n_steps"] == drawn["agent.kwargs.n_steps"]


PLAN = plan()
