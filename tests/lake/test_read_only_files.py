"""Files that can be read and not written: what the file system of `rl sql` shows to DuckDB."""

import os
import threading
from datetime import UTC, datetime

import pytest

from alphaswarm_rl.lake.read_only_files import ReadOnlyFiles


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "0123456789"
    path.write_bytes(b"0123456789")
    os.utime(path, (7, 7))
    return path


@pytest.fixture
def files(path):
    files = ReadOnlyFiles()
    assert files.admit(str(path)) == f"steps://{path}"
    return files


def test_an_admitted_file_is_found_by_its_name_and_address(files, path):
    for name in (str(path), f"steps://{path}"):
        assert files.glob(name) == [str(path)]
        assert files.exists(name)
        assert files.isfile(name)
        assert files.info(name) == {"name": str(path), "size": 10, "type": "file"}
        assert files.modified(name) == datetime.fromtimestamp(7, UTC)
    assert files.problem is None


def test_nothing_else_is_there(files, path):
    other = path.with_name("other")
    other.write_text("secret")
    assert files.glob(f"steps://{path.parent}/*") == files.glob(f"steps://{other}") == []
    assert not files.exists(f"steps://{other}")
    for look in (files.open, files.info, files.modified):
        with pytest.raises(FileNotFoundError, match="no file of the tables"):
            look(f"steps://{other}")
    assert files.problem is None  # whoever names another file is mistaken, not the disk


@pytest.mark.parametrize("mode", ["wb", "ab", "r+b", "xb", "w"])
def test_nothing_is_opened_for_writing(files, path, mode):
    with pytest.raises(PermissionError, match="can only be read"):
        files.open(f"steps://{path}", mode)
    assert path.read_bytes() == b"0123456789"


def test_nothing_is_removed_moved_or_made(files, path):
    for change in (
        lambda: files.rm(f"steps://{path}"),
        lambda: files.rm_file(f"steps://{path}"),
        lambda: files.mv(f"steps://{path}", f"steps://{path}2"),
        lambda: files.touch(f"steps://{path}"),
        lambda: files.pipe_file(f"steps://{path}", b"1"),
    ):
        with pytest.raises((PermissionError, NotImplementedError)):
            change()
    files.mkdir(f"steps://{path.parent}/new")
    assert [(each.name, each.read_bytes()) for each in path.parent.iterdir()] == [(path.name, b"0123456789")]


def test_places_in_a_file(files, path):
    file = files.open(f"steps://{path}")
    assert file.seekable()
    assert (file.tell(), file.read(3), file.tell()) == (0, b"012", 3)
    assert (file.seek(2, os.SEEK_CUR), file.read(2)) == (5, b"56")
    assert (file.seek(-2, os.SEEK_END), file.read(5), file.read(5), file.tell()) == (8, b"89", b"", 10)
    assert (file.seek(4), file.read(0), file.read()) == (4, b"", b"456789")
    file.close()


def test_each_thread_has_a_place_of_its_own(files, path):
    file = files.open(f"steps://{path}")
    file.seek(4)
    found = []

    def other():
        found.append(file.read(2))
        file.seek(9)

    thread = threading.Thread(target=other)
    thread.start()
    thread.join()
    assert found == [b"01"]
    assert file.read(2) == b"45"
    file.close()


def test_the_first_error_of_the_system_is_kept(files, path):
    file = files.open(f"steps://{path}")
    path.unlink()
    for look in (files.open, files.info, files.modified):
        files.problem = None
        with pytest.raises(FileNotFoundError) as first:
            look(f"steps://{path}")
        assert files.problem is first.value
        with pytest.raises(FileNotFoundError):
            look(f"steps://{path}")
        assert files.problem is first.value
    files.problem = None
    file.seek(-1)
    with pytest.raises(OSError, match="Invalid argument") as failed:
        file.read(1)
    assert files.problem is failed.value
    file.close()
