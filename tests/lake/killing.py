"""The command line in processes that are killed at a chosen moment.

They are forked from one that has everything imported already, so that sixty of them take a minute and not ten.
"""

import importlib
import inspect
import multiprocessing
import os
import signal
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.segments import fitted, plain_files
from alphaswarm_rl.lake.tables import KINDS, arrow_schema
from tests.cli.calling import Answer

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.lake.warm"])

KEYS = ("phase", "env_idx", "episode", "step")
_PARTS = {"action_logs": ("asset_idx",), "reward_decomposition": ("term_name",)}


@dataclass(frozen=True)
class Moment:
    """When a process kills itself: at the n-th call of a function.

    Attributes:
        function: `module:name`, or `module:Class.name`.
        nth: Which call.
        after: Whether after the call, and not before it.
        within: Counts only calls from inside this function.
        since: Counts only calls after the first of this function.
    """

    function: str
    nth: int = 1
    after: bool = False
    within: str | None = None
    since: str | None = "alphaswarm_rl.runtime.session:TrainingSession.save"

    def __str__(self) -> str:
        inside = "" if self.within is None else f"-in-{self.within.partition(':')[2]}"
        return f"{'after' if self.after else 'before'}-{self.function.partition(':')[2]}-{self.nth}{inside}"


class Forked:
    """A call of `rl` in a process of its own.

    Args:
        arguments: What follows `rl`.
        home: The home folder.
        moment: When it kills itself; None: never.
        environ: More environment variables.
    """

    def __init__(self, *arguments, home: Path, moment: Moment | None = None, environ=None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._outputs = [home.parent / f"{name}-{home.name}" for name in ("out", "err")]
        variables = {**os.environ, "ALPHASWARM_RL_HOME": str(home), **(environ or {})}
        texts = [str(argument) for argument in arguments]
        self.process = CONTEXT.Process(target=_call, args=(texts, variables, moment, *map(str, self._outputs)))
        self.process.start()

    def answer(self, timeout=120) -> Answer:
        """What it said, once it ended; the code of one that was killed is -9."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"still at work after {timeout} s"
        return Answer(self.process.exitcode, *(path.read_text() for path in self._outputs))


def rl(*arguments, **more) -> Answer:
    """Calls `rl` and waits for its end."""
    return Forked(*arguments, **more).answer()


def rows_of(lake: Lake, run_id: str) -> dict[str, pa.Table]:
    """What is delivered of a run, to tables or to the store without them, in order and without the run's id."""
    found = {}
    for kind in KINDS:
        table, schema = lake.find(lake.identifier(kind)), arrow_schema(kind)
        files = [] if table is None else lake.files(lake.identifier(kind), run_id)
        parts = [schema.empty_table()]
        for file in files:
            filesystem, named = lake.filesystem(table)
            parts.append(fitted(pq.read_table(named(file.location), filesystem=filesystem, partitioning=None), schema))
        parts += [fitted(pq.ParquetFile(path).read(), schema) for path in plain_files(lake.settings, kind, run_id)]
        found[kind] = in_order(kind, pa.concat_tables(parts)).drop_columns("run_id")
    return found


def in_order(kind: str, rows: pa.Table) -> pa.Table:
    """The rows in the order of their keys."""
    order = [(name, "ascending") for name in (*KEYS, *_PARTS.get(kind, ()))]
    return rows.sort_by(order).combine_chunks()


def _call(arguments, variables, moment, out, err) -> None:
    os.environ.clear()
    os.environ.update(variables)
    for path, descriptor in ((out, 1), (err, 2)):
        file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(file, descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    if moment is not None:
        arm(moment)
    from alphaswarm_rl.cli import rl as root

    sys.exit(root.main(arguments, standalone_mode=False))


def arm(moment: Moment) -> None:
    """Lets this process kill itself at that moment."""
    inside = threading.local()
    count, counts = 0, moment.since is None

    def entered(wrapped):
        def call(*args, **kwargs):
            inside.depth = getattr(inside, "depth", 0) + 1
            try:
                return wrapped(*args, **kwargs)
            finally:
                inside.depth -= 1

        return call

    def awaited(wrapped):
        def call(*args, **kwargs):
            nonlocal counts
            result = wrapped(*args, **kwargs)
            counts = True
            return result

        return call

    def watched(wrapped):
        def call(*args, **kwargs):
            nonlocal count
            hit = False
            if counts and (moment.within is None or getattr(inside, "depth", 0)):
                count += 1
                hit = count == moment.nth
            if hit and not moment.after:
                os.kill(os.getpid(), signal.SIGKILL)
            result = wrapped(*args, **kwargs)
            if hit:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return call

    if moment.since is not None:
        _wrap(moment.since, awaited)
    if moment.within is not None:
        _wrap(moment.within, entered)
    _wrap(moment.function, watched)


def _wrap(function: str, wrapper) -> None:
    module, _, name = function.partition(":")
    owner = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = getattr(owner, part)
    static = isinstance(inspect.getattr_static(owner, last), staticmethod)
    wrapped = wrapper(getattr(owner, last))
    setattr(owner, last, staticmethod(wrapped) if static else wrapped)
