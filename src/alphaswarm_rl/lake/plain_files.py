"""Where the `parquet` store keeps its files: no catalogue, one folder per table and run."""

from __future__ import annotations

from pathlib import Path

from alphaswarm_rl.lake.tables import Kind, identifier
from alphaswarm_rl.settings import Settings


def folder_of(settings: Settings, kind: Kind, run_id: str) -> Path:
    """The folder of a run's files of that kind."""
    table = identifier(kind, settings.trajectory)
    return settings.below_home(Path("trajectories")) / table / f"run_id={run_id}"


def plain_files(settings: Settings, kind: Kind, run_id: str | None = None) -> list[Path]:
    """The files of a run, or of all, in the order of their names."""
    pattern = f"run_id={'*' if run_id is None else run_id}/*/*.parquet"
    return sorted(folder_of(settings, kind, "").parent.glob(pattern))
