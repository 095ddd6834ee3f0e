from __future__ import annotations

from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.db import engine as engine_module
from alphaswarm_rl.db.mounts import file_system_of, network_file_system

MOUNTS = r"""
/dev/sda1 / ext4 rw,relatime 0 0
proc /proc proc rw 0 0
filer:/home /home nfs4 rw,vers=4.2 0 0
/dev/sdb1 /home/ann/fast xfs rw 0 0
//nas/share /mnt/my\040share cifs rw 0 0
old:/x /data nfs rw 0 0
/dev/sdc1 /data ext4 rw 0 0
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/x.db", "ext4"),
        ("/home/ann/x.db", "nfs4"),
        ("/home/ann/fast/x.db", "xfs"),
        ("/home2/x.db", "ext4"),
        ("/mnt/my share/x.db", "cifs"),
        ("/data/x.db", "ext4"),
    ],
)
def test_the_deepest_and_latest_mount_tells_the_file_system(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


def test_only_network_file_systems_are_named(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"filer:/x {tmp_path.resolve()} nfs rw 0 0\n/dev/sda1 / ext4 rw 0 0\n")
    assert network_file_system(tmp_path / "deep" / "x.db", table) == "nfs"
    assert network_file_system(Path("/x.db"), table) is None


def test_a_link_to_a_network_disk_is_seen_through(tmp_path: Path) -> None:
    (tmp_path / "share").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "share")
    table = tmp_path / "mounts"
    table.write_text(f"filer:/x {tmp_path.resolve() / 'share'} fuse.sshfs rw 0 0\n")
    assert network_file_system(tmp_path / "link" / "x.db", table) == "fuse.sshfs"


def test_without_a_mount_table_nothing_is_refused(tmp_path: Path) -> None:
    assert network_file_system(tmp_path / "x.db", tmp_path / "none") is None


def test_sqlite_on_a_network_disk_is_refused_with_reason_and_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_module, "network_file_system", lambda path: "nfs4")
    with pytest.raises(LedgerError) as caught:
        engine_module.open_engine(f"sqlite:///{tmp_path / 'x.db'}")
    assert "nfs4" in caught.value.why
    assert "PostgreSQL" in caught.value.remedy
    assert "local disk" in caught.value.remedy
