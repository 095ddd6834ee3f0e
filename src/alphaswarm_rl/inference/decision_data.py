"""Where the bars of a decision come from: the run's own data pipeline, or a file that is read by its rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from alphaswarm_rl.arrays.moments import shown
from alphaswarm_rl.core.contracts import DataRequest
from alphaswarm_rl.core.errors import DataError, EnvError
from alphaswarm_rl.core.seeding import derived_seed
from alphaswarm_rl.core.window import Window
from alphaswarm_rl.data_pipelines.files import existing_file
from alphaswarm_rl.data_pipelines.pipeline import PanelPipeline
from alphaswarm_rl.inference.builder import lake_of
from alphaswarm_rl.inference.decision_bars import bars_until, end_of
from alphaswarm_rl.inference.process import cpu_threads
from alphaswarm_rl.market.panel import MarketPanel

if TYPE_CHECKING:
    import pandas as pd

    from alphaswarm_rl.inference.policy import LoadedPolicy

_ENDINGS = (".csv", ".csv.gz", ".parquet")


def bars_of_run(policy: LoadedPolicy, asof: str) -> MarketPanel:
    """The bars of the run's own data pipeline that were over at a date, with their features.

    Raises:
        DataError: The newest of them is older than bars are ever apart: the data does not reach that date.
    """
    pipeline, end = _pipeline(policy), end_of(asof)
    # A day more is asked for, and cut off again: labels of bars may lie behind their starts.
    after = str((end.astype("datetime64[D]") + np.timedelta64(1, "D")).astype("datetime64[D]"))
    # With as many threads as in runs: sums of another number round differently.
    with cpu_threads(policy.settings.infer.threads, load_torch=False):
        bars = bars_until(pipeline.build(replace(_request(policy), window=Window(end=after))), asof)
    apart = np.diff(bars.timestamps).max()
    if end > bars.known_at[-1] + apart:
        raise DataError(
            f"the bars at {asof}",
            f"the newest is that of {shown(bars.timestamps[-1])}, and bars are never so far apart",
            "Decide as of a date that the data reaches, or give newer bars: --bars FILE.",
        )
    return bars


def bars_of_file(policy: LoadedPolicy, file: Path, asof: str | None = None) -> MarketPanel:
    """The bars of a CSV or Parquet file, read by the run's column rules, with the run's features.

    Args:
        policy: The policy.
        file: The file: all bars so far.
        asof: Bars that were not over then are left out; None: all are there.
    """
    file = file.expanduser()
    if not file.name.lower().endswith(_ENDINGS):
        raise DataError(
            f"the file {str(file)!r}", "its name says no form that is read", f"Known: {', '.join(_ENDINGS)}."
        )
    existing_file(file.parent, file.name)
    pipeline = _pipeline(policy)
    panel = pipeline.panel_of_rows(_table(file, getattr(pipeline.config, "text_columns", frozenset())))
    # Cut before anything is computed: what comes later is not read.
    with cpu_threads(policy.settings.infer.threads, load_torch=False):
        return pipeline.with_features(panel if asof is None else bars_until(panel, asof), _request(policy))


def _pipeline(policy: LoadedPolicy) -> PanelPipeline:
    policy.plan.traded_market()
    reference = policy.spec.data_pipeline
    pipeline = None if reference is None else reference.build()
    if not isinstance(pipeline, PanelPipeline):
        why = "its spec names no data pipeline of bars"
        raise EnvError(f"a policy of {policy.scope.env_id!r}", why, "Give bars in Python: PolicyServer.decide.")
    return pipeline


def _request(policy: LoadedPolicy) -> DataRequest:
    return DataRequest(
        seed=derived_seed(policy.seed, "data"),
        root=policy.settings.data_path,
        frames=policy.frames,
        symbols=policy.plan.traded_market().assets,
        lake=lake_of(policy.settings),
    )


def _table(file: Path, text: frozenset[str]) -> pd.DataFrame:
    from alphaswarm_rl.market.panel_columns import read_csv, read_parquet

    if file.name.lower().endswith(".parquet"):
        return read_parquet(file, below=file.parent)
    return read_csv(file, below=file.parent, text=text)
