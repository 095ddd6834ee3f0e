"""Models from elsewhere: a zip of Stable-Baselines3 gives its weights and nothing else."""

import base64
import io
import json
import os
import pickle
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from stable_baselines3 import PPO, SAC

from alphaswarm_rl.core.errors import CheckpointError, ModelError
from alphaswarm_rl.inference.model_import import GivenMetrics, add_model
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.inference.registered_models import load_model
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adoption
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.models.rows import NewModel
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.runtime.model_runs import evaluate_model
from tests.runtime.conftest import tiny
from tests.runtime.test_trading import trading

METRICS = {"mean_reward": 50.0, "std_reward": 5.0, "episodes": 20, "mean_episode_length": 50.0, "total_timesteps": 4096}
SEEN = np.random.default_rng(0).normal(size=(64, 4)).astype(np.float32)
NET = {"net_arch": [8]}


@pytest.fixture
def registry(settings):
    with ModelRegistry.open(settings) as opened:
        yield opened


@pytest.fixture(scope="module")
def trained_zip(tmp_path_factory):
    """The file of a model that Stable-Baselines3 trained, and that knows nothing of us."""
    path = tmp_path_factory.mktemp("theirs") / "theirs.zip"
    model = PPO("MlpPolicy", "CartPole-v1", n_steps=256, policy_kwargs=dict(NET), seed=5, device="cpu")
    model.learn(METRICS["total_timesteps"]).save(path)
    return path


@pytest.fixture
def theirs(trained_zip):
    """That model as its own library loads it."""
    return PPO.load(trained_zip, device="cpu")


@pytest.fixture
def their_zip(trained_zip, tmp_path):
    """A file of its own for each test."""
    return Path(shutil.copy(trained_zip, tmp_path))


def add(registry, settings, path, *, spec=None, tags=(), parent=None, **changes):
    metrics = GivenMetrics(**{**METRICS, **changes})
    return add_model(registry, settings, path, metrics, spec=spec, tags=tags, parent_model_id=parent)


def rewritten(path, **entries):
    """A copy of a zip with other contents of some entries (`_` for `.` in their names)."""
    copy = path.with_name("rewritten.zip")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(copy, "w") as new:
        for name in old.namelist():
            new.writestr(name, entries.pop(name.replace(".", "_"), old.read(name)))
        for name, content in entries.items():
            new.writestr(name, content)
    return copy


def test_a_zip_answers_as_its_own_library_does(settings, registry, theirs, their_zip):
    row = add(registry, settings, their_zip, spec=tiny(), tags=["theirs"])
    assert (row.algorithm, row.env_id, row.total_timesteps, row.tags) == ("ppo", "cartpole", 4096, ("theirs",))
    assert (row.mean_reward, row.eval_episodes, row.validated) == (50.0, 20, False)
    assert row.run_id is None
    (evaluation,) = registry.evaluations(row.id)
    assert evaluation.source == "added"
    with PolicyServer.open(settings, model_id=row.id, unvalidated=True) as server:
        np.testing.assert_array_equal(server.answer(SEEN).actions, theirs.predict(SEEN, deterministic=True)[0])


def test_a_home_has_its_ledger_before_its_first_model(settings, registry, their_zip):
    add(registry, settings, their_zip, spec=tiny())
    assert adoption(settings).reason == "first contact"
    Ledger.open(settings).close()


def test_a_zip_of_an_off_policy_agent_is_taken_too(settings, registry, tmp_path):
    theirs = SAC("MlpPolicy", "Pendulum-v1", policy_kwargs=dict(NET), buffer_size=10, device="cpu")
    theirs.save(tmp_path / "sac.zip")
    spec = tiny(
        env={"class": "gymnasium", "kwargs": {"id": "Pendulum-v1"}},
        agent={"class": "sac", "kwargs": {"net_arch": [8], "buffer_size": 10}},
    )
    row = add(registry, settings, tmp_path / "sac.zip", spec=spec)
    seen = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    with PolicyServer.open(settings, model_id=row.id, unvalidated=True) as server:
        np.testing.assert_allclose(
            server.answer(seen).actions, theirs.predict(seen, deterministic=True)[0], rtol=1e-6, atol=1e-6
        )


def test_it_is_validated_judged_and_served_like_any_other(settings, registry, their_zip):
    row = add(registry, settings, their_zip, spec=tiny())
    assert registry.validate(row.id).passed
    result, validation = evaluate_model(row.id, settings, episodes=12)
    assert (result.timesteps, result.checkpoint_sha256) == (4096, row.sha256)
    assert validation.passed
    assert [evaluation.source for evaluation in registry.evaluations(row.id)] == ["added", "evaluate"]
    with PolicyServer.open(settings) as server:
        assert server.answer(SEEN[0]).model_id == row.id


def test_the_same_zip_under_the_same_spec_is_the_same_model(settings, registry, their_zip):
    first, again = (add(registry, settings, their_zip, spec=tiny()) for _ in range(2))
    other = add(registry, settings, their_zip, spec=tiny(training={"seed": 1}))
    assert first.id == again.id != other.id
    assert Path(first.model_path).is_dir()


def test_a_checkpoint_folder_stays_where_it_is(train, settings, registry, tmp_path):
    trained = train(evaluation={"episodes": 0})
    copy = tmp_path / "brought"
    Path(trained.checkpoint).rename(copy)
    row = add(
        registry, settings, copy, total_timesteps=512, returns=[50.0] * 20, seed=3, window={"start": "2020-01-01"}
    )
    assert (row.model_path, row.sha256) == (str(copy), trained.checkpoint_sha256)
    assert (row.eval_seed, row.eval_window_start, row.lower_bound) == (3, "2020-01-01", 50.0)


def test_a_runs_own_checkpoint_is_the_row_that_is_there(train, settings, registry):
    trained = train(evaluation={"episodes": 0})
    (row,) = registry.list()
    assert add(registry, settings, Path(trained.checkpoint), total_timesteps=512).id == row.id
    assert registry.get(row.id).run_id == trained.run_id


def test_metrics_that_are_added_to_a_validated_model_are_judged_before_they_count(train, settings, registry):
    trained = train(evaluation={"episodes": 12})
    (row,) = registry.list()
    assert (row.validated, registry.best()) == (True, row)
    again = add(registry, settings, Path(trained.checkpoint), total_timesteps=512, mean_reward=1e6, tags=["claimed"])
    assert (again.id, again.validated, again.tags) == (row.id, False, ("claimed",))
    assert registry.best() is None
    with pytest.raises(ModelError, match="latest validation"):
        PolicyServer.open(settings, model_id=row.id)
    assert registry.validate(row.id).passed
    assert registry.best().mean_reward == 1e6


def test_a_parent_is_kept(settings, registry, their_zip):
    parent = add(registry, settings, their_zip, spec=tiny())
    child = add(registry, settings, their_zip, spec=tiny(training={"seed": 1}), parent=parent.id)
    assert (parent.parent_model_id, child.parent_model_id) == (None, parent.id)
    with pytest.raises(ModelError, match="no such model"):
        add(registry, settings, their_zip, spec=tiny(training={"seed": 2}), parent=99)
    gym = tiny(env={"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}})
    with pytest.raises(ModelError, match="same scope"):
        add(registry, settings, their_zip, spec=gym, parent=parent.id)


def test_a_trading_model_must_say_its_dates_to_be_held_out(settings, registry, their_zip):
    trained = RLRuntime(trading(agent={"class": "random"}), settings).train()
    path = Path(trained.checkpoint)

    def holdout(row):
        (verdict,) = (check for check in registry.validate(row.id, profile="trading").checks if check.gate == "holdout")
        return verdict

    without = holdout(add(registry, settings, path, total_timesteps=128))
    assert not without.passed
    assert "not given" in without.reason
    assert holdout(add(registry, settings, their_zip, spec=tiny())).passed  # an environment without dates


def test_a_model_without_a_checksum_is_not_loaded(train, settings, registry):
    trained = train(evaluation={"episodes": 0})
    (row,) = registry.list()
    registry.archive(row.id, because="test")
    bare = registry.register(
        NewModel(Path(trained.checkpoint), row.algorithm, row.scope, row.total_timesteps, None, {})
    )
    with pytest.raises(ModelError, match=f"rl models add {trained.checkpoint}"):
        load_model(bare, settings)
    # What the remedy says helps.
    anew = add(registry, settings, Path(trained.checkpoint), total_timesteps=512)
    load_model(anew, settings).close()


def test_a_runs_own_checkpoint_that_was_changed_is_refused(train, settings, registry):
    trained = train(evaluation={"episodes": 0})
    manifest = Path(trained.checkpoint) / "checkpoint.json"
    manifest.write_text(manifest.read_text().replace('"seed": 3', '"seed": 4'))
    with pytest.raises(CheckpointError, match="changed"):
        add(registry, settings, Path(trained.checkpoint), total_timesteps=512)


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        (tiny(agent_kwargs={"net_arch": [16]}), "shape"),
        (tiny(agent={"class": "dqn"}), "name"),
        (tiny(agent={"class": "random"}), "none of Stable-Baselines3"),
        (tiny(obs={"normalize": "running"}), "statistics"),
        (None, "--spec"),
    ],
)
def test_a_zip_that_is_of_another_spec_is_refused(settings, registry, their_zip, spec, why):
    with pytest.raises(ModelError, match=why):
        add(registry, settings, their_zip, spec=spec)
    assert registry.list() == []


@pytest.mark.parametrize("content", [b"", b"no zip at all", None])
def test_a_file_that_is_no_such_zip_is_refused(settings, registry, tmp_path, content):
    path = tmp_path / "some.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ModelError, match=r"cannot be read|not there"):
        add(registry, settings, path, spec=tiny())


def tensors(**changes):
    buffer = io.BytesIO()
    torch.save(changes, buffer)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (tensors(weights=[1, 2]), "no mapping of names to tensors"),
        (b"not torch", "no file of tensors alone"),
        (b"\0" * 40_000_000, "far larger"),
    ],
)
def test_weights_that_are_no_tensors_are_refused(settings, registry, their_zip, policy, why):
    with pytest.raises(ModelError, match=why):
        add(registry, settings, rewritten(their_zip, policy_pth=policy), spec=tiny())


@pytest.mark.timeout(60)
def test_a_fifo_is_refused_at_once(settings, registry, tmp_path):
    os.mkfifo(tmp_path / "fifo.zip")
    with pytest.raises(ModelError, match=r"fifo\.zip is a FIFO"):
        add(registry, settings, tmp_path / "fifo.zip", spec=tiny())


@pytest.mark.parametrize(("name", "why"), [("a\0b", "NUL"), ("a" * 300, "longer")])
def test_a_path_that_no_file_can_have_is_refused(settings, registry, tmp_path, name, why):
    with pytest.raises(ModelError, match=why):
        add(registry, settings, tmp_path / name, spec=tiny())


def packed(their_zip, method, content=b"\0" * 40_000_000, says=None):
    """A copy whose weights are compressed, and may say another size than they have."""
    path = their_zip.with_name("packed.zip")
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("policy.pth", content)
    if says is not None:
        size = len(content).to_bytes(4, "little")
        assert path.read_bytes().count(size) == 2
        path.write_bytes(path.read_bytes().replace(size, says.to_bytes(4, "little")))
    return path


@pytest.mark.parametrize(
    ("method", "says", "why"),
    [
        (zipfile.ZIP_DEFLATED, None, "far larger"),
        (zipfile.ZIP_DEFLATED, 100, "Bad CRC|far larger|tensors alone"),
        (zipfile.ZIP_BZIP2, None, "compressed in a way that is not read"),
        (zipfile.ZIP_LZMA, 100, "compressed in a way that is not read"),
    ],
)
def test_weights_that_unpack_to_far_more_are_refused(settings, registry, their_zip, method, says, why):
    with pytest.raises(ModelError, match=why):
        add(registry, settings, packed(their_zip, method, says=says), spec=tiny())


def test_weights_that_torch_would_unpack_to_far_more_are_refused(settings, registry, their_zip, monkeypatch):
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", b"\0" * 40_000_000)
    monkeypatch.setattr(torch, "load", lambda *_, **__: pytest.fail("torch read it"))
    with pytest.raises(ModelError, match="unpacks to far more"):
        add(registry, settings, rewritten(their_zip, policy_pth=inner.getvalue()), spec=tiny())


def test_a_deflated_zip_is_as_good_as_a_stored_one(settings, registry, their_zip):
    with zipfile.ZipFile(their_zip) as archive:
        weights = archive.read("policy.pth")
    row = add(registry, settings, packed(their_zip, zipfile.ZIP_DEFLATED, weights), spec=tiny())
    assert row.algorithm == "ppo"


@pytest.mark.parametrize("change", ["bfloat16", "huge view"])
def test_weights_that_numpy_cannot_have_are_refused(settings, registry, theirs, their_zip, change):
    weights = theirs.policy.state_dict()
    name = next(iter(weights))
    # A view of one number that says it has a trillion: to copy it is to have no memory left.
    wrong = weights[name].bfloat16() if change == "bfloat16" else torch.zeros(1).expand(10**12)
    buffer = io.BytesIO()
    torch.save({**weights, name: wrong}, buffer)
    with pytest.raises(ModelError, match=rf"{name} has the (type torch.bfloat16|shape \(1000000000000,\))"):
        add(registry, settings, rewritten(their_zip, policy_pth=buffer.getvalue()), spec=tiny())


@pytest.mark.parametrize("seed", range(20))
def test_a_zip_of_no_weights_with_flipped_bits_is_refused_with_a_reason(settings, registry, their_zip, seed):
    generator = np.random.default_rng(seed)
    content = bytearray(packed(their_zip, zipfile.ZIP_DEFLATED, their_zip.read_bytes()).read_bytes())
    for place in generator.integers(0, len(content), 8):
        content[place] ^= 1 << int(generator.integers(0, 8))
    path = their_zip.with_name("flipped.zip")
    path.write_bytes(content)
    with pytest.raises(ModelError):
        add(registry, settings, path, spec=tiny())


def test_weights_that_are_not_finite_are_refused(settings, registry, theirs, tmp_path):
    with torch.no_grad():
        next(theirs.policy.parameters())[0, 0] = float("nan")
    theirs.save(tmp_path / "nan.zip")
    with pytest.raises(ModelError, match="NaN"):
        add(registry, settings, tmp_path / "nan.zip", spec=tiny())


@pytest.mark.parametrize(
    "wrong",
    [
        {"episodes": 0},
        {"std_reward": -1.0},
        {"mean_reward": float("nan")},
        {"returns": [50.0]},
        {"returns": [1.0] * 20},
        {"returns": [1e308] * 20},
        {"reward": 3},
        {"total_timesteps": None},
    ],
)
def test_wrong_metrics_are_refused(wrong):
    with pytest.raises(ValidationError):
        GivenMetrics(**{**METRICS, **wrong})


# -- the columns of the original registry ---------------------------------------------------------------------------

#: A row of it, but for id and path; it does not count episodes.
ROW = {
    "algorithm": "PPO",
    "env_id": "CartPole-v1",
    "timestamp": 1_700_000_000,
    "total_timesteps": 4096,
    "mean_reward": 50.0,
    "std_reward": 5.0,
    "mean_episode_length": 50.0,
    "hyperparams": '{"net_arch": [8], "learning_rate": "3e-4"}',
    "git_commit": "8f20cf85",
}


def test_a_zip_with_the_columns_of_the_original_registry_needs_no_spec(settings, registry, theirs, their_zip):
    row = add_model(registry, settings, their_zip, GivenMetrics(**ROW))
    assert (row.algorithm, row.env_id, row.timestamp) == ("ppo", "CartPole-v1", 1_700_000_000)
    assert (row.git_commit, row.hyperparams["net_arch"], row.validated) == ("8f20cf85", [8], False)
    with PolicyServer.open(settings, model_id=row.id, unvalidated=True) as server:
        np.testing.assert_array_equal(server.answer(SEEN).actions, theirs.predict(SEEN, deterministic=True)[0])
    assert add_model(registry, settings, their_zip, GivenMetrics(**ROW)).id == row.id


@pytest.mark.parametrize(
    ("given", "episodes"),
    [({}, 2), ({"std_reward": 0.0}, 1), ({"returns": [49.0, 50.0, 51.0]}, 3), ({"episodes": 7}, 7)],
)
def test_episodes_that_nobody_counted_are_as_few_as_can_be(given, episodes):
    assert GivenMetrics(**{**ROW, **given}).episodes == episodes


def test_a_model_of_which_nobody_counted_episodes_does_not_pass_for_them(settings, registry, their_zip):
    row = add_model(registry, settings, their_zip, GivenMetrics(**ROW))
    failed = {check.gate: check.reason for check in registry.validate(row.id).checks if not check.passed}
    assert failed == {"min_episodes": "evaluated episodes: 2, asked for: 10"}
    assert registry.validate(row.id, profile="seed-legacy").passed


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"algorithm": "A2C"}, "its algorithm is ppo, and the metrics say a2c"),
        ({"env_id": "Pendulum-v1"}, "its env_id is cartpole, and the metrics say Pendulum-v1"),
        ({"hyperparams": {"net_arch": [16]}}, "its hyperparams is"),
        ({"timestamp": 99_999_999_999}, "is not of the past"),
    ],
)
def test_columns_that_are_not_the_models_own_are_refused(train, settings, registry, wrong, why):
    trained = train(evaluation={"episodes": 0})
    metrics = {**METRICS, "total_timesteps": 512}
    with pytest.raises(ModelError) as refused:
        add_model(registry, settings, Path(trained.checkpoint), GivenMetrics(**{**metrics, **wrong}))
    assert why in str(refused.value)
    assert all(row.timestamp < 99_999_999_999 for row in registry.list())


def test_columns_that_are_the_models_own_are_taken(train, settings, registry):
    trained = train(evaluation={"episodes": 0})
    columns = {"algorithm": "ppo", "env_id": "cartpole", "hyperparams": {"net_arch": [8]}}
    metrics = GivenMetrics(**{**METRICS, "total_timesteps": 512, **columns})
    assert add_model(registry, settings, Path(trained.checkpoint), metrics).mean_reward == 50.0


def test_a_commit_that_is_known_stays(train, settings, registry, ledger):
    trained = train(evaluation={"episodes": 0})
    commit = ledger.run(trained.run_id).code_fingerprint.get("git_commit")
    metrics = GivenMetrics(**{**METRICS, "total_timesteps": 512, "git_commit": "0" * 40})
    with pytest.raises(ModelError, match=f"its git_commit is {commit}"):
        add_model(registry, settings, Path(trained.checkpoint), metrics)


@pytest.mark.parametrize("wrong", [{"hyperparams": "{"}, {"hyperparams": "[1]"}, {"validated": True}, {"id": 3}])
def test_wrong_columns_are_refused(wrong):
    with pytest.raises(ValidationError):
        GivenMetrics(**{**ROW, **wrong})


def test_metrics_of_another_length_of_training_are_refused(train, settings, registry):
    trained = train(evaluation={"episodes": 0})
    with pytest.raises(ModelError, match="512 transitions, and the metrics say 4096"):
        add(registry, settings, Path(trained.checkpoint))


# -- a zip that means harm -----------------------------------------------------------------------------------------


class Harm:
    """Runs a command as soon as anybody unpickles it."""

    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


@pytest.fixture
def mark(tmp_path):
    """The file that appears when the harm was done."""
    return tmp_path / "harmed"


def torch_file(harm):
    buffer = io.BytesIO()
    torch.save({"weights": harm}, buffer)
    return buffer.getvalue()


@pytest.fixture
def harmful(their_zip, mark):
    """A zip whose every pickle but the weights does harm."""
    harm = Harm(f"touch {mark}")
    with zipfile.ZipFile(their_zip) as archive:
        data = json.loads(archive.read("data"))
    code = base64.b64encode(pickle.dumps(harm)).decode()
    data["policy_class"] = {":type:": "<class 'abc.ABCMeta'>", ":serialized:": code}
    data["clip_range"] = {":type:": "<class 'function'>", ":serialized:": code}
    return rewritten(
        their_zip,
        data=json.dumps(data),
        pytorch_variables_pth=torch_file(harm),
        policy_optimizer_pth=torch_file(harm),
    )


def test_the_harm_is_real(harmful, mark):
    with pytest.raises(Exception):  # noqa: B017  whatever it is, the harm is done before
        PPO.load(harmful)
    assert mark.exists()


def test_a_zip_that_means_harm_is_added_validated_loaded_and_runs_nothing(settings, registry, harmful, mark):
    row = add(registry, settings, harmful, spec=tiny())
    assert registry.validate(row.id).passed
    with PolicyServer.open(settings) as server:
        assert server.answer(SEEN[0]).model_id == row.id
    evaluate_model(row.id, settings, episodes=12)
    registry.promote(row.id, who="test", why="test")
    assert not mark.exists()
    # Nothing of the zip but its weights is in the checkpoint, which has no pickle at all.
    assert sorted(path.name for path in Path(row.model_path).iterdir()) == ["checkpoint.json", "state.safetensors"]


def test_weights_that_mean_harm_are_refused_and_run_nothing(settings, registry, their_zip, mark):
    harm = Harm(f"touch {mark}")
    for policy in (torch_file(harm), pickle.dumps(harm)):
        with pytest.raises(ModelError, match="tensors alone"):
            add(registry, settings, rewritten(their_zip, policy_pth=policy), spec=tiny())
    assert registry.list() == []
    assert not mark.exists()
