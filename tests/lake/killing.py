"""The command line in processes that are killed, or stopped, at a chosen moment.

They are forked from one that has everything imported already, so that sixty of them take a minute and not ten.
"""

import collections
import functools
import importlib
import inspect
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from sqlalchemy import Engine, event

from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.segments import fitted, plain_files
from alphaswarm_rl.lake.tables import KINDS, arrow_schema
from tests.cli.calling import Answer

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.lake.warm"])

#: So that in a short run segments close, commits happen and files are merged often.
SMALL = (
    *("--checkpoint-freq", 512, "--trajectory-flush-rows", 40),
    *("--lake-segment-rows", 300, "--lake-commit-rows", 500, "--lake-commit-seconds", 0.05),
)
TRADING = """\
name: killed trading
env: {class: stock_trading, kwargs: {fill: next_close, episode_bars: 20}}
data_pipeline: {class: synthetic, kwargs: {n_assets: 2, n_bars: 300, features: [macd], seed: 1}}
agent: {class: random}
training:
  {total_timesteps: 1500, n_envs: 4, end: "2020-08-03", seed: 3, eval_during_training: true, eval_freq: 512}
evaluation: {start: "2020-08-03", end: "2020-11-02", episodes: 2}
"""

KEYS = ("phase", "env_idx", "episode", "step")
_PARTS = {"action_logs": ("asset_idx",), "reward_decomposition": ("term_name",)}
_PARTS |= {"positions": ("asset_idx",), "fills": ("fill_idx",)}


@dataclass(frozen=True)
class Moment:
    """When a process kills or stops itself: at the n-th call of a function.

    Attributes:
        function: `module:name`, or `module:Class.name`.
        nth: Which call.
        after: Whether after the call, and not before it.
        within: Counts only calls from inside this function.
        since: Counts only calls after the first of this function.
        signal: What it sends itself: SIGKILL, or SIGSTOP to stand still until somebody wakes it.
    """

    function: str
    nth: int = 1
    after: bool = False
    within: str | None = None
    since: str | None = "alphaswarm_rl.runtime.session:TrainingSession.save"
    signal: int = signal.SIGKILL

    def arm(self) -> None:
        """Lets this process kill or stop itself at that moment."""
        arm(self)

    def disarm(self) -> None:
        """The command is over."""

    def __str__(self) -> str:
        inside = "" if self.within is None else f"-in-{self.within.partition(':')[2]}"
        return f"{'after' if self.after else 'before'}-{self.function.partition(':')[2]}-{self.nth}{inside}"


class Forked:
    """A call of `rl` in a process of its own.

    Args:
        arguments: What follows `rl`.
        home: The home folder.
        moment: When it kills or stops itself, or any other trouble with `arm` and `disarm`; None: never.
        environ: More environment variables.
        host: What it takes for the name of its host; None: the real one.
    """

    def __init__(self, *arguments, home: Path, moment: Moment | None = None, environ=None, host=None) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self._outputs = [home.parent / f"{name}-{host or ''}-{home.name}" for name in ("out", "err")]
        variables = {**os.environ, "ALPHASWARM_RL_HOME": str(home), **(environ or {})}
        texts = [str(argument) for argument in arguments]
        self.process = CONTEXT.Process(target=_call, args=(texts, variables, moment, host, *map(str, self._outputs)))
        self.process.start()

    def wait_until_stopped(self, timeout=120) -> None:
        """Waits until it stands still; an assertion fails where it ended instead."""
        deadline = time.monotonic() + timeout
        state = Path(f"/proc/{self.process.pid}/stat")
        while True:
            assert self.process.exitcode is None, f"it ended by itself: {self._outputs[1].read_text()[-800:]}"
            if state.read_text().rpartition(")")[2].split()[0] == "T":
                return
            assert time.monotonic() < deadline, f"still at work after {timeout} s"
            time.sleep(0.02)

    def wake(self) -> None:
        """Lets it go on."""
        os.kill(self.process.pid, signal.SIGCONT)

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


def _call(arguments, variables, moment, host, out, err) -> None:
    os.environ.clear()
    os.environ.update(variables)
    if host is not None:
        socket.gethostname = lambda: host
    for path, descriptor in ((out, 1), (err, 2)):
        file = os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY)
        os.dup2(file, descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    from alphaswarm_rl.cli import rl as root

    if moment is not None:
        moment.arm()
    code = root.main(arguments, standalone_mode=False)
    if moment is not None:
        moment.disarm()
    sys.exit(code)


class Transactions:
    """Transactions of this process, by thread: it stands still only while no other thread has one.

    Whoever is stopped inside of an SQLite transaction keeps the lock, and nobody can go on. That is not promised.
    """

    def __init__(self) -> None:
        self._open = collections.Counter()
        self._stopping = None
        self._news = threading.Condition()
        event.listen(Engine, "begin", self._begin)
        for name in ("do_commit", "do_rollback"):
            _wrap(f"sqlalchemy.engine.default:DefaultDialect.{name}", self._ended)

    def stop(self) -> None:
        """Stands still, once all other threads are outside of their transactions."""
        mine = threading.get_ident()
        with self._news:
            self._stopping = mine
            self._news.wait_for(lambda: not any(count for thread, count in self._open.items() if thread != mine))
            send(signal.SIGSTOP)
            self._stopping = None
            self._news.notify_all()

    def _begin(self, _connection) -> None:
        mine = threading.get_ident()
        with self._news:
            self._news.wait_for(lambda: self._stopping in (None, mine))
            self._open[mine] += 1

    def _ended(self, wrapped):
        def call(*args, **kwargs):
            result = wrapped(*args, **kwargs)
            with self._news:
                self._open[threading.get_ident()] = max(0, self._open[threading.get_ident()] - 1)
                self._news.notify_all()
            return result

        return call


def send(number: int) -> None:
    """Sends this very thread a signal: one to the process may reach another, while this one goes on."""
    signal.pthread_kill(threading.get_ident(), number)


def arm(moment: Moment) -> None:
    """Lets this process kill or stop itself at that moment."""
    end = Transactions().stop if moment.signal == signal.SIGSTOP else functools.partial(send, moment.signal)
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
                end()
            result = wrapped(*args, **kwargs)
            if hit and moment.after:
                end()
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
