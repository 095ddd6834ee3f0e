"""Runs damaged input through the command line and prints what came of it: counts, seeds and every defect.

python scripts/fuzz.py [--share S] [--commands N] [--processes P]     all of it: 10,000 cases, and 200 real commands
"""

import argparse
import collections
import os
import sys
import tempfile
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.chaos.fuzzing import KINDS, describe, outcomes, outcomes_of_processes

REAL = "real commands"
FULL = {"spec": 5000, "settings": 2000, "command line": 2400, "checkpoint": 400, "data": 200}
TEXT = """\
A case is made by its kind and seed alone (`tests/chaos/fuzzing.py`). A defect is an internal error, a traceback, a
hang (120 s), another exit code than 0 to 3, an input that is known to be wrong and goes well, or one that is refused
without a reason. Known to be wrong by a rule of the generator's own are unknown keys, values outside of documented
limits, changed bytes under a checksum, files that are not regular, and the like. Trainings of damaged specs that are
still valid are not among the cases: a spec may ask for much time and memory.
"""
#: Cases that one process runs before it gives its counts.
_SHARD = 100
_HEAD = ("kind", "cases", "known to be wrong", "exit 0", "exit 1", "exit 2", "exit 3", "slowest, s", "defects")


@dataclass
class Tally:
    """What came of the cases of one kind."""

    cases: int = 0
    wrong: int = 0
    codes: collections.Counter[int] = field(default_factory=collections.Counter)
    slowest: float = 0.0
    defects: list[str] = field(default_factory=list)

    def add(self, other: "Tally") -> None:
        """Counts those of another process too."""
        self.cases += other.cases
        self.wrong += other.wrong
        self.codes += other.codes
        self.slowest = max(self.slowest, other.slowest)
        self.defects += other.defects

    def row(self, kind: str) -> str:
        """Its line of the table."""
        counts = (self.cases, self.wrong, *(self.codes[code] for code in range(4)))
        return " | ".join([f"| {kind}", *map(str, counts), f"{self.slowest:.1f}", f"{len(self.defects)} |"])


def main() -> int:
    """Runs everything; 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--share", type=float, default=1.0, help="Share of the 10,000 cases; default all.")
    parser.add_argument("--commands", type=int, default=200, help="How many real commands.")
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="Processes that run them.")
    given = parser.parse_args()
    counts = {kind: max(1, round(given.share * count)) for kind, count in FULL.items()}
    shards = [
        (kind, range(first, min(first + _SHARD, count)))
        for first in range(0, max(counts.values()), _SHARD)
        for kind, count in counts.items()
        if first < count
    ]
    tallies = {kind: Tally() for kind in (*FULL, REAL)}
    with ProcessPoolExecutor(given.processes, get_context("spawn")) as pool:
        waiting = {pool.submit(_run_processes, given.commands): REAL}
        waiting |= {pool.submit(_run, kind, seeds): kind for kind, seeds in shards}
        for done in as_completed(waiting):
            tallies[waiting[done]].add(done.result())
            sys.stderr.write(f"{sum(tally.cases for tally in tallies.values())} cases\n")
    seeds = ", ".join(f"{kind} 0 to {count - 1}" for kind, count in counts.items())
    lines = [TEXT, f"| {' | '.join(_HEAD)} |", f"| {' | '.join('---' for _ in _HEAD)} |"]
    lines += [tally.row(kind) for kind, tally in tallies.items()]
    defects = [defect for tally in tallies.values() for defect in tally.defects]
    sys.stdout.write("\n".join([*lines, "", f"Seeds: {seeds}; {REAL} take the first seeds of each kind in turn.", ""]))
    sys.stdout.write("".join(f"\n- {defect}" for defect in defects))
    return 1 if defects else 0


def _run(kind: str, seeds: range) -> Tally:
    with _Folder() as folder:
        return _tally(outcomes(kind, seeds, folder))


def _run_processes(count: int) -> Tally:
    with _Folder() as folder:
        return _tally(outcomes_of_processes(KINDS, count, folder))


class _Folder(tempfile.TemporaryDirectory):
    """A folder two levels down, so that words such as ../x stay below it; options in the environment are dropped."""

    def __enter__(self) -> Path:
        warnings.simplefilter("ignore")
        for name in [name for name in os.environ if name.startswith(("RL_", "ALPHASWARM_RL_", "OTEL_"))]:
            del os.environ[name]
        os.environ["OMP_NUM_THREADS"] = "1"
        folder = Path(super().__enter__()) / "a" / "b"
        folder.mkdir(parents=True)
        return folder


def _tally(found) -> Tally:
    tally = Tally()
    for outcome in found:
        defects = [] if outcome.defect is None else [describe(outcome)]
        codes = collections.Counter([outcome.answer.code])
        tally.add(Tally(1, outcome.case.wrong is not None, codes, outcome.seconds, defects))
    return tally


if __name__ == "__main__":
    sys.exit(main())
