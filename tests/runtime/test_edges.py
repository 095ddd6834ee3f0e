"""The default gates on real trainings: an edge passes and is the best by its validation, noise never does."""

import numpy as np
import pandas as pd
import pytest

from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.refs import reference
from alphaswarm_rl.models.registry import ModelRegistry
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.spec import RLExperimentSpec

BARS = {"n_assets": 4, "n_bars": 1000}
#: Training until the first, validation until the second, evaluation from there on.
VALIDATED, EVALUATED = "2022-06-01", "2023-03-01"


def edge_spec(pipeline):
    agent = {"n_steps": 64, "batch_size": 128, "n_epochs": 4, "net_arch": [16], "learning_rate": 0.003}
    training = {"total_timesteps": 8192, "n_envs": 8, "end": VALIDATED, "seed": 1}
    return RLExperimentSpec.from_data(
        {
            "name": "edge",
            "data_pipeline": pipeline,
            "env": {
                "class": "stock_portfolio",
                "kwargs": {"costs": {"commission_rate": 0.0001, "half_spread_bps": 0.5}},
            },
            "observation": {"class": "technical_indicators"},
            "agent": {"class": "ppo_inhouse", "kwargs": agent},
            "training": {**training, "validation_start": VALIDATED, "validation_end": EVALUATED},
            "evaluation": {"start": EVALUATED, "episodes": 1},
            "trajectory_store": {"enabled": False},
        }
    )


def shown_future():
    """Bars with their next return as an ordinary column: what is marked as hindsight cannot be judged."""
    source = reference({"class": "synthetic", "kwargs": {**BARS, "model": "oracle", "seed": 1}}, "data_pipeline")
    panel = source.build().build(DataRequest())
    count, assets = panel.close.shape
    columns = {name: getattr(panel, name).ravel() for name in ("open", "high", "low", "close", "volume")}
    named = {"date": np.repeat(panel.timestamps, assets), "tic": np.tile(panel.assets, count), **columns}
    return pd.DataFrame({**named, "signal": panel.features[:, :, 0].ravel()})


ORACLE = {"class": "frame", "kwargs": {"name": "bars", "feature_columns": ["signal"], "scaler": "zscore"}}
MEAN_REVERTING = {
    "class": "synthetic",
    "kwargs": {
        **BARS,
        "n_assets": 8,
        "model": "ou",
        "mean_reversion": 60.0,
        "features": ["returns_1", "returns_5", "returns_10"],
        "scaler": "zscore",
        "seed": 1,
    },
}
NOISE = {"class": "synthetic", "kwargs": {**BARS, "model": "noise", "scaler": "zscore", "seed": 1}}


@pytest.mark.parametrize(
    ("pipeline", "passes"), [(ORACLE, True), (MEAN_REVERTING, True), (NOISE, False)], ids=["oracle", "ou", "noise"]
)
def test_an_edge_passes_the_default_gates_and_is_the_best_and_noise_does_not(settings, pipeline, passes):
    frames = {"bars": shown_future()} if pipeline is ORACLE else {}
    result = RLRuntime(edge_spec(pipeline), settings, frames=frames).train()
    with ModelRegistry.open(settings) as registry:
        (row,) = (row for row in registry.list() if row.run_id == result.run_id)
        verdicts = {check.gate: check.passed for check in registry.validations(row.id)[-1].checks}
        assert row.eval_window_start == VALIDATED
        assert verdicts["trained"]
        assert verdicts["not_constant"]
        assert all(verdicts.values()) is passes, verdicts
        if passes:
            assert registry.best().id == row.id
            registry.promote(row.id, who="tester", why="it has an edge")
        else:
            assert not verdicts["measure_lower_bound"]
            assert registry.best() is None
            with pytest.raises(ModelError, match="did not pass"):
                registry.promote(row.id, who="tester", why="luck")
