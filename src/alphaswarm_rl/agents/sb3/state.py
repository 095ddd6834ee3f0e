"""Weights, optimisers and replay buffer of a Stable-Baselines3 model as arrays and plain data, without a pickle.

What is read from a checkpoint is checked against the model first (`tensors_to_load`, `buffer_to_load`) and put
into it afterwards, by the function that this gives, so that a state that does not fit changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.save_util import recursive_getattr

from alphaswarm_rl.core.contracts import State
from alphaswarm_rl.core.errors import CheckpointError
from alphaswarm_rl.core.types import Array, JsonObject

_BUFFER_FIELDS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")


def unfit(why: str) -> CheckpointError:
    """The error of a checkpoint that was made for another model."""
    return CheckpointError(
        "the agent's state in a checkpoint", why, "Load a checkpoint of the same agent and environment."
    )


def get_tensors(model: BaseAlgorithm) -> State:
    """Every module, optimiser and loose tensor that the model says is to be saved."""
    names, loose = model._get_torch_save_params()
    arrays: dict[str, Array] = {}
    optimisers: dict[str, Any] = {}
    for name in names:
        part = recursive_getattr(model, name)
        if isinstance(part, torch.optim.Optimizer):
            state = part.state_dict()
            numbers: dict[str, dict[str, Any]] = {}
            for index, entries in state["state"].items():
                for key, value in entries.items():
                    if isinstance(value, torch.Tensor):
                        arrays[f"{name}/{index}/{key}"] = _to_array(value)
                    else:
                        numbers.setdefault(str(index), {})[key] = value
            optimisers[name] = {"groups": state["param_groups"], "numbers": numbers}
        else:
            arrays |= {f"{name}/{key}": _to_array(value) for key, value in part.state_dict().items()}
    arrays |= {f"tensor/{name}": _to_array(recursive_getattr(model, name)) for name in loose}
    return State(arrays, optimisers)


def _to_array(tensor: torch.Tensor) -> Array:
    # A copy: training goes on while the state is being written.
    return tensor.detach().cpu().numpy().copy()


def _to_tensor(array: Array) -> torch.Tensor:
    return torch.from_numpy(np.array(array))


def tensors_to_load(model: BaseAlgorithm, state: State) -> Callable[[], None]:
    """Weights and optimisers read from a state and checked against a model: what it gives then changes the model."""
    names, loose = model._get_torch_save_params()
    parts: dict[str, dict[str, Any]] = {}
    known: set[str] = set()
    for name in names:
        part = recursive_getattr(model, name)
        arrays = _below(state.arrays, name)
        if isinstance(part, torch.optim.Optimizer):
            parts[name] = _read_optimiser(name, part, arrays, state.data.get(name))
        else:
            parts[name] = _read_module(name, part, arrays)
        known |= {f"{name}/{key}" for key in arrays}
    tensors = {name: _read_loose(state.arrays, name, recursive_getattr(model, name)) for name in loose}
    unknown = state.arrays.keys() - known - {f"tensor/{name}" for name in loose} | state.data.keys() - set(names)
    if unknown:
        raise unfit(f"it has parts that this agent has not, such as {min(unknown)!r}")

    def load() -> None:
        model.set_parameters(parts, exact_match=True, device=model.device)
        for name, tensor in tensors.items():
            recursive_getattr(model, name).data = tensor.to(model.device)

    return load


def weights_to_load(model: BaseAlgorithm, state: State) -> Callable[[], None]:
    """The same of weights alone: optimisers begin anew."""
    names, loose = model._get_torch_save_params()
    modules = {name: part for name in names if isinstance(part := recursive_getattr(model, name), torch.nn.Module)}
    read = {name: _read_module(name, part, _below(state.arrays, name)) for name, part in modules.items()}
    tensors = {name: _read_loose(state.arrays, name, recursive_getattr(model, name)) for name in loose}

    def load() -> None:
        for name, weights in read.items():
            modules[name].load_state_dict(weights)
        for name, tensor in tensors.items():
            recursive_getattr(model, name).data = tensor.to(model.device)

    return load


def _below(arrays: Mapping[str, Array], name: str) -> dict[str, Array]:
    return {key.removeprefix(f"{name}/"): array for key, array in arrays.items() if key.startswith(f"{name}/")}


def _read_module(name: str, module: torch.nn.Module, arrays: Mapping[str, Array]) -> dict[str, torch.Tensor]:
    expected = module.state_dict()
    if expected.keys() != arrays.keys():
        raise unfit(f"the weights of {name!r} differ in name, such as {min(expected.keys() ^ arrays.keys())!r}")
    for key, tensor in expected.items():
        if tuple(tensor.shape) != arrays[key].shape:
            raise unfit(f"{name}/{key} has the shape {arrays[key].shape}, and this agent's has {tuple(tensor.shape)}")
    return {key: _to_tensor(array) for key, array in arrays.items()}


def _read_optimiser(
    name: str, optimiser: torch.optim.Optimizer, arrays: Mapping[str, Array], data: object
) -> JsonObject:
    if not isinstance(data, Mapping) or data.keys() != {"groups", "numbers"}:
        raise unfit(f"it lacks the optimiser {name!r}")
    current = optimiser.state_dict()["param_groups"]
    if [group["params"] for group in data["groups"]] != [group["params"] for group in current]:
        raise unfit(f"the optimiser {name!r} is of a network with other parameters")
    shapes = [tuple(tensor.shape) for group in optimiser.param_groups for tensor in group["params"]]
    entries: dict[int, JsonObject] = {int(index): dict(numbers) for index, numbers in data["numbers"].items()}
    for path, array in arrays.items():
        index, _, key = path.partition("/")
        # An entry of an optimiser is one number (the count of its steps) or as large as the parameter.
        if int(index) >= len(shapes) or array.shape not in ((), shapes[int(index)]):
            raise unfit(f"{name}/{path} has the shape {array.shape}, which its parameter has not")
        entries.setdefault(int(index), {})[key] = _to_tensor(array)
    return {"state": entries, "param_groups": [_with_tuples(group) for group in data["groups"]]}


def _with_tuples(group: JsonObject) -> JsonObject:
    """A group of parameters as torch has it: JSON has no tuples, and `params` is the one list that torch writes."""
    return {key: tuple(value) if isinstance(value, list) and key != "params" else value for key, value in group.items()}


def _read_loose(arrays: Mapping[str, Array], name: str, tensor: torch.Tensor) -> torch.Tensor:
    array = arrays.get(f"tensor/{name}")
    if array is None or array.shape != tuple(tensor.shape):
        raise unfit(f"its {name!r} is missing or of another shape")
    return _to_tensor(array)


def _columns(buffer: ReplayBuffer) -> dict[str, Array]:
    columns: dict[str, Array] = {}
    for name in _BUFFER_FIELDS:
        value = getattr(buffer, name)
        columns |= (
            {f"{name}/{key}": array for key, array in value.items()} if isinstance(value, dict) else {name: value}
        )
    return columns


def get_buffer(buffer: ReplayBuffer) -> State:
    """What the buffer holds, and where it writes next."""
    rows = buffer.size()
    arrays = {name: column[:rows].copy() for name, column in _columns(buffer).items()}
    return State(arrays, {"position": int(buffer.pos), "full": bool(buffer.full)})


def buffer_to_load(buffer: ReplayBuffer, state: State) -> Callable[[], None]:
    """A replay buffer's content, checked against a buffer: what it gives then fills the buffer."""
    columns = _columns(buffer)
    if columns.keys() != state.arrays.keys() or state.data.keys() != {"position", "full"}:
        raise unfit("its replay buffer has other columns")
    position, full = int(state.data["position"]), bool(state.data["full"])
    rows = buffer.buffer_size if full else position
    for name, column in columns.items():
        shape = state.arrays[name].shape
        if shape != (rows, *column.shape[1:]) or position >= buffer.buffer_size:
            raise unfit(
                f"the column {name!r} of its replay buffer has the shape {shape}, which does not fit {column.shape}"
            )

    def load() -> None:
        for name, column in columns.items():
            column[:rows] = state.arrays[name]
        buffer.pos, buffer.full = position, full

    return load


def end_trajectories(buffer: ReplayBuffer) -> None:
    """Marks the newest transitions as the last of their episodes, before environments are reset in mid-episode.

    Otherwise an n-step return would run on into an episode that is another one. A one-step target does not change:
    it looks at the mark only where an episode is done.
    """
    if buffer.size() > 0:
        newest = (buffer.pos - 1) % buffer.buffer_size
        buffer.timeouts[newest] = np.logical_or(buffer.timeouts[newest], buffer.dones[newest] == 0)
