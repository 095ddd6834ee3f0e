"""How much is in the lake, without a look at rows."""

from pathlib import Path

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
