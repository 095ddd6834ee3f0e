"""The tracker that needs no server: plain files.

    <root>/<experiment>/<run id>/run.json         name, status, times
    <root>/<experiment>/<run id>/params.json      what was asked for
    <root>/<experiment>/<run id>/tags.json        what it can be found by
    <root>/<experiment>/<run id>/metrics.jsonl    one point per line: n, time, step, metrics
    <root>/<experiment>/<run id>/artefacts.json   where its artefacts are, with their SHA-256: no copies
    <root>/<experiment>/<run id>/models.json      which of them are models, and of what name
    <root>/<experiment>/<run id>/spec.yaml        an artefact that is a small text

A JSON file is there whole or not at all.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from alphaswarm_rl.core.files import replace_whole
from alphaswarm_rl.core.types import JsonMapping, JsonObject
from alphaswarm_rl.tracking.journal import Operation
from alphaswarm_rl.tracking.tracker import Artefact, Tracker


def folder_name(experiment: str) -> str:
    """The name of an experiment as the name of a folder."""
    name = quote(experiment, safe=" ()+,=@")
    return name.replace(".", "%2E") if not name.strip(".") else name


class LocalTracker(Tracker):
    """Keeps a run in a folder of its own.

    Args:
        root: Folder of all experiments.
        experiment: The experiment.
        run_id: The run.
    """

    def __init__(self, root: Path, experiment: str, run_id: str) -> None:
        self.folder = root / folder_name(experiment) / run_id
        self.knows = (self.folder / "run.json").exists()
        self._experiment = experiment
        self._run_id = run_id
        self._last_number = _last_number(self.folder / "metrics.jsonl")

    def begin(self, name: str, time: int) -> str | None:
        """Makes the folder."""
        self.folder.mkdir(parents=True, exist_ok=True)
        begun = {"run_id": self._run_id, "experiment": self._experiment, "name": name, "started": time}
        self._merge("run.json", {**begun, **self._read("run.json"), "status": "running", "ended": None})
        return None

    def params(self, params: Mapping[str, str]) -> None:
        """Goes to params.json."""
        self._merge("params.json", params)

    def tags(self, tags: Mapping[str, str]) -> None:
        """Goes to tags.json."""
        self._merge("tags.json", tags)

    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """One line of metrics.jsonl, unless it is there already."""
        if number <= self._last_number:
            return
        line = json.dumps({"n": number, "time": time, "step": step, "metrics": dict(values)})
        with (self.folder / "metrics.jsonl").open("a") as file:
            file.write(line + "\n")
        self._last_number = number
        self._changed("metrics.jsonl")

    def drop(self, gone: Sequence[Operation], kept: Sequence[Operation]) -> None:
        """Writes metrics.jsonl anew without the lines that count no more."""
        path, numbers = self.folder / "metrics.jsonl", {point.number for point in gone}
        if path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            left = [line for line in lines if json.loads(line)["n"] not in numbers]
            if left != lines:
                self._write("metrics.jsonl", b"".join(left))

    def artefact(self, artefact: Artefact) -> None:
        """A text is written; of anything else is kept where it is."""
        if artefact.text is None:
            size = sum(path.stat().st_size for path in artefact.files.values())
            entry = {"path": str(artefact.path), "sha256": artefact.sha256, "bytes": size}
        else:
            content = artefact.text.encode()
            self._write(artefact.name, content)
            entry = {"path": artefact.name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
        self._merge("artefacts.json", {artefact.name: entry})

    def model(self, name: str, artefact: str, tags: Mapping[str, str]) -> None:
        """Goes to models.json."""
        self._merge("models.json", {name: {"artefact": artefact, "tags": dict(tags)}})

    def end(self, status: str, time: int) -> None:
        """Goes to run.json."""
        self._merge("run.json", {"status": status, "ended": time})

    def _read(self, name: str) -> JsonObject:
        path = self.folder / name
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _merge(self, name: str, items: JsonMapping) -> None:
        document = {**self._read(name), **items}
        self._write(name, json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")

    def _write(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
        self._changed(name)

    def _changed(self, name: str) -> None:
        """A file of the folder has other content now."""


def _last_number(path: Path) -> int:
    """The number of the last point in a file; half a line, which a killed process left, is cut off."""
    if not path.exists():
        return 0
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    if whole < len(content):
        os.truncate(path, whole)
    lines = content[:whole].splitlines()
    return int(json.loads(lines[-1])["n"]) if lines else 0
