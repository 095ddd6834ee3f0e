"""Removals under way: a file for each, which a process that is killed in the middle leaves for the next one.

    <home>/removing/<run id>.json    who removes it, and whether that was forced

Whoever looks at runs finishes what a dead process left. A process that cannot be seen from here, in another container
or on another host, is taken for dead once its file is older than the silence limit of runs: whatever a removal does can
be done twice. Looking costs one look into a folder that is hardly ever there.
"""

from __future__ import annotations

import json
import logging
import math
import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from alphaswarm_rl.core.errors import AlphaSwarmError
from alphaswarm_rl.core.files import UnfitFile, read_regular, replace_synced
from alphaswarm_rl.core.json import load_json
from alphaswarm_rl.ledger.liveness import Holder, is_alive, this_process
from alphaswarm_rl.settings import Settings

_log = logging.getLogger(__name__)

#: A file of more bytes is none of ours.
_MOST_BYTES = 1 << 20


@dataclass(frozen=True)
class Removal:
    """A removal that has begun.

    Attributes:
        path: The file that says so.
        run_id: The run.
        force: Whether runs that stand on its checkpoint, and deployed models, do not count.
        holder: The process that removes it; None where its file does not tell.
    """

    path: Path
    run_id: str
    force: bool
    holder: Holder | None

    def is_abandoned(self, settings: Settings) -> bool:
        """Whether the process that began it is gone, or cannot be seen from here and began long ago."""
        alive = None if self.holder is None else is_alive(self.holder)
        if alive is None and self.holder is not None:
            return self.age > settings.ledger.silence_seconds
        return not alive

    @property
    def age(self) -> float:
        """Seconds since it began; endless where its end was noted meanwhile."""
        try:
            return time.time() - self.path.stat().st_mtime
        except FileNotFoundError:
            return math.inf

    def end(self) -> None:
        """Nothing is left to do."""
        self.path.unlink(missing_ok=True)
        with suppress(FileNotFoundError):  # another process finished it too
            if not any(self.path.parent.iterdir()):
                self.path.parent.rmdir()


def begin_removal(settings: Settings, run_id: str, *, force: bool) -> Removal:
    """Says that this process removes a run."""
    path = _folder(settings) / f"{run_id}.json"
    holder = this_process()
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_synced(path, json.dumps({"force": force, "holder": asdict(holder)}).encode())
    return Removal(path, run_id, force, holder)


def removals(settings: Settings) -> list[Removal]:
    """Every removal that has begun and did not end."""
    folder = _folder(settings)
    found = [_read(path) for path in sorted(folder.glob("*.json"))] if folder.is_dir() else []
    return [removal for removal in found if removal is not None]


def finish_removals(settings: Settings) -> None:
    """Finishes removals whose process is dead; one that cannot be finished now is a warning, and tried again later.

    Whoever may only read the home leaves them to those who may write.
    """
    for removal in removals(settings):
        if removal.is_abandoned(settings) and os.access(removal.path.parent, os.W_OK):
            # Imported here: hardly ever is there one, and looking at runs shall be quick.
            from alphaswarm_rl.operations.run_removal import finish_removal

            try:
                finish_removal(settings, removal)
            except (AlphaSwarmError, OSError) as error:
                _log.warning("run %s: its removal was cut short and cannot be finished now: %s", removal.run_id, error)
            else:
                _log.warning("run %s: its removal, which was cut short, is finished", removal.run_id)


def _folder(settings: Settings) -> Path:
    return settings.below_home(Path("removing"))


def _read(path: Path) -> Removal | None:
    """The removal that a file tells of; None where it ended meanwhile."""
    try:
        found = load_json(read_regular(path, most_bytes=_MOST_BYTES))
        return Removal(path, path.stem, bool(found["force"]), Holder(**found["holder"]))
    except FileNotFoundError:
        return None
    # Nobody wrote it whole: what is not forced is refused where it must be.
    except (UnfitFile, ValueError, KeyError, TypeError):
        return Removal(path, path.stem, force=False, holder=None)
