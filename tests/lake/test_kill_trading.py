"""Random specs of trading that are killed and resumed: what every step held, traded, paid and was worth adds up."""

import random
import signal

import numpy as np
import pandas as pd
import pytest
import yaml

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.market.fills import FILL_POLICIES
from alphaswarm_rl.settings import Settings
from tests.envs.panels import random_panel
from tests.envs.test_trades import COSTS, MARGIN, WAYS
from tests.lake.killing import SMALL, Moment, rl, rows_of
from tests.recording.test_every_recorded_step import assert_adds_up

_STORE = "alphaswarm_rl.trajectory_stores.open_stores"
MOMENTS = (
    Moment("alphaswarm_rl.lake.segments:SegmentWriter.write", 5),
    Moment("pyiceberg.catalog.sql:SqlCatalog.commit_table", 2, after=True),
    Moment("alphaswarm_rl.inference.checkpoints:CheckpointStore.save"),
    Moment("alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 7),
    Moment(f"{_STORE}:compact", after=True),
)


def random_spec(folder, seed):
    """The file of a spec of random bars with gaps, splits and dividends, and of random ways to trade them."""
    rng = random.Random(seed)
    panel = random_panel(seed, bars=120, actions=True)
    columns = ("open", "high", "low", "close", "volume", "dividends", "splits")
    bars = {name: getattr(panel, name).reshape(-1) for name in columns}
    table = pd.DataFrame({"date": np.repeat(panel.timestamps, panel.num_assets), "tic": panel.assets * 120, **bars})
    table.dropna(subset=["close"]).to_csv(folder / "bars.csv", index=False)
    action, lends = WAYS[rng.choice(sorted(WAYS))]
    env = {"fill": rng.choice(sorted(FILL_POLICIES)), "costs": rng.choice(COSTS), "episode_bars": 15}
    env |= {"initial_cash": 10_000.0, **({"margin": MARGIN} if lends else {})}
    spec = {
        "name": f"killed {seed}",
        "env": {"class": "stock_trading", "kwargs": env},
        "action": action,
        "observation": {"class": "portfolio_state"},
        "data_pipeline": {"class": "csv", "kwargs": {"path": "bars.csv"}},
        "agent": {"class": "random"},
        "training": {"total_timesteps": 1200, "n_envs": 4, "end": "2020-03-25", "seed": seed},
        "evaluation": {"start": "2020-03-25", "episodes": 2},
    }
    path = folder / "spec.yaml"
    path.write_text(yaml.safe_dump(spec))
    return path


@pytest.mark.parametrize(
    "seed", [pytest.param(seed, marks=[pytest.mark.slow] if seed > 1 else []) for seed in range(20)]
)
def test_every_step_of_a_killed_run_adds_up(tmp_path, seed):
    home, moment = tmp_path / "home", random.Random(seed).choice(MOMENTS)
    options = (*SMALL, "--data-root", tmp_path)
    spec = random_spec(tmp_path, seed)
    killed = rl("train", spec, *options, "--record-positions", "all", home=home, moment=moment)
    assert killed.code == -signal.SIGKILL, f"it ended by itself: {killed.err[-800:]}"
    with Ledger.open(Settings(home=home)) as ledger:
        (run,) = ledger.runs(limit=None)
    # It goes on as it began, whatever is asked of the process that resumes it.
    resumed = rl("resume", run.id, *options, home=home)
    assert resumed.code == 0, resumed.err
    assert rl("lake", "commit", home=home).code == 0
    with Lake(Settings(home=home)) as lake:
        tables = rows_of(lake, run.id)
    assert set(tables["positions"]["phase"].to_pylist()) == {"train", "evaluate"}
    for phase in ("train", "evaluate"):
        assert_adds_up({kind: rows.filter([name == phase for name in rows["phase"].to_pylist()])
                        for kind, rows in tables.items()})  # fmt: skip
