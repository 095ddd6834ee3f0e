"""A real MLflow server, and buckets on a real S3 server, for tests."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

START_S = 90


class MlflowServer:
    """An MLflow server on an SQLite database; stopped and started again it is the same one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.uri = f"http://127.0.0.1:{self.port}"
        self._process = None

    def start(self) -> None:
        command = [
            *(sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)),
            *("--backend-store-uri", f"sqlite:///{self.folder / 'mlflow.db'}"),
            *("--artifacts-destination", str(self.folder / "artefacts"), "--workers", "1"),
        ]
        with (self.folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdout=log,
                stderr=log,
                env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"},
                start_new_session=True,
            )
        deadline = time.monotonic() + START_S
        while time.monotonic() < deadline:
            assert self._process.poll() is None, (self.folder / "server.log").read_text()
            try:
                with urlopen(f"{self.uri}/health", timeout=2):
                    return
            except (URLError, OSError):
                time.sleep(0.1)
        raise AssertionError((self.folder / "server.log").read_text())

    def stop(self) -> None:
        """At once, with all its workers."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None


def closed_port() -> int:
    """A port at which nobody answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]
