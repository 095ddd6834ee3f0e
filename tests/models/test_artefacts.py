from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.models import verified_sha256
from tests.models.samples import checkpoint


def test_a_folder_is_known_by_its_manifest_and_a_file_by_its_bytes(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    expected = hashlib.sha256((folder / "checkpoint.json").read_bytes()).hexdigest()
    assert verified_sha256(folder, None) == verified_sha256(folder, expected) == expected
    file = tmp_path / "model.zip"
    file.write_bytes(b"bytes")
    assert verified_sha256(file, None) == hashlib.sha256(b"bytes").hexdigest()


def test_the_checksum_of_a_real_checkpoint_is_the_runtimes(tmp_path: Path) -> None:
    from alphaswarm_rl.core.contracts import State
    from alphaswarm_rl.inference.checkpoints import CheckpointStore

    saved = CheckpointStore(tmp_path).save("run", 10, {"learner": State({}, {"x": 1})}, spec={}, seed=0)
    assert verified_sha256(saved.path, saved.sha256) == saved.sha256


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("state.safetensors", "other weights"),
        ("checkpoint.json", '{"files": {}}'),
        ("checkpoint.json", "no json"),
        ("checkpoint.json", '{"files": {"../elsewhere": "0"}}'),
        ("checkpoint.json", "[]"),
    ],
)
def test_a_changed_folder_is_refused(tmp_path: Path, file: str, content: str) -> None:
    folder = checkpoint(tmp_path / "model")
    expected = verified_sha256(folder, None)
    (folder / file).write_text(content)
    with pytest.raises(ModelError, match="changed") as caught:
        verified_sha256(folder, expected)
    assert str(folder) in caught.value.what


def test_a_manifest_that_was_made_to_fit_is_refused_by_its_own_checksum(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    expected = verified_sha256(folder, None)
    checkpoint(folder, "other weights, and a manifest that fits them")
    assert verified_sha256(folder, None) != expected
    with pytest.raises(ModelError, match=r"checkpoint\.json"):
        verified_sha256(folder, expected)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="it is not there"):
        verified_sha256(tmp_path / "nowhere", None)
    folder = checkpoint(tmp_path / "model")
    (folder / "state.safetensors").unlink()
    with pytest.raises(ModelError, match=r"state\.safetensors is not there"):
        verified_sha256(folder, None)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("name", ["state.safetensors", "checkpoint.json"])
@pytest.mark.parametrize("kind", ["FIFO", "link out"])
def test_only_regular_files_of_the_folder_itself_are_read(tmp_path: Path, name: str, kind: str) -> None:
    folder = checkpoint(tmp_path / "model")
    path = folder / name
    path.rename(tmp_path / name)
    if kind == "FIFO":
        os.mkfifo(path)
    else:
        path.symlink_to(tmp_path / name)
    with pytest.raises(ModelError, match=f"{name} (is a FIFO|leads out of the folder)"):
        verified_sha256(folder, None)


@pytest.mark.timeout(20)
def test_a_file_of_its_own_is_regular_too(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.zip")
    with pytest.raises(ModelError, match=r"model\.zip is a FIFO"):
        verified_sha256(tmp_path / "model.zip", None)


def test_a_manifest_beyond_the_limits_is_refused(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "model")
    (folder / "checkpoint.json").write_text("[" * 9000 + "]" * 9000)
    with pytest.raises(ModelError, match="nested too deeply"):
        verified_sha256(folder, None)
    with (folder / "checkpoint.json").open("wb") as file:
        file.truncate((256 << 20) + 1)
    with pytest.raises(ModelError, match="may have 268435456"):
        verified_sha256(folder, None)


def test_a_pickle_is_read_as_bytes_alone(tmp_path: Path) -> None:
    touched = tmp_path / "touched"

    class Malicious:
        def __reduce__(self) -> tuple[object, tuple[object, ...]]:
            return (Path.touch, (touched,))

    import pickle

    file = tmp_path / "model.pkl"
    file.write_bytes(pickle.dumps(Malicious()))
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "data").write_bytes(file.read_bytes())
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    (folder / "checkpoint.json").write_text(json.dumps({"files": {"data": digest}}))
    verified_sha256(file, digest)
    verified_sha256(folder, None)
    assert not touched.exists()
