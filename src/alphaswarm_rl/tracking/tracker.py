"""The interface of all trackers: a run, its parameters, tags, metrics, artefacts, models and its end."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from alphaswarm_rl.tracking.journal import Operation


class Unacceptable(Exception):
    """Something that a tracker will never take, with the reason: it is set aside, and the rest goes on."""


class Outdated(Exception):
    """A tracker held points that count no more and cannot be taken back: it deleted the run, and wants all of it."""


@dataclass(frozen=True)
class Artefact:
    """A file or folder that a run made.

    Attributes:
        name: Its path among the run's artefacts.
        text: What is in it, where it is a small file.
        path: Where it is, otherwise.
        sha256: What it must be: of a checkpoint, that of its manifest.
    """

    name: str
    text: str | None = None
    path: Path | None = None
    sha256: str | None = None

    @property
    def files(self) -> dict[str, Path]:
        """The files of the folder by their relative names; `Unacceptable` where it is gone or its checksum changed."""
        assert self.path is not None
        if not self.path.is_dir():
            raise Unacceptable(f"the artefact {self.name}: {self.path} is not there any more")
        if self.sha256 is not None and self.sha256 != manifest_sha256(self.path):
            raise Unacceptable(f"the artefact {self.name}: {self.path} was changed since")
        found = sorted(path for path in self.path.rglob("*") if path.is_file())
        return {path.relative_to(self.path).as_posix(): path for path in found}


def manifest_sha256(folder: Path) -> str | None:
    """What identifies a checkpoint: the SHA-256 of its manifest; None where there is none."""
    try:
        return hashlib.sha256((folder / "checkpoint.json").read_bytes()).hexdigest()
    except OSError:
        return None


class Tracker(ABC):
    """Receives the operations of one run in order; the same operation twice changes nothing.

    Any error but `Unacceptable` means: not now.
    """

    #: Whether it wants the whole journal at once, whenever there is something new in it.
    whole = False
    #: Whether it knows the run; one that forgot it is told everything again.
    knows = True

    def ready(self) -> None:  # noqa: B027  (plain files always are)
        """Raises where it is of no use to tell it anything now."""

    @abstractmethod
    def begin(self, name: str, time: int) -> str | None:
        """The run begins or goes on; gives the tracker's own id of it.

        Args:
            name: What it is called.
            time: When, in milliseconds since 1970.
        """

    @abstractmethod
    def params(self, params: Mapping[str, str]) -> None:
        """What the run was asked for."""

    @abstractmethod
    def tags(self, tags: Mapping[str, str]) -> None:
        """Sets tags, by which the run can be found."""

    @abstractmethod
    def metrics(self, number: int, time: int, step: int, values: Mapping[str, float]) -> None:
        """Adds values of metrics at one step.

        Args:
            number: Number of the operation: larger than those of all points before.
            time: When, in milliseconds since 1970.
            step: Transitions that the policy had learnt from.
            values: Finite numbers by name.
        """

    def drop(self, gone: Sequence[Operation], kept: Sequence[Operation]) -> None:  # noqa: B027  (not where all is told)
        """Takes back points that a resumed run makes again.

        Args:
            gone: Points that count no more; it was told some of them.
            kept: Points that it was told and that count.
        """

    @abstractmethod
    def artefact(self, artefact: Artefact) -> None:
        """What it made; another one of the same name takes its place."""

    @abstractmethod
    def model(self, name: str, artefact: str, tags: Mapping[str, str]) -> None:
        """An artefact that was told before is a version of the model of that name."""

    @abstractmethod
    def end(self, status: str, time: int) -> None:
        """It ended: completed, failed, halted or interrupted."""

    def flush(self) -> list[str]:
        """What was told so far is where it belongs; gives what it will never take of that, each with the reason."""
        return []

    def close(self) -> None:  # noqa: B027  (not every tracker is open)
        """Nothing more is told for now."""
