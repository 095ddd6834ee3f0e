"""Checkpoints: tensors and JSON in a folder, named by run and step, verified before they are believed.

    <models>/<run id>/<step>/state.safetensors    every array
    <models>/<run id>/<step>/checkpoint.json      everything else, with the SHA-256 of the arrays

`checkpoint.json` holds `schema_version`, `timesteps`, `seed`, `spec`, `files` (checksums), `data` (what states have
beside arrays) and, since schema 2, `policy`: what answering needs, so that no environment is built for it.

The SHA-256 of `checkpoint.json` is the checkpoint's identity; it holds no clock and no run id, so two runs of one seed
have the same one. Nothing is ever pickled. A folder appears whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.files import sync_file, sync_folder, write_synced
from alphaswarm_rl.core.run_listener import Checkpoint as Checkpoint
from alphaswarm_rl.core.types import Array, JsonMapping, JsonObject
from alphaswarm_rl.models.artefacts import file_sha256
from alphaswarm_rl.spec import RLExperimentSpec

SCHEMA_VERSION = 2
#: A checkpoint.json of more bytes is none that was ever written.
_MOST_BYTES = 256 << 20
_ARRAYS = "state.safetensors"
_MANIFEST = "checkpoint.json"
_UNFINISHED = ".unfinished-"
#: How folders begin that hold no run's checkpoints but a model from elsewhere.
ADDED = "added-"


@dataclass(frozen=True)
class LoadedCheckpoint:
    """A checkpoint that was read and verified.

    Attributes:
        checkpoint: Where it is.
        spec: The spec whose training wrote it, as plain data.
        seed: The run's seed.
        states: The state of the learner and of everything else that learns or goes on, by name.
        policy: What answering needs (`policy_plan.PolicyPlan` as JSON); None in schema 1, and where a space
            has no JSON form.
    """

    checkpoint: Checkpoint
    spec: JsonObject
    seed: int
    states: dict[str, State]
    policy: JsonObject | None = None

    @cached_property
    def trained_spec(self) -> RLExperimentSpec:
        """The spec whose training wrote it."""
        return RLExperimentSpec.from_data(self.spec, source=f"checkpoint {self.checkpoint.path}", stored=True)


class CheckpointStore:
    """The one owner of checkpoint files: it writes, verifies and deletes them.

    Args:
        root: Folder of all runs' checkpoints.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def save(
        self,
        run_id: str,
        timesteps: int,
        states: Mapping[str, State],
        *,
        spec: JsonMapping,
        seed: int,
        policy: JsonMapping | None = None,
    ) -> Checkpoint:
        """Writes a checkpoint; on any failure nothing of it remains and the older ones are untouched.

        Args:
            run_id: The run.
            timesteps: Transitions trained so far.
            states: What it holds, by name.
            spec: The spec as plain data.
            seed: The run's seed.
            policy: What answering needs; None: the environment must be built to answer.
        """
        folder = self.root / run_id
        final = folder / f"{timesteps:012d}"
        unfinished = folder / f"{_UNFINISHED}{timesteps:012d}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir()
            digest = _write_arrays(unfinished / _ARRAYS, states)
            manifest = {
                "schema_version": SCHEMA_VERSION,
                "timesteps": timesteps,
                "seed": seed,
                "spec": dict(spec),
                "files": {_ARRAYS: digest},
                "data": {name: state.data for name, state in states.items()},
                "policy": policy,
            }
            text = json.dumps(manifest, sort_keys=True, indent=1)
            write_synced(unfinished / _MANIFEST, text.encode())
            if final.exists():  # a resumed run passes the same step again
                shutil.rmtree(final)
            unfinished.rename(final)
            sync_folder(folder)
        except OSError as error:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise CheckpointError(
                f"checkpoint at step {timesteps} of run {run_id}",
                f"it cannot be written: {error.strerror or error}",
                f"Free space below {self.root} or choose another folder with --model-dir"
                + (f", then: rl resume {run_id}." if self.steps(run_id) else ", and train again."),
            ) from error
        return Checkpoint(final, hashlib.sha256(text.encode()).hexdigest(), timesteps)

    def steps(self, run_id: str) -> dict[int, Path]:
        """The checkpoints of a run by step, oldest first."""
        folder = self.root / run_id
        if not folder.is_dir():
            return {}
        return {int(path.name): path for path in sorted(folder.iterdir()) if path.name.isdigit()}

    def prune(self, run_id: str, *, keep_last: int, held: Iterable[Path]) -> list[Path]:
        """Deletes all but the newest `keep_last` and those that somebody holds; says which."""
        kept = {path.resolve() for path in held}
        paths = list(self.steps(run_id).values())
        gone = [path for path in paths[:-keep_last] if path.resolve() not in kept]
        for path in gone:
            shutil.rmtree(path)
        return gone

    def remove(self, run_id: str) -> int:
        """Deletes everything of a run; says how many bytes that freed."""
        folder = self.root / run_id
        freed = folder_size(folder)
        if folder.exists():
            shutil.rmtree(folder)
        return freed

    def unfinished(self) -> list[Path]:
        """Folders that a killed process left half written."""
        return sorted(self.root.glob(f"*/{_UNFINISHED}*"))


def load_checkpoint(path: Path, *, expected_sha256: str | None = None) -> LoadedCheckpoint:
    """Reads and verifies a checkpoint; one that was changed since it was written is refused."""
    try:
        with (path / _MANIFEST).open("rb") as file:
            text = file.read(_MOST_BYTES + 1)
        if len(text) > _MOST_BYTES:
            raise ValueError(f"{_MANIFEST} has more than {_MOST_BYTES} bytes")
        digest = hashlib.sha256(text).hexdigest()
        if expected_sha256 is not None and digest != expected_sha256:
            raise _tampered(path, f"{_MANIFEST} is not the one the ledger recorded")
        manifest = json.loads(text)
        version = manifest["schema_version"]
        if version > SCHEMA_VERSION:
            raise CheckpointError(
                f"checkpoint {str(path)!r}",
                f"it has schema version {version}, newer than {SCHEMA_VERSION}",
                "Upgrade alphaswarm-rl.",
            )
        # Read once: what was verified is what is loaded, whatever becomes of the file meanwhile.
        content = (path / _ARRAYS).read_bytes()
        if hashlib.sha256(content).hexdigest() != manifest["files"][_ARRAYS]:
            raise _tampered(path, f"{_ARRAYS} does not have the recorded checksum")
        arrays = _arrays_in(content)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r}",
            f"{Path(str(error.filename)).name} is not there",
            "Give the folder of a checkpoint, or a run.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r}", f"it cannot be read: {error!r}", "Use another checkpoint of the run."
        ) from error
    states = {
        name: State(
            {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}, data
        )
        for name, data in manifest["data"].items()
    }
    checkpoint = Checkpoint(path, digest, manifest["timesteps"])
    return LoadedCheckpoint(checkpoint, manifest["spec"], manifest["seed"], states, manifest.get("policy"))


def folder_size(folder: Path) -> int:
    """Bytes of all files below a folder; 0 where there is none."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _write_arrays(path: Path, states: Mapping[str, State]) -> str:
    from safetensors import SafetensorError
    from safetensors.numpy import save_file

    # `require` copies only what is not contiguous and, unlike ascontiguousarray, keeps 0-d arrays 0-d.
    arrays = {
        key: np.require(array, requirements="C")
        for name, state in states.items()
        for key, array in state.prefixed(name).items()
    }
    try:
        save_file(arrays, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    sync_file(path)
    return file_sha256(path)


def _arrays_in(content: bytes) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    except SafetensorError as error:
        raise OSError(str(error)) from error


def _tampered(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {str(path)!r}", f"it was changed after it was written: {why}", "Use another checkpoint of the run."
    )
