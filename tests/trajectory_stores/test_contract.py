"""What every trajectory store does alike."""

import shutil
from collections import Counter
from dataclasses import dataclass, field
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.tables import KINDS, Kind
from alphaswarm_rl.settings import LakeSettings, Settings
from alphaswarm_rl.trajectory_stores.components import (
    IcebergTrajectoryStore,
    InMemoryTrajectoryStore,
    ParquetTrajectoryStore,
)
from alphaswarm_rl.trajectory_stores.segmented import SpoolDeleted
from tests.lake.killing import in_order
from tests.lake.rows import RUN, rows

#: Each block has six transitions: a segment is two of them, and every second is committed at once.
SMALL = {"segment_rows": 12, "commit_rows": 24}
PER_BLOCK = {"trajectories": 6, "equity_curves": 6, "action_logs": 12, "reward_decomposition": 12}
PER_BLOCK |= {"positions": 12, "fills": 6}


@dataclass
class Stores:
    """Opens the store under test, as often as processes open it."""

    component: type
    settings: Settings
    delivered: dict = field(default_factory=dict)

    @property
    def keeps(self):
        """Whether it outlives its process."""
        return self.component is not InMemoryTrajectoryStore

    def open(self):
        return self.component().build(StoreRequest(RUN, self.settings, self._account, list))

    def rows_delivered(self):
        """Rows of which the account knows, by kind: as the ledger counts them, a merged file in place of its parts."""
        count = Counter()
        for (kind, phase, name), facts in self.delivered.items():
            others = [
                other for of_kind, where, other in self.delivered if (of_kind, where) == (kind, phase) and other != name
            ]
            if not any(other.holds(name) for other in others):
                count[kind] += facts.rows
        return dict(count)

    def _account(self, segments):
        for segment in segments:
            self.delivered[segment.facts.kind, segment.facts.phase, segment.name] = segment.facts


# A whole run on S3 and PostgreSQL, killed and resumed, is in tests/lake/test_s3.py.
@pytest.fixture(params=["iceberg", "parquet", "memory", pytest.param("iceberg-s3-postgresql", marks=pytest.mark.slow)])
def stores(request, tmp_path):
    lake = LakeSettings(**SMALL)
    if request.param == "iceberg-s3-postgresql":
        lake = request.getfixturevalue("remote_lake")().model_copy(update=SMALL)
    components = {"parquet": ParquetTrajectoryStore, "memory": InMemoryTrajectoryStore}
    component = components.get(request.param, IcebergTrajectoryStore)
    return Stores(component, Settings(home=tmp_path / "home", lake=lake))


def block(number: int, phase: str = "train") -> dict[Kind, pa.Table]:
    """The rows of two episodes of three steps, by kind; with nulls, lists of different lengths, and times."""
    found = {}
    for kind in KINDS:
        table = rows(kind, phase=phase, episodes=2, steps=3, first_episode=2 * number)
        odd = pc.equal(pc.bit_wise_and(table["step"], 1), 1)
        table = _with(table, "ts", pc.if_else(odd, None, table["ts"]))
        if kind == "trajectories":
            seen = pa.array([[float(number)], None, [], [0.5, -0.25], None, [1e-30]], pa.list_(pa.float32()))
            table = _with(
                _with(table, "observation", seen), "info", pa.array(['{"a": 1}', None, None, "{}", None, "ü"])
            )
            table = _with(table, "value", pa.array([0.1, None, float("inf"), -0.0, None, 1e300]))
        found[kind] = table
    return found


def _with(table: pa.Table, name: str, column) -> pa.Table:
    return table.set_column(table.schema.get_field_index(name), table.schema.field(name), column)


def write(store, numbers, phase="train", timesteps=None):
    for number in numbers:
        store.write(phase, block(number, phase), 6 * (number + 1) if timesteps is None else timesteps)
        store.deliver()


def assert_has(store, expected):
    """The store has these blocks, given as (number, phase), each once, and nothing else."""
    for kind in KINDS:
        tables = [rows(kind).slice(0, 0), *(block(number, phase)[kind] for number, phase in expected)]
        assert in_order(kind, store.rows(kind)).equals(in_order(kind, pa.concat_tables(tables))), kind


def test_a_short_run_costs_one_commit_for_each_table(settings, monkeypatch):
    """Its end delivers, compacts and expires: of that only the delivery has something to commit."""
    commits, commit_table = [], SqlCatalog.commit_table

    def counted(catalog, table, *changes):
        commits.append(table.name()[-1])
        return commit_table(catalog, table, *changes)

    monkeypatch.setattr(SqlCatalog, "commit_table", counted)
    for _ in range(2):
        commits.clear()
        store = IcebergTrajectoryStore().build(StoreRequest(str(uuid4()), settings, lambda _: None, list))
        write(store, range(3))
        write(store, [0], "evaluate", timesteps=18)
        store.finish(compact=True)
        assert sorted(commits) == sorted(store.lake.identifier(kind).rpartition(".")[2] for kind in KINDS)
        for kind in KINDS:
            assert len(store.lake.table(kind).metadata.snapshots) == 1
        store.close()


def test_rows_come_back_as_they_were_given(stores):
    store = stores.open()
    write(store, range(5))
    write(store, [0], "validation", timesteps=30)
    write(store, [0, 1, 2], "evaluate", timesteps=30)
    store.finish(compact=True)
    expected = [*((number, "train") for number in range(5)), (0, "validation"), *((n, "evaluate") for n in range(3))]
    assert_has(store, expected)
    everything = {kind: count * len(expected) for kind, count in PER_BLOCK.items()}
    report = store.report()
    assert (report["rows"], report["undelivered"], report["problem"]) == (everything, 0, None)
    assert stores.rows_delivered() == (everything if stores.keeps else {})
    store.close()
    if stores.keeps:
        again = stores.open()
        assert_has(again, expected)
        again.close()


def test_an_empty_run_has_no_rows(stores):
    store = stores.open()
    store.write("train", {}, 6)
    store.close_segments()
    store.deliver()
    store.finish(compact=True)
    assert_has(store, [])
    assert store.report()["rows"] == {}
    store.close()


def test_what_came_after_a_checkpoint_is_dropped_and_writing_goes_on(stores):
    store = stores.open()
    write(store, range(3))
    write(store, [0], "validation", timesteps=12)
    store.close_segments()
    store.deliver()
    write(store, range(3, 7))
    write(store, [1], "validation", timesteps=30)
    # Two segments are closed, and one is half written.
    if stores.keeps:
        store = stores.open()  # another process: the first was killed
    store.drop_after(18, {("validation", 12)})
    write(store, range(3, 5))
    store.finish(compact=True)
    assert_has(store, [*((number, "train") for number in range(5)), (0, "validation")])
    assert store.report()["rows"] == {kind: 6 * count for kind, count in PER_BLOCK.items()}
    store.close()


def test_what_was_judged_at_the_last_step_is_judged_again(stores):
    store = stores.open()
    write(store, range(2))
    write(store, [0], "validation", timesteps=6)
    store.close_segments()
    write(store, [1], "validation", timesteps=12)
    write(store, [0, 1], "evaluate", timesteps=12)
    store.finish(compact=True)
    if stores.keeps:
        store.close()
        store = stores.open()
    store.drop_after(12, {("validation", 6)})
    write(store, [1], "validation", timesteps=12)
    write(store, [0, 1], "evaluate", timesteps=12)
    store.finish(compact=True)
    assert_has(
        store,
        [(0, "train"), (1, "train"), (0, "validation"), (1, "validation"), (0, "evaluate"), (1, "evaluate")],
    )
    store.close()


def test_to_drop_and_to_finish_twice_changes_nothing(stores):
    store = stores.open()
    write(store, range(4))
    store.close_segments()
    for _ in range(2):
        store.drop_after(24, ())
    for _ in range(2):
        store.finish(compact=True)
    assert_has(store, [(number, "train") for number in range(4)])
    assert store.report()["rows"] == {kind: 4 * count for kind, count in PER_BLOCK.items()}
    store.close()


def test_what_a_killed_process_delivered_and_did_not_tell_is_told_by_the_next(stores):
    def killed(segments):
        raise KeyboardInterrupt

    request = StoreRequest(RUN, stores.settings, killed, list)
    first = stores.component().build(request)
    try:
        write(first, range(2))
        first.finish(compact=True)
    except KeyboardInterrupt:
        assert stores.keeps
        first = stores.open()
        first.drop_after(12, ())
        first.finish(compact=True)
        assert stores.rows_delivered() == {kind: 2 * count for kind, count in PER_BLOCK.items()}
    assert_has(first, [(number, "train") for number in range(2)])
    first.close()


def test_a_finished_run_leaves_nothing_in_the_spool(stores):
    store = stores.open()
    write(store, range(4))
    store.finish(compact=True)
    store.close()
    assert [path for path in (stores.settings.lake_path / "spool").rglob("*") if path.is_file()] == []


def test_memory_touches_no_disk(tmp_path):
    stores = Stores(InMemoryTrajectoryStore, Settings(home=tmp_path / "home"))
    store = stores.open()
    write(store, range(3))
    store.finish(compact=True)
    store.close()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=[IcebergTrajectoryStore, ParquetTrajectoryStore])
def kept(request, tmp_path):
    """The stores that write segments; nothing of theirs is delivered before the end."""
    return Stores(request.param, Settings(home=tmp_path / "home", lake=LakeSettings(segment_rows=12)))


@pytest.mark.parametrize("then", ["close_segments", "finish"])
@pytest.mark.parametrize("written", [2, 3], ids=["whole segments", "one half written"])
def test_a_spool_that_somebody_deletes_is_named(kept, then, written):
    store = kept.open()
    write(store, range(written))
    shutil.rmtree(store.spool)
    with pytest.raises(SpoolDeleted, match="somebody deleted") as error:
        store.finish(compact=True) if then == "finish" else store.close_segments()
    assert error.value.what == f"the spool of run {RUN}"
    assert str(store.spool) in error.value.why
    store.close()


def test_segments_that_somebody_else_delivered_are_not_deleted(kept):
    store = kept.open()
    write(store, range(2))
    other = kept.open()
    other.drop_after(12, ())
    other.finish(compact=False)
    assert not list(store.spool.rglob("*.parquet"))
    store.close_segments()
    write(store, [2])
    store.finish(compact=True)
    assert_has(store, [(number, "train") for number in range(3)])
    store.close()
    other.close()


def test_an_empty_spool_that_is_deleted_costs_nothing(kept):
    store = kept.open()
    write(store, range(2))
    store._deliver(list(store._pending))
    shutil.rmtree(store.spool, ignore_errors=True)
    write(store, [2])
    store.finish(compact=True)
    assert_has(store, [(number, "train") for number in range(3)])
    store.close()


def test_a_step_inside_of_a_merged_file_is_refused(kept):
    store = kept.open()
    write(store, range(6))
    for step in (12, 24, 36):
        store.refuse_split(step)
    store.finish(compact=True)
    store.refuse_split(36)
    for step in (12, 24):
        with pytest.raises(LakeError, match="from 0 to 36 were merged into one file"):
            store.refuse_split(step)
    assert_has(store, [(number, "train") for number in range(6)])
    store.close()
