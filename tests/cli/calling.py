"""Calling the command line, in this process or in one of its own."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from alphaswarm_rl.cli import rl as root

RANDOM = """\
name: tiny random
env: {class: cartpole}
agent: {class: random}
training: {total_timesteps: 300, n_envs: 2, log_interval: 1}
evaluation: {episodes: 3}
"""
PPO = """\
name: tiny ppo
env: {class: cartpole}
agent: {class: ppo, kwargs: {n_steps: 32, batch_size: 64, n_epochs: 1}}
training: {total_timesteps: 256, n_envs: 2}
evaluation: {episodes: 3}
"""


@dataclass(frozen=True)
class Answer:
    """What a command gave."""

    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output as exactly one JSON document."""
        return json.loads(self.out)

    @property
    def error(self):
        """The error in the document."""
        return self.json["error"]


def call(*arguments, stdin=None):
    """Runs a command in this process."""
    result = CliRunner().invoke(root, [str(argument) for argument in arguments], input=stdin)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
    return Answer(result.exit_code, result.stdout, result.stderr)


def start(*arguments, **more):
    """Starts `rl` in a process of its own."""
    command = [sys.executable, "-m", "alphaswarm_rl.cli", *map(str, arguments)]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ,
        **more,
    )


#: Seconds that a process may take to start, or to end. It is no measure of speed: a machine with many other processes
#: takes long to import what trains.
PATIENCE = 300


def finished(process, timeout=PATIENCE):
    """The answer of a process once it ended."""
    out, err = process.communicate(timeout=timeout)
    return Answer(process.returncode, out, err)


def wait_for_stage(home: Path, stage: str, process, timeout=PATIENCE):
    """The id of the run that has reached a stage; the process must still be at work then."""
    deadline = time.monotonic() + timeout
    reached: dict[str, list[str]] = {}
    while time.monotonic() < deadline:
        for log in (home / "logs").glob("*.jsonl"):
            # A line that is being written is read the next time.
            lines = [line for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
            reached[log.stem] = [json.loads(line).get("stage") for line in lines]
            if stage in reached[log.stem]:
                return log.stem
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.kill()
    raise AssertionError(f"no run reached {stage} within {timeout} s: {reached}; {process.communicate()}")
