"""A file that several processes append lines to."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import IO, cast


def appended_lines(path: Path) -> IO[str]:
    """The file at that path as a stream."""
    return cast(IO[str], AppendedLines(path))


class AppendedLines(io.TextIOBase):
    """Appends each text in one piece, so that lines of runs side by side do not mix.

    The file is opened for each: it may be moved away or removed meanwhile.

    Args:
        path: The file; its folder is made.

    Raises:
        OSError: It cannot be written to.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self.write("")

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, text: str) -> int:
        """Appends a text, whole or with an error."""
        data = text.encode()
        with self._path.open("ab", buffering=0) as file:
            if file.write(data) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self._path))
        return len(text)
