"""Interleaved pairs: how a cost is measured here.

A, B and A again, in CPU time; the cost is the ratio B/A with the 90 % interval of its mean, and A/A beside it says how
much of that is the machine. They work one after the other, in an order that changes from round to round: a process that
is paused in between asks the kill switch and its claim anew when it wakes, which is no part of a run. Every round has
processes of its own, because where a process happens to have its memory makes it faster or slower than its twin by a
few per cent for as long as it lives.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

#: Fewer do not make an interval.
FEWEST_PAIRS = 11

#: Trains for so many transitions.
Work = Callable[[int], object]

#: The share of a run that comes beforehand and is not measured: it imports and compiles what the run needs.
_WARM_UP = 1 / 8

#: Student's t for a two-sided 90 % interval, by degrees of freedom.
_T_90 = {10: 1.812, 11: 1.796, 12: 1.782, 13: 1.771, 14: 1.761, 15: 1.753, 20: 1.725, 30: 1.697}


@dataclass(frozen=True)
class Ratio:
    """A ratio of CPU times, with the 90 % interval of its geometric mean."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.4f} (90 % interval {self.low:.4f} to {self.high:.4f})"


def cpu_seconds(work: Callable[[], object]) -> float:
    """CPU time of one call, all threads of the process together."""
    started = time.process_time()
    work()
    return time.process_time() - started


def ratio(numerators: list[float], denominators: list[float]) -> Ratio:
    """The ratio of paired measurements."""
    logs = [math.log(up / down) for up, down in zip(numerators, denominators, strict=True)]
    mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    freedom = max(key for key in _T_90 if key <= len(logs) - 1)
    reach = _T_90[freedom] * error
    return Ratio(math.exp(statistics.median(logs)), math.exp(mean - reach), math.exp(mean + reach))


@dataclass(frozen=True)
class _Contestant:
    process: BaseProcess
    connection: Connection


def alternate(contestants: dict[str, Work], timesteps: int, pairs: int) -> dict[str, list[float]]:
    """CPU seconds of every contestant; in each round they work in new processes, one after the other.

    Args:
        contestants: What each does for so many transitions, as functions that can be sent to another process.
        timesteps: Transitions that are measured; a few beforehand warm up.
        pairs: How many rounds there are.
    """
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for round_number in range(pairs):
        names = list(contestants)
        names = names[round_number % len(names) :] + names[: round_number % len(names)]
        with _started({name: contestants[name] for name in names}, timesteps) as workers:
            for name, spent in _race(workers).items():
                times[name].append(spent)
    return times


@contextmanager
def _started(contestants: dict[str, Work], timesteps: int) -> Iterator[dict[str, _Contestant]]:
    context = multiprocessing.get_context("spawn")
    workers: dict[str, _Contestant] = {}
    try:
        for name, work in contestants.items():
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs, work, timesteps), daemon=True)
            process.start()
            workers[name] = _Contestant(process, ours)
            ours.recv()
        yield workers
    finally:
        for worker in workers.values():
            worker.process.kill()
            worker.process.join()


@dataclass(frozen=True)
class Cost:
    """What something costs on top of a bare run.

    Attributes:
        price: CPU time with it over CPU time without.
        noise: One bare run over the other.
        seconds: CPU seconds of a bare run.
    """

    price: Ratio
    noise: Ratio
    seconds: float

    def __str__(self) -> str:
        return f"with / without {self.price}; A/A {self.noise}; {self.seconds:.1f} CPU s each"


def cost(bare: Work, priced: Work, again: Work, timesteps: int, pairs: int) -> Cost:
    """The cost of what `priced` does on top of `bare`; `again` does what `bare` does, in a place of its own."""
    times = alternate({"bare": bare, "priced": priced, "again": again}, timesteps, pairs)
    # Both bare runs stand for that: their mean is less the machine's mood of the moment than one of them.
    base = [math.sqrt(one * other) for one, other in zip(times["bare"], times["again"], strict=True)]
    return Cost(ratio(times["priced"], base), ratio(times["again"], times["bare"]), statistics.median(base))


def _race(workers: dict[str, _Contestant]) -> dict[str, float]:
    spent: dict[str, float] = {}
    for name, worker in workers.items():
        worker.connection.send("go")
        spent[name] = worker.connection.recv()
    return spent


def _serve(connection: Connection, work: Work, timesteps: int) -> None:
    work(int(timesteps * _WARM_UP))
    connection.send("ready")
    connection.recv()
    connection.send(cpu_seconds(lambda: work(timesteps)))


def machine() -> str:
    """The machine in words."""
    import torch

    software = f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} thread(s)"
    return f"{platform.machine()}, {os.cpu_count()} cores, {software}"
