"""The weights in a file that Stable-Baselines3 saved; nothing else of it is read.

Such a zip holds pickles: of the policy's tensors, of optimisers, and of whatever the object had. Only the tensors of
`policy.pth` are taken, by torch's reader that builds tensors and refuses everything else.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np
import torch

from alphaswarm_rl.agents.sb3.learner import SB3Learner
from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import ModelError
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
        if weights[name].shape != array.shape:
            why = f"{name} has the shape {weights[name].shape}, and that of the spec's agent has {array.shape}"
            raise _unfit(path, why)
        if not np.isfinite(weights[name]).all():
            raise _unfit(path, f"{name} holds NaN or infinity")
    arrays = {_IN_STATE + name: weights[name].astype(array.dtype) for name, array in expected.items()}
    counters = {**state.data["counters"], "num_timesteps": timesteps}
    learner.set_state(State({**state.arrays, **arrays}, {**state.data, "counters": counters}))
    return learner.get_state()


def _read(path: Path, *, most_bytes: int) -> dict[str, Array]:
    try:
        with zipfile.ZipFile(path) as archive:
            entry = archive.getinfo(_WEIGHTS)
            if entry.file_size > most_bytes:
                raise _unfit(path, f"{_WEIGHTS} is far larger than the networks of the spec's agent")
            content = archive.read(entry)
    except KeyError as error:
        raise _unfit(path, f"it holds no {_WEIGHTS}") from error
    except (OSError, zipfile.BadZipFile, RuntimeError, NotImplementedError) as error:
        raise _unfit(path, f"it cannot be read: {error}") from error
    try:
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:
        first_line = str(error).partition("\n")[0]
        raise _unfit(path, f"{_WEIGHTS} is no file of tensors alone: {first_line}") from error
    if not isinstance(found, dict) or not all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided
        for name, tensor in found.items()
    ):
        raise _unfit(path, f"{_WEIGHTS} is no mapping of names to tensors")
    return {name: tensor.detach().numpy().copy() for name, tensor in found.items()}


def _unfit(path: Path, why: str) -> ModelError:
    return ModelError(
        f"file {str(path)!r}", why, "Give a zip that Stable-Baselines3 saved, and the spec of the agent that it is of."
    )
