"""The kill switch wherever a policy answers."""

import itertools
import shutil
import time
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.checkpoints import load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import NewEvaluation
from alphaswarm_rl.operations.events import Caller
from alphaswarm_rl.operations.infer import InferRequest, Unanswered, infer
from alphaswarm_rl.settings import InferSettings, LedgerSettings
from tests.ledger.troubles import copy_of, locked, put_in_place, remove

SEEN = [0.0, 0.1, 0.02, -0.1]
RANDOM = {"agent": {"class": "random"}, "training": {"total_timesteps": 64}, "evaluation": {"episodes": 12}}
FORMS = {
    "run": {},
    "model path": {},
    "best": {"load_best": True},
    "best, watched": {"load_best": True, "watch": True},
    "alias": {"alias": "champion"},
    "model": {"model_id": 1},
    "episodes of a run": {"episodes": 10**6},
    "episodes of a model": {"model_id": 1, "episodes": 10**6},
}


@pytest.fixture
def quick(settings):
    """Settings that ask often."""
    return settings.model_copy(update={"ledger": LedgerSettings(halt_poll_seconds=0.02, halt_silence_seconds=1.0)})


@pytest.fixture
def file(settings):
    return settings.home / "ledger.db"


@pytest.fixture
def run(train, settings):
    """A run whose policy is a validated model in production."""
    result = train(**RANDOM)
    with ModelRegistry.open(settings) as registry:
        # A rule learns nothing, and would pass no gate by what was seen of it.
        returns = [9.0, 11.0] * 6
        registry.add_evaluation(1, NewEvaluation(12, 10.0, 1.0, 10.0, 0, True, None, None, None, returns, "added"))
        if not registry.validate(1).passed:
            pytest.fail("the model of the run did not pass")
        registry.promote(1, who="test", why="test")
    return result


def answers(settings, **request):
    """Answers without an end."""
    return infer(settings, InferRequest(**request), lines=itertools.repeat(f"{SEEN}\n"))


def seconds_of_answers(found, limit=5.0):
    """Seconds until nothing is answered any more, and why."""
    began = time.monotonic()
    try:
        for answer in found:
            if isinstance(answer, Unanswered):
                return time.monotonic() - began, answer.error["why"]
            assert time.monotonic() - began < limit
    except RunError as error:
        return time.monotonic() - began, error.why
    raise AssertionError("it ended by itself")


def stopped_by(found, change):
    """What stops the answers after a change, and when; they were given before."""
    for _ in range(20):
        assert not isinstance(next(found), Unanswered)
    change()
    return seconds_of_answers(found)


def engage(settings, scope="*"):
    with Ledger.open(settings) as ledger:
        ledger.engage(scope, "enough", "test")


def is_refused(server):
    """Whether a server refuses to answer."""
    try:
        server.answer(SEEN)
    except RunError:
        return True
    return False


def refusal_of(server):
    """What a server refuses with, which must be soon."""
    deadline = time.monotonic() + 3
    while time.monotonic() < deadline and not is_refused(server):
        time.sleep(0.005)
    with pytest.raises(RunError) as refused:
        server.answer(SEEN)
    return str(refused.value)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_stops_answering(quick, run, form):
    if form == "model path":
        quick = quick.model_copy(update={"infer": InferSettings(model_path=run.checkpoint)})
    found = answers(quick, **FORMS[form])
    seconds, why = stopped_by(found, lambda: engage(quick))
    assert seconds < 2
    assert why == "it is engaged: enough"


@pytest.mark.parametrize("form", ["run", "episodes of a run"])
def test_a_ledger_that_is_gone_refuses_after_the_silence(quick, run, file, form):
    seconds, why = stopped_by(answers(quick, **FORMS[form]), lambda: remove(file))
    assert 0.5 < seconds < 3
    assert "gave no answer for 1 s" in why
    assert not file.exists()


def test_a_ledger_that_is_locked_or_put_back_keeps_no_halt_from_its_answers(quick, run, file):
    found = answers(quick)
    put_in_place(file, copy_of(file, file.with_name("copy.db")))
    with locked(file), Ledger.open(quick) as ledger:
        seconds, why = stopped_by(found, lambda: ledger.declare_halt("*", "enough", "test"))
    assert seconds < 2
    assert why == "it is engaged: enough"


@pytest.mark.parametrize("form", ["run", "model", "episodes of a model"])
def test_a_halt_of_the_run_refuses_the_answers_of_its_policy(quick, run, form):
    _, why = stopped_by(answers(quick, **FORMS[form]), lambda: engage(quick, run.run_id))
    assert why == "it is engaged: enough"
    with pytest.raises(RunError, match=f"rl halt {run.run_id} --release"):
        PolicyServer.of_run(quick)


def test_a_halt_of_another_run_does_not(quick, run, train):
    other = train(**RANDOM)
    engage(quick, run.run_id)
    with PolicyServer.of_run(quick, run=other.run_id) as server:
        server.answer(SEEN)


def test_a_halt_of_a_bot_refuses_the_answers_in_its_name_alone(quick, run):
    named = quick.model_copy(update={"infer": quick.infer.model_copy(update={"bot": "grid"})})
    with PolicyServer.of_run(named) as of_bot, PolicyServer.of_run(quick) as of_none:
        of_bot.answer(SEEN)
        engage(quick, "bot:grid")
        assert "engaged: enough" in refusal_of(of_bot)
        of_none.answer(SEEN)
    with pytest.raises(RunError, match="rl halt --scope bot:grid --release"):
        PolicyServer.of_run(named)


def test_a_checkpoint_that_was_loaded_is_braked_too(quick, run):
    with PolicyServer.of(load_checkpoint(Path(run.checkpoint)), quick) as server:
        server.answer(SEEN)
        engage(quick)
        assert "engaged: enough" in refusal_of(server)
        with pytest.raises(RunError, match="engaged: enough"):
            next(server.roll_out(1))
    with pytest.raises(RunError, match="engaged: enough"):
        PolicyServer.of(load_checkpoint(Path(run.checkpoint)), quick)


def test_a_checkpoint_that_was_loaded_is_braked_with_its_run(quick, run, train):
    loaded, other = load_checkpoint(Path(run.checkpoint)), load_checkpoint(Path(train(**RANDOM).checkpoint))
    with PolicyServer.of(loaded, quick) as server, PolicyServer.of(other, quick) as another:
        server.answer(SEEN)
        engage(quick, run.run_id)
        assert "engaged: enough" in refusal_of(server)
        another.answer(SEEN)
    with pytest.raises(RunError, match=f"rl halt {run.run_id} --release"):
        PolicyServer.of(loaded, quick)


def test_a_checkpoint_of_no_run_answers_unless_everything_is_halted(quick, run, tmp_path):
    elsewhere = shutil.copytree(run.checkpoint, tmp_path / "elsewhere" / "000000000064")
    engage(quick, run.run_id)
    with PolicyServer.of(load_checkpoint(elsewhere), quick) as server:
        server.answer(SEEN)
        engage(quick)
        assert "engaged: enough" in refusal_of(server)


@pytest.mark.parametrize("form", FORMS)
def test_offline_answers_whatever_the_kill_switch_says_and_says_so(quick, run, form):
    engage(quick)
    path = run.checkpoint if form == "model path" else None
    offline = quick.model_copy(update={"infer": InferSettings(offline=True, model_path=path)})
    heard = []
    found = infer(
        offline, InferRequest(**FORMS[form]), lines=itertools.repeat(f"{SEEN}\n"), caller=Caller(listen=heard.append)
    )
    for _ in range(20):
        assert not isinstance(next(found), Unanswered)
    assert "offline: answers are given whatever the kill switch says" in [notice.text for notice in heard]


def test_offline_a_checkpoint_needs_no_ledger_at_all(quick, run, file):
    remove(file)
    offline = quick.model_copy(update={"infer": InferSettings(offline=True, model_path=run.checkpoint)})
    assert not isinstance(next(answers(offline)), Unanswered)
    assert not file.exists()


def test_a_server_whose_ledger_comes_back_goes_on(quick, run, file):
    copy = copy_of(file, file.with_name("copy.db"))
    with PolicyServer.of_run(quick) as server:
        remove(file)
        assert "no answer for 1 s" in refusal_of(server)
        put_in_place(file, copy)
        deadline = time.monotonic() + 3
        while time.monotonic() < deadline and is_refused(server):
            time.sleep(0.02)
        server.answer(SEEN)
