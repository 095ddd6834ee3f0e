"""A peer's environment in a process of its own, so that contestants of two Pythons can take turns.

    peer = Peer("gym_anytrading", 1)
    if peer.missing is None:
        steps, seconds, cpu_seconds = peer.run(0.5)
    peer.close()

`make bench-peers` installs the peers below the working directory; `peer_process.py` beside this file runs there.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from pathlib import Path
from typing import Any

#: The peers' Python, below the working directory.
PYTHON = Path(".venv-peers") / "bin" / "python"
NAMES = ("gym_anytrading", "gym_trading_env", "torchtrade", "finrl")
_THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "NUMBA")


class Peer:
    """One peer with its environments built; it idles until told to run.

    Attributes:
        name: One of `NAMES`.
        num_envs: Environments stepped together.
        version: The peer's version, empty when it is missing.
        missing: Why the peer cannot run, or None.
    """

    def __init__(self, name: str, num_envs: int) -> None:
        self.name, self.num_envs, self.version = name, num_envs, ""
        self.missing: str | None = None
        self._process: subprocess.Popen[str] | None = None
        if not PYTHON.exists():
            self.missing = "run make bench-peers"
            return
        script = Path(__file__).with_name("peer_process.py")
        self._process = subprocess.Popen(  # noqa: S603 (our own script, with names of our own)
            [PYTHON, script, "--peer", name, "--num-envs", str(num_envs)],
            env=os.environ | {f"{library}_NUM_THREADS": "1" for library in _THREADS},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        greeting = self._answer()
        self.version, self.missing = greeting.get("version", ""), greeting.get("missing")

    def run(self, seconds: float) -> tuple[int, float, float]:
        """Steps for about so long.

        Returns:
            Steps of single environments, wall seconds and CPU seconds.

        Raises:
            RuntimeError: The peer is missing, or has died.
        """
        if self.missing is not None or self._process is None or self._process.stdin is None:
            raise RuntimeError(f"{self.name}: {self.missing or 'closed'}")
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(f"run {seconds}\n")
            self._process.stdin.flush()
        answer = self._answer()
        if "missing" in answer:
            raise RuntimeError(f"{self.name}: {answer['missing']}")
        return answer["steps"], answer["seconds"], answer["cpu_seconds"]

    def close(self) -> None:
        """Ends the process."""
        if self._process is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.communicate("quit\n")
            self._process.wait()
            self._process = None

    def _answer(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line else {"missing": f"ended with status {self._process.wait()}"}
