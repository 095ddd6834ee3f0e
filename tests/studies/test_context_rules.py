"""What goes before what where a study, flags and the user speak about the same thing."""

import pytest

from alphaswarm_rl.core.window import Window
from alphaswarm_rl.db.types import utc_now
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.settings import StoreSettings
from alphaswarm_rl.spec import RLExperimentSpec
from alphaswarm_rl.studies import context as module
from alphaswarm_rl.studies.context import RuntimeContext
from tests.ledger.samples import SampleSpec
from tests.studies.documents import TRADING, base


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as opened:
        yield opened


@pytest.fixture
def run_id(ledger):
    version = ledger.persist_spec(SampleSpec())
    return ledger.create_run(version_id=version.id, target="train", seed=1).id


@pytest.fixture
def asked(run_id, monkeypatch):
    """What runtimes are made with; each trains nothing and answers with one run."""
    requests = []

    class Runtime:
        def __init__(self, spec, settings, **more):
            requests.append({"spec": spec, "settings": settings, **more})
            self.run_id = run_id

        def train(self, seed=None):
            return self

        evaluate = train

    monkeypatch.setattr(module, "RLRuntime", Runtime)
    return requests


def context_of(data, settings, **more):
    return RuntimeContext(RLExperimentSpec.from_data(data), settings, **more)


def test_a_change_of_the_study_goes_before_a_flag_of_the_same_path(settings, asked):
    flags = {path: {"value": 4, "source": "flag"} for path in ("training.n_envs", "training.total_timesteps")}
    context_of(base(), settings, overrides=flags).train({"training.n_envs": 2}, name="small")
    (request,) = asked
    assert request["spec"].training.n_envs == 2
    assert request["overrides"] == {
        "training.n_envs": {"value": 2, "source": "study small"},
        "training.total_timesteps": {"value": 4, "source": "flag"},
    }


def test_a_change_without_a_name_has_the_study_as_its_source(settings, asked):
    context_of(base(), settings).train({"training.n_envs": 2})
    assert asked[0]["overrides"] == {"training.n_envs": {"value": 2, "source": "study"}}


def test_the_dates_of_a_window_go_before_changes_of_dates(settings, asked):
    changes = {"training.start": "2020-01-01", "training.end": "2020-02-01"}
    context_of(TRADING, settings).train(changes, window=Window("2020-03-01", "2020-04-01"))
    shown = {path: drawn["value"] for path, drawn in asked[0]["overrides"].items()}
    assert shown == {"training.start": "2020-03-01", "training.end": "2020-04-01"}


@pytest.mark.parametrize(
    ("given", "name", "whole"),
    [("mine", "trial 1", "mine trial 1"), (None, "trial 1", "trial 1"), ("mine", None, "mine"), (None, None, None)],
)
def test_a_runs_name_is_the_users_then_the_studys(settings, asked, given, name, whole):
    named = settings.model_copy(update={"store": StoreSettings(run_name=given)})
    context_of(base(), named).train(name=name)
    assert asked[0]["settings"].store.run_name == whole


def judge(ledger, run_id, phase, timesteps):
    facts = {"seed": 1, "episodes": 1, "deterministic": True, "started_at": utc_now()}
    ledger.add_evaluation(run_id, phase=phase, timesteps=timesteps, metrics={"of": f"{phase} {timesteps}"}, **facts)


def test_a_run_is_judged_by_its_evaluation_and_a_replay_only_without_one(settings, ledger, run_id):
    context = context_of(base(), settings)
    assert context.run(run_id).evaluation == context.run(run_id).validation == {}
    judge(ledger, run_id, "replay", 8)
    assert context.run(run_id).evaluation == {"of": "replay 8"}
    judge(ledger, run_id, "evaluate", 8)
    assert context.run(run_id).evaluation == {"of": "evaluate 8"}


def test_a_run_shows_its_last_validation(settings, ledger, run_id):
    for timesteps in (4, 8, 2):
        judge(ledger, run_id, "validation", timesteps)
    found = context_of(base(), settings).run(run_id)
    assert (found.validation, found.evaluation) == ({"of": "validation 8"}, {})
