"""Tables as they were."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from alphaswarm_rl.core.errors import DataError
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.snapshots import read_rows, snapshots
from alphaswarm_rl.lake.tables import arrow_schema
from tests.lake.rows import RUN, rows, spool

BARS = "market.bars"


def read_snapshot(lake, name, **choice):
    """The rows alone."""
    return read_rows(lake, name, **choice)[0]


@pytest.fixture
def bars(lake):
    """A table with two snapshots, of two and of four rows."""
    lake.append_arrow(BARS, pa.table({"symbol": ["A", "B"], "close": [1.0, 2.0]}))
    lake.append_arrow(BARS, pa.table({"symbol": ["A", "B"], "close": [3.0, 4.0]}))
    return snapshots(lake, BARS)


def test_snapshots_are_listed_the_oldest_first(bars):
    assert [(row.operation, row.rows) for row in bars] == [("append", 2), ("append", 4)]
    assert bars[0].time <= bars[1].time <= datetime.now(UTC)
    assert len({row.id for row in bars}) == 2


def test_without_a_choice_the_table_is_read_as_it_is(lake, bars):
    assert sorted(read_snapshot(lake, BARS)["close"].to_pylist()) == [1.0, 2.0, 3.0, 4.0]


def test_a_snapshot_by_its_number(lake, bars):
    assert sorted(read_snapshot(lake, BARS, snapshot_id=bars[0].id)["close"].to_pylist()) == [1.0, 2.0]
    assert read_snapshot(lake, BARS, snapshot_id=bars[1].id).num_rows == 4


@pytest.mark.parametrize(
    "form", [lambda time: time, lambda time: time.isoformat(), lambda time: time.replace(tzinfo=None)]
)
def test_the_snapshot_that_was_current_at_a_time(lake, bars, form):
    assert read_snapshot(lake, BARS, as_of=form(bars[0].time)).num_rows == 2
    assert read_snapshot(lake, BARS, as_of=form(bars[1].time)).num_rows == 4
    assert read_snapshot(lake, BARS, as_of=form(datetime.now(UTC))).num_rows == 4


def test_columns_come_in_the_order_asked_for(lake, bars):
    assert read_snapshot(lake, BARS, columns=["close", "symbol"]).column_names == ["close", "symbol"]
    assert read_snapshot(lake, BARS, columns=["close"]).column_names == ["close"]


def test_a_limit(lake, bars):
    assert read_snapshot(lake, BARS, limit=3).num_rows == 3
    with pytest.raises(DataError, match="below 0"):
        read_snapshot(lake, BARS, limit=-1)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"snapshot_id": 7}, "no snapshot 7"),
        ({"as_of": "2001-01-01"}, "2001-01-01"),
        ({"as_of": "2999-01-01"}, "nobody knows yet"),
        ({"as_of": "yesterday"}, "not a date in ISO form"),
        ({"columns": ["clos"]}, "Did you mean 'close'"),
        ({"snapshot_id": 7, "as_of": "2001-01-01"}, "both"),
    ],
)
def test_what_is_not_there_is_an_error_that_says_what_is(lake, bars, choice, words):
    with pytest.raises(DataError, match=words) as caught:
        read_snapshot(lake, BARS, **choice)
    if words.startswith(("no snapshot", "2001")):
        assert all(str(row.id) in caught.value.remedy for row in bars)


@pytest.mark.parametrize("name", ["market.bar", "bars", "nowhere.bars"])
def test_an_unknown_table_proposes_the_nearest(lake, bars, name):
    with pytest.raises(DataError, match=BARS):
        read_snapshot(lake, name)


def test_a_look_at_a_lake_that_is_not_there_makes_none(lake, settings):
    with pytest.raises(DataError, match="no such table"):
        snapshots(lake, BARS)
    assert not settings.lake_path.exists()


def test_a_table_without_snapshots_is_empty(lake):
    lake.table("trajectories")
    assert snapshots(lake, "rl.trajectories") == []
    assert read_snapshot(lake, "rl.trajectories").num_rows == 0
    with pytest.raises(DataError, match="none at all"):
        read_snapshot(lake, "rl.trajectories", as_of="2020-01-01")


def test_recorded_steps_are_tables_like_any_other(lake):
    for number in range(2):
        spool(lake, RUN, number=number, first_episode=number)
        deliver_all(lake, lambda segments: None)
    first, second = snapshots(lake, "rl.equity_curves")
    assert (first.rows, second.rows) == (3, 6)
    then = read_snapshot(lake, "rl.equity_curves", snapshot_id=first.id)
    assert then.cast(arrow_schema("equity_curves")).equals(rows("equity_curves"))


def test_an_older_snapshot_has_the_columns_of_its_time(lake, bars):
    table = lake.find(BARS)
    with table.transaction() as transaction, transaction.update_schema() as update:
        update.add_column("volume", table.schema().find_type("close"))
    lake.append_arrow(BARS, pa.table({"symbol": ["A"], "close": [5.0], "volume": [9.0]}))
    assert read_snapshot(lake, BARS, snapshot_id=bars[0].id).column_names == ["symbol", "close"]
    assert read_snapshot(lake, BARS)["volume"].null_count == 4
    with pytest.raises(DataError, match="volume"):
        read_snapshot(lake, BARS, snapshot_id=bars[0].id, columns=["volume"])
