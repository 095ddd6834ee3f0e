"""`runs.rm` and `runs.gc`: what is refused, what is asked, and in which order things go."""

import itertools
import os
import shutil
import signal
import time
from dataclasses import replace
from uuid import uuid4

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.claims import Claim, StaleClaim
from alphaswarm_rl.core.errors import LakeError, RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.lake.segments import folder_of
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.ledger.identity import adopt
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.operations.doctor import DoctorRequest, doctor
from alphaswarm_rl.operations.lake import commit_segments, verify_tables
from alphaswarm_rl.operations.operation import NamedRuns
from alphaswarm_rl.operations.removals import removals
from alphaswarm_rl.operations.run_removal import CollectGarbage, RemoveRun, collect_garbage, finish_removal, remove_run
from alphaswarm_rl.operations.runs import ListRuns, list_runs
from tests.chaos.scenes import IMPATIENT, SILENCE_S, registry_of, settings_of, the_run, written
from tests.lake.killing import Forked, Moment, rl, rows_of
from tests.lake.rows import RUN, spool
from tests.ledger.samples import SampleSpec, new_run
from tests.models.samples import checkpoint, evaluation, new_model


class Cut(Exception):
    """The power went."""


@pytest.fixture
def ledger(settings):
    with Ledger.open(settings) as ledger:
        yield ledger


@pytest.fixture
def folder(settings):
    return settings.models_path / RUN


@pytest.fixture
def run(settings, ledger, folder):
    """A run that ended, with a checkpoint, a log and recorded steps, some of them undelivered."""
    version = ledger.persist_spec(SampleSpec())
    ledger.create_run(version_id=version.id, target="train", seed=1, id=RUN)
    ledger.finish_run(RUN, "completed")
    checkpoint(folder / "000000000001")
    settings.logs_path.mkdir(parents=True)
    (settings.logs_path / f"{RUN}.jsonl").write_text("{}\n")
    with Lake(settings) as lake:
        spool(lake)
        deliver_all(lake, lambda segments: None)
        spool(lake, phase="evaluate")
    return RUN


def set_status(ledger, status):
    """What the process of a resumed run would do."""
    with ledger.engine.begin() as connection:
        connection.execute(text("UPDATE rl_runs SET status = :status"), {"status": status})


def recorded(settings):
    """How many files of the run the tables have, and the spool."""
    with Lake(settings) as lake:
        return len(lake.files("rl.trajectories")), len(list(lake.spool.rglob("*.parquet")))


def is_whole(settings, ledger, folder):
    return (
        ledger.run(RUN).removed_at is None
        and (folder / "000000000001").is_dir()
        and (settings.logs_path / f"{RUN}.jsonl").is_file()
        and recorded(settings) == (1, 6)
    )


def refused(settings, why, **fields):
    with pytest.raises(RunError) as error:
        remove_run(settings, RemoveRun(RUN, **fields))
    assert why in error.value.why


def test_everything_goes_but_the_row(settings, ledger, run, folder):
    log, files = settings.logs_path / f"{RUN}.jsonl", [*folder.rglob("*"), *settings.lake_path.glob("spool/**/*")]
    least = log.stat().st_size + sum(path.stat().st_size for path in files if path.is_file())
    result = remove_run(settings, RemoveRun(RUN[:9]))
    assert result.run_id == RUN
    assert result.freed_bytes == least
    assert not folder.exists()
    assert not log.exists()
    assert recorded(settings) == (0, 0)
    assert ledger.run(RUN).removed_at is not None
    refused(settings, "removed already")


def test_a_live_run_is_refused_whatever_is_forced(settings, ledger, run, folder):
    set_status(ledger, "running")
    refused(settings, "it is running", force=True)
    assert is_whole(settings, ledger, folder)


def test_a_checkpoint_that_a_run_was_judged_by_is_refused_unless_forced(settings, ledger, run, folder):
    version = ledger.run(RUN).version_id
    judged = ledger.create_run(version_id=version, target="evaluate", seed=1, checkpoint=str(folder / "000000000001"))
    ledger.finish_run(judged.id, "completed")
    refused(settings, f"its checkpoint is what {judged.id} was judged by")
    assert is_whole(settings, ledger, folder)
    remove_run(settings, RemoveRun(RUN, force=True))
    assert not folder.exists()


def test_a_deployed_model_is_refused_unless_forced(settings, ledger, run, folder):
    with ModelRegistry.open(settings) as registry:
        row = registry.register(new_model(folder / "000000000001", run_id=RUN))
        registry.add_evaluation(row.id, evaluation())
        assert registry.validate(row.id).passed
        registry.promote(row.id, who="test", why="test")
        refused(settings, f"model {row.id} of it is in production")
        assert is_whole(settings, ledger, folder)
        remove_run(settings, RemoveRun(RUN, force=True))
        assert registry.get(row.id).archived
        assert registry.get(row.id).archived_because == "its run was removed"


def test_nothing_goes_without_a_yes(settings, ledger, run, folder):
    asked = []

    def no(question):
        asked.append(question)
        raise Cut

    with pytest.raises(Cut):
        remove_run(settings, RemoveRun(RUN), confirm=no)
    assert asked == [f"Remove the files of run {RUN}?"]
    assert is_whole(settings, ledger, folder)


def test_what_happened_during_the_question_counts(settings, ledger, run, folder):
    with pytest.raises(RunError, match="it is running"):
        remove_run(settings, RemoveRun(RUN), confirm=lambda question: set_status(ledger, "running"))
    set_status(ledger, "completed")
    assert is_whole(settings, ledger, folder)


def test_a_lake_that_does_not_answer_leaves_the_run_as_it_was(settings, ledger, run, folder, monkeypatch):
    with ModelRegistry.open(settings) as registry:
        row = registry.register(new_model(folder / "000000000001", run_id=RUN))
    monkeypatch.setattr(Lake, "find", lambda self, identifier: (_ for _ in ()).throw(OSError("no answer")))
    with pytest.raises(Exception, match="no answer"):
        remove_run(settings, RemoveRun(RUN))
    monkeypatch.undo()
    assert is_whole(settings, ledger, folder)
    with ModelRegistry.open(settings) as registry:
        assert not registry.get(row.id).archived


def test_a_removal_cut_short_before_the_mark_can_be_repeated(settings, ledger, run, folder, monkeypatch):
    monkeypatch.setattr(Ledger, "mark_removed", lambda self, run_id: (_ for _ in ()).throw(Cut))
    with pytest.raises(Cut):
        remove_run(settings, RemoveRun(RUN))
    assert is_whole(settings, ledger, folder)
    monkeypatch.undo()
    remove_run(settings, RemoveRun(RUN))
    assert not folder.exists()
    assert removals(settings) == []


def test_a_removal_that_failed_after_the_mark_can_be_repeated_by_the_same_process(
    settings, ledger, run, folder, monkeypatch
):
    monkeypatch.setattr(Ledger, "drop_refs", lambda self, run_id: (_ for _ in ()).throw(Cut))
    with pytest.raises(Cut):
        remove_run(settings, RemoveRun(RUN))
    assert ledger.run(RUN).removed_at is not None
    monkeypatch.undo()
    assert len(removals(settings)) == 1
    # Others leave it to this process.
    list_runs(settings, ListRuns())
    assert folder.exists()
    assert remove_run(settings, RemoveRun(RUN)).freed_bytes > 0
    assert not folder.exists()
    assert removals(settings) == []
    refused(settings, "removed already")


#: Where a removal is killed.
MOMENTS = [
    "alphaswarm_rl.models.registry:ModelRegistry.release",
    "alphaswarm_rl.ledger.ledger:Ledger.mark_removed",
    "alphaswarm_rl.operations.run_removal:_remove_steps",
    "alphaswarm_rl.ledger.ledger:Ledger.drop_refs",
    "alphaswarm_rl.inference.checkpoints:CheckpointStore.remove",
    "alphaswarm_rl.operations.run_removal:_other_files",
]
LOOKS = ["runs list", f"runs show {RUN}", "runs gc --yes", "doctor"]


@pytest.mark.parametrize(("moment", "look"), list(zip(MOMENTS, itertools.cycle(LOOKS), strict=False)))
def test_a_killed_removal_is_finished_by_the_next_look(settings, ledger, run, folder, moment, look):
    assert rl("runs", "rm", RUN, "--yes", home=settings.home, moment=Moment(moment, since=None)).code == -9
    assert (settings.logs_path / f"{RUN}.jsonl").exists()
    assert rl(*look.split(), home=settings.home).code == 0
    assert ledger.run(RUN).removed_at is not None
    assert not folder.exists()
    assert not (settings.logs_path / f"{RUN}.jsonl").exists()
    assert recorded(settings) == (0, 0)
    assert not (settings.home / "removing").exists()


def test_a_killed_removal_is_left_where_the_run_is_needed_by_now(settings, ledger, run, folder):
    moment = Moment("alphaswarm_rl.ledger.ledger:Ledger.mark_removed", since=None)
    assert rl("runs", "rm", RUN, "--yes", home=settings.home, moment=moment).code == -9
    version = ledger.run(RUN).version_id
    judged = ledger.create_run(version_id=version, target="evaluate", seed=1, checkpoint=str(folder / "000000000001"))
    ledger.finish_run(judged.id, "completed")
    answer = rl("runs", "list", home=settings.home)
    assert answer.code == 0
    assert f"its checkpoint is what {judged.id} was judged by" in answer.err
    assert is_whole(settings, ledger, folder)
    assert removals(settings) == []


def test_a_removal_that_cannot_be_finished_is_said_and_tried_again(settings, ledger, run, folder, caplog):
    moment = Moment("alphaswarm_rl.operations.run_removal:_remove_steps", since=None)
    assert rl("runs", "rm", RUN, "--yes", home=settings.home, moment=moment).code == -9
    catalog = settings.lake_path / "catalog.db"
    kept = catalog.read_bytes()
    catalog.write_bytes(b"no database" * 100)
    assert list_runs(settings, ListRuns()).runs == ()
    assert "cannot be finished now" in caplog.text
    findings = doctor(lambda: settings, DoctorRequest()).findings
    assert [finding.state for finding in findings if finding.name == "removal"] == ["broken"]
    catalog.write_bytes(kept)
    list_runs(settings, ListRuns())
    assert not folder.exists()
    assert removals(settings) == []


@pytest.mark.parametrize("content", ["{", "[" * 99_999, None])
def test_a_file_of_a_removal_that_cannot_be_read_forces_nothing(settings, ledger, run, folder, content):
    (settings.home / "removing").mkdir()
    path = settings.home / "removing" / f"{RUN}.json"
    if content is None:
        os.mkfifo(path)  # nobody writes into it
    else:
        path.write_text(content)
    (removal,) = removals(settings)
    assert (removal.run_id, removal.force, removal.is_abandoned(settings)) == (RUN, False, True)


@pytest.fixture
def unseen(settings, run):
    """A removal that was killed in another container, whose processes cannot be seen from here."""
    moment = Moment("alphaswarm_rl.operations.run_removal:_remove_steps", since=None)
    assert rl("runs", "rm", RUN, "--yes", home=settings.home, moment=moment, host="container-1").code == -9
    (removal,) = removals(settings)
    return removal


def is_gone(settings, folder):
    return (
        not folder.exists()
        and not (settings.logs_path / f"{RUN}.jsonl").exists()
        and recorded(settings) == (0, 0)
        and removals(settings) == []
    )


def removal_findings(settings):
    findings = doctor(lambda: settings, DoctorRequest()).findings
    return [(finding.state, finding.text) for finding in findings if finding.name == "removal"]


def test_a_removal_that_cannot_be_seen_from_here_is_finished_once_it_is_silent(settings, unseen, folder):
    limit = settings.ledger.silence_seconds
    began = time.time() - limit + 20
    os.utime(unseen.path, (began, began))
    list_runs(settings, ListRuns())
    assert folder.exists()
    ((state, text),) = removal_findings(settings)
    assert state == "ok"
    assert f"run {RUN} is under way: process" in text
    assert "on container-1, since 1" in text
    assert f"rl runs rm {RUN}" in text
    os.utime(unseen.path, (began - 21, began - 21))
    list_runs(settings, ListRuns())
    assert is_gone(settings, folder)
    assert removal_findings(settings) == []


def test_a_removal_that_cannot_be_finished_is_broken_wherever_it_began(settings, unseen, monkeypatch):
    monkeypatch.setattr(Ledger, "drop_refs", lambda self, run_id: (_ for _ in ()).throw(OSError("no disk")))
    os.utime(unseen.path, (0, 0))
    ((state, text),) = removal_findings(settings)
    assert state == "broken"
    assert "was cut short" in text


def test_rm_finishes_a_removal_whoever_began_it(settings, unseen, folder):
    assert remove_run(settings, RemoveRun(RUN)).freed_bytes > 0
    assert is_gone(settings, folder)
    refused(settings, "removed already")


def test_a_removal_that_another_process_finished_too_ends_without_an_error(settings, unseen, folder):
    remove_run(settings, RemoveRun(RUN))
    assert unseen.is_abandoned(settings)
    unseen.end()
    finish_removal(settings, unseen)


#: Where a training stands still when its run is removed.
STILL = {
    "before its first commit": Moment("pyiceberg.catalog.sql:SqlCatalog.commit_table", since=None),
    "before it closes a segment": Moment("alphaswarm_rl.lake.segments:SegmentWriter.close", since=None),
    "between steps": Moment("alphaswarm_rl.recording.run_recorder:RecordedEnv.step", 30, since=None),
    "before it validates a model": Moment("alphaswarm_rl.models.registry:ModelRegistry.validate", since=None),
}


@pytest.mark.parametrize("moment", STILL)
def test_a_process_that_wakes_after_its_run_was_removed_writes_nothing(tmp_path, moment):
    home, spec = tmp_path / "home", written(tmp_path, "cartpole")
    stop = replace(STILL[moment], signal=signal.SIGSTOP)
    stale = Forked("train", spec, *IMPATIENT, home=home, moment=stop, host="elsewhere")
    stale.wait_until_stopped()
    time.sleep(SILENCE_S)
    run_id, settings = the_run(home).id, settings_of(home)
    silence = {"RL_HOME_HEARTBEAT_SECONDS": "0.1", "RL_HOME_SILENCE_SECONDS": "0.4"}
    assert rl("runs", "rm", run_id, "--yes", home=home, environ=silence).code == 0
    models = registry_of(home)
    stale.wake()
    lost = stale.answer()
    assert lost.code == 4, (lost.code, lost.err[-800:])
    assert "it was removed while this process stood still" in lost.err
    with Lake(settings) as lake:
        assert {rows.num_rows for rows in rows_of(lake, run_id).values()} == {0}
    assert registry_of(home) == models
    collect_garbage(settings, CollectGarbage())
    assert not (settings.lake_path / "spool" / run_id).exists()
    assert verify_tables(settings, NamedRuns()).findings == ()


def test_gc_drops_steps_of_removed_runs(settings, ledger, run, folder):
    remove_run(settings, RemoveRun(RUN))
    with Lake(settings) as lake:
        spool(lake, number=1)
        deliver_all(lake, lambda segments: None)
        spool(lake, number=2)
    plain = folder_of(settings, "trajectories", RUN) / "train" / "000000_000000000003.parquet"
    plain.parent.mkdir(parents=True)
    plain.write_text("")
    found = verify_tables(settings, NamedRuns())
    assert not found.ok
    assert [finding.text for finding in found.findings] == [
        "it was removed, and steps of it are here, which a process wrote that had lost it: rl runs gc"
    ]
    assert commit_segments(settings, NamedRuns()).problems == (
        f"run {RUN}: it was removed; what is left of it goes with: rl runs gc",
    )
    assert recorded(settings) == (1, 6)
    planned = collect_garbage(settings, CollectGarbage(dry_run=True))
    assert planned.runs == (RUN,)
    assert recorded(settings) == (1, 6)
    asked = []
    assert collect_garbage(settings, CollectGarbage(), confirm=asked.append).runs == (RUN,)
    assert asked == ["Remove 0 folders and what is left of 1 removed runs?"]
    assert recorded(settings) == (0, 0)
    assert not plain.exists()
    assert verify_tables(settings, NamedRuns()).findings == ()
    assert collect_garbage(settings, CollectGarbage()).runs == ()


@pytest.mark.parametrize("place", ["tables", "spool", "files"])
def test_gc_finds_steps_of_removed_runs_wherever_they_are(settings, ledger, run, folder, place):
    remove_run(settings, RemoveRun(RUN))
    with Lake(settings) as lake:
        if place != "files":
            spool(lake, number=1)
        if place == "tables":
            deliver_all(lake, lambda segments: None)
            assert not (lake.spool / RUN).exists()
    if place == "files":
        folder_of(settings, "trajectories", RUN).mkdir(parents=True)
    assert collect_garbage(settings, CollectGarbage(dry_run=True)).runs == (RUN,)


def test_gc_leaves_steps_of_runs_that_are_not_removed(settings, ledger, run):
    assert collect_garbage(settings, CollectGarbage()).runs == ()
    assert recorded(settings) == (1, 6)


def test_a_removed_run_keeps_nobody_from_the_registry_but_its_own_process(settings, run, folder):
    with ModelRegistry.open(settings) as registry:
        stale = registry.holding(Claim(RUN))
        row = stale.register(new_model(folder / "000000000001", run_id=RUN))
        remove_run(settings, RemoveRun(RUN))
        with pytest.raises(StaleClaim, match="it was removed"):
            stale.validate(row.id, evaluation=evaluation())
        assert registry.evaluations(row.id) == []


def test_a_model_that_is_registered_until_the_last_moment_is_archived_too(settings, run, folder, monkeypatch):
    with ModelRegistry.open(settings) as registry:
        mark, rows = Ledger.mark_removed, []

        def slow(ledger, run_id):
            mark(ledger, run_id)
            rows.append(registry.holding(Claim(RUN)).register(new_model(folder / "000000000002", run_id=RUN)))

        monkeypatch.setattr(Ledger, "mark_removed", slow)
        remove_run(settings, RemoveRun(RUN))
        assert registry.get(rows[0].id).archived_because == "its run was removed"


def test_a_removal_that_ends_while_somebody_looks_is_over(settings):
    (settings.home / "removing").mkdir(parents=True)
    (settings.home / "removing" / f"{RUN}.json").symlink_to("gone")
    assert removals(settings) == []


def test_a_removal_cut_short_after_the_mark_is_finished_by_gc(settings, ledger, run, folder, monkeypatch):
    monkeypatch.setattr(CheckpointStore, "remove", lambda self, run_id: (_ for _ in ()).throw(Cut))
    with pytest.raises(Cut):
        remove_run(settings, RemoveRun(RUN))
    assert ledger.run(RUN).removed_at is not None
    assert folder.exists()
    (leftover,) = collect_garbage(settings, CollectGarbage()).folders
    assert (leftover.path, leftover.why) == (folder, "its run was removed")
    assert not folder.exists()


def test_gc_takes_what_this_program_made_and_nobody_needs(settings, run, folder):
    half = checkpoint(folder / ".unfinished-000000000002")
    unknown = checkpoint(settings.models_path / str(uuid4()) / "000000000001").parent
    strange = checkpoint(settings.models_path / str(uuid4()) / "notes")
    foreign = checkpoint(settings.models_path / "thesis")

    def never(question):
        raise AssertionError(question)

    planned = collect_garbage(settings, CollectGarbage(dry_run=True), confirm=never)
    assert {item.path: item.why for item in planned.folders} == {
        half: "half written",
        unknown: "the ledger has no such run",
    }
    assert planned.bytes == sum(item.bytes for item in planned.folders) > 0
    assert half.exists()
    asked = []
    done = collect_garbage(settings, CollectGarbage(), confirm=asked.append)
    assert asked == ["Remove 2 folders?"]
    assert done.folders == planned.folders
    assert not half.exists()
    assert not unknown.exists()
    assert (folder / "000000000001").exists()
    assert strange.exists()
    assert foreign.exists()
    assert collect_garbage(settings, CollectGarbage(), confirm=never).folders == ()


def test_gc_leaves_what_a_live_run_writes(settings, ledger, run, folder):
    half = checkpoint(folder / ".unfinished-000000000002")
    set_status(ledger, "running")
    assert collect_garbage(settings, CollectGarbage()).folders == ()
    assert half.exists()


def test_gc_of_another_ledger_is_refused_and_not_planned(settings, run, folder, tmp_path):
    other = settings.model_copy(
        update={"ledger": settings.ledger.model_copy(update={"url": f"sqlite:///{tmp_path}/o.db"})}
    )
    with Ledger.open_any(other) as ledger:
        new_run(ledger)
        adopt(ledger.engine, other, "a mistake")
    for dry_run in (True, False):
        with pytest.raises(RunError, match="another ledger"):
            collect_garbage(other, CollectGarbage(dry_run=dry_run))
    assert folder.exists()


def test_gc_of_a_copied_home_is_refused_before_anything_goes(settings, run, folder, tmp_path):
    remove_run(settings, RemoveRun(RUN))
    with Lake(settings) as lake:
        spool(lake, number=1)
        deliver_all(lake, lambda segments: None)
    unknown = checkpoint(settings.models_path / str(uuid4()) / "000000000001").parent
    known = checkpoint(settings.models_path / RUN / "000000000001")
    shutil.copytree(settings.home, tmp_path / "copy")
    copy = settings.model_copy(update={"home": tmp_path / "copy"})
    for dry_run in (True, False):
        with pytest.raises(LakeError, match="copied or moved"):
            collect_garbage(copy, CollectGarbage(dry_run=dry_run))
    for path in (unknown, known):
        assert (copy.home / path.relative_to(settings.home)).exists()


def test_gc_refuses_what_somebody_needs_after_the_question(settings, ledger, run, folder):
    half = checkpoint(folder / ".unfinished-000000000002")
    with pytest.raises(RunError, match="Nothing was removed"):
        collect_garbage(settings, CollectGarbage(), confirm=lambda question: set_status(ledger, "running"))
    assert half.exists()
