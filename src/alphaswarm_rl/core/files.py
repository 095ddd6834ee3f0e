"""Files of others, read with care, and files of our own that are still there after the power fails.

What somebody hands us may be a FIFO that never answers, a device, a link to somewhere else, or larger than the machine.
Whoever reads such a file opens it here: every refusal is an `OSError`, and comes before the first byte is read.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path
from uuid import uuid4

#: Bytes of one name and of a whole path: file systems know 255 and 4,095, and folders need room for what is in them.
_LONGEST_NAME, _LONGEST_PATH = 255, 3072


class UnfitFile(OSError):
    """A file that is not read: it is no regular file, too large, or lies outside of its folder."""


def checked_path(path: str | Path) -> Path:
    """The path that a text means; one that no file can have is a ValueError."""
    name = str(path)
    if "\0" in name:
        raise ValueError("it holds a NUL character, and no path does")
    encoded = os.fsencode(name)
    if len(encoded) > _LONGEST_PATH or any(len(part) > _LONGEST_NAME for part in encoded.split(b"/")):
        raise ValueError(f"it is longer than a path can be: {_LONGEST_NAME} bytes a name, {_LONGEST_PATH} in all")
    return Path(path)


def open_regular(path: Path, *, most_bytes: int | None = None, below: Path | None = None) -> io.BufferedReader:
    """Opens a regular file for reading; anything else is refused, and nothing is waited for.

    Args:
        path: The file; a link to one is followed.
        most_bytes: Bytes that it may have; None: as many as the machine has memory.
        below: The folder that it must lie in, links followed; None: it may lie anywhere.

    Raises:
        FileNotFoundError: It is not there.
        UnfitFile: It is no regular file, too large, or lies elsewhere.
        OSError: It cannot be opened.
    """
    try:
        checked_path(path)
    except ValueError as error:
        raise UnfitFile(str(error)) from error
    # Looked at before it is opened, because opening alone makes some devices act, and after, for it may be another now.
    _refuse_irregular(path, path.stat())
    real = path.resolve()
    if below is not None and not real.is_relative_to(below.resolve()):
        raise UnfitFile(f"{path.name} leads out of the folder {str(below)!r}")
    descriptor = os.open(real, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        _refuse_irregular(path, found)
        most_bytes = _memory() if most_bytes is None else most_bytes
        if found.st_size > most_bytes:
            raise UnfitFile(f"{path.name} has {found.st_size} bytes, and may have {most_bytes}")
    except BaseException:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_regular(path: Path, *, most_bytes: int | None = None, below: Path | None = None) -> bytes:
    """The bytes of a regular file; see `open_regular`."""
    with open_regular(path, most_bytes=most_bytes, below=below) as file:
        return file.read()


def refuse_irregular(path: Path) -> None:
    """Refuses what is there and is no regular file.

    Raises:
        UnfitFile: It is a folder, a FIFO, a socket or a device.
    """
    if path.exists():
        _refuse_irregular(path, path.stat())


def _refuse_irregular(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise UnfitFile(f"{path.name} is {kind}, not a regular file")


_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def _memory() -> int:
    """Bytes of memory that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def write_synced(path: Path, content: bytes) -> None:
    """Writes a file, and has the disk keep it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Has the disk keep a file that somebody else wrote."""
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Has the disk keep the names in a folder: what was added, renamed or deleted there."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace_whole(path: Path, content: bytes, *, mode: int = 0o666) -> None:
    """Writes a file whole or not at all, in the place of the one that is there.

    Args:
        path: The file.
        content: Its content.
        mode: Who may read and write it, but for what the process's mask forbids.
    """
    # No process id: those of two containers on one disk may be the same.
    unfinished = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode), "wb") as file:
            file.write(content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise


def replace_synced(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all, in the place of the one that is there, and has the disk keep it."""
    unfinished = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        write_synced(unfinished, content)
        unfinished.replace(path)
    except OSError:
        unfinished.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
