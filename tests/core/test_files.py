"""Files that are to survive a power failure: the disk is asked to keep what is written, and after it is written."""

import os

import pytest

from alphaswarm_rl.core.files import sync_file, sync_folder, write_synced


@pytest.fixture
def synced(monkeypatch):
    """The inode and the size of whatever the disk is asked to keep, in order."""
    found = []

    def fsync(descriptor):
        status = os.fstat(descriptor)
        found.append((status.st_ino, status.st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_a_written_file_is_kept_with_all_of_its_content(tmp_path, synced):
    path = tmp_path / "file"
    write_synced(path, b"content")
    assert path.read_bytes() == b"content"
    assert synced == [(path.stat().st_ino, len(b"content"))]


def test_a_file_of_somebody_else_is_kept_as_it_is(tmp_path, synced):
    path = tmp_path / "file"
    path.write_bytes(b"whole")
    sync_file(path)
    assert path.read_bytes() == b"whole"
    assert synced == [(path.stat().st_ino, len(b"whole"))]


def test_the_names_in_a_folder_are_kept_and_no_descriptor_stays_open(tmp_path, synced, monkeypatch):
    closed, close = [], os.close
    monkeypatch.setattr(os, "close", lambda descriptor: closed.append(descriptor) or close(descriptor))
    sync_folder(tmp_path)
    assert [inode for inode, _ in synced] == [tmp_path.stat().st_ino]
    assert len(closed) == 1
