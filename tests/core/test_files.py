"""Files of others: what is no regular file, too large or elsewhere is refused before a byte is read.

Files that are to survive a power failure: the disk is asked to keep what is written, and after it is written.
"""

import os
import socket
from pathlib import Path

import pytest

from alphaswarm_rl.core.files import (
    UnfitFile,
    checked_path,
    open_regular,
    read_regular,
    replace_whole,
    sync_file,
    sync_folder,
    write_synced,
)


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


@pytest.fixture
def folder(tmp_path):
    made = tmp_path / "folder"
    made.mkdir()
    (made / "file").write_bytes(b"content")
    return made


def test_a_regular_file_is_read_whole_and_through_links(folder):
    (folder / "link").symlink_to("file")
    assert read_regular(folder / "file") == b"content"
    assert read_regular(folder / "link", below=folder) == b"content"
    with open_regular(folder / "file") as file:
        assert file.read(3) == b"con"


@pytest.mark.timeout(20)
@pytest.mark.parametrize("kind", ["a FIFO", "a device", "a socket", "a folder"])
def test_what_is_no_regular_file_is_refused_at_once(folder, kind, monkeypatch):
    monkeypatch.chdir(folder)  # the name of a socket is short
    path = folder / "odd"
    with socket.socket(socket.AF_UNIX) as unix:
        if kind == "a FIFO":
            os.mkfifo(path)
        elif kind == "a device":
            path.symlink_to("/dev/zero")
        elif kind == "a socket":
            unix.bind("odd")
        else:
            path.mkdir()
        with pytest.raises(UnfitFile, match=f"odd is {kind}, not a regular file"):
            open_regular(path)


def test_a_device_is_not_even_opened(folder, monkeypatch):
    opened = []
    monkeypatch.setattr(os, "open", lambda *arguments: opened.append(arguments))
    with pytest.raises(UnfitFile):
        open_regular(folder)
    assert opened == []


@pytest.mark.timeout(20)
def test_a_file_that_becomes_a_fifo_meanwhile_is_refused_at_once_and_closed(folder, monkeypatch):
    regular, closed, close = (folder / "file").stat(), [], os.close
    os.mkfifo(folder / "fifo")
    monkeypatch.setattr(Path, "stat", lambda self, **_: regular)
    monkeypatch.setattr(os, "close", lambda descriptor: closed.append(descriptor) or close(descriptor))
    with pytest.raises(UnfitFile, match="is a FIFO"):
        open_regular(folder / "fifo")
    assert len(closed) == 1


def test_a_file_may_have_just_as_many_bytes_as_said(folder):
    assert read_regular(folder / "file", most_bytes=7) == b"content"
    with pytest.raises(UnfitFile, match="has 7 bytes, and may have 6"):
        read_regular(folder / "file", most_bytes=6)


def test_a_file_larger_than_the_memory_is_refused_before_it_is_read(folder):
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    with (folder / "sparse").open("wb") as file:
        file.truncate(memory + 1)
    with pytest.raises(UnfitFile, match=f"may have {memory}"):
        read_regular(folder / "sparse")
    with (folder / "sparse").open("rb+") as file:
        file.truncate(memory)
    open_regular(folder / "sparse").close()


def test_a_link_out_of_the_folder_is_refused_whatever_it_leads_through(folder, tmp_path):
    (tmp_path / "secret").write_bytes(b"secret")
    (folder / "file_link").symlink_to(tmp_path / "secret")
    (folder / "folder_link").symlink_to(tmp_path)
    for path in (folder / "file_link", folder / "folder_link" / "secret", folder / ".." / "secret"):
        assert read_regular(path) == b"secret"
        with pytest.raises(UnfitFile, match="leads out of the folder"):
            read_regular(path, below=folder)
    # The folder itself may be a link: it is the one that was named.
    (tmp_path / "named").symlink_to(folder)
    assert read_regular(tmp_path / "named" / "file", below=tmp_path / "named") == b"content"


def test_what_is_not_there_and_what_leads_nowhere_are_errors_of_the_system(folder):
    with pytest.raises(FileNotFoundError) as caught:
        open_regular(folder / "none")
    assert caught.value.filename == str(folder / "none")
    (folder / "round").symlink_to("round")
    with pytest.raises(OSError, match="levels of symbolic links"):
        open_regular(folder / "round")


def test_a_path_that_no_file_can_have_is_refused(folder):
    assert checked_path("a" * 255) == checked_path(checked_path("a" * 255))
    longest = "/".join(["a" * 255] * 12)  # 12 names and 11 strokes: 3,071 bytes
    checked_path(longest + "/")
    for path, why in (("a\0b", "NUL"), ("a" * 256, "longer"), ("\u00e4" * 128, "longer"), (longest + "/b", "longer")):
        with pytest.raises(ValueError, match=why):
            checked_path(path)
        with pytest.raises(UnfitFile, match=why):
            open_regular(folder / path)


def test_two_processes_of_one_id_replace_the_same_file(tmp_path, monkeypatch):
    path, rename, other = tmp_path / "state.json", Path.replace, []

    def slow(unfinished, target):
        if not other:
            other.append(True)
            replace_whole(path, b"theirs")
            assert path.read_bytes() == b"theirs"
        return rename(unfinished, target)

    monkeypatch.setattr(Path, "replace", slow)
    replace_whole(path, b"ours")
    assert path.read_bytes() == b"ours"
    assert [found.name for found in tmp_path.iterdir()] == ["state.json"]


def test_a_file_that_cannot_be_replaced_stays_and_nothing_is_left_beside_it(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    replace_whole(path, b"before", mode=0o600)
    assert path.stat().st_mode & 0o777 == 0o600

    def refused(unfinished, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(OSError, match="No space"):
        replace_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert [found.name for found in tmp_path.iterdir()] == ["state.json"]
