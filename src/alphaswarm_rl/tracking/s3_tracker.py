"""The files of the local tracker, and the artefacts themselves, in a bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from alphaswarm_rl.tracking.destination import Destination
from alphaswarm_rl.tracking.local_tracker import LocalTracker
from alphaswarm_rl.tracking.tracker import Artefact

_CONNECT_S, _REQUEST_S, _TRIES = 3, 30, 3
_CHUNK = 8 * 1024 * 1024


class S3Tracker(LocalTracker):
    """Keeps a run below `s3://bucket/prefix/<experiment>/<run id>/`, and a copy of all but the artefacts here.

    Args:
        root: Folder of the copies.
        destination: Bucket and prefix.
        run_id: The run.
    """

    def __init__(self, root: Path, destination: Destination, run_id: str) -> None:
        super().__init__(root, destination.experiment, run_id)
        assert destination.uri is not None
        prefix = destination.uri.removeprefix("s3://").rstrip("/")
        #: As Arrow names it: without the scheme.
        self._folder_in_bucket = f"{prefix}/{self.folder.parent.name}/{run_id}"
        self._bucket = _file_system(destination)
        self._unsent: dict[str, None] = {}
        # What a killed process wrote here and did not send is not known: all that is here is sent once.
        if self.folder.is_dir():
            self._unsent = {path.name: None for path in sorted(self.folder.iterdir()) if path.name[0] != "."}

    def artefact(self, artefact: Artefact) -> None:
        """Sends the files."""
        if artefact.text is not None:
            super().artefact(artefact)
            return
        files = artefact.files
        for name, path in files.items():
            self._send(path, f"artefacts/{artefact.name}/{name}")
        entry = {
            "path": f"s3://{self._folder_in_bucket}/artefacts/{artefact.name}",
            "sha256": artefact.sha256,
            "bytes": sum(path.stat().st_size for path in files.values()),
        }
        self._merge("artefacts.json", {artefact.name: entry})

    def flush(self) -> list[str]:
        """Sends what changed."""
        for name in list(self._unsent):
            self._send(self.folder / name, name)
            del self._unsent[name]
        return []

    def _changed(self, name: str) -> None:
        self._unsent[name] = None

    def _send(self, path: Path, name: str) -> None:
        with path.open("rb") as source, self._bucket.open_output_stream(f"{self._folder_in_bucket}/{name}") as target:
            while chunk := source.read(_CHUNK):
                target.write(chunk)


def _file_system(destination: Destination) -> Any:
    from pyarrow import fs

    given = {"endpoint_override": destination.s3_endpoint, "region": destination.s3_region}
    return fs.S3FileSystem(
        connect_timeout=_CONNECT_S,
        request_timeout=_REQUEST_S,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_TRIES),
        **{name: value for name, value in given.items() if value is not None},
    )
