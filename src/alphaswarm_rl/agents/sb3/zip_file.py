"""The weights in a file that Stable-Baselines3 saved; nothing else of it is read.

Such a zip holds pickles: of the policy's tensors, of optimisers, and of whatever the object had. Only the tensors of
`policy.pth` are taken, by torch's reader that builds tensors and refuses everything else.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch

from alphaswarm_rl.agents.sb3.learner import SB3Learner
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.files import open_regular
from alphaswarm_rl.core.types import Array

_WEIGHTS = "policy.pth"
#: Where the policy's weights are in a learner's state.
_IN_STATE = "tensors/policy/"
#: Bytes that a file of tensors has beside them, at most.
_OVERHEAD = 4 * 1024 * 1024


def state_from_zip(path: Path, learner: SB3Learner, *, timesteps: int) -> State:
    """The learner's whole state with the weights of the zip; names and shapes must be the learner's own.

    Args:
        path: The zip.
        learner: A learner, newly built; it is put into that state.
        timesteps: Transitions that the weights were trained by.
    """
    state = learner.get_state()
    expected = {name.removeprefix(_IN_STATE): a for name, a in state.arrays.items() if name.startswith(_IN_STATE)}
    weights = _read(path, most_bytes=2 * sum(array.nbytes for array in expected.values()) + _OVERHEAD)
    if weights.keys() != expected.keys():
        differing = min(weights.keys() ^ expected.keys())
        raise _unfit(path, f"its weights differ in name from those of the spec's agent, such as {differing!r}")
    for name, array in expected.items():
        # First of all: a tensor can say that it is far larger than its file.
        if (shape := tuple(weights[name].shape)) != array.shape:
            raise _unfit(path, f"{name} has the shape {shape}, and that of the spec's agent has {array.shape}")
    found = {name: _array(path, name, weights[name]) for name in expected}
    for name, numbers in found.items():
        if not np.isfinite(numbers).all():
            raise _unfit(path, f"{name} holds NaN or infinity")
    arrays = {_IN_STATE + name: found[name].astype(array.dtype) for name, array in expected.items()}
    counters = {**state.data["counters"], "num_timesteps": timesteps}
    learner.set_state(State({**state.arrays, **arrays}, {**state.data, "counters": counters}))
    return learner.get_state()


def _read(path: Path, *, most_bytes: int) -> dict[str, torch.Tensor]:
    try:
        with open_regular(path) as file, zipfile.ZipFile(file) as archive:
            content = _entry(archive, archive.getinfo(_WEIGHTS), most_bytes)
    except KeyError as error:
        raise _unfit(path, f"it holds no {_WEIGHTS}") from error
    # What zipfile raises for bytes that are no archive, or a damaged one.
    except (OSError, ValueError, EOFError, RuntimeError, zipfile.BadZipFile, zlib.error, struct.error) as error:
        raise _unfit(path, f"it cannot be read: {error}") from error
    try:
        # It is an archive too, which torch unpacks by itself: what it says of its size is looked at first.
        with zipfile.ZipFile(io.BytesIO(content)) as inner:
            if sum(entry.file_size for entry in inner.infolist()) > most_bytes:
                raise ValueError("it unpacks to far more than the networks of the spec's agent")
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        raise _unfit(path, f"{_WEIGHTS} is no file of tensors alone: {first_line}") from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
        for name, tensor in found.items()
    ):
        raise _unfit(path, f"{_WEIGHTS} is no mapping of names to tensors")
    return found


def _entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, most_bytes: int) -> bytes:
    # Other methods than these unpack everything at once, whatever an entry says of its size.
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} is compressed in a way that is not read")
    with archive.open(entry) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise ValueError(f"{entry.filename} is far larger than the networks of the spec's agent")
    return content


def _array(path: Path, name: str, tensor: torch.Tensor) -> Array:
    try:
        return np.asarray(tensor.detach().numpy())
    except (TypeError, RuntimeError) as error:  # types that NumPy does not have, tensors without memory
        raise _unfit(path, f"{name} has the type {tensor.dtype} on {tensor.device}") from error


def _unfit(path: Path, why: str) -> ModelError:
    return ModelError(
        f"file {str(path)!r}", why, "Give a zip that Stable-Baselines3 saved, and the spec of the agent that it is of."
    )
