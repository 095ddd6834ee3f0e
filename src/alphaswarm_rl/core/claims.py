"""Claims: which of the processes that ever worked on a run may write for it.

The process that begins a run holds its first claim, and every resume takes it over with the next number. A process that
was silent for long may wake up after another one took its run over; whatever it writes then is refused: by the ledger
in the same transaction, by the lake's tables in the same commit. Its files are in a folder of their own, and count only
where the ledger or a table names them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from alphaswarm_rl.core.errors import LedgerError, RunError

_FOLDER = re.compile(r"claim-(\d{6,})")


class StaleClaim(RunError):
    """A process that goes on with a run which another one has taken over."""

    exit_code = 4


class UnknownClaim(LedgerError):
    """A ledger that does not know of a claim: another one, or a copy of an earlier time. Nobody took the run over."""

    exit_code = 1


@dataclass(frozen=True)
class Claim:
    """The right to write for a run, until a later one is given.

    Attributes:
        run_id: The run.
        number: 1 for the process that began it, and one more with every resume.
    """

    run_id: str
    number: int = 1

    def folder(self, root: Path) -> Path:
        """Where this claim's files are below a run's folder: those of the first one lie in it directly."""
        return root if self.number == 1 else root / f"claim-{self.number:06d}"

    def stale(self, newest: int | None) -> StaleClaim:
        """The error of a process that still holds this claim.

        Args:
            newest: The number of the claim that took its place; None where the run was removed.
        """
        resumed = (
            f"another process resumed it while this one stood still (claim {newest}, and this one has {self.number})"
        )
        why = "it was removed while this process stood still" if newest is None else resumed
        return StaleClaim(
            f"the run {self.run_id}", why, f"This process writes nothing more. See: rl runs show {self.run_id}."
        )


def number_of(folder: Path) -> int:
    """The claim whose files are in a folder."""
    found = _FOLDER.fullmatch(folder.name)
    return 1 if found is None else int(found[1])


def run_folder(checkpoint: Path) -> Path:
    """The folder of all checkpoints of a run, given one of them."""
    above = checkpoint.parent
    return above if _FOLDER.fullmatch(above.name) is None else above.parent


def claim_folders(root: Path) -> Iterator[Path]:
    """The folders of a run's claims, the newest first; that of the first one is `root` itself."""
    if root.is_dir():
        later = [path for path in root.iterdir() if _FOLDER.fullmatch(path.name)]
        yield from sorted(later, key=number_of, reverse=True)
        yield root


def newest_folder(root: Path) -> Path:
    """The folder of the newest claim that has one."""
    return next(claim_folders(root), root)
