"""Which file system a path lies on: SQLite's locks cannot be trusted on a network disk."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

NETWORK_FILE_SYSTEMS = frozenset(
    {
        "9p",
        "afs",
        "beegfs",
        "ceph",
        "cifs",
        "fuse.ceph",
        "fuse.gcsfuse",
        "fuse.glusterfs",
        "fuse.goofys",
        "fuse.juicefs",
        "fuse.rclone",
        "fuse.s3fs",
        "fuse.sshfs",
        "glusterfs",
        "gpfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "orangefs",
        "smb3",
        "smbfs",
        "wekafs",
    }
)

_MOUNT_TABLE = Path("/proc/mounts")


def network_file_system(path: Path, table: Path = _MOUNT_TABLE) -> str | None:
    """The network file system that `path` lies on, or None when its disk is local.

    Without a mount table (macOS) nothing can be told, and the answer is None.
    """
    if not table.exists():
        return None
    kind = file_system_of(path.resolve(), table.read_text(encoding="utf-8", errors="surrogateescape"))
    return kind if kind in NETWORK_FILE_SYSTEMS else None


def file_system_of(path: PurePosixPath | Path, mounts: str) -> str | None:
    """The type of the deepest mount above the absolute `path`, read from the text of a mount table."""
    found: tuple[int, str] | None = None
    for line in mounts.splitlines():
        fields = line.split()
        if len(fields) < 3:
            continue
        point = PurePosixPath(_unescaped(fields[1]))
        # A later line hides an earlier one at the same place: hence >=.
        if path.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), fields[2])
    return found[1] if found else None


def _unescaped(field: str) -> str:
    # The kernel writes blanks and backslashes in mount points as three octal digits.
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)
