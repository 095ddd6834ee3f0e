"""Every error a user can meet. Each names the thing, the reason and the remedy."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

from alphaswarm_rl.core.types import JsonObject

#: A sentence that ends twice: what it was made of had an end of its own. Three dots are one end.
_ENDS_TWICE = re.compile(r"(?:(\.\.\.)|([.?!]))[.;:,]+$")


def _ended_once(text: str) -> str:
    return text if text.endswith("...") and not text.endswith("....") else _ENDS_TWICE.sub(r"\1\2", text)


class AlphaSwarmError(Exception):
    """Something the user can understand and mend.

    Args:
        what: The thing that is wrong, by name.
        why: The reason.
        remedy: What to do about it.
    """

    #: What the command line exits with: 2 for a mistake in the input, 1 for a run that failed.
    exit_code = 2

    def __init__(self, what: str, why: str, remedy: str) -> None:
        super().__init__(what, why, remedy)
        self.what = what
        self.why = _ended_once(why)
        self.remedy = _ended_once(remedy)

    def __str__(self) -> str:
        why = self.why.rstrip(" ;:,")
        end = "" if why.endswith((".", "?", "!")) else "."
        return f"{self.what.rstrip(' :')}: {why}{end} {self.remedy}"

    def as_dict(self) -> JsonObject:
        """The error as JSON, the same in every face of the system."""
        return {"type": type(self).__name__, "what": self.what, "why": self.why, "remedy": self.remedy}


class SpecError(AlphaSwarmError):
    """A spec that cannot be read, validated or run."""


class ComponentError(AlphaSwarmError):
    """A component that breaks the catalogue's rules, or parameters it does not take."""


class DuplicateComponent(ComponentError):
    """Two classes claim one (kind, alias)."""


class UnknownComponent(ComponentError):
    """No component has that name."""


class OptionError(AlphaSwarmError):
    """An option with a value it cannot take, or two values at once."""


class PartNotHere(AlphaSwarmError):
    """Something is asked for whose part of the system is not built yet."""


class MissingExtra(AlphaSwarmError):
    """A library is needed that only an extra installs."""


class EnvError(AlphaSwarmError):
    """An environment that does not exist or cannot be built as asked."""


class DataError(AlphaSwarmError):
    """Market data that is wrong, missing or not there; the message names row, asset and column where there are any."""


class BookError(AlphaSwarmError):
    """Costs, margin or orders that no account can have."""


class OrderError(AlphaSwarmError):
    """Target weights, prices or positions that no order can be made of."""


class LedgerError(AlphaSwarmError):
    """The ledger's database cannot be used, or refuses."""


class LedgerBusy(LedgerError):
    """Another process kept the ledger's write lock for too long."""


class RunError(AlphaSwarmError):
    """A run that does not exist, or cannot do what is asked in its state."""


class TrainingDiverged(RunError):
    """An agent whose numbers are not finite any more."""

    exit_code = 1


class CheckpointError(AlphaSwarmError):
    """A checkpoint that cannot be written, found or trusted."""

    exit_code = 1


class UnfitCheckpoint(CheckpointError):
    """A folder that is no checkpoint of ours: files that are not regular or too large, or content of another shape."""

    exit_code = 2


class ModelError(AlphaSwarmError):
    """A model that the registry does not know, refuses, or cannot trust the file of."""


class TelemetryError(AlphaSwarmError):
    """Telemetry that cannot be had as it is asked for."""


class LakeError(AlphaSwarmError):
    """The lake cannot be written to or read from, or does not hold what it should."""

    exit_code = 1


class TrackingError(AlphaSwarmError):
    """A tracker that cannot be used as the settings ask for it."""


class DiskError(AlphaSwarmError):
    """A disk that is full, fails, or may not be written to."""

    exit_code = 1


#: What the system says of a disk, a folder or a limit that its operator can mend.
_OF_THE_SYSTEM = {
    errno.ENOSPC: "Free some space, or choose a home folder on another disk.",
    errno.EDQUOT: "Free some space, or choose a home folder on another disk.",
    errno.EFBIG: "Raise the limit on the size of files (ulimit -f).",
    errno.EIO: "Check the health of the disk.",
    errno.EROFS: "Choose a folder that can be written to.",
    errno.EACCES: "Choose a folder that you may write to.",
    errno.EPERM: "Choose a folder that you may write to.",
    errno.EMFILE: "Raise the limit on open files (ulimit -n).",
    errno.ENFILE: "Close other programs: the system has no more open files to give.",
}


def disk_error(error: OSError) -> DiskError | None:
    """An error of the system as one of ours; None where the operator cannot mend it, and it is a mistake of ours."""
    remedy = _OF_THE_SYSTEM.get(error.errno or 0)
    if remedy is None:
        return None
    what = "the disk" if error.filename is None else f"the file {str(error.filename)!r}"
    return DiskError(what, error.strerror or str(error), f"{remedy} Then run the same command again.")


def is_of_the_system(error: BaseException | None) -> bool:
    """Whether an error comes from a disk, a limit of the system or the ledger, and not from what was asked for."""
    while error is not None:
        if isinstance(error, DiskError | LedgerError) or (isinstance(error, OSError) and disk_error(error) is not None):
            return True
        error = error.__cause__
    return False


def nearest(name: str, choices: Iterable[str]) -> str:
    """A sentence that proposes the choice most like `name`, or lists what there is."""
    known = sorted(choices)
    close = get_close_matches(name.lower(), [choice.lower() for choice in known], n=1, cutoff=0.6)
    if close:
        return f"Did you mean {next(choice for choice in known if choice.lower() == close[0])!r}?"
    if not known:
        return "There are none."
    return f"Known: {', '.join(known[:40])}{', ...' if len(known) > 40 else '.'}"


def require(module: str, *, extra: str) -> Any:
    """Imports a library that an extra installs; a missing one is an error that names the extra."""
    from importlib import import_module

    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingExtra(
            f"the library {module!r}",
            "it is not installed",
            f"Run: pip install 'alphaswarm-rl[{extra}]'.",
        ) from error
