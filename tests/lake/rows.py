"""Rows of the four tables, for tests."""

import numpy as np
import pyarrow as pa

from alphaswarm_rl.lake.segments import Facts, SegmentWriter, fitted
from alphaswarm_rl.lake.tables import KINDS, arrow_schema

RUN = "11111111-2222-4333-8444-555555555555"


def rows(kind, run_id=RUN, *, phase="train", env_idx=0, episodes=1, steps=3, first_episode=0, spec_hash="a" * 64):
    """`episodes` whole episodes of `steps` steps; two action components and two reward terms in each step."""
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
    else:
        twice = pa.array(np.repeat(number, 2))
        columns = {name: pa.array(column).take(twice) for name, column in columns.items()}
        if kind == "action_logs":
            values = np.column_stack([0.25 * number, np.full(n, -0.5)]).reshape(-1)
            columns |= {"asset_idx": np.tile(np.array([0, 1], np.int32), n), "action_value": values}
        else:
            columns |= {"term_name": ["pnl", "cost"] * n, "contribution": np.repeat(number * 0.25, 2)}
    return fitted(pa.table(columns), arrow_schema(kind))


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
