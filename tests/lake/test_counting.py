"""How much is in the lake, without a look at rows."""

import json
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake import counting
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.counting import count
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.segments import spooled
from alphaswarm_rl.lake.tables import KINDS
from tests.lake.rows import RUN, spool


def test_what_metadata_say_is_what_the_files_are(lake, settings):
    nothing = count(lake)
    assert (nothing.tables, nothing.rows, nothing.files, nothing.bytes, nothing.segments) == (0, 0, 0, 0, 0)
    spool(lake, RUN)
    waiting = len(spooled(lake.spool))
    assert waiting > 0
    assert count(lake).segments == waiting
    deliver_all(lake, lambda segments: None)
    found = count(lake)
    files = [file for kind in KINDS for file in lake.files(lake.identifier(kind))]
    assert found.rows == sum(file.rows for file in files) > 0
    assert found.files == len(files)
    assert found.bytes == sum(lake.path(file.location).stat().st_size for file in files)
    assert found.segments == 0
    assert found.tables == sum(lake.find(lake.identifier(kind)) is not None for kind in KINDS)


def test_no_file_with_rows_is_needed(lake, settings):
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    before = count(lake)
    for kind in KINDS:
        for file in lake.files(lake.identifier(kind)):
            lake.path(file.location).unlink()
    assert count(lake) == before


def test_a_look_makes_no_catalogue(settings):
    with Lake(settings) as lake:
        count(lake)
    assert not Path(settings.home).exists()


@pytest.fixture
def filled(lake):
    """A lake with rows in its tables."""
    spool(lake, RUN)
    deliver_all(lake, lambda segments: None)
    return lake


def metadata_of(lake):
    """The file that says what the table of steps is now."""
    return lake.path(lake.find(lake.identifier("trajectories")).metadata_location)


def test_files_say_what_the_library_does(filled, monkeypatch):
    by_files = count(filled)
    monkeypatch.setattr(counting, "_documents", None)
    monkeypatch.setattr(Lake, "catalog_file", None)
    assert count(filled) == by_files
    assert by_files.rows > 0


def test_a_snapshot_without_sums_is_counted_file_by_file(filled):
    before = count(filled)
    path = metadata_of(filled)
    document = json.loads(path.read_text())
    for snapshot in document["snapshots"]:
        del snapshot["summary"]["total-records"]
    path.write_text(json.dumps(document))
    assert count(filled) == before


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"location": "file:///x", "current-snapshot-id": 1, "snapshots": []}']
)
def test_metadata_that_cannot_be_read_are_named(filled, content):
    path = metadata_of(filled)
    path.write_text(content)
    with pytest.raises(LakeError, match=r"rl.trajectories: its metadata .* cannot be read"):
        count(filled)


def test_a_metadata_file_that_another_process_replaced_meanwhile_is_looked_for_again(filled, monkeypatch):
    before, read, missed = count(filled), Path.read_bytes, []

    def gone_once(path):
        if not missed:
            missed.append(path)
            raise FileNotFoundError(path)
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", gone_once)
    assert count(filled) == before
    assert missed


def test_a_catalogue_without_tables_is_empty(lake):
    lake.catalog_file.parent.mkdir(parents=True)
    lake.catalog_file.touch()
    assert count(lake).tables == 0
