"""Checkpoints: tensors and JSON in a folder, named by run and step, verified before they are believed.

    <models>/<run id>/<step>/state.safetensors    every array
    <models>/<run id>/<step>/checkpoint.json      everything else, with the SHA-256 of the arrays
    <models>/<run id>/claim-000002/<step>/...     the same, written by the process that resumed the run

`checkpoint.json` holds `schema_version`, `timesteps`, `seed`, `spec`, `files` (checksums), `data` (what states have
beside arrays) and, since schema 2, `policy`: what answering needs, so that no environment is built for it.

The SHA-256 of `checkpoint.json` is the checkpoint's identity; it holds no clock and no run id, so two runs of one seed
have the same one. Nothing is ever pickled. A folder appears whole or not at all, and is never replaced.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from alphaswarm_rl.core.claims import Claim, claim_folders, number_of
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import AlphaSwarmError, CheckpointError, UnfitCheckpoint
from alphaswarm_rl.core.files import UnfitFile, open_regular, read_regular, sync_file, sync_folder, write_synced
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.core.run_listener import Checkpoint as Checkpoint
from alphaswarm_rl.core.types import Array, JsonMapping, JsonObject
from alphaswarm_rl.models.artefacts import MANIFEST_BYTES, file_sha256
from alphaswarm_rl.spec import RLExperimentSpec

SCHEMA_VERSION = 2
_ARRAYS = "state.safetensors"
_MANIFEST = "checkpoint.json"
#: A file of safetensors begins with the length of its head, which its library bounds.
_LENGTH_BYTES = 8
_LONGEST_HEAD = 100_000_000
#: How folders begin that are being written.
UNFINISHED = ".unfinished-"
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
        claim: int = 1,
    ) -> Checkpoint:
        """Writes a checkpoint; on any failure nothing of it remains and the older ones are untouched.

        One that is there already stays as it is: a claim saves a step once.

        Args:
            run_id: The run.
            timesteps: Transitions trained so far.
            states: What it holds, by name.
            spec: The spec as plain data.
            seed: The run's seed.
            policy: What answering needs; None: the environment must be built to answer.
            claim: The number of the claim with which the run is written for.
        """
        folder = Claim(run_id, claim).folder(self.root / run_id)
        final = folder / f"{timesteps:012d}"
        unfinished = folder / f"{UNFINISHED}{timesteps:012d}"
        try:
            if final.exists():
                return Checkpoint(final, file_sha256(final / _MANIFEST), timesteps)
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
        """The checkpoints of a run by step, oldest first; of two claims that saved one step, the later one's."""
        return dict(sorted({int(path.name): path for path in reversed(self._all(run_id))}.items()))

    def _all(self, run_id: str) -> list[Path]:
        """Every checkpoint of a run, those of the newest claim first."""
        folders = claim_folders(self.root / run_id)
        return [path for folder in folders for path in sorted(folder.iterdir()) if path.name.isdigit()]

    def unneeded(self, claim: Claim, kept: Iterable[Path]) -> list[Path]:
        """The checkpoints of a claim and of all before it, but for those that are kept.

        Those of later claims are none of its business.
        """
        needed = {path.resolve() for path in kept}
        found = [path for path in self._all(claim.run_id) if number_of(path.parent) <= claim.number]
        return [path for path in found if path.resolve() not in needed]

    def prune(self, paths: Iterable[Path], *, refuse_stale: Callable[[], None]) -> None:
        """Deletes checkpoints that nobody needs.

        Args:
            paths: Their folders.
            refuse_stale: Called before each of them: it raises where another process has taken the run over, which
                may need them.
        """
        for path in paths:
            refuse_stale()
            self.discard(path)

    def discard(self, path: Path) -> None:
        """Deletes one that nobody needs, or no ledger row names."""
        # The resumer of a run sweeps what the process before it left, which may delete it at the same time.
        with suppress(FileNotFoundError):
            shutil.rmtree(path)

    def remove(self, run_id: str) -> int:
        """Deletes everything of a run; says how many bytes that freed."""
        folder = self.root / run_id
        freed = folder_size(folder)
        if folder.exists():
            shutil.rmtree(folder)
        return freed

    def unfinished(self) -> list[Path]:
        """Folders that a killed process left half written."""
        return sorted([*self.root.glob(f"*/{UNFINISHED}*"), *self.root.glob(f"*/claim-*/{UNFINISHED}*")])


def load_checkpoint(path: Path, *, expected_sha256: str | None = None) -> LoadedCheckpoint:
    """Reads and verifies a checkpoint; one that was changed since it was written is refused."""
    try:
        content = read_regular(path / _MANIFEST, most_bytes=MANIFEST_BYTES, below=path)
        digest = hashlib.sha256(content).hexdigest()
        if expected_sha256 is not None and digest != expected_sha256:
            raise _tampered(path, f"{_MANIFEST} is not the one the ledger recorded")
        manifest = _read_manifest(path, content)
        # Read once: what was verified is what is loaded, whatever becomes of the file meanwhile.
        tensors = read_regular(path / _ARRAYS, below=path)
        if hashlib.sha256(tensors).hexdigest() != manifest["files"][_ARRAYS]:
            raise _tampered(path, f"{_ARRAYS} does not have the recorded checksum")
        arrays = _arrays_in(path, tensors)
    except FileNotFoundError as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r}",
            f"{Path(str(error.filename)).name} is not there",
            "Give the folder of a checkpoint, or a run.",
        ) from error
    except UnfitFile as error:
        raise unfit(path, str(error)) from error
    except NotADirectoryError as error:
        raise unfit(path, "it is no folder") from error
    except OSError as error:
        raise CheckpointError(
            f"checkpoint {str(path)!r}",
            f"it cannot be read: {error.strerror or error}",
            "Check the disk and its rights, or use another checkpoint of the run.",
        ) from error
    states = {
        name: State(
            {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}, data
        )
        for name, data in manifest["data"].items()
    }
    checkpoint = Checkpoint(path, digest, manifest["timesteps"])
    return LoadedCheckpoint(checkpoint, manifest["spec"], manifest["seed"], states, manifest.get("policy"))


def _read_manifest(path: Path, content: bytes) -> JsonObject:
    """What `checkpoint.json` says, every part of the shape that it must have."""
    try:
        manifest = load_json(content)
    except ValueError as error:
        raise unfit(path, f"{_MANIFEST} is no JSON of ours: {error}") from error
    if not isinstance(manifest, dict):
        raise unfit(path, f"{_MANIFEST} is no mapping")
    version = _part(path, manifest, "schema_version", int)
    if version > SCHEMA_VERSION:
        raise CheckpointError(
            f"checkpoint {str(path)!r}",
            f"it has schema version {version}, newer than {SCHEMA_VERSION}",
            "Upgrade alphaswarm-rl.",
        )
    for name in ("timesteps", "seed"):
        if _part(path, manifest, name, int) < 0:
            raise unfit(path, f"{name} in {_MANIFEST} is negative")
    _part(path, manifest, "spec", dict)
    _part(path, _part(path, manifest, "files", dict), _ARRAYS, str)
    for name in _part(path, manifest, "data", dict):
        _part(path, manifest["data"], name, dict)
    if manifest.get("policy") is not None:
        _part(path, manifest, "policy", dict)
    return manifest


def _part(path: Path, manifest: JsonMapping, name: str, kind: type) -> Any:
    """One part of the manifest; where it is missing, or of another kind, the folder is refused."""
    if name not in manifest:
        raise unfit(path, f"{name!r} is missing in {_MANIFEST}")
    if not isinstance(manifest[name], kind) or isinstance(manifest[name], bool):
        raise unfit(path, f"{name!r} in {_MANIFEST} is {manifest[name]!r:.60}, and should be {_KINDS[kind]}")
    return manifest[name]


_KINDS = {int: "a whole number", str: "a text", dict: "a mapping"}


@contextmanager
def restoring(path: Path) -> Iterator[None]:
    """While states of a checkpoint are put back: one that does not fit what the spec builds is an error that says so.

    Args:
        path: The checkpoint.
    """
    try:
        yield
    except CheckpointError as error:
        raise unfit(path, f"{error.what}: {error.why}") from error
    except AlphaSwarmError:
        raise
    except Exception as error:
        raise unfit(path, f"its state does not fit what its spec builds: {error!r:.200}") from error


def first_intact(
    candidates: Iterable[tuple[Path, str | None]],
) -> tuple[LoadedCheckpoint | None, list[CheckpointError]]:
    """The first checkpoint that can be trusted, and why those before it cannot.

    Args:
        candidates: Checkpoint folders with the SHA-256 that each must have; None where nobody recorded it.
    """
    damaged: list[CheckpointError] = []
    for path, sha256 in candidates:
        try:
            return load_checkpoint(path, expected_sha256=sha256), damaged
        except CheckpointError as error:
            damaged.append(error)
    return None, damaged


def flaw_at_a_glance(path: Path, *, expected_sha256: str | None = None) -> str | None:
    """Why a checkpoint cannot be whole, by its manifest and by the size of its arrays; None where nothing shows.

    Only `load_checkpoint` reads every byte.
    """
    try:
        content = read_regular(path / _MANIFEST, most_bytes=MANIFEST_BYTES, below=path)
        if expected_sha256 not in (None, hashlib.sha256(content).hexdigest()):
            return f"{_MANIFEST} is not the one the ledger recorded"
        _read_manifest(path, content)
        with open_regular(path / _ARRAYS, below=path) as file:
            found, whole = os.fstat(file.fileno()).st_size, _size_of_arrays(file)
    except FileNotFoundError as error:
        return f"{Path(str(error.filename)).name} is not there"
    except OSError as error:
        return f"it cannot be read: {error.strerror or error}"
    except CheckpointError as error:
        return error.why
    if whole is None:
        return f"{_ARRAYS} has {found} bytes, and they do not say how many it should have"
    return None if found == whole else f"{_ARRAYS} has {found} bytes, and should have {whole}"


def _size_of_arrays(file: BinaryIO) -> int | None:
    """The bytes that a file of safetensors must have, by its head; None where it has none that can be read."""
    length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
    if length > _LONGEST_HEAD:
        return None
    try:
        head = load_json(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in head.items() if name != "__metadata__"]
        return _LENGTH_BYTES + length + max(ends, default=0)
    except (ValueError, KeyError, IndexError, TypeError, AttributeError):
        return None


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


def _arrays_in(path: Path, content: bytes) -> dict[str, Array]:
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        return dict(load(content))
    # Types that NumPy does not have are a KeyError.
    except (SafetensorError, ValueError, KeyError, TypeError) as error:
        raise unfit(path, f"{_ARRAYS} holds no arrays of ours: {error!r}") from error


def unfit(path: Path, why: str) -> UnfitCheckpoint:
    """The error that a folder is no checkpoint of ours."""
    return UnfitCheckpoint(f"checkpoint {str(path)!r}", why, "Use a checkpoint that alphaswarm-rl wrote.")


def _tampered(path: Path, why: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {str(path)!r}", f"it was changed after it was written: {why}", "Use another checkpoint of the run."
    )
