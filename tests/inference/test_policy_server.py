"""Serving registered models, and changing to a better one while clients ask."""

import json
import logging
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl.core.errors import LedgerError, ModelError, OptionError, RunError
from alphaswarm_rl.inference import model_choice
from alphaswarm_rl.inference.policy import LoadedPolicy
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.inference.registered_models import load_model
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adopt
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import NewEvaluation, NewModel, Scope
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.model_runs import evaluate_model
from alphaswarm_rl.settings import InferSettings, Settings, StoreSettings
from tests.runtime.conftest import tiny

SEEN = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)


@pytest.fixture
def registry(settings):
    with Ledger.open(settings) as ledger:
        adopt(ledger.engine, settings, "the registry of these tests has models of a run that no ledger knows")
    with ModelRegistry.open(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Four checkpoints of one run as rows of a registry of their own."""
    settings = Settings(
        home=tmp_path_factory.mktemp("trained"), store=StoreSettings(checkpoint_freq=128, keep_last=100)
    )
    # A large step makes policies that differ.
    spec = tiny(evaluation={"episodes": 0}, agent_kwargs={"learning_rate": 0.05, "n_epochs": 4})
    RLRuntime(spec, settings).train()
    with ModelRegistry.open(settings) as registry:
        return sorted(registry.list(), key=lambda row: row.total_timesteps)


@pytest.fixture
def rows(trained, settings, registry):
    """Four models of one run, none of them evaluated, with files of their own."""
    copies = [settings.models_path / "copied" / row.path.name for row in trained]
    for row, copy in zip(trained, copies, strict=True):
        shutil.copytree(row.path, copy)
    return [
        registry.register(other_row(row, model_path=copy, run_id=row.run_id))
        for row, copy in zip(trained, copies, strict=True)
    ]


def other_row(row, **changes):
    """A row to register, of the same model but for what changes."""
    fields = {
        "model_path": row.path,
        "algorithm": row.algorithm,
        "scope": row.scope,
        "total_timesteps": row.total_timesteps,
        "sha256": row.sha256,
        "hyperparams": {},
    }
    return NewModel(**{**fields, **changes})


def judged(registry, row, mean):
    """Gives a model an evaluation and has the gates judge it."""
    returns = [mean - 1.0, mean + 1.0] * 6
    registry.add_evaluation(
        row.id,
        NewEvaluation(12, mean, 1.0, mean, 0, True, None, None, None, returns, "added"),
    )
    assert registry.validate(row.id).passed
    return registry.get(row.id)


def own_actions(row, settings, observations=SEEN):
    """What the model itself answers, apart from any server."""
    policy = load_model(row, settings)
    actions = policy.stream().act(observations, deterministic=True)
    policy.close()
    return actions


@contextmanager
def served(settings, **arguments):
    with PolicyServer.open(settings, **arguments) as server:
        yield server


def wait_for(condition, seconds=10):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


# -- what is served ------------------------------------------------------------------------------------------------


def test_the_best_validated_model_answers_as_it_does_itself(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    best = judged(registry, rows[2], 200.0)
    registry.add_evaluation(  # better still, and it failed
        rows[3].id, NewEvaluation(1, 500.0, 0.0, 500.0, 0, True, None, None, None, [500.0], "evaluate")
    )
    assert not registry.validate(rows[3].id).passed
    with served(settings) as server:
        answer = server.answer(SEEN)
        assert (answer.model_id, answer.checkpoint_sha256) == (best.id, best.sha256)
        np.testing.assert_array_equal(answer.actions, own_actions(best, settings))


def test_one_observation_has_one_action_and_a_batch_as_many(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    with served(settings) as server:
        together = server.answer(SEEN).actions
        alone = [server.answer(observation.tolist()) for observation in SEEN]
        assert [answer.actions.shape for answer in alone] == [()] * len(SEEN)
        assert [int(answer.actions) for answer in alone] == together.tolist()
        assert json.dumps(alone[0].as_dict())


def test_without_a_validated_model_nothing_is_served(settings, registry, rows):
    with pytest.raises(ModelError, match="passed"):
        PolicyServer.open(settings)


def test_a_column_that_was_set_by_hand_validates_nothing(settings, registry, rows):
    from sqlalchemy import text

    with registry.engine.begin() as connection:
        connection.execute(text("UPDATE models SET validated = 1"))
    with pytest.raises(ModelError):
        PolicyServer.open(settings)
    with pytest.raises(ModelError, match="latest validation"):
        PolicyServer.open(settings, model_id=rows[0].id)


def test_by_id_an_unvalidated_model_must_be_asked_for(settings, registry, rows):
    with pytest.raises(ModelError, match="unvalidated"):
        PolicyServer.open(settings, model_id=rows[1].id)
    with served(settings, model_id=rows[1].id, unvalidated=True) as server:
        assert server.answer(SEEN[0]).model_id == rows[1].id


def test_an_alias_names_a_model_and_must_have_passed(settings, registry, rows):
    judged(registry, rows[3], 300.0)
    chosen = judged(registry, rows[0], 100.0)
    registry.promote(chosen.id, who="test", why="test")
    with served(settings, alias="champion") as server:
        assert server.model.id == chosen.id
    registry.set_alias(rows[1].id, "canary", who="test", why="test")
    with pytest.raises(ModelError, match="latest validation"):
        PolicyServer.open(settings, alias="canary")
    with pytest.raises(ModelError, match="champion"):
        PolicyServer.open(settings, alias="champoin")


@pytest.mark.parametrize(
    "arguments",
    [
        {"model_id": 1, "watch": True},
        {"model_id": 1, "alias": "a"},
        {"alias": "a", "env_id": "cartpole"},
        {"unvalidated": True},
    ],
)
def test_arguments_that_contradict_each_other_are_refused(settings, arguments):
    with pytest.raises(OptionError):
        PolicyServer.open(settings, **arguments)


def test_nothing_is_served_while_the_kill_switch_is_engaged(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    with Ledger.open(settings) as ledger:
        ledger.engage("*", "stop", "tester")
    with pytest.raises(RunError, match="kill switch"):
        PolicyServer.open(settings)


@pytest.mark.parametrize("watch", [True, False])
def test_a_kill_switch_that_is_engaged_later_stops_the_answers_until_it_is_released(settings, registry, rows, watch):
    judged(registry, rows[0], 100.0)

    def refusal(server):
        try:
            server.answer(SEEN[0])
        except RunError as error:
            return str(error)
        return None

    with served(settings, watch=watch, poll_seconds=0.05) as server, Ledger.open(settings) as ledger:
        assert refusal(server) is None
        ledger.engage("*", "enough", "tester")
        with pytest.raises(RunError, match="kill switch") as at_open:
            PolicyServer.open(settings)
        wait_for(lambda: refusal(server) == str(at_open.value), seconds=2)
        ledger.release("*", "go on", "tester")
        wait_for(lambda: refusal(server) is None, seconds=2)


def test_a_kill_switch_is_not_asked_at_every_answer_and_its_silence_is_logged_once(
    settings, registry, rows, monkeypatch, caplog
):
    judged(registry, rows[0], 100.0)
    looks = []

    def away(self):
        looks.append(time.monotonic())
        raise LedgerError("the ledger", "it does not answer", "Wait.")

    with served(settings, poll_seconds=0.1) as server, caplog.at_level(logging.ERROR):
        monkeypatch.setattr(Ledger, "halt_status", away)
        began = time.monotonic()
        while time.monotonic() - began < 0.5:
            assert server.answer(SEEN[0]).model_id == rows[0].id
        assert 2 <= len(looks) <= 6
        assert sum("kill switch does not answer" in record.getMessage() for record in caplog.records) == 1


# -- bad input -----------------------------------------------------------------------------------------------------


def test_an_unknown_id_is_explained(settings, registry, rows):
    with pytest.raises(ModelError, match="no such model"):
        PolicyServer.open(settings, model_id=10_000)


def test_an_archived_model_is_refused(settings, registry, rows):
    registry.archive(rows[0].id, because="too old")
    with pytest.raises(ModelError, match="archived: too old"):
        PolicyServer.open(settings, model_id=rows[0].id, unvalidated=True)


@pytest.mark.parametrize("name", ["checkpoint.json", "state.safetensors"])
def test_a_tampered_file_is_refused(settings, registry, rows, name):
    judged(registry, rows[0], 100.0)
    file = Path(rows[0].model_path) / name
    content = bytearray(file.read_bytes())
    content[-2] ^= 1
    file.write_bytes(bytes(content))
    with pytest.raises(ModelError, match="changed"):
        PolicyServer.open(settings)


def test_a_missing_file_is_refused(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    (Path(rows[0].model_path) / "state.safetensors").unlink()
    with pytest.raises(ModelError, match="not there"):
        PolicyServer.open(settings)


@pytest.mark.parametrize("observation", [[1, 2], [[1, 2, 3]], "text", [1, 2, 3, float("nan")], {"a": 1}, []])
def test_an_observation_that_does_not_fit_is_the_askers_mistake(settings, registry, rows, observation):
    judged(registry, rows[0], 100.0)
    with served(settings) as server:
        with pytest.raises(RunError, match="observation"):
            server.answer(observation)
        assert server.answer(SEEN[0]).model_id == rows[0].id


def test_a_row_that_says_another_environment_than_its_checkpoint_is_refused(settings, registry, rows):
    registry.archive(rows[0].id, because="registered anew")
    scope = Scope("CartPole-v1", "0" * 64, "Box(0.0, 1.0, (9,), float32)", "Discrete(2)")
    wrong = registry.register(other_row(rows[0], scope=scope))
    with pytest.raises(ModelError, match=r"another environment and .*configuration and observation space"):
        PolicyServer.open(settings, model_id=wrong.id, unvalidated=True)


def test_a_row_that_says_another_algorithm_than_its_checkpoint_is_refused(settings, registry, rows):
    registry.archive(rows[0].id, because="registered anew")
    wrong = registry.register(other_row(rows[0], algorithm="dqn"))
    with pytest.raises(ModelError, match=r"'dqn'.*'ppo'"):
        PolicyServer.open(settings, model_id=wrong.id, unvalidated=True)


def test_a_model_of_another_scope_than_the_one_asked_for_is_refused(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    other = Scope("CartPole-v1")
    with pytest.raises(ModelError, match="not of"):
        PolicyServer.open(settings, model_id=rows[0].id, scope=other)
    with pytest.raises(ModelError):
        PolicyServer.open(settings, scope=other)


def test_a_scope_may_be_named_as_on_the_command_line(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    short = rows[0].scope.short
    for named in (short, short[:6], rows[0].scope):
        with PolicyServer.open(settings, scope=named) as server:
            assert server.scope == rows[0].scope
    with pytest.raises(ModelError, match="no-such-scope"):
        PolicyServer.open(settings, scope="no-such-scope")


def test_a_file_that_is_no_checkpoint_is_never_loaded(settings, registry, rows, tmp_path):
    file = tmp_path / "best_model.zip"
    file.write_bytes(b"PK")
    row = registry.register(other_row(rows[0], model_path=file, sha256=None))
    with pytest.raises(ModelError, match="rl models add"):
        PolicyServer.open(settings, model_id=row.id, unvalidated=True)


# -- changing ------------------------------------------------------------------------------------------------------


def test_from_training_to_a_better_model_while_eight_threads_ask(settings, registry):
    """No answer fails, none is mixed, each is its model's own, and the change is seen within two seconds."""
    often = settings.model_copy(update={"store": StoreSettings(checkpoint_freq=1024, keep_last=100)})
    learns = {"n_steps": 64, "batch_size": 64, "n_epochs": 8, "learning_rate": 0.003, "net_arch": [32]}
    training = {"total_timesteps": 4096, "seed": 1}
    RLRuntime(tiny(agent_kwargs=learns, training=training, evaluation={"episodes": 0}), often).train()
    # Rows appear, not validated; an evaluation fills one, and the gates decide.
    rows = sorted(registry.list(), key=lambda row: row.total_timesteps)
    assert [(row.total_timesteps, row.validated) for row in rows] == [(step, False) for step in range(1024, 4097, 1024)]
    with pytest.raises(ModelError, match="passed"):
        PolicyServer.open(settings)
    _, validation = evaluate_model(rows[0].id, settings, episodes=12)
    assert validation.passed
    first, better = rows[0].id, rows[3].id
    own = {row.id: own_actions(row, settings) for row in rows}
    assert not np.array_equal(own[first], own[better])
    answers, problems, stop = [[] for _ in range(8)], [], threading.Event()

    def ask(server, number):
        generator = np.random.default_rng(number)
        try:
            while not stop.is_set():
                which = generator.integers(0, len(SEEN), size=int(generator.integers(1, 9)))
                answer = server.answer(SEEN[which], client=str(number))
                answers[number].append((time.monotonic(), answer.model_id))
                if not np.array_equal(answer.actions, own[answer.model_id][which]):
                    problems.append((number, answer))
        except Exception as error:  # noqa: BLE001  told below
            problems.append((number, error))

    with served(settings, watch=True) as server:
        threads = [threading.Thread(target=ask, args=(server, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        # A better one appears: this process evaluates it while it serves.
        _, validation = evaluate_model(better, settings, episodes=12)
        appeared = time.monotonic()
        assert validation.passed
        wait_for(lambda: problems or all(mine[-1][1] == better for mine in answers))
        stop.set()
        for thread in threads:
            thread.join()
    assert problems == []
    assert registry.get(better).lower_bound > registry.get(first).lower_bound
    assert min(moment for mine in answers for moment, model in mine if model == better) - appeared < 2
    for mine in answers:
        models = [model for _, model in mine]
        # The old one until the new one, and never back.
        assert models == sorted(models, key=[first, better].index)
        assert set(models) == {first, better}


def test_a_worse_model_changes_nothing(settings, registry, rows):
    best = judged(registry, rows[0], 100.0)
    with served(settings) as server:
        judged(registry, rows[1], 50.0)
        assert not server.refresh()
        assert server.model.id == best.id


@pytest.mark.parametrize("broken", ["tampered", "missing", "not finite", "no answer"])
def test_a_broken_model_never_replaces_one_that_works(settings, registry, rows, caplog, monkeypatch, broken):
    works = judged(registry, rows[0], 100.0)
    better = judged(registry, rows[1], 200.0)
    folder = Path(better.model_path)
    original = (folder / "state.safetensors").read_bytes()
    true_predict = LoadedPolicy.predict

    def acting(self, batch, *arguments, **words):
        if self.checkpoint.sha256 == better.sha256:
            if broken == "no answer":
                raise RuntimeError("out of memory")
            return np.full(len(batch), 7), None  # CartPole has two actions
        return true_predict(self, batch, *arguments, **words)

    with served(settings, model_id=works.id) as server:
        if broken == "tampered":
            (folder / "state.safetensors").write_bytes(original[:-1] + b"!")
        elif broken == "missing":
            (folder / "state.safetensors").unlink()
        else:
            monkeypatch.setattr(LoadedPolicy, "predict", acting)
        with caplog.at_level(logging.ERROR):
            assert not server.refresh()
            assert not server.refresh()
        warnings = [record for record in caplog.records if f"model {better.id} cannot answer" in record.getMessage()]
        assert len(warnings) == 1  # it is tried once
        assert server.answer(SEEN[0]).model_id == works.id
        monkeypatch.undo()
        (folder / "state.safetensors").write_bytes(original)  # changed: it is tried again
        assert server.refresh()
        assert server.answer(SEEN[0]).model_id == better.id


def test_a_model_that_fails_its_first_request_gives_the_place_back(settings, registry, rows, monkeypatch):
    works, better = judged(registry, rows[0], 100.0), judged(registry, rows[1], 200.0)
    with served(settings, model_id=works.id) as server:
        server.answer(SEEN[0])
        assert server.refresh()
        assert server.model.id == better.id
        true_predict = LoadedPolicy.predict

        def acting(self, *arguments, **words):
            if self.checkpoint.sha256 == better.sha256:
                raise RuntimeError("it fails in earnest")
            return true_predict(self, *arguments, **words)

        monkeypatch.setattr(LoadedPolicy, "predict", acting)
        answer = server.answer(SEEN)
        assert answer.model_id == works.id
        np.testing.assert_array_equal(answer.actions, own_actions(works, settings))
        assert not server.refresh()


def test_the_next_best_is_taken_where_the_best_is_broken(settings, registry, rows):
    works = judged(registry, rows[0], 100.0)
    with served(settings) as server:
        second, best = judged(registry, rows[1], 200.0), judged(registry, rows[2], 300.0)
        (Path(best.model_path) / "checkpoint.json").unlink()
        assert server.refresh()
        assert server.model.id == second.id != works.id
        assert not server.refresh()


def test_at_the_start_too_the_next_best_is_taken_where_the_best_is_broken(settings, registry, rows, caplog):
    works, broken, best = (judged(registry, row, mean) for row, mean in zip(rows, (100.0, 200.0, 300.0), strict=False))
    (Path(best.model_path) / "checkpoint.json").unlink()
    (Path(broken.model_path) / "state.safetensors").unlink()
    with caplog.at_level(logging.ERROR), served(settings) as server:
        assert server.answer(SEEN[0]).model_id == works.id
        assert not server.refresh()
    messages = [record.getMessage() for record in caplog.records]
    assert [f"model {row.id} cannot answer" in text for row, text in zip((best, broken), messages, strict=True)] == [
        True
    ] * 2
    (Path(works.model_path) / "checkpoint.json").unlink()
    with pytest.raises(ModelError, match=f"{Path(best.model_path).name}"):
        PolicyServer.open(settings)


def revoke(registry, row):
    """Has a model fail its validation."""
    registry.add_evaluation(row.id, NewEvaluation(1, 1.0, 0.0, 1.0, 0, True, None, None, None, [1.0], "evaluate"))
    assert not registry.validate(row.id).passed


@pytest.mark.parametrize("lost", ["validation", "alias"])
def test_an_alias_that_names_no_validated_model_leaves_the_present_one(settings, registry, rows, caplog, lost):
    chosen, better = judged(registry, rows[0], 100.0), judged(registry, rows[1], 200.0)
    registry.set_alias(chosen.id, "desk", who="test", why="test")
    with served(settings, alias="desk") as server, caplog.at_level(logging.ERROR):
        revoke(registry, chosen) if lost == "validation" else registry.archive(chosen.id, because="test")
        assert not server.refresh()
        assert not server.refresh()
        assert server.answer(SEEN[0]).model_id == chosen.id
        (message,) = [record.getMessage() for record in caplog.records]
        assert f"alias 'desk' names no validated model, and model {chosen.id} goes on answering" in message
        registry.set_alias(better.id, "desk", who="test", why="test")
        assert server.refresh()
        assert server.answer(SEEN[0]).model_id == better.id


def test_a_revoked_validation_goes_to_the_best_that_remains(settings, registry, rows, caplog):
    second, best = judged(registry, rows[0], 100.0), judged(registry, rows[1], 200.0)
    with served(settings) as server:
        assert server.model.id == best.id
        revoke(registry, best)
        assert server.refresh()
        assert server.answer(SEEN[0]).model_id == second.id
        revoke(registry, second)
        with caplog.at_level(logging.ERROR):
            assert not server.refresh()
            assert not server.refresh()
        assert sum("no longer a validated one" in record.getMessage() for record in caplog.records) == 1
        assert server.answer(SEEN[0]).model_id == second.id


def test_a_watched_alias_is_followed_through_promotion_and_rollback(settings, registry, rows):
    first, second = judged(registry, rows[0], 100.0), judged(registry, rows[1], 50.0)
    registry.promote(first.id, who="test", why="first")
    with served(settings, alias="champion", watch=True, poll_seconds=0.05) as server:
        assert server.answer(SEEN[0]).model_id == first.id
        registry.promote(second.id, who="test", why="second")
        wait_for(lambda: server.answer(SEEN[0]).model_id == second.id, seconds=2)
        registry.rollback(first.scope, who="test", why="worse")
        wait_for(lambda: server.answer(SEEN[0]).model_id == first.id, seconds=2)


def test_watching_survives_a_registry_that_is_away(settings, registry, rows, caplog, monkeypatch):
    judged(registry, rows[0], 100.0)
    successor = ModelRegistry.successor
    with served(settings, watch=True, poll_seconds=0.02) as server, caplog.at_level(logging.ERROR):

        def away(self, current, **asked):
            raise LedgerError("the registry", "it does not answer", "Wait.")

        monkeypatch.setattr(ModelRegistry, "successor", away)
        wait_for(lambda: any("does not answer" in record.getMessage() for record in caplog.records))
        time.sleep(0.2)
        assert sum("does not answer" in record.getMessage() for record in caplog.records) == 1
        assert server.answer(SEEN[0]).model_id == rows[0].id
        monkeypatch.setattr(ModelRegistry, "successor", successor)
        better = judged(registry, rows[1], 200.0)
        wait_for(lambda: server.answer(SEEN[0]).model_id == better.id)


def test_nothing_is_loaded_while_this_process_trains(settings, registry, rows, train):
    judged(registry, rows[0], 100.0)
    with served(settings, watch=True, poll_seconds=0.01) as server:
        judged(registry, rows[1], 200.0)
        wait_for(lambda: server.model.id == rows[1].id)
        during = []

        def looking(event):
            if event.stage == "train.step":
                judged(registry, rows[2], 300.0)
                time.sleep(0.1)
                during.append(server.model.id)

        result = RLRuntime(tiny(training={"seed": 5}), settings, sinks=[looking]).train()
        assert set(during) == {rows[1].id}
        wait_for(lambda: server.model.id == rows[2].id)
    alone = train(training={"seed": 5})
    assert result.checkpoint_sha256 == alone.checkpoint_sha256


# -- memory --------------------------------------------------------------------------------------------------------


def remembering(train, registry, **changes):
    result = train(evaluation={"episodes": 0}, **changes)
    (row,) = [row for row in registry.list() if row.run_id == result.run_id]
    return row


RECURRENT = {
    "class": "recurrent_ppo",
    "kwargs": {"n_steps": 32, "batch_size": 32, "n_epochs": 1, "lstm_hidden_size": 4},
}


@pytest.mark.parametrize(
    "changes",
    [{"obs": {"stack_frames": 3, "normalize": "running"}}, {"agent": RECURRENT}],
    ids=["stacked frames", "memory"],
)
def test_a_policy_that_remembers_does_so_for_each_client(train, settings, registry, changes):
    row = judged(registry, remembering(train, registry, **changes), 100.0)
    with served(settings) as server:
        with pytest.raises(RunError, match="client=NAME"):
            server.answer(SEEN[0])
        one = [int(server.answer(seen, client="one").actions) for seen in SEEN]
        for seen in SEEN[:7]:
            server.answer(seen, client="two")
        two = [
            int(server.answer(seen, client="two", episode_start=index == 0).actions) for index, seen in enumerate(SEEN)
        ]
        assert one == two
        with pytest.raises(RunError, match="as many"):
            server.answer(SEEN[:2], client="one")
        server.forget("one")
        assert [int(server.answer(seen, client="one").actions) for seen in SEEN] == one
        # A client that plays several episodes at once sends them together.
        both = server.answer(np.stack([SEEN[0], SEEN[1]]), client="many", episode_start=[True, True])
        assert both.actions.shape == (2,)
        assert both.model_id == row.id


def test_a_change_starts_memories_anew(train, settings, registry):
    first = judged(registry, remembering(train, registry, agent=RECURRENT), 100.0)
    with served(settings) as server:
        for seen in SEEN:
            server.answer(seen, client="one")
        second = judged(registry, remembering(train, registry, agent=RECURRENT, training={"seed": 8}), 200.0)
        assert server.refresh()
        answered = [server.answer(seen, client="one") for seen in SEEN]
    with served(settings, model_id=second.id) as fresh:
        alone = [int(fresh.answer(seen, client="one", episode_start=i == 0).actions) for i, seen in enumerate(SEEN)]
    assert {answer.model_id for answer in answered} == {second.id} != {first.id}
    assert [int(answer.actions) for answer in answered] == alone


@pytest.mark.parametrize("starts", [1, "yes", [True], [True, True, True]])
def test_episode_starts_that_do_not_fit_are_refused(settings, registry, rows, starts):
    judged(registry, rows[0], 100.0)
    with served(settings) as server, pytest.raises(RunError, match="episode_start"):
        server.answer(SEEN[:2], episode_start=starts)


# -- drawing, devices ----------------------------------------------------------------------------------------------


def test_a_policy_may_draw(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    with served(settings, deterministic=False) as server:
        drawn = {int(server.answer(SEEN[0]).actions) for _ in range(200)}
    assert drawn == {0, 1}
    with served(settings, deterministic=None) as server:
        assert server.deterministic  # as its spec evaluates


def test_while_a_model_is_loaded_one_that_draws_goes_on_answering(settings, registry, rows, monkeypatch):
    judged(registry, rows[0], 100.0)
    true_load, loading = load_model, threading.Event()

    def slow(row, *arguments, **words):
        loading.set()
        time.sleep(1.0)
        return true_load(row, *arguments, **words)

    with served(settings, deterministic=False) as server:
        better = judged(registry, rows[1], 200.0)
        monkeypatch.setattr(model_choice, "load_model", slow)
        thread = threading.Thread(target=server.refresh)
        thread.start()
        assert loading.wait(10)
        waits = []
        while thread.is_alive():
            began = time.monotonic()
            server.answer(SEEN[0])
            waits.append(time.monotonic() - began)
        thread.join()
        assert max(waits) < 0.5
        assert server.answer(SEEN[0]).model_id == better.id


def test_a_run_may_ask_a_server_that_draws_while_others_wait_for_the_run(settings, registry, rows):
    judged(registry, rows[0], 100.0)
    judged(registry, rows[1], 200.0)
    server = PolicyServer.open(settings, model_id=rows[0].id, deterministic=False)
    asked, answered = [], []

    def ask():
        server.answer(SEEN[0])
        answered.append("other")

    def during(event):
        if event.stage == "train.step" and not asked:
            asked.append(threading.Thread(target=ask, daemon=True))
            asked[0].start()
            time.sleep(0.2)  # it waits for the run by now, as does the look for a better model
            server.answer(SEEN[0])
            answered.append("run")

    run = threading.Thread(target=RLRuntime(tiny(), settings, sinks=[during]).train, daemon=True)
    server._start_watching(0.5)
    wait_for(lambda: server.model.id == rows[1].id)
    judged(registry, rows[2], 300.0)
    run.start()
    run.join(30)
    assert not run.is_alive(), "the run and whoever asks wait for each other"
    asked[0].join(10)
    assert answered == ["run", "other"]
    server.close()


def test_a_device_that_is_not_there_is_explained(settings, registry, rows):
    import torch

    judged(registry, rows[0], 100.0)
    missing = "mps" if not torch.backends.mps.is_available() else "cuda"
    elsewhere = settings.model_copy(update={"infer": InferSettings(device=missing)})
    with pytest.raises(OptionError, match="device"):
        PolicyServer.open(elsewhere)
    for device in ("cpu", "auto"):
        with served(settings.model_copy(update={"infer": InferSettings(device=device)})) as server:
            assert server.answer(SEEN[0]).model_id == rows[0].id
