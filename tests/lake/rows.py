"""Rows of the six tables, for tests."""

import numpy as np
import pyarrow as pa

from alphaswarm_rl.lake.segments import Facts, SegmentWriter, fitted
from alphaswarm_rl.lake.tables import KINDS, arrow_schema

RUN = "11111111-2222-4333-8444-555555555555"


def rows(kind, run_id=RUN, *, phase="train", env_idx=0, episodes=1, steps=3, first_episode=0, spec_hash="a" * 64):
    """`episodes` whole episodes of `steps` steps; each has two action components, two reward terms and one fill.

    The fill buys a unit for 4 and a commission of 1; what is held of it is worth the equity without the cash.
    """
    n = episodes * steps
    number = np.arange(n)
    step = number % steps
    columns = {
        "run_id": pa.array([run_id] * n),
        "spec_hash": pa.array([spec_hash] * n),
        "phase": pa.array([phase] * n),
        "env_idx": np.full(n, env_idx, np.int32),
        "episode": first_episode + number // steps,
        "step": step,
        "ts": pa.array(number * 86_400_000_000, pa.timestamp("us", tz="UTC")),
    }
    if kind == "trajectories":
        columns |= {
            "obs_hash": number * 7919,
            "action": pa.array([[0.25 * k, -0.5] for k in range(n)]),
            "reward": number * 0.5,
            "terminated": np.zeros(n, bool),
            "truncated": step == steps - 1,
        }
    elif kind == "equity_curves":
        columns |= {"portfolio_value": 1000.0 + number, "drawdown": np.zeros(n), "cash": 10.0 * number}
        columns |= {"cost": np.ones(n), "carry": np.zeros(n)}
    elif kind == "fills":
        columns |= {"fill_idx": np.zeros(n, np.int32), "asset_idx": np.zeros(n, np.int32)}
        columns |= {
            name: pa.array([word] * n) for name, word in (("symbol", "A"), ("side", "buy"), ("reason", "action"))
        }
        columns |= {"quantity": np.ones(n), "price": np.full(n, 4.0), "commission": np.ones(n)}
        columns |= {"spread": np.zeros(n), "impact": np.zeros(n)}
    else:
        twice = pa.array(np.repeat(number, 2))
        columns = {name: pa.array(column).take(twice) for name, column in columns.items()}
        if kind == "action_logs":
            values = np.column_stack([0.25 * number, np.full(n, -0.5)]).reshape(-1)
            columns |= {"asset_idx": np.tile(np.array([0, 1], np.int32), n), "action_value": values}
        elif kind == "positions":
            columns |= _positions(number)
        else:
            columns |= {"term_name": ["pnl", "cost"] * n, "contribution": np.repeat(number * 0.25, 2)}
    return fitted(pa.table(columns), arrow_schema(kind))


def _positions(number):
    """Cash, and a unit of A bought in each step."""
    n, none = len(number), np.zeros(2 * len(number))
    cash, price, one = 10.0 * number, 1000.0 - 9.0 * number, np.ones(n)
    quantity, prices = np.stack([cash, one], axis=1).reshape(-1), np.stack([one, price], axis=1).reshape(-1)
    before = np.stack([cash + 5.0, np.zeros(n)], axis=1).reshape(-1)
    return {
        "asset_idx": np.tile(np.array([-1, 0], np.int32), n),
        "symbol": pa.array(["CASH", "A"] * n),
        "quantity_before": before,
        "quantity": quantity,
        "price_before": prices,
        "price": prices,
        "value_before": before * prices,
        "value": quantity * prices,
        "weight_before": none,
        "weight": none,
        "targets": pa.array([None, [0.5, 0.25]] * n),
        "carry": none,
        "split_quantity": none,
        "dividends": none,
    }


def spool(lake, run_id=RUN, *, phase="train", number=0, kinds=KINDS, timesteps=None, **more):
    """Writes one segment of each kind into the spool, whole and undelivered; gives the segments."""
    found = []
    for kind in kinds:
        table = rows(kind, run_id, phase=phase, **more)
        facts = Facts(lake.identifier(kind), run_id, kind, phase)
        writer = SegmentWriter(lake.spool / run_id / kind / phase, number, facts)
        writer.write(table)
        found.append(writer.close(table.num_rows if timesteps is None else timesteps))
    return found
