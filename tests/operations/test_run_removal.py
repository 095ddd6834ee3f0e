"""`runs.rm` and `runs.gc`: what is refused, what is asked, and in which order things go."""

from uuid import uuid4

import pytest
from sqlalchemy import text

from alphaswarm_rl.core.errors import RunError
from alphaswarm_rl.inference.checkpoints import CheckpointStore
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.delivery import deliver_all
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.operations.run_removal import CollectGarbage, RemoveRun, collect_garbage, remove_run
from tests.lake.rows import RUN, spool
from tests.ledger.samples import SampleSpec
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
        and recorded(settings) == (1, 4)
    )


def refused(settings, why, **fields):
    with pytest.raises(RunError) as error:
        remove_run(settings, RemoveRun(RUN, **fields))
    assert why in error.value.why


def test_everything_goes_but_the_row(settings, ledger, run, folder):
    log, files = settings.logs_path / f"{RUN}.jsonl", [*folder.rglob("*")]
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
    # Steps went before the mark, files wait for it.
    assert recorded(settings) == (0, 0)
    assert folder.exists()
    assert ledger.run(RUN).removed_at is None
    monkeypatch.undo()
    remove_run(settings, RemoveRun(RUN))
    assert not folder.exists()


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


def test_gc_of_another_ledger_is_refused_but_planned(settings, run, folder, tmp_path):
    other = settings.model_copy(
        update={"ledger": settings.ledger.model_copy(update={"url": f"sqlite:///{tmp_path}/o.db"})}
    )
    assert len(collect_garbage(other, CollectGarbage(dry_run=True)).folders) == 1
    with pytest.raises(RunError, match="another ledger"):
        collect_garbage(other, CollectGarbage())
    assert folder.exists()


def test_gc_refuses_what_somebody_needs_after_the_question(settings, ledger, run, folder):
    half = checkpoint(folder / ".unfinished-000000000002")
    with pytest.raises(RunError, match="Nothing was removed"):
        collect_garbage(settings, CollectGarbage(), confirm=lambda question: set_status(ledger, "running"))
    assert half.exists()
