"""From steps as an environment gave them to rows of the four tables."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from alphaswarm_rl.lake.run_ends import repeated
from alphaswarm_rl.lake.tables import write_schema
from alphaswarm_rl.recording.recorded_steps import Column, Steps, flat

Array = np.ndarray[Any, Any]

#: Keys of infos that are no information about the step, or have columns of their own.
_TOLD = ("portfolio_value", "drawdown", "cash", "reward_terms")
_NOT_INFO = ("final_obs", "final_info", "final_infos", "env_infos", "episode")
_TIME = pa.timestamp("us", tz="UTC")


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

    def told(name: str) -> Array | None:
        column = steps.account.get(name)
        return None if column is None or len(column) != count else chosen(column.batched())

    said = [] if steps.account else _said(steps, n, rows)
    common = {
        "env_idx": chosen(np.repeat(np.arange(n, dtype=np.int32), count).reshape(n, count)),
        "episode": chosen(episodes),
        "step": chosen(numbers),
        "ts": _moments(told("timestamp")),
    }
    actions = chosen(np.ascontiguousarray(steps.actions.flat(), np.float64))
    terminated, truncated = chosen(steps.terminated.batched()), chosen(steps.truncated.batched())
    found = {
        "trajectories": {
            **common,
            "obs_hash": chosen(steps.hashes.batched()),
            "action": _lists(actions),
            "reward": chosen(steps.rewards.batched()),
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
            "asset_idx": _cycle(components, len(rows)),
            "action_value": actions.reshape(-1),
        }
    if steps.account:
        found["equity_curves"] = {**common, **{name: told(name) for name in ("portfolio_value", "drawdown", "cash")}}
    elif any(its and "portfolio_value" in its for its in said):
        found["equity_curves"] = _told(common, said, ("portfolio_value", "drawdown", "cash"))
    if any(its and "reward_terms" in its for its in said):
        found["reward_decomposition"] = _told_terms(common, said)
    elif steps.terms:
        names = list(steps.terms)
        contributions = np.stack([chosen(steps.terms[name].batched()) for name in names], axis=1)
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
            arrays.append(repeated(pa.array([constants[place.name]]), count))
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


def _moments(times: Array | None) -> Array | None:
    """In microseconds: on a GPU they are in nanoseconds, and elsewhere in whatever the panel has."""
    if times is None:
        return None
    return (times.astype("datetime64[ns]") if times.dtype.kind in "iu" else times).astype("datetime64[us]")


@lru_cache(maxsize=4)
def _cycle(components: int, rows: int) -> pa.Array:
    """The number of each component in each row; blocks are as large as each other, and share it."""
    return pa.array(np.tile(np.arange(components, dtype=np.int32), rows))


def _as_numpy(array: Any) -> Array:
    return array.detach().cpu().numpy() if hasattr(array, "detach") else np.asarray(array)


def _decided(column: Column, count: int, chosen: Any) -> Array | None:
    if len(column) != count:
        return None
    numbers: Array = chosen(column.batched()).reshape(-1)
    return numbers.astype(np.float64)


def _seen(steps: Steps, n: int, chosen: Any, ended: Array) -> dict[str, pa.ListArray]:
    """What the agent saw, and the last sight of episodes that ended."""
    seen = chosen(steps.observations.flat().astype(np.float32))
    blank = np.zeros((n, seen.shape[1]), np.float32)
    last = chosen(
        np.stack(
            [
                flat([info["final_obs"]])[:, 0].astype(np.float32) if "final_obs" in info else blank
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
        ended = steps.terminated.steps()[place] | steps.truncated.steps()[place]
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
