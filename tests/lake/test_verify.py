"""Verification: silent where all is sound, and each kind of damage is found and named."""

import boto3
import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from moto.server import ThreadedMotoServer
from sqlalchemy import update

from alphaswarm_rl.core.claims import Claim
from alphaswarm_rl.db.engine import write
from alphaswarm_rl.lake import producers
from alphaswarm_rl.lake.catalog import Lake, files_of
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.row_checks import flaws
from alphaswarm_rl.lake.segments import Facts, SegmentWriter, folder_of
from alphaswarm_rl.lake.tables import KINDS
from alphaswarm_rl.lake.verify import verify
from alphaswarm_rl.ledger.tables import trajectory_refs
from alphaswarm_rl.recording.table_refs import refs_writer
from alphaswarm_rl.settings import LakeSettings, Settings
from tests.lake.rows import RUN, rows, spool
from tests.ledger.samples import new_run

ALL = {"store": "iceberg", "train": "all", "sampled_from": None, "undelivered": 0}


def open_run(ledger, *, recording=None, status="completed"):
    new_run(ledger, id=RUN, recording=ALL if recording is None else recording)
    if status != "running":
        ledger.finish_run(RUN, status)


def deliver(lake, ledger):
    deliver_all(lake, refs_writer(ledger))


def sound(lake, ledger, **more):
    """A run of two environments and two phases, all of it delivered."""
    open_run(ledger, **more)
    spool(lake, number=0, episodes=2, timesteps=6)
    spool(lake, number=1, env_idx=1, episodes=2, timesteps=12)
    spool(lake, phase="validation", number=0, timesteps=12)
    deliver(lake, ledger)


def put(lake, kind, table, number=0, phase="train"):
    """Spools these very rows as a segment."""
    writer = SegmentWriter(lake.spool / RUN / kind / phase, number, Facts(lake.identifier(kind), RUN, kind, phase))
    writer.write(table)
    return writer.close(table.num_rows)


def delivered_rows(lake, ledger, changes, **more):
    """A run with one segment of each kind, some of them changed before they were accounted for."""
    open_run(ledger, **more)
    for kind in KINDS:
        table = rows(kind, episodes=2)
        put(lake, kind, changes[kind](table) if kind in changes else table)
    deliver(lake, ledger)


def found(lake, ledger, *run_ids):
    """What was found, in short."""
    findings = verify(lake, ledger, list(run_ids) or None)
    assert all(finding.run_id == RUN for finding in findings)
    return [(finding.table, finding.phase, finding.check, finding.ok) for finding in findings]


def first_file(lake, kind="trajectories", phase="train"):
    names = [file.location for file in lake.files(lake.identifier(kind), RUN) if f"/{phase}/" in file.location]
    return lake.path(min(names))


def without(column, value):
    return lambda table: table.filter(pc.not_equal(table[column], value))


def test_nothing_is_sound(lake, ledger, settings):
    assert verify(lake, ledger) == []
    assert not settings.lake_path.exists()


@pytest.mark.parametrize("compacted", [False, True])
def test_silent_on_sound_tables(lake, ledger, compacted):
    sound(lake, ledger)
    if compacted:
        assert compact(lake, Claim(RUN))
    assert verify(lake, ledger) == []
    assert verify(lake, ledger, [RUN]) == []


def test_silent_on_a_run_without_accounts_and_terms(lake, ledger):
    open_run(ledger)
    spool(lake, kinds=["trajectories", "action_logs"])
    deliver(lake, ledger)
    assert verify(lake, ledger) == []


def test_silent_on_the_store_without_tables(lake, ledger, settings):
    open_run(ledger, recording={**ALL, "store": "parquet"})
    for segment in spool(lake, episodes=2):
        refs_writer(ledger)([segment])
        target = folder_of(settings, segment.facts.kind, RUN) / "train" / segment.path.name
        target.parent.mkdir(parents=True)
        segment.path.rename(target)
    assert verify(lake, ledger) == []
    target.unlink()
    # Its rows are fewer than was noted, and what was bought was not paid for.
    findings = [(table.rpartition(".")[2], check) for table, _, check, _ in found(lake, ledger)]
    assert findings == [("fills", "rows"), ("fills", "incomplete")]


def test_a_deleted_file(lake, ledger):
    sound(lake, ledger)
    file = first_file(lake, "equity_curves")
    file.unlink()
    (finding,) = verify(lake, ledger)
    assert (finding.table, finding.phase, finding.check, finding.ok) == ("rl.equity_curves", "train", "files", False)
    assert str(file) in finding.text


def test_a_file_that_was_cut_short(lake, ledger):
    sound(lake, ledger)
    file = first_file(lake)
    file.write_bytes(file.read_bytes()[:-20])
    assert found(lake, ledger) == [("rl.trajectories", "train", "files", False)]


def test_another_file_in_the_place_of_one(lake, ledger):
    sound(lake, ledger)
    other = put(lake, "trajectories", rows("trajectories", episodes=1), number=9)
    first_file(lake).write_bytes(other.path.read_bytes())
    other.path.unlink()
    (finding,) = verify(lake, ledger)
    assert finding.check == "files"
    assert "3 rows, and the table says 6" in finding.text


def test_a_doubled_file(lake, ledger):
    sound(lake, ledger)
    file = first_file(lake, "action_logs")
    twin = file.with_name("000007_000000000099.parquet")
    twin.write_bytes(file.read_bytes())
    (entry,) = [listed for listed in files_of(lake.table("action_logs")) if listed.location.endswith(file.name)]
    added = [producers.NewFile(f"file://{twin}", entry.run_id, entry.rows, entry.bytes)]
    producers.exchange(lake.table("action_logs"), added=added)
    assert found(lake, ledger) == [
        ("rl.action_logs", "train", "rows", False),
        ("rl.action_logs", "train", "duplicates", False),
    ]


def test_a_file_that_left_the_table(lake, ledger):
    sound(lake, ledger)
    table = lake.table("reward_decomposition")
    (gone,) = [file for file in files_of(table) if "/validation/" in file.location]
    producers.exchange(table, deleted=[gone.entry])
    assert found(lake, ledger) == [("rl.reward_decomposition", "validation", "rows", False)]


@pytest.mark.parametrize(
    ("change", "check"), [({"row_count": 5}, "rows"), ({"checksum": "00000000000000ff"}, "checksum")]
)
def test_a_changed_ref(lake, ledger, change, check):
    sound(lake, ledger)
    one = (trajectory_refs.c.iceberg_table == "trajectories", trajectory_refs.c.phase == "validation")
    with write(ledger.engine) as connection:
        connection.execute(update(trajectory_refs).where(*one).values(change))
    assert found(lake, ledger) == [("rl.trajectories", "validation", check, False)]


def test_a_changed_value(lake, ledger):
    sound(lake, ledger)
    file = first_file(lake, "equity_curves", "validation")
    table = rows("equity_curves", phase="validation")
    cash = table["cash"].combine_chunks().to_numpy().copy()
    cash[1] += 1e-9
    segment = put(lake, "equity_curves", table.set_column(table.column_names.index("cash"), "cash", pa.array(cash)), 9)
    file.write_bytes(segment.path.read_bytes())
    segment.path.unlink()
    assert found(lake, ledger) == [("rl.equity_curves", "validation", "checksum", False)]


def test_a_missing_step(lake, ledger):
    delivered_rows(lake, ledger, dict.fromkeys(KINDS, without("step", 1)))
    (finding,) = verify(lake, ledger)
    assert (finding.table, finding.phase, finding.check) == ("rl.trajectories", "train", "gaps")
    assert "2 episodes" in finding.text
    assert "env 0, episode 0" in finding.text


def test_episodes_that_begin_late(lake, ledger):
    delivered_rows(lake, ledger, dict.fromkeys(KINDS, without("step", 0)))
    assert found(lake, ledger) == [("rl.trajectories", "train", "gaps", False)]


@pytest.mark.parametrize(
    ("recording", "wrong"),
    [(ALL, True), ({**ALL, "train": "sample:10"}, False), ({**ALL, "sampled_from": 1}, False), ({}, False)],
)
def test_a_missing_episode_is_wrong_where_all_were_recorded(lake, ledger, recording, wrong):
    delivered_rows(lake, ledger, dict.fromkeys(KINDS, without("episode", 0)), recording=recording)
    assert found(lake, ledger) == [("rl.trajectories", "train", "episodes", False)] * wrong


def test_a_doubled_step(lake, ledger):
    delivered_rows(lake, ledger, {"trajectories": lambda table: pa.concat_tables([table, table.slice(2, 1)])})
    (finding,) = verify(lake, ledger)
    assert finding.check == "duplicates"
    assert "1 row more than once, the first at env 0, episode 0, step 2" in finding.text


@pytest.mark.parametrize("column", ["asset_idx", "step", "episode"])
def test_steps_without_all_their_actions(lake, ledger, column):
    delivered_rows(
        lake,
        ledger,
        {"action_logs": lambda table: table.slice(1)} if column == "asset_idx" else {"action_logs": without(column, 1)},
    )
    assert found(lake, ledger) == [("rl.action_logs", "train", "incomplete", False)]


def test_no_actions_at_all(lake, ledger):
    open_run(ledger)
    spool(lake, kinds=["trajectories"])
    deliver(lake, ledger)
    assert found(lake, ledger) == [("rl.action_logs", "train", "incomplete", False)]


def test_steps_without_equity(lake, ledger):
    delivered_rows(lake, ledger, {"equity_curves": without("step", 2)})
    assert found(lake, ledger) == [("rl.equity_curves", "train", "incomplete", False)]


@pytest.mark.parametrize("status", ["interrupted", "failed"])
def test_what_resuming_mends_is_a_notice(lake, ledger, status):
    # A process may be killed when it has closed the segment of one table, and not yet that of the next.
    delivered_rows(lake, ledger, {"action_logs": without("step", 2)}, status=status)
    (finding,) = verify(lake, ledger)
    assert finding.ok
    assert "rl resume" in finding.text


@pytest.mark.parametrize(("status", "ok"), [("interrupted", True), ("failed", True), ("completed", False)])
def test_steps_without_their_fills(lake, ledger, status, ok):
    # Fills are the last to be closed, and steps may have none: that they are missing shows in the money alone.
    delivered_rows(lake, ledger, {"fills": without("step", 0)}, status=status)
    (finding,) = verify(lake, ledger)
    assert (finding.table, finding.phase, finding.check, finding.ok) == ("rl.fills", "train", "incomplete", ok)
    assert "whose positions changed without a fill" in finding.text
    assert ("rl resume" in finding.text) == ok


def test_rows_of_steps_that_trajectories_does_not_have(lake, ledger):
    delivered_rows(lake, ledger, {"trajectories": without("step", 2)})
    findings = verify(lake, ledger)
    assert [(finding.table, finding.check) for finding in findings] == [
        ("rl.equity_curves", "incomplete"),
        ("rl.action_logs", "incomplete"),
        ("rl.positions", "incomplete"),
        ("rl.reward_decomposition", "rewards"),
    ]
    assert "2 steps here and not in trajectories" in findings[0].text


@pytest.mark.parametrize(
    ("kind", "column", "row"),
    [
        ("positions", "value", 1),
        ("positions", "quantity", 1),
        ("positions", "quantity_before", 0),
        ("positions", "split_quantity", 1),
        ("positions", "dividends", 1),
        ("positions", "carry", 1),
        ("fills", "quantity", 0),
        ("fills", "price", 0),
        ("fills", "spread", 0),
        ("equity_curves", "carry", 0),
        ("equity_curves", "cost", 0),
    ],
)
def test_money_that_does_not_add_up(kind, column, row):
    def changed(table):
        values = table[column].combine_chunks().to_numpy().copy()
        values[row] += 1e-4
        return table.set_column(table.column_names.index(column), column, pa.array(values))

    (flaw,) = flaws_of({kind: changed})
    assert (flaw.kind, flaw.phase, flaw.check) == ("positions", "train", "money")
    assert "do not add up in 1 step, the first at env 0, episode 0, step 0" in flaw.text


def flaws_of(changes):
    """What is wrong with rows of each kind, some of them changed."""
    with duckdb.connect() as connection:
        for kind in KINDS:
            table = rows(kind, episodes=2)
            connection.register(kind, changes[kind](table) if kind in changes else table)
        return flaws(connection, every_episode=True)


def test_a_sum_of_money_may_be_off_by_rounding():
    def changed(table):
        values = table["value"].combine_chunks().to_numpy().copy() * (1 + 4e-10)
        return table.set_column(table.column_names.index("value"), "value", pa.array(values))

    assert flaws_of({"positions": changed}) == []


@pytest.mark.parametrize("column", ["portfolio_value", "cost", "carry"])
def test_an_account_that_does_not_say_what_positions_come_to(column):
    def changed(table):
        return table.set_column(table.column_names.index(column), column, pa.nulls(len(table), pa.float64()))

    (flaw,) = flaws_of({"equity_curves": changed})
    assert (flaw.kind, flaw.check) == ("positions", "money")


def test_steps_without_all_their_positions(lake, ledger):
    delivered_rows(lake, ledger, {"positions": lambda table: table.slice(1)})
    assert found(lake, ledger) == [("rl.positions", "train", "incomplete", False)]


def test_a_doubled_fill_and_one_without_a_position(lake, ledger):
    def changed(table):
        other = table.slice(0, 1).set_column(
            table.column_names.index("asset_idx"), "asset_idx", pa.array([7], pa.int32())
        )
        return pa.concat_tables([table, table.slice(0, 1), other])

    delivered_rows(lake, ledger, {"fills": changed})
    assert found(lake, ledger) == [
        ("rl.fills", "train", "duplicates", False),
        ("rl.fills", "train", "incomplete", False),
    ]


def test_a_phase_without_positions_is_well(lake, ledger):
    open_run(ledger)
    others = [kind for kind in KINDS if kind not in ("positions", "fills")]
    spool(lake, kinds=others)
    spool(lake, phase="evaluate")
    deliver(lake, ledger)
    assert found(lake, ledger) == []


def test_contributions_that_do_not_sum_to_the_reward(lake, ledger):
    def changed(table):
        contribution = table["contribution"].combine_chunks().to_numpy().copy()
        contribution[4] += 1e-6
        return table.set_column(table.column_names.index("contribution"), "contribution", pa.array(contribution))

    delivered_rows(lake, ledger, {"reward_decomposition": changed})
    (finding,) = verify(lake, ledger)
    assert (finding.table, finding.check) == ("rl.reward_decomposition", "rewards")
    assert "in 1 step, the first at env 0, episode 0, step 2" in finding.text


def test_undelivered_segments_are_a_notice(lake, ledger):
    sound(lake, ledger)
    spool(lake, number=2, first_episode=2, timesteps=15)
    expected = [(lake.identifier(kind), "train", "undelivered", True) for kind in KINDS]
    assert sorted(found(lake, ledger)) == sorted(expected)
    deliver(lake, ledger)
    assert verify(lake, ledger) == []


def test_a_commit_that_was_not_accounted_for_is_a_notice(lake, ledger):
    sound(lake, ledger)
    spool(lake, number=2, first_episode=2, timesteps=15)

    def killed(segments):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        deliver_all(lake, killed)
    assert all(ok for _, _, _, ok in found(lake, ledger))
    deliver(lake, ledger)
    assert verify(lake, ledger) == []


def test_a_segment_that_cannot_be_read_is_wrong(lake, ledger):
    sound(lake, ledger)
    segment = spool(lake, kinds=["equity_curves"], number=2, timesteps=15)[0]
    segment.path.write_bytes(b"no Parquet")
    (finding,) = verify(lake, ledger)
    assert (finding.table, finding.check, finding.ok) == ("rl.equity_curves", "spool", False)
    assert str(segment.path) in finding.text


def test_a_live_run_is_left_for_later(lake, ledger):
    open_run(ledger, status="running")
    spool(lake, kinds=["trajectories"])
    deliver(lake, ledger)
    assert found(lake, ledger) == [(None, None, "run", True)]


def test_steps_of_a_run_that_the_ledger_does_not_know(lake, ledger):
    spool(lake)
    deliver_all(lake, lambda segments: None)
    assert found(lake, ledger) == [(None, None, "run", False)]


def test_only_the_runs_that_were_asked_for(lake, ledger):
    sound(lake, ledger)
    other = new_run(ledger)
    ledger.finish_run(other.id, "completed")
    first_file(lake).unlink()
    assert verify(lake, ledger, [other.id]) == []
    assert len(verify(lake, ledger, [other.id, RUN])) == 1


def test_other_names_are_followed(tmp_path, ledger):
    other = Settings(home=tmp_path / "home", trajectory={"namespace": "desk", "table": "steps"})
    with Lake(other) as lake:
        sound(lake, ledger)
        assert verify(lake, ledger) == []
        first_file(lake).unlink()
        assert found(lake, ledger) == [("desk.steps", "train", "files", False)]
    with Lake(Settings(home=tmp_path / "home")) as lake:
        assert {table for table, _, _, ok in found(lake, ledger) if ok} == {
            "desk.steps",
            "desk.equity_curves",
            "desk.action_logs",
            "desk.reward_decomposition",
            "desk.positions",
            "desk.fills",
        }


def test_on_s3(tmp_path, ledger, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    endpoint = "http://{}:{}".format(*server.get_host_and_port())
    client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1")
    client.create_bucket(Bucket="bucket")
    remote = LakeSettings(warehouse=f"s3://bucket/{tmp_path.name}", s3_endpoint=endpoint, s3_region="us-east-1")
    with Lake(Settings(home=tmp_path / "home", lake=remote)) as lake:
        delivered_rows(lake, ledger, {"equity_curves": without("step", 2)})
        assert found(lake, ledger) == [("rl.equity_curves", "train", "incomplete", False)]
        (file,) = lake.files("rl.action_logs")
        client.delete_object(Bucket="bucket", Key=file.location.removeprefix("s3://bucket/"))
        assert found(lake, ledger) == [("rl.action_logs", "train", "files", False)]
    server.stop()
