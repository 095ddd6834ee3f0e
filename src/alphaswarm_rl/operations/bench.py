"""Measuring this installation: how fast are its environments, and do its agents learn?"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from annotated_types import Gt, Le

from alphaswarm_rl.bench import env_throughput, truth, truth_page
from alphaswarm_rl.bench.truth_tasks import tasks_named
from alphaswarm_rl.core.errors import OptionError
from alphaswarm_rl.operations.data import Count, Data
from alphaswarm_rl.operations.events import NOBODY, Caller, Progress
from alphaswarm_rl.operations.operation import LazySettings, operation
from alphaswarm_rl.settings import Settings, StoreSettings

#: Where the truth suite's figures are kept, from the repository's root.
TRUTH_PAGE = Path("docs/results/truth.md")
_NEVER = 1_000_000_000


class BenchEnv(Data):
    """How the environments are measured.

    Attributes:
        num_envs: Environments stepped together, one measurement each; empty: 1, 64, 1024 and 4096.
        rounds: Turns of each contestant.
        seconds: CPU time of a turn.
    """

    num_envs: tuple[Count, ...] = ()
    rounds: Count = 11
    seconds: Annotated[float, Gt(0)] = 0.2


class EnvThroughput(Data):
    """Steps a second, beside the peers'."""

    machine: str
    rows: tuple[env_throughput.Row, ...]


class BenchTruth(Data):
    """Which agents are trained on which tasks.

    Attributes:
        tasks: Names of tasks; all without any.
        agents: Aliases of agents.
        seeds: Trainings of each agent on each task.
        steps: Transitions of each; None: as the task says.
        docs: Whether the page of results is written, below the working directory.
    """

    tasks: tuple[str, ...] = ()
    agents: tuple[str, ...] = ("ppo_inhouse",)
    seeds: Count = 5
    steps: Annotated[Count, Le(5_000_000)] | None = None
    docs: bool = False

    @property
    def command(self) -> str:
        """The command line that asks for the same."""
        words = ["rl", "bench", "truth", *self.tasks, *(f"--agent {agent}" for agent in self.agents)]
        return " ".join([*words, f"--seeds {self.seeds}", *([] if self.steps is None else [f"--steps {self.steps}"])])


class TruthFigures(Data, apart=("header", "cells", "remarks")):
    """How much of a known optimum agents reach.

    Attributes:
        rows: An agent on a task each.
        header: Titles of the table that people read.
        cells: Its lines.
        remarks: What must be said beside it.
    """

    rows: tuple[truth.Row, ...]
    header: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]


@operation("bench.env")
def bench_env(settings: LazySettings, request: BenchEnv) -> EnvThroughput:
    """Steps a second of the trading environments, beside the peers'."""
    num_envs = request.num_envs or (1, 64, 1024, 4096)
    rows = env_throughput.run(num_envs, rounds=request.rounds, seconds=request.seconds)
    return EnvThroughput(platform.processor() or platform.machine(), tuple(rows))


@operation("bench.truth", changes=True)
def bench_truth(settings: LazySettings, request: BenchTruth, *, caller: Caller = NOBODY) -> TruthFigures:
    """How much of a known optimum agents reach; runs go to a temporary home unless the settings name one."""
    tasks = tasks_named(request.tasks)
    if request.docs and not TRUTH_PAGE.parent.is_dir():
        raise OptionError(
            "--docs", f"there is no folder {TRUTH_PAGE.parent} here", "Call it in the repository's root, or without."
        )
    with _settings_of_trainings(settings()) as where:
        rows = truth.run(
            tasks,
            request.agents,
            where,
            seeds=request.seeds,
            steps=request.steps,
            say=lambda line: caller.listen(Progress(line)),
        )
    if request.docs:
        TRUTH_PAGE.write_text(truth_page.page(rows, request.command), encoding="utf-8")
    cells = tuple(truth_page.cells(row) for row in rows)
    return TruthFigures(tuple(rows), truth_page.HEADER, cells, tuple(truth_page.remarks(rows)))


@contextmanager
def _settings_of_trainings(settings: Settings) -> Iterator[Settings]:
    """The settings with the home that was named, or of a temporary one; a run writes its last checkpoint alone."""
    if settings.home != Settings().home:
        store = settings.store.model_copy(update={"checkpoint_freq": _NEVER})
        yield settings.model_copy(update={"store": store})
        return
    with TemporaryDirectory(prefix="rl-truth-") as home:
        yield Settings(home=Path(home), infer=settings.infer, store=StoreSettings(checkpoint_freq=_NEVER))
