"""How long answers and steps go on after the brake is engaged, whatever becomes of the ledger.

    python benchmarks/brake.py [--form NAME ...] [--state NAME ...] [--silence 30] [--json]

Each form is a real command (or a `PolicyServer` in a process of its own) that steps or answers without an end.
Meanwhile the ledger, an SQLite file, is brought into a state and the kill switch is engaged:

    fine       nothing is wrong with it
    locked     another process holds its write lock, from before the halt until after the figure is taken
    restored   a copy was put in its place, then everything is halted
    replaced   the ledger of another home was put in its place; nobody halts
    gone       it was deleted; nobody halts
    lost       it was deleted, then everything is halted

A figure is the seconds from just before the halt (where nobody halts: the change) to the last step or answer. Passes
when none is above 1, and above the limit of silence where the ledger is gone.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import platform
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv
from judging import Line, at_most, tell

from alphaswarm_rl import Settings
from alphaswarm_rl.operations.halt import HaltRequest, halt

MOST_SECONDS = 1.0
STATES = ("fine", "locked", "restored", "replaced", "lost", "gone")
#: States in which nobody can halt: the figure counts from the change.
_NOBODY_HALTS = ("gone", "replaced")
_CLOCK = "BRAKE_CLOCK"
#: Seconds without a step after which none is expected.
_QUIET = 1.5
_OBSERVATION = "[0.0, 0.1, 0.02, -0.1]\n"
SPEC = """\
name: brake
env: {class: gymnasium, kwargs: {id: ClockedCartPole-v0}}
agent: {class: ppo_inhouse, kwargs: {n_steps: 64, batch_size: 64, n_epochs: 1, net_arch: [8]}}
training: {total_timesteps: 256, n_envs: 2, log_interval: 1000000}
evaluation: {episodes: 12}
"""
SERVER = """\
import sys
from pathlib import Path
import brake
from alphaswarm_rl import PolicyServer, Settings
from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.settings import LedgerSettings

ledger = LedgerSettings(halt_silence_seconds=float(sys.argv[2]))
with PolicyServer.open(Settings(home=Path(sys.argv[1]), ledger=ledger), watch=True) as server:
    for line in sys.stdin:
        try:
            print(server.answer([0.0, 0.1, 0.02, -0.1]).as_dict(), flush=True)
        except AlphaSwarmError as error:
            print(error, flush=True)
"""


class ClockedCartPole(CartPoleEnv):
    """The cart pole that writes down when it was stepped last, where whoever started the process can read it."""

    def __init__(self) -> None:
        super().__init__()
        with Path(os.environ[_CLOCK]).open("r+b") as file:
            self._clock = mmap.mmap(file.fileno(), 8)

    def step(self, action: int) -> tuple[object, ...]:  # type: ignore[override]
        """One step."""
        self._clock[:] = struct.pack("d", time.time())
        return super().step(action)


if "ClockedCartPole-v0" not in gymnasium.registry:
    gymnasium.register("ClockedCartPole-v0", entry_point=ClockedCartPole, max_episode_steps=500)


@dataclass(frozen=True)
class Form:
    """A way to have a policy step or answer.

    Attributes:
        name: What the table calls it.
        command: The words after `rl`; empty for a `PolicyServer`.
        answers: Whether it is asked line by line; otherwise the clock of its environment is read.
    """

    name: str
    command: tuple[str, ...] = ()
    answers: bool = False


_LONG = ("--episodes", "1000000")
FORMS = (
    Form("train", ("train", "{spec}", "--total-timesteps", "100000000")),
    Form("resume", ("resume", "{stopped}")),
    Form("evaluate", ("evaluate", "{run}", *_LONG)),
    Form("replay", ("replay", "{run}", *_LONG)),
    Form("infer --run", ("infer", "--run", "{run}"), answers=True),
    Form("infer --model-path", ("infer", "--model-path", "{checkpoint}"), answers=True),
    Form("infer --load-best", ("infer", "--load-best"), answers=True),
    Form("infer --load-best --watch", ("infer", "--load-best", "--watch"), answers=True),
    Form("infer --alias", ("infer", "--alias", "champion"), answers=True),
    Form("infer --model-id", ("infer", "--model-id", "{model}"), answers=True),
    Form("infer --run --episodes", ("infer", "--run", "{run}", *_LONG)),
    Form("infer --model-id --episodes", ("infer", "--model-id", "{model}", *_LONG)),
    Form("PolicyServer", answers=True),
)


class Place:
    """A home with a finished run, a run that can be resumed, and a validated model; the same again for every figure.

    Args:
        root: An empty folder.
        silence: Seconds of silence that are borne.
    """

    def __init__(self, root: Path, silence: float) -> None:
        self.home, self.silence, self._base, self._other = root / "home", silence, root / "base", root / "other"
        self.clock, self._spec = root / "clock", root / "spec.yaml"
        self.clock.write_bytes(bytes(8))
        self._spec.write_text(SPEC)
        trained = self._rl("train", self._spec)
        model = self._rl("models", "best")["id"]
        self._rl("models", "promote", model, "--reason", "for the figures")
        self.words = {
            "spec": str(self._spec),
            "run": trained["run_id"],
            "checkpoint": trained["checkpoint"],
            "model": str(model),
            "stopped": self._stopped_run(),
        }
        shutil.copytree(self.home, self._base)
        self._rl("train", self._spec, home=self._other)

    @property
    def ledger(self) -> Path:
        """The ledger's file."""
        return self.home / "ledger.db"

    def restore(self) -> None:
        """Makes the home what it was at first."""
        shutil.rmtree(self.home)
        shutil.copytree(self._base, self.home)

    def start(self, form: Form) -> subprocess.Popen[str]:
        """Starts a form in a process of its own."""
        if not form.command:
            return self._process([sys.executable, "-c", SERVER, str(self.home), str(self.silence)])
        words = [word.format(**self.words) for word in form.command]
        return self._process(self._command(*words, "--halt-silence-seconds", self.silence))

    def halt(self) -> None:
        """Halts everything, as `rl halt` does."""
        halt(Settings(home=self.home), HaltRequest(reason="for the figures"))

    @contextmanager
    def state(self, name: str) -> Iterator[None]:
        """Brings the ledger into a state."""
        with ExitStack() as undo:
            if name == "locked":
                connection = undo.enter_context(closing(sqlite3.connect(self.ledger, isolation_level=None)))
                connection.execute("BEGIN IMMEDIATE")
            elif name in ("restored", "replaced"):
                source = self.ledger if name == "restored" else self._other / "ledger.db"
                copy = self.home / "copy.db"
                with closing(sqlite3.connect(source)) as reader, closing(sqlite3.connect(copy)) as writer:
                    reader.backup(writer)
                self._delete("-wal", "-shm")
                copy.replace(self.ledger)
            elif name in ("gone", "lost"):
                self._delete("", "-wal", "-shm")
            yield

    def _delete(self, *ends: str) -> None:
        for end in ends:
            self.home.joinpath(f"ledger.db{end}").unlink(missing_ok=True)

    def _stopped_run(self) -> str:
        self.clock.write_bytes(bytes(8))
        process = self._process(self._command("train", self._spec, "--total-timesteps", "100000000"))
        wait_for_a_step(self.clock, process)
        process.terminate()
        out, _ = process.communicate(timeout=60)
        return str(json.loads(out)["run_id"])

    def _rl(self, *words: object, home: Path | None = None) -> Any:
        command = self._command(*words, home=home)
        done = subprocess.run(command, env=self._environ, check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)

    def _command(self, *words: object, home: Path | None = None) -> list[str]:
        own = [sys.executable, "-m", "alphaswarm_rl.cli", *words, "--plugin", "brake", "--home", home or self.home]
        return [str(word) for word in (*own, "--json")]

    def _process(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=self._environ,
        )

    @property
    def _environ(self) -> dict[str, str]:
        here = str(Path(__file__).parent)
        return {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")])),
            "RL_GATES_MAX_DISPERSION": "100",
            _CLOCK: str(self.clock),
        }


def last_step(clock: Path) -> float:
    """When the environment was stepped last."""
    return float(struct.unpack("d", clock.read_bytes())[0])


def wait_for_a_step(clock: Path, process: subprocess.Popen[str]) -> None:
    """Waits until the environment was stepped."""
    deadline = time.time() + 60
    while not last_step(clock):
        if process.poll() is not None or time.time() > deadline:
            raise RuntimeError(f"nothing is stepped: {process.args}")
        time.sleep(0.01)


def measure(place: Place, form: Form, state: str) -> float:
    """Seconds from the halt, or from the change where nobody halts, to the last step or answer."""
    place.restore()
    place.clock.write_bytes(bytes(8))
    process = place.start(form)
    halting = threading.Thread(target=place.halt)  # it waits a while for a lock
    try:
        last = _Asking(process) if form.answers else _Stepping(place.clock, process)
        last.go_on(0.5)
        with place.state(state):
            changed = time.time()
            last.go_on(0.3)
            if state not in _NOBODY_HALTS:
                changed = time.time()
                halting.start()
            last.go_on(until_quiet=place.silence + 5)
            return max(0.0, last.moment - changed)
    finally:
        process.kill()
        process.communicate()
        if halting.ident is not None:
            halting.join()


class _Stepping:
    """A process that steps an environment.

    Args:
        clock: Where the environment writes when.
        process: The process.
    """

    def __init__(self, clock: Path, process: subprocess.Popen[str]) -> None:
        self._clock = clock
        wait_for_a_step(clock, process)
        # Nobody reads what is played: a full pipe would stop it.
        threading.Thread(target=_drain, args=(process,), daemon=True).start()

    @property
    def moment(self) -> float:
        """When the last step was."""
        return last_step(self._clock)

    def go_on(self, seconds: float = 0, *, until_quiet: float = 0) -> None:
        """Lets it step for so long, or until it steps no more, that long at most."""
        time.sleep(seconds)
        deadline = time.time() + until_quiet
        while time.time() < deadline and time.time() - self.moment < _QUIET:
            time.sleep(0.05)


class _Asking:
    """A process that is asked for one answer after the other.

    Args:
        process: The process.
    """

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.moment = 0.0
        self._ask()
        if not self.moment:
            raise RuntimeError(f"nothing is answered: {process.args}")

    def go_on(self, seconds: float = 0, *, until_quiet: float = 0) -> None:
        """Asks for so long, or until nothing is answered any more, that long at most."""
        began = time.time()
        while time.time() - began < seconds:
            self._ask()
        while until_quiet and time.time() - began < until_quiet and time.time() - self.moment < _QUIET:
            self._ask()

    def _ask(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(_OBSERVATION)
        self._process.stdin.flush()
        if "checkpoint_sha256" in self._process.stdout.readline():
            self.moment = time.time()


def _drain(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for _ in process.stdout:
        pass


def main() -> int:
    """Measures and prints; 0 when nothing went on for too long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", action="append", choices=[form.name for form in FORMS])
    parser.add_argument("--state", action="append", choices=STATES)
    parser.add_argument("--silence", type=float, default=30.0, help="seconds of silence that are borne")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    lines: list[Line] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), arguments.silence)
        for state in arguments.state or STATES:
            bound = arguments.silence if state == "gone" else MOST_SECONDS
            for form in FORMS:
                if not arguments.form or form.name in arguments.form:
                    seconds = measure(place, form, state)
                    print(f"{state}: {form.name}: {seconds:.3f}", file=sys.stderr, flush=True)
                    lines.append(at_most(f"{state}: {form.name}", seconds, bound, "seconds until the last"))
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    return tell(f"{machine}, silence of {arguments.silence:g} s", lines, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
