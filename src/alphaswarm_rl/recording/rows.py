"""From blocks of steps to rows of the six tables.

A block holds S steps of n environments; its n * S rows stand environment after environment (row = env * S + step). Each
row has an episode and a step in it, and only the kept ones are written (`numbering.RowNumbers`).

Environments come in two kinds. Those that trade report their account and the terms of their reward as arrays
(`StepBlock.account`, `StepBlock.reward_terms`): one value per row; where they log trades (`StepBlock.trades`),
positions and fills are made of that, in `trade_rows`. All others may report anything in their infos, as a dict per row:
a portfolio value and reward terms go to the tables for them, the rest becomes the JSON text `info`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from alphaswarm_rl.core.types import Array, JsonMapping, JsonObject
from alphaswarm_rl.lake.run_ends import repeated
from alphaswarm_rl.lake.tables import Kind, write_schema
from alphaswarm_rl.market.trades import TradeTables
from alphaswarm_rl.recording.numbering import RowNumbers
from alphaswarm_rl.recording.steps import Column, StepBlock, as_numpy, flat
from alphaswarm_rl.recording.trade_rows import TradedRows

#: Columns of a table by name, one value per row; None where the whole column is null.
Columns: TypeAlias = "dict[str, Array | pa.Array | None]"

_EQUITY_COLUMNS = ("portfolio_value", "drawdown", "cash")
_TRADED_COLUMNS = ("cost", "carry", "turnover")
#: Keys of infos that have columns of their own, and keys that say nothing about the step.
_IN_COLUMNS = (*_EQUITY_COLUMNS, "reward_terms")
_NOT_INFO = ("final_obs", "final_info", "final_infos", "env_infos", "episode")
_TIME = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class RowKey:
    """What all rows of a recorder begin with."""

    run_id: str
    spec_hash: str
    phase: str


@dataclass(frozen=True)
class TradesPlan:
    """How the trades of a phase are recorded: what turns logs into money, and whether positions and fills are."""

    tables: TradeTables
    positions: bool


def tables_of(
    block: StepBlock, key: RowKey, numbers: RowNumbers, *, observations: bool, trades: TradesPlan | None = None
) -> dict[str, pa.Table]:
    """The kept rows of the six tables; a table without rows is left out.

    Args:
        block: The steps.
        key: What all rows begin with.
        numbers: Episode and step of each row, and which are kept.
        observations: Whether whole observations are written.
        trades: How logged trades are recorded; None where none are logged.
    """
    rows = _KeptRows(block, numbers)
    if not len(rows.indices):
        return {}
    infos = [] if block.account else _row_infos(rows)
    common: Columns = {
        "env_idx": rows.select(np.repeat(np.arange(rows.n, dtype=np.int32), rows.count).reshape(rows.n, rows.count)),
        "episode": rows.select(numbers.episodes),
        "step": rows.select(numbers.steps),
        "ts": _in_microseconds(rows.account("timestamp")),
    }
    actions = rows.select(np.ascontiguousarray(block.actions.flat(), np.float64))
    traded = None if trades is None else _traded(rows, trades.tables)
    tables: dict[Kind, Columns | None] = {
        "trajectories": _trajectories(rows, common, actions, _infos(infos, traded), observations=observations),
        "action_logs": _action_logs(common, actions),
        "equity_curves": _equity_curves(rows, common, infos, traded),
        "reward_decomposition": _reward_terms(rows, common, infos),
    }
    if trades is not None and traded is not None and trades.positions:
        tables["positions"] = _positions(common, traded)
        tables["fills"] = _fills(common, traded)
    return {kind: _table(kind, key, columns) for kind, columns in tables.items() if columns is not None}


class _KeptRows:
    """Chooses the kept rows of a block.

    Args:
        block: The steps.
        numbers: Which rows are kept.

    Attributes:
        n: Environments.
        count: Steps, S.
        indices: The kept rows.
    """

    def __init__(self, block: StepBlock, numbers: RowNumbers) -> None:
        self.block = block
        self.n, self.count = numbers.kept.shape
        self.indices = np.flatnonzero(numbers.kept.reshape(-1))
        self._all = len(self.indices) == numbers.kept.size

    def select(self, array: Array) -> Array:
        """Of an array (n, S, ...) the kept rows, (rows, ...)."""
        by_row = np.ascontiguousarray(array).reshape(self.n * self.count, *array.shape[2:])
        return by_row if self._all else by_row[self.indices]

    def account(self, name: str) -> Array | None:
        """What trading environments report of each row under this name; None unless they do so at every step."""
        column = self.block.account.get(name)
        return None if column is None else self.column(column)

    def column(self, column: Column) -> Array | None:
        """The kept rows of a column; None unless it has a value for every step."""
        return self.select(column.batched()) if len(column) == self.count else None


def _trajectories(
    rows: _KeptRows, common: Columns, actions: Array, infos: pa.Array | None, *, observations: bool
) -> Columns:
    block = rows.block
    terminated, truncated = rows.select(block.terminated.batched()), rows.select(block.truncated.batched())
    return {
        **common,
        "obs_hash": rows.select(block.hashes.batched()),
        "action": _lists(actions),
        "reward": rows.select(block.rewards.batched()),
        "value": _numbers(rows.column(block.values)),
        "log_prob": _numbers(rows.column(block.log_probs)),
        "terminated": terminated,
        "truncated": truncated,
        "info": infos,
        **(_observations(rows, terminated | truncated) if observations else {}),
    }


def _infos(infos: Sequence[JsonMapping], traded: TradedRows | None) -> pa.Array | None:
    """The column `info`: of environments that trade the limits that their portfolio stages reached."""
    return _info_texts(infos if traded is None else traded.infos())


def _action_logs(common: Columns, actions: Array) -> Columns | None:
    """A row for each component of each action."""
    count, components = actions.shape
    if not components:
        return None
    return {
        **_each(common, lambda column: repeated(_array(column), components)),
        "asset_idx": _component_numbers(components, count),
        "action_value": actions.reshape(-1),
    }


def _traded(rows: _KeptRows, tables: TradeTables) -> TradedRows | None:
    """The trades of the kept rows; None unless they were logged at every step."""
    if not rows.block.trades:
        return None
    log = {name: rows.column(column) for name, column in rows.block.trades.items()}
    cash, value, carry = (rows.account(name) for name in ("cash", "portfolio_value", "carry"))
    return TradedRows(tables, log, cash, value, carry)  # type: ignore[arg-type]  # logged at every step


def _positions(common: Columns, traded: TradedRows) -> Columns:
    """A row for cash and one for each asset of every step."""
    each = 1 + len(traded.tables.names.assets)
    return {**_each(common, lambda column: repeated(_array(column), each)), **traded.positions()}


def _fills(common: Columns, traded: TradedRows) -> Columns | None:
    """A row for each fill; None where nothing was traded."""
    of_row, columns = traded.fills()
    return {**_each(common, lambda column: column[of_row]), **columns} if len(of_row) else None


def _equity_curves(
    rows: _KeptRows, common: Columns, infos: Sequence[JsonMapping], traded: TradedRows | None
) -> Columns | None:
    """A row for each step with an account, or with a portfolio value in its info."""
    if rows.block.account:
        names = _EQUITY_COLUMNS if traded is None else (*_EQUITY_COLUMNS, *_TRADED_COLUMNS)
        exposures = {} if traded is None else traded.exposures()
        return {**common, **{name: rows.account(name) for name in names}, **exposures}
    reported = [row for row, info in enumerate(infos) if "portfolio_value" in info]
    if not reported:
        return None
    values = {name: pa.array([infos[row].get(name) for row in reported], pa.float64()) for name in _EQUITY_COLUMNS}
    return {**_each(common, lambda column: column[reported]), **values}


def _reward_terms(rows: _KeptRows, common: Columns, infos: Sequence[JsonMapping]) -> Columns | None:
    """A row for each term of each reward that is reported with its terms."""
    if any("reward_terms" in info for info in infos):
        terms = [
            (row, str(name), float(term))
            for row, info in enumerate(infos)
            for name, term in info.get("reward_terms", {}).items()
        ]
        reported = [row for row, _, _ in terms]
        names = sorted({name for _, name, _ in terms})
        return {
            **_each(common, lambda column: column[reported]),
            "term_name": _words(np.array([names.index(name) for _, name, _ in terms], np.int32), names),
            "contribution": np.array([term for _, _, term in terms]),
        }
    if not rows.block.reward_terms:
        return None
    names = list(rows.block.reward_terms)
    contributions = np.stack([rows.select(rows.block.reward_terms[name].batched()) for name in names], axis=1)
    return {
        **_each(common, lambda column: np.repeat(column, len(names))),
        "term_name": _words(np.tile(np.arange(len(names), dtype=np.int32), len(rows.indices)), names),
        "contribution": contributions.reshape(-1),
    }


def _each(columns: Columns, function: Callable[[Array], Array | pa.Array]) -> Columns:
    return {name: None if column is None else function(column) for name, column in columns.items()}


def _table(kind: Kind, key: RowKey, columns: Columns) -> pa.Table:
    schema = write_schema(kind)
    steps = columns["step"]
    assert steps is not None
    constants = {"run_id": key.run_id, "spec_hash": key.spec_hash, "phase": key.phase}
    arrays = []
    for column_of in schema:
        column = columns.get(column_of.name)
        if column_of.name in constants:
            arrays.append(repeated(pa.array([constants[column_of.name]]), len(steps)))
        elif column is None:
            arrays.append(pa.nulls(len(steps), column_of.type))
        else:
            arrays.append(column if isinstance(column, pa.Array) else _array(column, column_of.type))
    return pa.table(arrays, schema=schema)


def _array(column: Array, type_: pa.DataType | None = None) -> pa.Array:
    return pa.array(column).cast(_TIME) if column.dtype.kind == "M" else pa.array(column, type=type_)


def _words(indices: Array, words: Sequence[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices), pa.array(words), safe=False)


def _lists(numbers: Array) -> pa.ListArray:
    """One list for each row of (rows, k)."""
    offsets = np.arange(0, numbers.size + 1, max(numbers.shape[1], 1), dtype=np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets[: len(numbers) + 1]), pa.array(numbers.reshape(-1)))


def _numbers(column: Array | None) -> Array | None:
    return None if column is None else column.reshape(-1).astype(np.float64)


def _in_microseconds(times: Array | None) -> Array | None:
    """On a GPU times are whole nanoseconds, and elsewhere in whatever unit the panel has."""
    if times is None:
        return None
    return (times.astype("datetime64[ns]") if times.dtype.kind in "iu" else times).astype("datetime64[us]")


@lru_cache(maxsize=4)
def _component_numbers(components: int, rows: int) -> pa.Array:
    """The number of each component in each row; blocks are as large as each other, and share it."""
    return pa.array(np.tile(np.arange(components, dtype=np.int32), rows))


def _observations(rows: _KeptRows, ended: Array) -> dict[str, pa.ListArray]:
    """What the agent observed, and the last observation of episodes that ended."""
    observed = rows.select(rows.block.observations.flat().astype(np.float32))
    width = observed.shape[1]
    blank = np.zeros((rows.n, width), np.float32)
    finals = [
        flat([info["final_obs"]])[:, 0].astype(np.float32) if "final_obs" in info else blank
        for info in rows.block.infos
    ]
    last = rows.select(np.stack(finals, axis=1))
    offsets = np.concatenate([[0], np.cumsum(ended * width)]).astype(np.int32)
    final = pa.ListArray.from_arrays(pa.array(offsets), pa.array(last[ended].reshape(-1)), mask=pa.array(~ended))
    return {"observation": _lists(observed), "final_observation": final}


def _row_infos(rows: _KeptRows) -> list[JsonObject]:
    """What environments report of each kept row in their infos; empty where none reports anything."""
    block = rows.block
    found: list[JsonObject] = [{} for _ in range(rows.n * rows.count)]
    for step, infos in enumerate(block.infos):
        arrays = _info_arrays(infos, rows.n)
        if arrays or infos.get("env_infos") or infos.get("final_infos"):
            ended = block.terminated.steps()[step] | block.truncated.steps()[step]
            found[step :: rows.count] = _infos_by_env(infos, arrays, ended)
    return [found[row] for row in rows.indices] if any(found) else []


def _info_arrays(infos: JsonMapping, n: int) -> list[tuple[str, Array, Array | None]]:
    """The infos with one entry per environment: name, entries, and which of them are set (None: all)."""
    return [
        # Gymnasium's vector environments say by `_name` which entries are set.
        (name, as_numpy(array), infos.get(f"_{name}"))
        for name, array in infos.items()
        if name not in _NOT_INFO and not name.startswith("_") and np.shape(array)[:1] == (n,)
    ]


def _infos_by_env(
    infos: JsonMapping, arrays: Sequence[tuple[str, Array, Array | None]], ended: Array
) -> list[JsonObject]:
    """The info of each environment at one step: its own dict (where an episode ended the final one) and its entries."""
    current, final = infos.get("env_infos", ()), infos.get("final_infos", ())
    result: list[JsonObject] = []
    for index, is_over in enumerate(ended):
        dicts = final if is_over else current
        info: JsonObject = dict(dicts[index]) if dicts else {}
        for name, array, mask in arrays:
            if mask is None or mask[index]:
                info[name] = array[index]
        result.append(info)
    return result


def _info_texts(infos: Sequence[JsonMapping]) -> pa.Array | None:
    """What has no column of its own, as JSON; None where there is nothing."""
    texts = []
    for info in infos:
        rest = {str(name): _plain(value) for name, value in info.items() if name not in _IN_COLUMNS}
        texts.append(json.dumps(rest, sort_keys=True, allow_nan=False) if rest else None)
    return pa.array(texts, pa.string()) if any(texts) else None


def _plain(value: object) -> object:
    """As JSON has it: keys are text, and a number that is not finite is null."""
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)
