"""What operations refuse before anything is loaded, opened or run."""

import pytest

from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.operations.evaluate import EvaluateRequest, ReplayRequest, evaluate, replay
from alphaswarm_rl.operations.events import ArgumentsResolved, Caller, Notice, SpecResolved
from alphaswarm_rl.operations.halt import HaltRequest, halt
from alphaswarm_rl.operations.infer import InferRequest, infer
from alphaswarm_rl.operations.operation import RequestError
from alphaswarm_rl.operations.options import ListOptions, list_options
from alphaswarm_rl.operations.overrides import resolve_arguments, resolve_both, resolve_spec
from alphaswarm_rl.operations.train import ResumeRequest, resume
from alphaswarm_rl.options.resolve import starting_spec
from alphaswarm_rl.settings import Settings


def heard_by(environ=None):
    """A caller, and the list of what it hears."""
    heard = []
    return Caller(heard.append, environ or {}), heard


@pytest.mark.parametrize(
    ("fields", "flag", "why"),
    [
        ({"run": "abcd", "load_best": True}, "--run and --load-best", "each names a policy"),
        ({"alias": "a", "options": {"infer.modelPath": "x"}}, "--model-path and --alias", "each names a policy"),
        ({"load_best": True, "alias": "a", "model_id": 1}, "--load-best and --alias and --model-id", "each names"),
        ({"env_id": "x"}, "--env", "observations come from stdin"),
        ({"env_id": "x", "model_id": 1, "episodes": 1}, "--env", "the model is named already"),
        ({"env_id": "x", "alias": "a", "episodes": 1}, "--env", "the model is named already"),
        ({"watch": True}, "--watch", "it is for models of the registry"),
        ({"watch": True, "model_id": 1}, "--watch", "it is for models of the registry"),
        ({"scope": "s"}, "--scope", "it is for models of the registry"),
        ({"unvalidated": True}, "--unvalidated", "it is for one model"),
        ({"watch": True, "alias": "a", "episodes": 1}, "--watch", "episodes are played by one model"),
    ],
)
def test_infer_refuses_at_once(fields, flag, why):
    # Nothing is asked of the iterator: the refusal comes with the call.
    with pytest.raises(OptionError) as error:
        infer(Settings(), InferRequest(**fields))
    assert error.value.what.endswith(flag)
    assert why in error.value.why


@pytest.mark.parametrize("fields", [{}, {"target": "latest", "model_id": 1}])
def test_evaluate_judges_one_thing(fields):
    with pytest.raises(OptionError, match="it judges one thing"):
        evaluate(Settings(), EvaluateRequest(**fields))


def test_a_model_has_its_checkpoint():
    with pytest.raises(OptionError, match="each names a policy"):
        evaluate(Settings(), EvaluateRequest(model_id=1, checkpoint="best"))


@pytest.mark.parametrize(("fields", "flag"), [({"start": "soon"}, "--start"), ({"end": "2020-13-01"}, "--end")])
def test_dates_are_iso(fields, flag):
    for run, request in ((evaluate, EvaluateRequest("latest", **fields)), (replay, ReplayRequest("latest", **fields))):
        with pytest.raises(OptionError, match="it is not an ISO date") as error:
            run(Settings(), request)
        assert flag in error.value.what


@pytest.mark.parametrize(
    "fields",
    [
        {"status": True, "log": True},
        {"status": True, "run": "abcd"},
        {"status": True, "release": True},
        {"log": True, "reason": "x"},
        {},
        {"run": "abcd"},
        {"release": True},
    ],
)
def test_halt_refuses_fields_that_do_not_go_together(fields, tmp_path):
    with pytest.raises(RequestError):
        halt(Settings(home=tmp_path / "home"), HaltRequest(**fields))
    assert not (tmp_path / "home").exists()


def test_a_stored_version_takes_no_option_of_the_spec():
    with pytest.raises(OptionError, match="a stored version is run as it is stored"):
        resume(Settings(), ResumeRequest("latest", {"train.gamma": 0.5}))
    with pytest.raises(OptionError, match="a stored version is run as it is stored"):
        resume(Settings(), ResumeRequest("latest", {"env.seed": 1}))


def test_arguments_of_a_run_come_with_their_sources():
    caller, heard = heard_by({"RL_EVAL_EPISODES": "3", "RL_TRAIN_GAMMA": "0.5"})
    found = resolve_arguments({"env.seed": "7"}, caller)
    assert found.arguments == {"seed": 7, "episodes": 3}
    assert found.sources["seed"] == {"value": 7, "source": "flag --seed"}
    assert found.sources["episodes"] == {"value": 3, "source": "ENV RL_EVAL_EPISODES"}
    notice, arguments = heard
    assert isinstance(notice, Notice)
    assert "RL_TRAIN_GAMMA is ignored" in notice.text
    assert arguments == ArgumentsResolved(found.sources)


def test_of_a_spec_the_arguments_of_its_run_stay_apart():
    caller, heard = heard_by({"RL_EVAL_DETERMINISTIC": "false", "RL_ENV_N_ENVS": "2"})
    base = starting_spec()
    spec, found = resolve_both(Settings, base, {"env.seed": 5}, caller)
    assert found.arguments == {"seed": 5, "deterministic": False}
    assert (spec.training.n_envs, spec.training.seed) == (2, base.training.seed)
    assert set(found.sources) == {"training.n_envs", "seed", "deterministic"}
    assert [type(event) for event in heard] == [SpecResolved, ArgumentsResolved]
    assert heard[0].spec_hash == spec.spec_hash


def test_trials_have_one_seed():
    with pytest.raises(OptionError, match="cannot be compared"):
        resolve_spec(Settings, starting_spec(), {"env.seed": "random"}, Caller(), may_draw_seed=False)
    assert resolve_spec(Settings, starting_spec(), {"env.seed": "random"}, Caller()).draws_seed


def test_options_need_no_settings():
    def fail():
        raise AssertionError("settings were read")

    listing = list_options(fail, ListOptions("RL/Train"))
    assert [feature["feature"] for feature in listing.features] == ["Train"]
    assert not hasattr(listing, "text")
    assert list_options(fail, ListOptions("RL/Train", ("nix",))).text.startswith("# Generated")
