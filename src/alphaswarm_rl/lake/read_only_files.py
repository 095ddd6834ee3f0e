"""Files of this machine that DuckDB may read and cannot write.

DuckDB has no such setting: whoever may read a folder may write to it. So the engine that runs a user's statement gets
the files through a file system of ours, which knows those of the tables, by name, and opens them for reading.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec

SCHEME = "steps"
_BEGINNING = f"{SCHEME}://"
_ESCAPED = re.compile(r"\[([*?\[])\]")


class ReadOnlyFiles(fsspec.AbstractFileSystem):  # type: ignore[misc]
    """A file system of files that were admitted to it; nothing else is there, and nothing can be written.

    Attributes:
        problem: The first error of the system with an admitted file; None: there was none.
    """

    protocol = SCHEME
    cachable = False

    def __init__(self) -> None:
        super().__init__()
        self._admitted: set[str] = set()
        self.problem: OSError | None = None

    def admit(self, path: str) -> str:
        """Lets a file be read; gives the address under which it is found."""
        self._admitted.add(path)
        return _BEGINNING + path

    def open(self, path: str, mode: str = "rb", **_: Any) -> ReadOnlyFile:
        """Opens an admitted file for reading.

        Raises:
            PermissionError: It would be written.
            OSError: It is not there, or cannot be read.
        """
        if mode != "rb":
            raise PermissionError(f"{path} can only be read")
        name = self._known(path)
        with self.noted():
            return ReadOnlyFile(name, self)

    def glob(self, path: str, **_: Any) -> list[str]:
        """The admitted file of that name, which may have its odd characters in brackets; no pattern finds others."""
        name = _ESCAPED.sub(r"\1", path.removeprefix(_BEGINNING))
        return [name] if name in self._admitted else []

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Name and size of an admitted file."""
        name = self._known(path)
        with self.noted():
            return {"name": name, "size": Path(name).stat().st_size, "type": "file"}

    def modified(self, path: str) -> datetime:
        """When an admitted file was written."""
        name = self._known(path)
        with self.noted():
            return datetime.fromtimestamp(Path(name).stat().st_mtime, UTC)

    @contextmanager
    def noted(self) -> Iterator[None]:
        """Keeps the error of what is done in it: DuckDB's own would have its words and not its kind."""
        try:
            yield
        except OSError as error:
            self.problem = self.problem or error
            raise

    def _known(self, path: str) -> str:
        name = path.removeprefix(_BEGINNING)
        if name not in self._admitted:
            raise FileNotFoundError(f"{path} is no file of the tables")
        return name


class ReadOnlyFile:
    """An open file, read by several threads at once: each has a place of its own in it.

    DuckDB seeks and reads in two calls, between which another thread may do the same.

    Args:
        path: The file.
        files: Where errors are noted.
    """

    def __init__(self, path: str, files: ReadOnlyFiles) -> None:
        self._files = files
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115  DuckDB closes it
        self._size = os.fstat(self._file.fileno()).st_size
        self._thread = threading.local()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Goes to a place, counted from the beginning, from here or from the end."""
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self.tell(), os.SEEK_END: self._size}[whence]
        self._thread.place = start + offset
        return self._thread.place  # type: ignore[no-any-return]

    def tell(self) -> int:
        """The place of this thread."""
        return getattr(self._thread, "place", 0)

    def read(self, count: int = -1) -> bytes:
        """So many bytes from here, or all; fewer at the end."""
        place = self.tell()
        with self._files.noted():
            content = os.pread(self._file.fileno(), self._size - place if count < 0 else count, place)
        self._thread.place = place + len(content)
        return content

    def seekable(self) -> bool:
        """It is."""
        return True

    def close(self) -> None:
        """Closes it."""
        self._file.close()
