"""Checkpoint folders of strangers: whatever is in them, there is a reason, an exit code and no harm."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import AlphaSwarmError, CheckpointError, UnfitCheckpoint
from alphaswarm_rl.inference.checkpoints import CheckpointStore, load_checkpoint
from alphaswarm_rl.inference.policy_server import PolicyServer

GOLDEN = Path(__file__).parents[1] / "golden" / "checkpoints"
GONE = object()


@pytest.fixture
def folder(tmp_path):
    states = {"learner": State({"w": np.ones(3, np.float32)}, {"count": 3})}
    return CheckpointStore(tmp_path / "models").save("run", 10, states, spec={"name": "x"}, seed=1).path


def rewrite(folder, **parts):
    """Writes the manifest anew with other parts; checksums are those of the files."""
    manifest = json.loads((folder / "checkpoint.json").read_text())
    digest = hashlib.sha256((folder / "state.safetensors").read_bytes()).hexdigest()
    manifest.update({"files": {"state.safetensors": digest}, **parts})
    kept = {name: part for name, part in manifest.items() if part is not GONE}
    (folder / "checkpoint.json").write_text(json.dumps(kept))
    return folder


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        ({"data": []}, r"'data' in checkpoint.json is \[\], and should be a mapping"),
        ({"data": {"learner": [1]}}, "'learner' .* should be a mapping"),
        ({"data": GONE}, "'data' is missing"),
        ({"spec": GONE}, "'spec' is missing"),
        ({"spec": "cartpole_ppo"}, "'spec' .* should be a mapping"),
        ({"files": []}, "'files' .* should be a mapping"),
        ({"files": {}}, "'state.safetensors' is missing"),
        ({"files": {"state.safetensors": 7}}, "should be a text"),
        ({"schema_version": "2"}, "'schema_version' .* should be a whole number"),
        ({"schema_version": GONE}, "'schema_version' is missing"),
        ({"timesteps": 1.5}, "'timesteps' .* should be a whole number"),
        ({"timesteps": True}, "'timesteps' in checkpoint.json is True"),
        ({"timesteps": -1}, "timesteps in checkpoint.json is negative"),
        ({"seed": None}, "'seed' .* should be a whole number"),
        ({"seed": -1}, "seed in checkpoint.json is negative"),
        ({"policy": [1]}, "'policy' .* should be a mapping"),
    ],
)
def test_a_part_of_another_shape_is_refused_by_name(folder, parts, why):
    with pytest.raises(UnfitCheckpoint, match=why) as caught:
        load_checkpoint(rewrite(folder, **parts))
    assert caught.value.exit_code == 2
    assert str(folder) in caught.value.what


def test_the_numbers_of_a_checkpoint_begin_at_0_and_a_policy_may_be_null(folder):
    loaded = load_checkpoint(rewrite(folder, timesteps=0, seed=0, policy=None))
    assert (loaded.checkpoint.timesteps, loaded.seed, loaded.policy) == (0, 0, None)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"[]", "no mapping"),
        (b"", "no JSON"),
        (b"\xff\xfe", "no JSON"),
        (b"\x00" * 10, "no JSON"),
        (b'{"seed": ' + b"9" * 5000 + b"}", "4300 digits"),
        (b'{"seed": ' + b"9" * 1000 + b"}", "3322 bits"),
        (b'{"data": ' + b"[" * 9000 + b"]" * 9000 + b"}", "nested too deeply"),
        (b'{"spec": {"name": "\\ud800"}}', "half of a character"),
    ],
)
def test_a_manifest_that_is_no_document_of_ours_is_refused(folder, content, why):
    (folder / "checkpoint.json").write_bytes(content)
    with pytest.raises(UnfitCheckpoint, match=why):
        load_checkpoint(folder)


def test_damage_to_a_recorded_checkpoint_stays_damage_whatever_it_looks_like(folder):
    recorded = hashlib.sha256((folder / "checkpoint.json").read_bytes()).hexdigest()
    (folder / "checkpoint.json").write_bytes(b"\x00")
    with pytest.raises(CheckpointError, match="changed after it was written") as caught:
        load_checkpoint(folder, expected_sha256=recorded)
    assert caught.value.exit_code == 1


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["checkpoint.json", "state.safetensors"])
@pytest.mark.parametrize("kind", ["FIFO", "device", "folder", "link out"])
def test_only_regular_files_of_the_folder_itself_are_read(folder, tmp_path, name, kind):
    path = folder / name
    path.rename(tmp_path / name)
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        path.symlink_to("/dev/zero" if kind == "device" else tmp_path / name)
    with pytest.raises(UnfitCheckpoint, match=f"{name} (is a {kind}|leads out of the folder)"):
        load_checkpoint(folder)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["FIFO", "file"])
def test_what_is_no_folder_is_no_checkpoint(tmp_path, kind):
    path = tmp_path / "model"
    os.mkfifo(path) if kind == "FIFO" else path.write_text("{}")
    with pytest.raises(UnfitCheckpoint, match="it is no folder") as refused:
        load_checkpoint(path)
    assert refused.value.exit_code == 2


def test_a_manifest_larger_than_any_is_refused_before_it_is_read(folder):
    with (folder / "checkpoint.json").open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(UnfitCheckpoint, match="may have 268435456"):
        load_checkpoint(folder)


@pytest.mark.parametrize("content", [b"", b"\xff" * 64, (1 << 62).to_bytes(8, "little") + b"{}"])
def test_tensors_that_are_none_are_refused_though_their_checksum_is_right(folder, content):
    (folder / "state.safetensors").write_bytes(content)
    with pytest.raises(UnfitCheckpoint, match="no arrays of ours"):
        load_checkpoint(rewrite(folder))


def test_tensors_of_a_type_that_numpy_has_not_are_refused(folder):
    header = json.dumps({"x": {"dtype": "F8_E4M3", "shape": [8], "data_offsets": [0, 8]}}).encode()
    (folder / "state.safetensors").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(UnfitCheckpoint, match="no arrays of ours"):
        load_checkpoint(rewrite(folder))


@pytest.mark.parametrize("name", ["random-2", "ppo-2", "dqn-2", "ppo-1"])
@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.pop("learner"),
        lambda data: data.update(learner={}),
        lambda data: data["learner"].update(dict.fromkeys(data["learner"], "text")),
        lambda data: data["learner"].update({key: [] for key in data["learner"]}),
    ],
)
def test_a_state_that_does_not_fit_its_spec_is_refused(tmp_path, settings, name, change):
    folder = shutil.copytree(GOLDEN / name, tmp_path / name)
    data = json.loads((folder / "checkpoint.json").read_text())["data"]
    change(data)
    loaded = load_checkpoint(rewrite(folder, data=data))
    with pytest.raises(UnfitCheckpoint, match=r"does not fit|the agent's state|the state of agent"):
        PolicyServer.of(loaded, settings)


@pytest.mark.parametrize("shapes", ["none", "other"])
def test_arrays_that_do_not_fit_its_spec_are_refused(tmp_path, settings, shapes):
    folder = shutil.copytree(GOLDEN / "ppo-2", tmp_path / "ppo")
    arrays = load_checkpoint(folder).states["learner"].arrays
    wrong = {} if shapes == "none" else {f"learner/{key}": np.zeros(3, array.dtype) for key, array in arrays.items()}
    (folder / "state.safetensors").write_bytes(save(wrong))
    loaded = load_checkpoint(rewrite(folder))
    with pytest.raises(AlphaSwarmError, match=r"not of this environment|the agent's state") as caught:
        PolicyServer.of(loaded, settings).answer([0.0, 0.0, 0.0, 0.0])
    assert caught.value.exit_code == 2
