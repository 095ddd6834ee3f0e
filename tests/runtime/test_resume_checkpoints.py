"""Which checkpoint a resumed run goes on from, and what becomes of what came after it."""

import shutil
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import CheckpointError, LakeError, RunError
from alphaswarm_rl.inference.selection import saved_checkpoints
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.compaction import compact
from alphaswarm_rl.lake.verify import verify
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import Settings, StoreSettings
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import halted_run

EXACT = {"agent": {"class": "random"}, "training": {"total_timesteps": 4000, "log_interval": 1, "n_envs": 8}}


@pytest.fixture
def settings(tmp_path):
    return Settings(home=tmp_path / "home", store=StoreSettings(checkpoint_freq=400, keep_last=4))


@pytest.fixture
def stopped(settings, ledger):
    """A run that was halted after some checkpoints, its row and those, the newest first."""
    run_id = halted_run(tiny(**EXACT), settings, count=3).run_id
    row = ledger.run(run_id)
    saved = saved_checkpoints(ledger, row)
    assert len(saved) >= 3
    assert str(saved[0].path) == row.checkpoint
    return row, saved


def damage(checkpoint):
    path = checkpoint.path / "state.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def story(ledger, run_id):
    """What two runs of one seed have in common."""
    return (
        ledger.run(run_id).checkpoint_sha256,
        [(row.episode, row.mean_reward, row.timesteps) for row in ledger.episodes(run_id)],
        [(row.phase, row.timesteps, row.metrics) for row in ledger.evaluations(run_id)],
        sum(ref.row_count for ref in ledger.refs(run_id)),
    )


def is_whole(settings, ledger, run_id):
    with Lake(settings) as lake:
        return [finding for finding in verify(lake, ledger, [run_id]) if not finding.ok] == []


@pytest.mark.parametrize("how", ["damaged", "gone"])
@pytest.mark.parametrize("count", [1, 2])
def test_a_run_goes_on_from_the_newest_intact_checkpoint_and_says_so(settings, ledger, stopped, how, count, caplog):
    row, saved = stopped
    for checkpoint in saved[:count]:
        damage(checkpoint) if how == "damaged" or checkpoint is not saved[0] else shutil.rmtree(checkpoint.path)
    resumed = RLRuntime.from_run(row.id, settings).resume()
    assert resumed.status == "completed"
    notices = ledger.run(row.id).notices
    assert any(notice.startswith(f"resumed at step {saved[count].timesteps} ") for notice in notices), notices
    for checkpoint in saved[:count]:
        (notice,) = [notice for notice in notices if str(checkpoint.path) in notice]
        assert f"the run goes on from step {saved[count].timesteps}" in notice
        assert notice in caplog.text
    whole = RLRuntime(tiny(**EXACT), settings).train()
    assert story(ledger, row.id) == story(ledger, whole.run_id)
    assert is_whole(settings, ledger, row.id)


def test_earlier_checkpoints_that_were_pruned_are_not_damaged(settings, ledger, stopped):
    row, saved = stopped
    shutil.rmtree(saved[1].path)
    damage(saved[0])
    RLRuntime.from_run(row.id, settings).resume()
    notices = ledger.run(row.id).notices
    assert not [notice for notice in notices if str(saved[1].path) in notice]
    assert any(notice.startswith(f"resumed at step {saved[2].timesteps} ") for notice in notices)


def test_where_none_is_intact_the_run_stays_as_it_was(settings, ledger, stopped):
    row, saved = stopped
    for checkpoint in saved:
        if checkpoint.path.is_dir():
            damage(checkpoint)
    with pytest.raises(CheckpointError, match=r"none of its 4 checkpoints is intact; the last: .*recorded checksum"):
        RLRuntime.from_run(row.id, settings).resume()
    assert ledger.run(row.id) == row


def test_a_step_chooses_the_checkpoint(settings, ledger, stopped):
    row, saved = stopped
    resumed = RLRuntime.from_run(row.id, settings).resume(step=saved[2].timesteps)
    assert resumed.status == "completed"
    assert any(notice.startswith(f"resumed at step {saved[2].timesteps} ") for notice in ledger.run(row.id).notices)
    whole = RLRuntime(tiny(**EXACT), settings).train()
    assert story(ledger, row.id) == story(ledger, whole.run_id)
    assert is_whole(settings, ledger, row.id)


def test_an_unknown_step_lists_those_that_are_kept(settings, ledger, stopped):
    row, saved = stopped
    kept = ", ".join(str(checkpoint.timesteps) for checkpoint in reversed(saved) if checkpoint.path.is_dir())
    with pytest.raises(RunError, match=f"it is not kept. Kept: {kept}."):
        RLRuntime.from_run(row.id, settings).resume(step=saved[0].timesteps + 1)
    assert ledger.run(row.id) == row


def test_a_damaged_checkpoint_that_was_chosen_is_refused(settings, ledger, stopped):
    row, saved = stopped
    damage(saved[1])
    with pytest.raises(CheckpointError):
        RLRuntime.from_run(row.id, settings).resume(step=saved[1].timesteps)
    assert ledger.run(row.id) == row


def test_the_row_names_the_checkpoint_from_which_the_run_goes_on(settings, ledger, stopped):
    row, saved = stopped
    damage(saved[0])
    seen = []

    def look(event):
        if event.stage == "agent.built":
            seen.append(event.payload["resumed_at"])
        if event.stage == "train.step" and len(seen) == 1:
            seen.append(ledger.run(row.id).checkpoint)

    RLRuntime.from_run(row.id, settings, sinks=[look]).resume()
    assert seen == [saved[1].timesteps, str(saved[1].path)]


def test_a_line_that_was_left_is_not_gone_back_to(settings, ledger, stopped):
    row, saved = stopped
    ledger.append_event(
        row.id, ledger.next_seq(row.id), "agent.built", row.created_at, {"resumed_at": saved[2].timesteps}
    )
    ledger.update_run(row.id, checkpoint=str(saved[2].path), checkpoint_sha256=saved[2].sha256)
    found = saved_checkpoints(ledger, ledger.run(row.id))
    assert [checkpoint.timesteps for checkpoint in found] == [checkpoint.timesteps for checkpoint in saved[2:]]


def test_a_best_model_that_is_damaged_is_sought_anew(settings, ledger):
    spec = tiny(training={"total_timesteps": 2000, "log_interval": 1, "eval_during_training": True, "eval_freq": 500})
    row = ledger.run(halted_run(spec, settings, count=12).run_id)
    assert row.best_checkpoint is not None
    assert row.best_checkpoint != row.checkpoint
    damaged = Path(row.best_checkpoint) / "state.safetensors"
    damaged.write_bytes(b"")
    assert RLRuntime.from_run(row.id, settings).resume().status == "completed"
    after = ledger.run(row.id)
    assert [notice for notice in after.notices if "the best model is sought anew" in notice]
    assert after.best_checkpoint != row.best_checkpoint


def test_steps_that_were_merged_with_later_ones_are_not_dropped(settings, ledger, stopped):
    row, saved = stopped
    with Lake(settings) as lake:
        compact(lake, row.claim)
        before = {kind: lake.files(lake.identifier(kind), row.id) for kind in ("trajectories", "action_logs")}
        damage(saved[0])
        with pytest.raises(LakeError, match="merged into one file"):
            RLRuntime.from_run(row.id, settings).resume()
        assert {kind: lake.files(lake.identifier(kind), row.id) for kind in before} == before
    assert ledger.episodes(row.id)
    assert ledger.run(row.id) == row
