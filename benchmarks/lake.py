"""What the lake costs: writing beside plain Parquet, one run's curve beside its file, and commits.

    python benchmarks/lake.py [--rows 2048000] [--runs 1000] [--rows-per-run 100000] [--rounds 5] [--json]

Writing: rows of `trajectories` with JSON that does not repeat go through the whole store until all of them are
committed and in the ledger's account; beside it `pyarrow.parquet` writes the same tables into one file (zstd, its
defaults).
Reading: views of one run are made and its equity curve is read in order, first out of a tenth of the runs, then out of
all; beside it DuckDB reads the one file that the curve is in.
Commits: how many a run of all four tables makes, and how long one takes after ten runs and after all.

Contestants take turns, figures are medians of wall time. Passes when every figure is within its bound.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from judging import Line, at_least, at_most, tell

from alphaswarm_rl import Ledger, RLExperimentSpec, Settings
from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver
from alphaswarm_rl.lake.maintenance import expire
from alphaswarm_rl.lake.segments import Facts, Segment, SegmentWriter
from alphaswarm_rl.lake.tables import COLUMNS, KINDS, REPEATED, Kind
from alphaswarm_rl.lake.views import register_run_views
from alphaswarm_rl.recording.table_refs import refs_writer
from alphaswarm_rl.trajectory_stores.components import IcebergTrajectoryStore

#: Rows that the store gets at once, as the recorder hands them over: 64 environments, 1,000 steps.
BLOCK = 64_000
CURVE = "SELECT env_idx, episode, step, ts, portfolio_value, drawdown, cash FROM {} ORDER BY env_idx, episode, step"
COMMITS = 20
FEW_RUNS = 10
RUNS_PER_COMMIT = 10

LEAST_WRITING = 0.60
MOST_READING = 3.0
MOST_GROWTH_OF_READING = 1.5
MOST_GROWTH_OF_COMMITS = 2.0


def rows(kind: Kind, run_id: str, first: int, count: int) -> pa.Table:
    """Rows of one environment as the recorder makes them: episodes of 1,000 steps, numbers and texts that differ."""
    rng = np.random.default_rng(first)
    index = np.arange(first, first + count)
    words = {"run_id": run_id, "spec_hash": "0" * 64, "phase": "train", "term_name": "pnl"}
    given: dict[str, Any] = {
        "env_idx": np.zeros(count, np.int32),
        "episode": index // 1000,
        "step": index % 1000,
        "ts": pa.array(index * 86_400_000_000).cast(pa.timestamp("us", tz="UTC")),
        "obs_hash": rng.integers(-(2**62), 2**62, count),
        "action": pa.ListArray.from_arrays(np.arange(count + 1, dtype=np.int32), rng.normal(size=count)),
        "asset_idx": np.zeros(count, np.int32),
        "terminated": np.zeros(count, bool),
        "truncated": index % 1000 == 999,
        "info": [
            f'{{"fill": {number}, "position": {share:.6f}, "profit": {profit:.4f}}}'
            for number, share, profit in zip(
                rng.integers(0, 10**6, count), rng.normal(size=count), rng.normal(size=count), strict=True
            )
        ]
        if kind == "trajectories"
        else None,
        "observation": None,
        "final_observation": None,
    }
    columns: dict[str, Any] = {}
    for name, type_ in COLUMNS[kind]:
        if name in REPEATED:
            columns[name] = pa.DictionaryArray.from_arrays(np.zeros(count, np.int32), [words[name]])
        else:
            # As networks give them: numbers of 32 bits.
            column = given[name] if name in given else rng.normal(size=count).astype(np.float32)
            columns[name] = pa.nulls(count, type_) if column is None else pa.array(column, type_)
    return pa.table(columns)


def blocks(kind: Kind, run_id: str, count: int) -> list[pa.Table]:
    """So many rows, in parts."""
    return [rows(kind, run_id, first, min(BLOCK, count - first)) for first in range(0, count, BLOCK)]


def renamed(table: pa.Table, run_id: str) -> pa.Table:
    """The same rows of another run."""
    words = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int32), [run_id])
    return table.set_column(0, table.schema.field(0), words)


def new_run(ledger: Ledger) -> str:
    """A run that the ledger knows."""
    spec = RLExperimentSpec.from_data({"name": "lake", "env": {"class": "cartpole"}, "agent": {"class": "random"}})
    return ledger.create_run(version_id=ledger.persist_spec(spec).id, target="train", seed=0).id


def store_all(settings: Settings, ledger: Ledger, run_id: str, parts: dict[Kind, list[pa.Table]]) -> None:
    """Through the whole store, until everything is committed."""
    request = StoreRequest(run_id, settings, refs_writer(ledger), lambda: ())
    store = IcebergTrajectoryStore().build(request)
    done = 0
    for block in zip(*parts.values(), strict=True):
        done += block[0].num_rows
        store.write("train", dict(zip(parts, block, strict=True)), done)
        store.deliver()
    store.finish(compact=True)
    if store.report()["undelivered"]:
        raise SystemExit(f"not everything is committed: {store.report()['problem']}")
    store.close()


def seconds(work: Callable[[], object]) -> float:
    """Wall time of one call."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def in_turn(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The median wall time of each; one round beforehand warms up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        for name, work in contestants.items():
            spent = seconds(work)
            if number:
                times[name].append(spent)
    return {name: statistics.median(spent) for name, spent in times.items()}


def writing(home: Path, count: int, rounds: int) -> Line:
    """Committed rows per second beside plain Parquet."""
    settings = Settings(home=home)
    parts = blocks("trajectories", str(uuid.uuid4()), count)
    whole = pa.concat_tables(parts)

    def through_the_store() -> None:
        run_id = new_run(ledger)
        store_all(settings, ledger, run_id, {"trajectories": [renamed(part, run_id) for part in parts]})

    def plain() -> None:
        pq.write_table(whole, home / "plain.parquet", compression="zstd")

    with Ledger.open(settings) as ledger:
        times = in_turn({"store": through_the_store, "plain": plain}, rounds)
    ratio = times["plain"] / times["store"]
    speeds = {name: f"{count / spent / 1e6:.2f} M rows/s" for name, spent in times.items()}
    details = f"{count:,} rows: store {speeds['store']}, plain Parquet {speeds['plain']}"
    return at_least("rows/s, store / Parquet", ratio, LEAST_WRITING, details)


def how_many_commits(home: Path, count: int) -> list[Line]:
    """Snapshots that one run makes in each table; they are numbered, so that expired ones count too."""
    settings = Settings(home=home)
    with Ledger.open(settings) as ledger:
        return _how_many_commits(settings, ledger, new_run(ledger), count)


def _how_many_commits(settings: Settings, ledger: Ledger, run_id: str, count: int) -> list[Line]:
    parts = {kind: blocks(kind, run_id, count) for kind in KINDS}

    def numbers() -> dict[str, int]:
        with Lake(settings) as lake:
            metadata: dict[str, Any] = {kind: lake.table(kind).metadata for kind in KINDS}
            return {kind: table.last_sequence_number for kind, table in metadata.items()}

    before = numbers()
    spent = seconds(lambda: store_all(settings, ledger, run_id, parts))
    after = numbers()
    most = count // 1_000_000 + int(spent // 60) + 5
    details = f"one run of {count:,} rows in {spent:.1f} s"
    return [at_most(f"commits to {kind}", after[kind] - before[kind], most, details) for kind in KINDS]


class Filled:
    """A lake with the equity curves of many runs.

    Args:
        home: Where it is.
        per_run: Rows of each run.
    """

    def __init__(self, home: Path, per_run: int) -> None:
        self.settings = Settings(home=home)
        self.runs: list[str] = []
        self._curve = rows("equity_curves", "", 0, per_run)
        self._lake = Lake(self.settings)

    def fill(self, runs: int) -> None:
        """Until there are so many runs; snapshots are expired, as every run does at its end."""
        while len(self.runs) < runs:
            new = [str(uuid.uuid4()) for _ in range(min(RUNS_PER_COMMIT, runs - len(self.runs)))]
            self._deliver([self._segment(run_id, 0, self._curve) for run_id in new])
            self.runs += new
        self._expire()

    def commit_ms(self) -> float:
        """The median of some commits of one segment each, by a run of its own."""
        run_id, small = str(uuid.uuid4()), self._curve.slice(0, 1000)
        times = []
        for number in range(COMMITS):
            segments = [self._segment(run_id, number, small)]
            began = time.perf_counter()
            self._deliver(segments)
            times.append(time.perf_counter() - began)
        self._expire()
        return statistics.median(times) * 1000

    def reading_ms(self, rounds: int) -> dict[str, float]:
        """One run's curve by its view, the view's making included, and out of the known file."""
        run_id = self.runs[len(self.runs) // 2]
        (file,) = self._lake.files(self._lake.identifier("equity_curves"), run_id)
        known = f"read_parquet('{self._lake.path(file.location)}')"

        def by_view() -> None:
            with duckdb.connect() as connection:
                # As `rl runs equity` does: the one view that is asked.
                names = register_run_views(run_id, connection, self.settings, kinds=["equity_curves"])
                connection.sql(CURVE.format(names["equity_curves"])).to_arrow_table()

        def by_file() -> None:
            with duckdb.connect() as connection:
                connection.sql(CURVE.format(known)).to_arrow_table()

        times = in_turn({"view": by_view, "file": by_file}, rounds)
        return {name: spent * 1000 for name, spent in times.items()}

    def close(self) -> None:
        """Gives the connections back."""
        self._lake.close()

    def _segment(self, run_id: str, number: int, table: pa.Table) -> Segment:
        facts = Facts(self._lake.identifier("equity_curves"), run_id, "equity_curves", "train")
        writer = SegmentWriter(self._lake.spool / run_id / "equity_curves" / "train", number, facts)
        writer.write(renamed(table, run_id))
        return writer.close(number + 1)

    def _deliver(self, segments: list[Segment]) -> None:
        deliver(self._lake, segments, lambda delivered: None)

    def _expire(self) -> None:
        expire(self._lake, ())


def many_runs(home: Path, runs: int, per_run: int, rounds: int) -> Iterator[Line]:
    """Reading and committing, first among few runs, then among many."""
    lake = Filled(home, per_run)
    few = runs // 10
    lake.fill(FEW_RUNS)
    first_commit = lake.commit_ms()
    lake.fill(few)
    first = lake.reading_ms(rounds)
    lake.fill(runs)
    then = lake.reading_ms(rounds)
    last_commit = lake.commit_ms()
    lake.close()
    yield at_most(
        f"curve of one run in {few}, view / file",
        first["view"] / first["file"],
        MOST_READING,
        f"{few * per_run:,} rows: view {first['view']:.1f} ms, its file {first['file']:.1f} ms",
    )
    yield at_most(
        f"curve of one run in {runs} / in {few}",
        then["view"] / first["view"],
        MOST_GROWTH_OF_READING,
        f"{runs * per_run:,} rows: view {then['view']:.1f} ms, its file {then['file']:.1f} ms",
    )
    yield at_most(
        f"commit after {runs} runs / after {FEW_RUNS}",
        last_commit / first_commit,
        MOST_GROWTH_OF_COMMITS,
        f"{last_commit:.1f} ms, {first_commit:.1f} ms (median of {COMMITS})",
    )


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_048_000, help="rows of the writing")
    parser.add_argument("--runs", type=int, default=1000, help="runs of the reading; first a tenth of them")
    parser.add_argument("--rows-per-run", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where the lakes are written; they are deleted afterwards")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    lines: list[Line] = []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        lines.append(writing(Path(folder) / "writing", arguments.rows, arguments.rounds))
        lines += how_many_commits(Path(folder) / "writing", arguments.rows)
        lines += many_runs(Path(folder) / "reading", arguments.runs, arguments.rows_per_run, arguments.rounds)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return tell(f"{machine}, pyarrow {pa.__version__}, duckdb {duckdb.__version__}", lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
