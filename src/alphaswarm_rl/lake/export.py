"""A run's recorded steps as plain Parquet files, for any tool."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

from alphaswarm_rl.core.errors import LakeError, OptionError
from alphaswarm_rl.core.types import JsonMapping
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.tables import KINDS, Kind
from alphaswarm_rl.lake.views import create_run_views, quoted

#: The order of rows, in files and on the screen.
ORDER: dict[Kind, str] = {
    "trajectories": "phase, env_idx, episode, step",
    "equity_curves": "phase, env_idx, episode, step",
    "action_logs": "phase, env_idx, episode, step, asset_idx",
    "reward_decomposition": "phase, env_idx, episode, step, term_name",
    "positions": "phase, env_idx, episode, step, asset_idx",
    "fills": "phase, env_idx, episode, step, fill_idx",
}


def export_run(lake: Lake, run_id: str, folder: Path, recording: JsonMapping) -> dict[Kind, int]:
    """Writes `<kind>.parquet` for each of the six kinds, also where there are no rows; says how many rows each has.

    Args:
        lake: The lake.
        run_id: The run's whole id.
        folder: Where the files go; it is made where it is not there.
        recording: What the run's row says is recorded, which names what its numbers are about.

    Raises:
        OptionError: The folder cannot be used, or has such files already.
    """
    import duckdb

    targets = {kind: folder / f"{kind}.parquet" for kind in KINDS}
    _make_ready(folder, targets.values())
    counts: dict[Kind, int] = {}
    # Files get their names when all are whole. Sorting uses the same disk where memory is not enough.
    with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch, duckdb.connect() as connection:
        connection.execute(f"SET temp_directory = {_text(Path(scratch) / 'sorting')}")
        try:
            for kind, view in create_run_views(lake, run_id, connection, recording=recording).items():
                query = f"SELECT * FROM {quoted(view)} ORDER BY {ORDER[kind]}"  # noqa: S608
                file = _text(Path(scratch) / targets[kind].name)
                copied = connection.execute(f"COPY ({query}) TO {file} (FORMAT parquet, COMPRESSION zstd)").fetchone()
                counts[kind] = 0 if copied is None else int(copied[0])
        except duckdb.Error as error:
            raise LakeError(
                f"the steps of run {run_id}",
                f"they cannot be written to {str(folder)!r}: {str(error).partition(chr(10))[0]}",
                "Check the space on the disk, and the files with: rl lake verify.",
            ) from error
        for target in targets.values():
            (Path(scratch) / target.name).rename(target)
    return counts


def _make_ready(folder: Path, targets: Iterable[Path]) -> None:
    what = f"folder {str(folder)!r}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(
            what, f"it cannot be used: {error.strerror}", "Choose a folder that you may write to."
        ) from error
    existing = [target.name for target in targets if target.exists()]
    if existing:
        raise OptionError(what, f"it has {', '.join(existing)}", "Choose another folder: nothing is overwritten.")


def _text(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"
