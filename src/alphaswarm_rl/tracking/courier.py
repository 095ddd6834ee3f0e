"""Couriers: the thread or process that delivers a journal while its run goes on.

The local tracker's files are written by a thread. Everything else is told by a process of its own,
`tracking.process`: the libraries of trackers take seconds to load, print, draw random numbers and wait for servers, and
nothing of that is the run's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from alphaswarm_rl.tracking.delivery import Delivery, destination_of, follow

#: For the process: settings of the libraries' own, where nobody set them.
_SURROUNDINGS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "WANDB_ERROR_REPORTING": "false",
    "WANDB_SILENT": "true",
}
_LOG = "courier.log"


class Courier(Protocol):
    """Delivers a journal."""

    def finish(self, seconds: float) -> None:
        """Delivers what is left, as far as that is possible in this time, and ends."""


class ThreadCourier:
    """Delivers in this process.

    Args:
        folder: Folder of the journals.
        run_id: The run.
    """

    def __init__(self, folder: Path, run_id: str) -> None:
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=follow, args=(Delivery(folder, run_id), self._stop), name=f"tracking {run_id}", daemon=True
        )
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Waits for the thread."""
        self._stop.set()
        self._thread.join(seconds)


class ProcessCourier:
    """Delivers in a process of its own, which ends by itself should this one be killed.

    Args:
        folder: Folder of the journals.
        runs: The runs, each with the tracker's address with its secrets where it has any.
        follows: Whether it begins now and goes on until `finish`; otherwise it delivers once, then.
    """

    def __init__(self, folder: Path, runs: Mapping[str, str | None], *, follows: bool) -> None:
        self._folder = folder
        self._order = {"folder": str(folder), "runs": dict(runs), "follows": follows}
        self._process: subprocess.Popen[bytes] | None = None
        if follows:
            self._begin()

    def finish(self, seconds: float | None) -> None:
        """Waits for the process, and stops it after that time; None: for as long as it takes."""
        if self._process is None and seconds == 0:
            return
        if self._process is None or self._process.poll() is not None:  # the latter: somebody killed it
            self._begin()
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(seconds)
        except BaseException as error:
            # It leads a group of its own, and may have started others.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise

    def _begin(self) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        # What W&B would put elsewhere in the user's home.
        wandb = self._folder.parent / "wandb"
        caches = {"WANDB_CACHE_DIR": str(wandb / "cache"), "WANDB_DATA_DIR": str(wandb / "data")}
        with (self._folder / _LOG).open("ab") as log:
            self._process = subprocess.Popen(
                # -P: a file of the working folder must not hide a library.
                [sys.executable, "-P", "-m", "alphaswarm_rl.tracking.process"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**_SURROUNDINGS, **caches, **os.environ},
                start_new_session=True,
            )
        assert self._process.stdin is not None
        # Not as an argument: everybody on this machine can see those. One that cannot even begin says why in its log.
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(self._order).encode() + b"\n")
            self._process.stdin.flush()


def courier_of(folder: Path, run_id: str, uri: str | None) -> Courier:
    """The courier of a run whose journal has begun."""
    destination = destination_of(folder, run_id)
    if destination is None or destination.backend == "local":
        return ThreadCourier(folder, run_id)
    # W&B's files are written as a whole, once the run is over.
    return ProcessCourier(folder, {run_id: uri}, follows=destination.backend != "wandb")


def deliver_now(folder: Path, run_ids: Sequence[str], uri: str | None) -> None:
    """Delivers these journals, however long it takes; what came of it is in their states.

    Args:
        folder: Folder of the journals.
        run_ids: The runs.
        uri: The tracker's address of the settings, with its secrets.
    """
    remote: dict[str, Any] = {}
    for run_id in run_ids:
        destination = destination_of(folder, run_id)
        if destination is not None and destination.backend == "local":
            Delivery(folder, run_id).once()
        elif destination is not None:
            remote[run_id] = uri
    if remote:
        ProcessCourier(folder, remote, follows=False).finish(None)
