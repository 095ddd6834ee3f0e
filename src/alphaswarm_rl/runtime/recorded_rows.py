"""From steps as an environment gave them to rows of the four tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from alphaswarm_rl.lake.hashing64 import row_hashes, write_row_hashes
from alphaswarm_rl.lake.run_ends import is_runs, repeated
from alphaswarm_rl.lake.tables import write_schema

Array = np.ndarray[Any, Any]

#: Keys of infos that are no information about the step, or have columns of their own.
_TOLD = ("portfolio_value", "drawdown", "cash", "reward_terms")
_NOT_INFO = ("final_obs", "final_info", "final_infos", "env_infos", "episode")
_TIME = pa.timestamp("us", tz="UTC")


@dataclass
class Steps:
    """Steps of all environments, one after the other; each entry is the batch of one step.

    Attributes:
        first: Steps of the batch that came before.
    """

    first: int
    actions: list[Any] = field(default_factory=list)
    rewards: list[Any] = field(default_factory=list)
    terminated: list[Any] = field(default_factory=list)
    truncated: list[Any] = field(default_factory=list)
    infos: list[Mapping[str, Any]] = field(default_factory=list)
    observations: list[Any] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)
    log_probs: list[Any] = field(default_factory=list)
    #: Hashes of the observations, once they are known.
    hashes: list[Array] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.rewards)

    def hash_observations(self, *, keep: bool) -> None:
        """Computes the hashes that are not known yet, and lets the observations go unless they are kept."""
        if not self.hashes:
            self.hashes = list(_hashes(self.observations))
        if not keep:
            self.observations = []

    def split(self, count: int) -> tuple[Steps, Steps]:
        """The first `count` steps, and the others."""
        parts = {name: (its[:count], its[count:]) for name, its in vars(self).items() if isinstance(its, list)}
        before = Steps(self.first, **{name: part[0] for name, part in parts.items()})
        return before, Steps(self.first + count, **{name: part[1] for name, part in parts.items()})


@dataclass(frozen=True)
class RowKey:
    """Whose rows they are."""

    run_id: str
    spec_hash: str
    phase: str


def tables_of(
    steps: Steps, key: RowKey, episodes: Array, numbers: Array, kept: Array, *, observations: bool
) -> dict[str, pa.Table]:
    """The rows of the four tables, environment after environment.

    Args:
        steps: What happened.
        key: Whose rows they are.
        episodes: The episode of each row, (n, S).
        numbers: The step of each row, (n, S).
        kept: Which rows are wanted, (n, S).
        observations: Whether whole observations are written.
    """
    n, count = episodes.shape
    rows = np.flatnonzero(kept.reshape(-1))
    if not len(rows):
        return {}
    everything = len(rows) == kept.size

    def chosen(array: Array) -> Array:
        flat = np.ascontiguousarray(array).reshape(n * count, *array.shape[2:])
        return flat if everything else flat[rows]

    account = steps.infos[0] if "portfolio_value" in steps.infos[0] else None
    said = [] if account is not None else _said(steps, n, rows)
    times = _stacked(steps.infos, "timestamp")
    common = {
        "env_idx": chosen(np.repeat(np.arange(n, dtype=np.int32), count).reshape(n, count)),
        "episode": chosen(episodes),
        "step": chosen(numbers),
        "ts": None if times is None else chosen(times),
    }
    actions = chosen(_flat(steps.actions))
    terminated, truncated = chosen(batched(steps.terminated)), chosen(batched(steps.truncated))
    found = {
        "trajectories": {
            **common,
            "obs_hash": chosen(batched(steps.hashes)),
            "action": _lists(actions.astype(np.float64, copy=False)),
            "reward": chosen(batched(steps.rewards)),
            "value": _decided(steps.values, count, chosen),
            "log_prob": _decided(steps.log_probs, count, chosen),
            "terminated": terminated,
            "truncated": truncated,
            "info": _texts(said),
            **(_seen(steps, n, chosen, terminated | truncated) if observations else {}),
        }
    }
    components = actions.shape[1]
    if components:
        found["action_logs"] = {
            **{name: None if its is None else repeated(_array(its), components) for name, its in common.items()},
            "asset_idx": np.tile(np.arange(components, dtype=np.int32), len(rows)),
            "action_value": actions.reshape(-1).astype(np.float64, copy=False),
        }
    if account is not None:
        money = {name: _stacked(steps.infos, name) for name in ("portfolio_value", "drawdown", "cash")}
        found["equity_curves"] = {
            **common,
            **{name: None if array is None else chosen(array) for name, array in money.items()},
        }
    elif any(its and "portfolio_value" in its for its in said):
        found["equity_curves"] = _told(common, said, ("portfolio_value", "drawdown", "cash"))
    terms = steps.infos[0].get("reward_terms")
    if any(its and "reward_terms" in its for its in said):
        found["reward_decomposition"] = _told_terms(common, said)
    elif terms:
        names = list(terms)
        contributions = np.stack(
            [chosen(batched([info["reward_terms"][name] for info in steps.infos])) for name in names], axis=1
        )
        found["reward_decomposition"] = {
            **{name: None if its is None else np.repeat(its, len(names)) for name, its in common.items()},
            "term_name": _words(np.tile(np.arange(len(names), dtype=np.int32), len(rows)), names),
            "contribution": contributions.reshape(-1),
        }
    return {kind: _table(kind, key, columns) for kind, columns in found.items()}


def _table(kind: Any, key: RowKey, columns: Mapping[str, Any]) -> pa.Table:
    schema = write_schema(kind)
    count = len(columns["step"])
    constants = {"run_id": key.run_id, "spec_hash": key.spec_hash, "phase": key.phase}
    arrays = []
    for place in schema:
        column = columns.get(place.name)
        if place.name in constants:
            word = constants[place.name]
            one = (
                repeated(pa.array([word]), count) if is_runs(place.type) else _words(np.zeros(count, np.int32), [word])
            )
            arrays.append(one)
        elif column is None:
            arrays.append(pa.nulls(count, place.type))
        else:
            arrays.append(column if isinstance(column, pa.Array) else _array(column, place.type))
    return pa.table(arrays, schema=schema)


def _array(column: Array, type_: pa.DataType | None = None) -> pa.Array:
    return pa.array(column).cast(_TIME) if column.dtype.kind == "M" else pa.array(column, type=type_)


def _words(indices: Array, words: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(words), safe=False)


def _lists(numbers: Array) -> pa.ListArray:
    """One list for each row of (rows, k)."""
    offsets = np.arange(0, numbers.size + 1, max(numbers.shape[1], 1), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets[: len(numbers) + 1]), pa.array(numbers.reshape(-1)))


def batched(batches: Sequence[Any]) -> Array:
    """Environment after environment, (n, S, ...)."""
    joined = _joined(batches)
    return joined.reshape(len(batches), len(batches[0]), *joined.shape[1:]).swapaxes(0, 1)


def _joined(batches: Sequence[Any]) -> Array:
    """Step after step on this side of the bus, (S * n, ...)."""
    if hasattr(batches[0], "detach"):
        import torch

        together: Array = torch.cat(tuple(batches)).detach().cpu().numpy()
        return together
    return np.concatenate(batches)


def _stacked(infos: Sequence[Mapping[str, Any]], name: str) -> Array | None:
    if any(name not in info for info in infos):
        return None
    array = batched([info[name] for info in infos])
    if name == "timestamp":
        # In nanoseconds on a GPU, and in whatever the panel has elsewhere.
        array = (array.astype("datetime64[ns]") if array.dtype.kind in "iu" else array).astype("datetime64[us]")
    return array


def _as_numpy(array: Any) -> Array:
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def _leaves(batch: Any) -> list[Any]:
    if isinstance(batch, Mapping):
        return [leaf for name in sorted(batch) for leaf in _leaves(batch[name])]
    if isinstance(batch, tuple | list):
        return [leaf for part in batch for leaf in _leaves(part)]
    return [batch]


def _flat(batches: Sequence[Any]) -> Array:
    """Batches of any numbers as (n, S, k)."""
    parts = [batched(leaves) for leaves in zip(*map(_leaves, batches), strict=True)]
    parts = [part.reshape(*part.shape[:2], -1) for part in parts]
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=2)


def _hashes(observations: Sequence[Any]) -> Array:
    """A hash of each observation, (S, n): of its bytes, part after part in the order of their names."""
    parts = [_part_hashes(leaves) for leaves in zip(*map(_leaves, observations), strict=True)]
    if len(parts) == 1:
        return parts[0]
    return row_hashes(np.stack([part.reshape(-1) for part in parts], axis=1)).reshape(len(observations), -1)


def are_here(observations: Any) -> bool:
    """Whether a batch of observations is on this side of the bus."""
    return not any(hasattr(leaf, "detach") for leaf in _leaves(observations))


def hashes_of(observations: Any) -> Array:
    """A hash of each observation of one batch, (n,)."""
    if type(observations) is np.ndarray:
        return row_hashes(observations)
    found: Array = _hashes([observations])[0]
    return found


def _part_hashes(batches: Sequence[Any]) -> Array:
    """(S, n)."""
    if hasattr(batches[0], "detach"):
        return row_hashes(_joined(batches)).reshape(len(batches), -1)
    # Batch by batch: putting them together first would copy what is by far the most.
    found = np.empty((len(batches), len(batches[0])), np.int64)
    for batch, out in zip(batches, found, strict=True):
        write_row_hashes(np.asarray(batch), out)
    return found


def _decided(batches: list[Any], count: int, chosen: Any) -> Array | None:
    if len(batches) != count:
        return None
    numbers: Array = chosen(batched(batches)).reshape(-1)
    return numbers.astype(np.float64)


def _seen(steps: Steps, n: int, chosen: Any, ended: Array) -> dict[str, pa.ListArray]:
    """What the agent saw, and the last sight of episodes that ended."""
    seen = chosen(_flat(steps.observations).astype(np.float32))
    blank = np.zeros((n, seen.shape[1]), np.float32)
    last = chosen(
        np.stack(
            [
                _flat([info["final_obs"]])[:, 0].astype(np.float32) if "final_obs" in info else blank
                for info in steps.infos
            ],
            axis=1,
        )
    )
    offsets = np.concatenate([[0], np.cumsum(ended * seen.shape[1])]).astype(np.int32)
    final = pa.ListArray.from_arrays(pa.array(offsets), pa.array(last[ended].reshape(-1)), mask=pa.array(~ended))
    return {"observation": _lists(seen), "final_observation": final}


def _said(steps: Steps, n: int, rows: Array) -> list[dict[str, Any]]:
    """What generic environments say of each wanted row; nothing at all where none says anything."""
    found: list[dict[str, Any]] = [{} for _ in range(n * len(steps))]
    for place, infos in enumerate(steps.infos):
        each = infos.get("env_infos", ())
        final = infos.get("final_infos", ())
        shared = {
            name: _as_numpy(array)
            for name, array in infos.items()
            if name not in _NOT_INFO and not name.startswith("_") and np.shape(array)[:1] == (n,)
        }
        if not (shared or each or final):
            continue
        ended = steps.terminated[place] | steps.truncated[place]
        for index in range(n):
            its = found[index * len(steps) + place]
            source = final if ended[index] else each
            if source:
                its |= source[index]
            for name, array in shared.items():
                if f"_{name}" not in infos or infos[f"_{name}"][index]:
                    its[name] = array[index]
    return [found[row] for row in rows] if any(found) else []


def _told(common: Mapping[str, Any], said: list[dict[str, Any]], names: Sequence[str]) -> dict[str, Any]:
    """Rows of those steps of which the environment told the first of these numbers."""
    places = [place for place, its in enumerate(said) if names[0] in its]
    told = {name: pa.array([said[place].get(name) for place in places], pa.float64()) for name in names}
    return {name: None if its is None else its[places] for name, its in common.items()} | told


def _told_terms(common: Mapping[str, Any], said: list[dict[str, Any]]) -> dict[str, Any]:
    """A row for each term of a reward that the environment told."""
    told = [(place, name, term) for place, its in enumerate(said) for name, term in its.get("reward_terms", {}).items()]
    places = [place for place, _, _ in told]
    names = sorted({str(name) for _, name, _ in told})
    indices = np.array([names.index(str(name)) for _, name, _ in told], np.int32)
    return {
        **{name: None if its is None else its[places] for name, its in common.items()},
        "term_name": _words(indices, names),
        "contribution": np.array([float(term) for _, _, term in told]),
    }


def _texts(said: list[dict[str, Any]]) -> pa.Array | None:
    """What has no column of its own, as JSON; None where there is nothing."""
    texts = []
    for its in said:
        rest = {str(name): _plain(value) for name, value in its.items() if name not in _TOLD}
        texts.append(json.dumps(rest, sort_keys=True, allow_nan=False) if rest else None)
    return pa.array(texts, pa.string()) if any(texts) else None


def _plain(value: Any) -> Any:
    """As JSON can say it: keys are text, and what is not a finite number is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
