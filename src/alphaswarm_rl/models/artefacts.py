"""Model files: whether one is the file that was registered. They are read as bytes alone, and never unpickled."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from alphaswarm_rl.core.errors import ModelError
from alphaswarm_rl.core.files import open_regular, read_regular
from alphaswarm_rl.core.json import load_json

#: What makes a folder a checkpoint: everything about it, with the checksums of its other files.
MANIFEST = "checkpoint.json"
#: A manifest of more bytes is none that was ever written.
MANIFEST_BYTES = 256 << 20


def verified_sha256(path: Path, expected: str | None) -> str:
    """The checksum of a model: of a checkpoint folder that of its manifest, of a file its own.

    Args:
        path: A checkpoint folder, or a file. Every file that a manifest lists is verified too.
        expected: The checksum that was registered; None where none was.

    Raises:
        ModelError: It is not there, cannot be read, or was changed.
    """
    try:
        found = _folder_sha256(path) if path.is_dir() else file_sha256(path)
    except FileNotFoundError as error:
        missing = Path(str(error.filename))
        what = "it is not there" if missing == path else f"{missing.name} is not there"
        raise ModelError(f"model {str(path)!r}", what, "Use another model: rl models list.") from error
    except OSError as error:
        raise ModelError(
            f"model {str(path)!r}", f"it cannot be read: {error.strerror or error}", "Check the disk and its rights."
        ) from error
    if expected is not None and found != expected:
        name = MANIFEST if path.is_dir() else path.name
        raise _changed(path, f"{name} has not the checksum that was registered")
    return found


def _folder_sha256(path: Path) -> str:
    content = read_regular(path / MANIFEST, most_bytes=MANIFEST_BYTES, below=path)
    for name, digest in _listed_files(path, content).items():
        if Path(name).name != name:
            raise _changed(path, f"{MANIFEST} lists {name!r}, which is no file of this folder")
        if file_sha256(path / name, below=path) != digest:
            raise _changed(path, f"{name} has not the checksum that {MANIFEST} records")
    return hashlib.sha256(content).hexdigest()


def _listed_files(path: Path, content: bytes) -> dict[str, Any]:
    try:
        files = load_json(content)["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise _changed(path, f"{MANIFEST} is no JSON that lists files ({error})") from error
    if not isinstance(files, dict) or not files:
        raise _changed(path, f"{MANIFEST} lists no files")
    return files


def file_sha256(path: Path, *, below: Path | None = None) -> str:
    """The checksum of a regular file, as hex digits.

    Args:
        path: The file.
        below: The folder that it must lie in, links followed; None: it may lie anywhere.
    """
    with open_regular(path, below=below) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _changed(path: Path, why: str) -> ModelError:
    return ModelError(
        f"model {str(path)!r}", f"it was changed after it was written: {why}", "Use another model: rl models list."
    )
