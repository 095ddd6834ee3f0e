"""From logged trades of a block to columns of positions, fills and exposures.

Arrays are (R,) over kept rows, (R, A) over rows and assets. Of a step's positions the first row is cash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import numpy as np
import pyarrow as pa

from alphaswarm_rl.core.contracts import CASH
from alphaswarm_rl.core.types import Array, JsonObject
from alphaswarm_rl.lake.tables import CASH_IDX
from alphaswarm_rl.market.trades import REASONS, Fills, Positions, TradeTables

_SIDES = ("sell", "buy")


@dataclass(frozen=True)
class TradedRows:
    """The kept rows of a block of which trades are known.

    Attributes:
        tables: What they were traded at.
        log: What was logged, one entry per row.
        cash: Cash after each step.
        value: Equity after it.
        carry: Borrow and funding of the account.
    """

    tables: TradeTables
    log: Mapping[str, Array]
    cash: Array
    value: Array
    carry: Array

    def exposures(self) -> dict[str, pa.Array]:
        """Gross and net value of the positions as parts of the equity; null where there is none."""
        price = self.tables.market.close[self.log["bar"]]
        worth = self.log["quantity"] * price
        broke = ~(self.value > 0)
        equity = np.where(broke, 1.0, self.value)
        gross, net = np.abs(worth).sum(axis=1) / equity, worth.sum(axis=1) / equity
        return {"gross_exposure": pa.array(gross, mask=broke), "net_exposure": pa.array(net, mask=broke)}

    def infos(self) -> list[JsonObject]:
        """The limits of portfolio stages that were reached in each step; empty where there are no such stages."""
        found = self.tables.breaches(self.log)
        return [{"limit_breaches": [asdict(breach) for breach in breaches]} if breaches else {} for breaches in found]

    def positions(self) -> dict[str, Array | pa.Array]:
        """Columns of positions, one row for cash and one for each asset of every step."""
        found = self.tables.positions(dict(self.log), self.cash, self.carry)
        before, after = self.log["value_before"], self.value
        count, assets = found.quantity.shape
        nothing = np.zeros(count)
        quantities = {"quantity_before": self.log["cash_before"], "quantity": self.cash}
        columns = {name: _with_cash(getattr(found, name), cash) for name, cash in quantities.items()}
        for name in ("price_before", "price"):
            columns[name] = _with_cash(getattr(found, name), np.ones(count))
        for suffix, equity in (("_before", before), ("", after)):
            columns[f"value{suffix}"] = columns[f"quantity{suffix}"] * columns[f"price{suffix}"]
            columns[f"weight{suffix}"] = columns[f"value{suffix}"] / np.where(equity > 0, equity, np.inf)[:, None]
        columns["carry"] = _with_cash(found.carry, found.cash_carry)
        columns["split_quantity"] = _with_cash(found.split_quantity, nothing)
        columns["dividends"] = _with_cash(found.dividends, nothing)
        numbers = np.tile(np.arange(CASH_IDX, assets, dtype=np.int32), count)
        return {
            "asset_idx": numbers,
            "symbol": _words(numbers - CASH_IDX, (CASH, *self.tables.names.assets)),
            "targets": self._targets(found),
            **{name: column.reshape(-1) for name, column in columns.items()},
        }

    def _targets(self, found: Positions) -> pa.ListArray:
        """After each stage; what weights leave is for cash, and null what has no target."""
        stages = found.targets.shape[2]
        rest = 1.0 - found.targets.sum(axis=1, keepdims=True)
        cash = rest if self.tables.trade.way == "weights" else np.full_like(rest, np.nan)
        every = np.concatenate([cash, found.targets], axis=1).reshape(-1, stages)
        known = ~np.isnan(every).any(axis=1)
        offsets = np.concatenate([[0], np.cumsum(known * stages)]).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(offsets), pa.array(every[known].reshape(-1)), mask=pa.array(~known))

    def fills(self) -> tuple[Array, dict[str, Array | pa.Array]]:
        """The row that each fill belongs to, and the columns of fills."""
        found: Fills = self.tables.fills(dict(self.log))
        columns = {
            "fill_idx": found.number.astype(np.int32),
            "asset_idx": found.asset.astype(np.int32),
            "symbol": _words(found.asset, self.tables.names.assets),
            "side": _words(found.quantity > 0, _SIDES),
            "quantity": np.abs(found.quantity),
            "price": found.price,
            "commission": found.commission,
            "spread": found.spread,
            "impact": found.impact,
            "reason": _words(found.reason, REASONS),
        }
        return found.row, columns


def _with_cash(of_assets: Array, of_cash: Array) -> Array:
    return np.concatenate([of_cash[:, None], of_assets], axis=1)


def _words(indices: Array, words: tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices.astype(np.int32)), pa.array(words), safe=False)
