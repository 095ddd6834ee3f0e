import hashlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError, RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore, flaw_at_a_glance, load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer
from alphaswarm_rl.runtime import RLRuntime
from tests.runtime.conftest import tiny

STATES = {
    "learner": State({"w": np.arange(6, dtype=np.float32).reshape(2, 3), "scalar": np.array(2.5)}, {"count": 3}),
    "env": State({"flags": np.array([True, False])}, {}),
}


@pytest.fixture
def store(tmp_path):
    return CheckpointStore(tmp_path / "models")


def save(store, step=10, run="run", seed=1, claim=1):
    return store.save(run, step, STATES, spec={"name": "x"}, seed=seed, claim=claim)


def test_what_is_saved_is_loaded(store):
    loaded = load_checkpoint(save(store).path)
    assert loaded.spec == {"name": "x"}
    assert loaded.seed == 1
    for name, state in STATES.items():
        assert loaded.states[name].data == state.data
        for key, array in state.arrays.items():
            assert np.array_equal(loaded.states[name].arrays[key], array)
            assert loaded.states[name].arrays[key].shape == array.shape


def test_the_identity_knows_neither_run_nor_clock(store):
    assert save(store, run="a").sha256 == save(store, run="b").sha256
    assert save(store, step=11).sha256 != save(store, step=10).sha256


def test_changed_tensors_are_refused(store):
    checkpoint = save(store)
    tensors = checkpoint.path / "state.safetensors"
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    with pytest.raises(CheckpointError, match="changed after it was written"):
        load_checkpoint(checkpoint.path)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        (None, None, None),
        ("state.safetensors", lambda whole: whole[:-1], "should have"),
        ("state.safetensors", lambda whole: whole + b"x", "should have"),
        ("state.safetensors", lambda whole: whole[:20], "do not say how many"),
        ("state.safetensors", lambda whole: b"", "do not say how many"),
        ("state.safetensors", lambda whole: b"\xff" * len(whole), "do not say how many"),
        ("checkpoint.json", lambda whole: whole[:-1], "is not the one the ledger recorded"),
    ],
)
def test_a_glance_sees_what_was_cut_short(store, name, content, why):
    checkpoint = save(store)
    if name is not None:
        file = checkpoint.path / name
        file.write_bytes(content(file.read_bytes()))
    found = flaw_at_a_glance(checkpoint.path, expected_sha256=checkpoint.sha256)
    assert found == why if why is None else why in found


def test_a_glance_sees_what_is_no_checkpoint(store):
    checkpoint = save(store)
    assert flaw_at_a_glance(store.root) == "checkpoint.json is not there"
    (checkpoint.path / "checkpoint.json").write_text("[]")
    assert flaw_at_a_glance(checkpoint.path) == "checkpoint.json is no mapping"
    assert "Not a directory" in flaw_at_a_glance(checkpoint.path / "checkpoint.json" / "below")


def test_what_was_verified_is_what_is_loaded_though_the_file_is_swapped(store, monkeypatch):
    checkpoint = save(store)
    other = {name: State({key: array[::-1] if array.ndim else array for key, array in state.arrays.items()}, state.data)
             for name, state in STATES.items()}  # fmt: skip
    tensors = checkpoint.path / "state.safetensors"
    verified = tensors.read_bytes()
    wrong = (store.save("other", 10, other, spec={}, seed=1).path / tensors.name).read_bytes()
    assert len(wrong) == len(verified)
    swapped = []

    def swapping(digest):
        def hashed(data, *more):
            result = digest(data, *more)
            if data == verified or getattr(data, "name", None) == str(tensors):
                tensors.write_bytes(wrong)
                swapped.append(True)
            return result

        return hashed

    for name in ("sha256", "file_digest"):
        monkeypatch.setattr(hashlib, name, swapping(getattr(hashlib, name)))
    loaded = load_checkpoint(checkpoint.path)
    assert swapped == [True]
    assert tensors.read_bytes() == wrong
    np.testing.assert_array_equal(loaded.states["learner"].arrays["w"], STATES["learner"].arrays["w"])


def test_a_changed_manifest_is_refused_by_the_ledgers_checksum(store):
    checkpoint = save(store)
    manifest = checkpoint.path / "checkpoint.json"
    manifest.write_text(manifest.read_text().replace('"seed": 1', '"seed": 2'))
    with pytest.raises(CheckpointError, match="not the one the ledger recorded"):
        load_checkpoint(checkpoint.path, expected_sha256=checkpoint.sha256)


@pytest.mark.parametrize("content", ["", "{", "{}", "[]"])
def test_a_broken_manifest_is_an_error_of_ours(store, content):
    checkpoint = save(store)
    (checkpoint.path / "checkpoint.json").write_text(content)
    with pytest.raises(CheckpointError):
        load_checkpoint(checkpoint.path)


def test_a_newer_schema_is_refused(store):
    checkpoint = save(store)
    manifest = json.loads((checkpoint.path / "checkpoint.json").read_text())
    (checkpoint.path / "checkpoint.json").write_text(json.dumps({**manifest, "schema_version": 99}))
    with pytest.raises(CheckpointError, match="Upgrade"):
        load_checkpoint(checkpoint.path)


def test_a_checkpoint_that_is_there_is_never_replaced(store):
    first = save(store)
    assert save(store, seed=2) == first
    assert load_checkpoint(first.path, expected_sha256=first.sha256).seed == 1
    (first.path / "checkpoint.json").unlink()
    with pytest.raises(CheckpointError, match="step 10 of run run"):
        save(store)
    assert (first.path / "state.safetensors").exists()


def test_claims_save_apart_the_same_bytes_and_the_later_one_counts(store):
    first, second = save(store), save(store, claim=2)
    save(store, step=20)
    last = save(store, step=5, claim=10)
    assert first.path == store.root / "run" / "000000000010"
    assert second.path == store.root / "run" / "claim-000002" / "000000000010"
    assert second.sha256 == first.sha256
    assert list(store.steps("run").items()) == [
        (5, last.path),
        (10, second.path),
        (20, store.root / "run" / "000000000020"),
    ]


def test_a_claim_needs_nothing_but_what_is_kept_and_leaves_later_claims_alone(store):
    kept, old, again = (save(store, step=step) for step in (10, 20, 30))
    own, later = save(store, step=30, claim=2), save(store, step=40, claim=3)
    assert set(store.unneeded(Claim("run", 2), [kept.path, own.path])) == {old.path, again.path}
    assert set(store.unneeded(Claim("run", 1), [kept.path])) == {old.path, again.path}
    assert set(store.unneeded(Claim("run", 3), [kept.path, later.path])) == {old.path, again.path, own.path}


def test_a_kept_checkpoint_may_be_named_by_another_way(store, tmp_path):
    saved = save(store)
    (tmp_path / "link").symlink_to(store.root)
    assert store.unneeded(Claim("run", 1), [tmp_path / "link" / "run" / saved.path.name]) == []


def test_pruning_asks_before_each_whether_the_run_is_still_ours(store):
    paths = [save(store, step=step).path for step in (10, 20, 30)]
    asked = []

    def refuse_stale():
        asked.append([path.exists() for path in paths])
        if len(asked) == 2:
            raise Claim("run", 1).stale(2)

    with pytest.raises(StaleClaim):
        store.prune(paths, refuse_stale=refuse_stale)
    assert asked == [[True, True, True], [False, True, True]]
    assert list(store.steps("run")) == [20, 30]


def test_what_two_processes_delete_is_deleted(store):
    saved, other = save(store), save(store, step=20)
    store.discard(saved.path)
    store.discard(saved.path)
    assert list(store.steps("run").values()) == [other.path]


def test_what_a_killed_process_left_half_written_is_found_in_every_claim(store):
    names = [".unfinished-000000000010", "claim-000002/.unfinished-000000000020"]
    for name in names:
        (store.root / "run" / name).mkdir(parents=True)
    assert store.unfinished() == [store.root / "run" / name for name in names]


def test_a_missing_folder_is_an_error_of_ours(tmp_path):
    with pytest.raises(CheckpointError, match="is not there"):
        load_checkpoint(tmp_path / "none")


FULL_DISK = """
import resource, sys
from pathlib import Path
from alphaswarm_rl.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY))
sys.argv[0] = "rl"
main()
"""


def test_a_full_disk_fails_the_run_and_loses_no_older_checkpoint(settings, tmp_path):
    """The file size limit of the operating system stands for a disk that is full."""
    from alphaswarm_rl.ledger import Ledger

    spec = tmp_path / "spec.yaml"
    # The replay buffer grows, so that the first checkpoint fits below the limit and a later one does not.
    spec.write_text(
        "name: Growing\nenv: {class: cartpole}\n"
        "agent: {class: dqn, kwargs: {buffer_size: 200000, learning_starts: 100000, net_arch: [4]}}\n"
        "training: {total_timesteps: 60000, n_envs: 8}\n"
    )
    limit = 1_500_000
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(limit), "train", str(spec), "--home", str(settings.home), "--json"],
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    error = json.loads(done.stdout)["error"]
    assert error["type"] == "CheckpointError"
    assert "cannot be written" in error["why"]
    assert "rl resume" in error["remedy"]
    with Ledger.open(settings) as ledger:
        (row,) = ledger.runs()
    assert row.status == "failed"
    assert "cannot be written" in row.error
    kept = load_checkpoint(Path(row.checkpoint), expected_sha256=row.checkpoint_sha256)
    assert 0 < kept.checkpoint.timesteps <= row.timesteps
    assert not list(Path(row.checkpoint).parent.glob(".unfinished*"))


def test_a_tampered_checkpoint_is_refused_by_every_verb(train, settings, ledger):
    result = train()
    tensors = Path(result.checkpoint, "state.safetensors")
    content = bytearray(tensors.read_bytes())
    content[-1] ^= 1
    tensors.write_bytes(content)
    runtime = RLRuntime.from_run(result.run_id, settings)
    with pytest.raises(CheckpointError, match="changed"):
        runtime.evaluate()
    with pytest.raises(CheckpointError, match="changed"):
        runtime.replay(seed=1)
    with pytest.raises(CheckpointError, match="changed"):
        PolicyServer.of_run(settings, run=result.run_id)


def test_checkpoints_are_chosen_by_step_by_best_and_by_path(train, settings, ledger):
    result = train(training={"eval_during_training": True, "eval_freq": 256})
    runtime = RLRuntime.from_run(result.run_id, settings)
    best = runtime.evaluate(checkpoint="best")
    assert best.checkpoint == result.best_checkpoint
    assert runtime.evaluate(checkpoint=512).checkpoint_sha256 == result.checkpoint_sha256
    assert runtime.evaluate(checkpoint=result.checkpoint).checkpoint_sha256 == result.checkpoint_sha256
    with pytest.raises(RunError, match="not kept"):
        runtime.evaluate(checkpoint=7)
    with pytest.raises(RunError, match="sought no best"):
        RLRuntime.from_run(train().run_id, settings).evaluate(checkpoint="best")


def test_a_checkpoint_of_another_agent_is_refused(train, settings):
    mine, other = train(), train(agent_kwargs={"net_arch": [4]})
    with pytest.raises(CheckpointError, match="another agent"):
        RLRuntime.from_run(mine.run_id, settings).evaluate(checkpoint=other.checkpoint)


def test_a_consistently_forged_best_or_step_is_refused_too(train, settings):
    """Tensors and manifest changed together: only the ledger's own record can tell."""
    import hashlib

    result = train(training={"eval_during_training": True, "eval_freq": 256})
    folder = Path(result.best_checkpoint)
    tensors = bytearray((folder / "state.safetensors").read_bytes())
    tensors[-1] ^= 1
    (folder / "state.safetensors").write_bytes(tensors)
    manifest = json.loads((folder / "checkpoint.json").read_text())
    manifest["files"]["state.safetensors"] = hashlib.sha256(tensors).hexdigest()
    (folder / "checkpoint.json").write_text(json.dumps(manifest, sort_keys=True, indent=1))
    load_checkpoint(folder)  # consistent in itself
    runtime = RLRuntime.from_run(result.run_id, settings)
    for checkpoint in ("best", int(folder.name), str(folder)):
        with pytest.raises(CheckpointError, match="ledger recorded"):
            runtime.replay(checkpoint=checkpoint)


def test_a_checkpoint_that_the_ledger_never_saw_is_refused(train, settings):
    result = train()
    CheckpointStore(settings.models_path).save(result.run_id, 999999, STATES, spec={}, seed=0)
    with pytest.raises(CheckpointError, match="no record"):
        RLRuntime.from_run(result.run_id, settings).replay(checkpoint=999999)


def test_a_checkpoint_that_anything_was_judged_by_is_never_pruned(settings, ledger):
    """A replay of an evaluation, of a run that is resumed afterwards and goes on saving and pruning."""
    from alphaswarm_rl.settings import StoreSettings
    from tests.runtime.test_resume import halted_run

    using = settings.model_copy(update={"store": StoreSettings(checkpoint_freq=128, keep_last=1)})
    stopped = halted_run(tiny(training={"total_timesteps": 3000}), using)
    evaluated = RLRuntime.from_run(stopped.run_id, using).evaluate()
    replayed = RLRuntime.from_run(evaluated.run_id, using).replay(seed=1)
    assert replayed.checkpoint == stopped.checkpoint
    resumed = RLRuntime.from_run(stopped.run_id, using).resume()
    assert resumed.checkpoint != stopped.checkpoint
    kept = CheckpointStore(using.models_path).steps(stopped.run_id)
    assert sorted(map(str, kept.values())) == sorted([replayed.checkpoint, resumed.checkpoint])
