"""A run as W&B keeps it: written offline as a whole, then handed to W&B's own uploader where a server is wanted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import require
from alphaswarm_rl.tracking.answering import Silent, refuse_silence
from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.tracker import Artefact, Tracker, Unacceptable

_OWN_SERVER = "https://api.wandb.ai"
_OFFLINE = ("offline", "dryrun", "disabled")
_UPLOAD_S = 1800
_NOT_IN_NAMES = re.compile(r"[^\w.\-]", re.ASCII)


class WandbTracker(Tracker):
    """Writes a run's offline folder anew whenever there is more to tell: nothing in it can be doubled.

    Args:
        root: Folder that gets the folder `wandb`.
        destination: The server and the project.
        run_id: The run, which has the same id there.
    """

    whole = True

    def __init__(self, root: Path, destination: Destination, run_id: str) -> None:
        self._wandb = require("wandb", extra="wandb")
        self._root = root
        self._destination = destination
        self._run_id = run_id
        self._run: Any = None
        self._exit_code = 1
        self._artefacts: dict[str, Artefact] = {}

    def begin(self, name: str, time: int) -> str | None:
        """Opens a folder in place of an older one; a run that goes on is in it already."""
        if self._run is None:
            for older in (self._root / "wandb").glob(f"offline-run-*-{self._run_id}"):
                shutil.rmtree(older)
            self._run = self._wandb.init(
                project=self._destination.experiment,
                id=self._run_id,
                name=name,
                dir=str(self._root),
                mode="offline",
                settings=self._wandb.Settings(
                    console="off",
                    silent=True,
                    disable_code=True,
                    disable_git=True,
                    save_code=False,
                    x_disable_meta=True,
                    x_disable_stats=True,
                    x_save_requirements=False,
                ),
            )
            self._run.define_metric("timesteps", hidden=True)
            self._run.define_metric("*", step_metric="timesteps")
        return self._run_id

    def params(self, params: Mapping[str, str]) -> None:
        """Goes to the run's config."""
        self._run.config.update(dict(params), allow_val_change=True)

    def tags(self, tags: Mapping[str, str]) -> None:
        """Goes to the run's config too: W&B's tags have no values."""
        self._run.config.update(dict(tags), allow_val_change=True)

    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """One row of the history; W&B's own step is the number of the operation, and charts show the transitions."""
        self._run.log({**values, "timesteps": step, "_timestamp": time / 1000}, step=number)

    def artefact(self, artefact: Artefact) -> None:
        """A text becomes a file of the run, anything else an artifact."""
        if artefact.text is not None:
            path = Path(self._run.dir) / artefact.name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(artefact.text)
            self._run.save(str(path), base_path=self._run.dir, policy="now")
            return
        self._log(artefact, f"{artefact.name}-{self._run_id}", "checkpoint", {})
        self._artefacts[artefact.name] = artefact

    def model(self, name: str, artefact: str, tags: Mapping[str, str]) -> None:
        """The artifact once more, as a model of that name."""
        if artefact not in self._artefacts:
            raise Unacceptable(f"the model {name}: its artefact {artefact} was set aside")
        self._log(self._artefacts[artefact], name, "model", tags)

    def end(self, status: str, time: int) -> None:
        """Closes the run with the status that it ended with."""
        self._exit_code = 0 if status == "completed" else 1

    def close(self) -> None:
        """Ends the folder, and uploads it unless W&B is to stay offline."""
        if self._run is None:
            return
        folder = Path(self._run.dir).parent
        self._run.finish(exit_code=self._exit_code)
        self._run = None
        if os.environ.get("WANDB_MODE") not in _OFFLINE:
            self._upload(folder)

    def _log(self, artefact: Artefact, name: str, kind: str, tags: Mapping[str, str]) -> None:
        made = self._wandb.Artifact(_NOT_IN_NAMES.sub("-", name), type=kind, metadata=dict(tags))
        for inside, path in artefact.files.items():
            # `immutable`: without a copy.
            made.add_file(str(path), name=inside, policy="immutable")
        self._run.log_artifact(made)

    def _upload(self, folder: Path) -> None:
        server = self._destination.uri or _OWN_SERVER
        kept = f"the run is written to {folder}"
        try:
            refuse_silence(server)
        except Silent as error:
            raise Silent(f"{error}; {kept}") from error
        command = [sys.executable, "-P", "-m", "wandb", "sync", str(folder)]
        done = subprocess.run(  # noqa: S603  (our own interpreter and folder)
            command,
            cwd=self._root,  # it writes logs of its own where it is called
            env={**os.environ, "WANDB_BASE_URL": server},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_UPLOAD_S,
            check=False,
        )
        # It may fail and exit with 0; the mark that it leaves tells the truth.
        if done.returncode or not any(folder.glob("*.synced")):
            raise RuntimeError(f"wandb sync failed: {' '.join(done.stdout.split())[-200:]}; {kept}")
