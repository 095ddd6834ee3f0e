"""`db.rebuild`: a ledger that was lost comes back from event logs, checkpoints and tables."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path

import pytest

from alphaswarm_rl.core.errors import LedgerError
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.operations import rebuild
from alphaswarm_rl.operations.lake import verify_tables
from alphaswarm_rl.operations.operation import NamedRun, NamedRuns
from alphaswarm_rl.operations.rebuild import rebuild_ledger
from alphaswarm_rl.operations.runs import ListRuns, list_runs, show_run
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import LedgerSettings, RecordSettings, Settings, StoreSettings
from tests.ledger.samples import new_run
from tests.postgres import new_postgres, postgres_server
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import POLICY, halted_run
from tests.runtime.test_trading import trading

__all__ = ["new_postgres", "postgres_server"]

#: Columns that no file tells of, or tells otherwise.
OTHERWISE = {
    "run": {"spec_id", "halt_checks", "recording", "notices", "host", "pid", "process_start", "heartbeat_at"}
    | {"ended_at", "resume"},
    "evaluation": {"id", "started_at", "ended_at"},
    "version": {"spec_id", "notes", "created_at"},
}


def known(kind, row):
    return {name: value for name, value in asdict(row).items() if name not in OTHERWISE[kind]}


def everything(settings):
    """All that the ledger says of each run, the newest first."""
    with Ledger.open(settings) as ledger:
        return {
            run.id: {
                "run": known("run", run),
                "version": known("version", ledger.version(run.version_id)),
                "events": ledger.events(run.id),
                "evaluations": [known("evaluation", row) for row in ledger.evaluations(run.id)],
                "episodes": ledger.episodes(run.id),
                "refs": ledger.refs(run.id),
            }
            for run in ledger.runs()
        }


def lose(settings):
    for path in settings.home.glob("ledger.db*"):
        path.unlink()


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A home with a trading that was validated, a replay of it, and a training that was halted, with what it knows."""
    home = tmp_path_factory.mktemp("rebuild") / "home"
    settings = Settings(home=home, store=StoreSettings(checkpoint_freq=32))
    spec = trading()
    trained = RLRuntime(spec, settings).train()
    RLRuntime.from_run(trained.run_id, settings).replay(seed=5, episodes=3)
    validated = tiny(training={"eval_during_training": True, "eval_freq": 128})
    RLRuntime(validated, settings).train()
    halted_run(tiny(**POLICY), settings)
    shutil.copytree(home, home.with_name("copy"))
    return settings, everything(settings)


@pytest.fixture
def settings(original):
    """The settings of that home, as it was but for its ledger."""
    found, _ = original
    shutil.rmtree(found.home)
    shutil.copytree(found.home.with_name("copy"), found.home)
    lose(found)
    return found


def by_target(before, target, status):
    return next(
        run_id
        for run_id, known in before.items()
        if (known["run"]["target"], known["run"]["status"]) == (target, status)
    )


def lines_of(settings, run_id):
    return (settings.logs_path / f"{run_id}.jsonl").read_text().splitlines()


def write_log(settings, run_id, lines):
    (settings.logs_path / f"{run_id}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def test_everything_that_files_tell_comes_back(settings, original):
    _, before = original
    result = rebuild_ledger(settings)
    after = everything(settings)
    assert list(after) == list(before)
    for run_id, expected in before.items():
        for part, rows in expected.items():
            assert after[run_id][part] == rows, part
    assert result.runs == tuple(reversed(before))
    assert result.events == sum(len(known["events"]) for known in before.values())
    assert result.evaluations == sum(len(known["evaluations"]) for known in before.values())
    assert result.episodes == sum(len(known["episodes"]) for known in before.values())
    assert result.segments == sum(len(known["refs"]) for known in before.values()) > 0
    assert [line for line in result.lost if "kill switch" in line]
    assert not [line for line in result.lost if line.startswith("run ")]
    with Ledger.open(settings) as ledger:
        assert ledger.id == result.ledger_id
        assert all(run.notices[-1] == "brought back by rl db rebuild" for run in ledger.runs())
        assert ledger.run("latest").recording["store"] == "iceberg"


def test_the_verbs_accept_a_rebuilt_ledger(settings, original):
    _, before = original
    rebuild_ledger(settings)
    assert [run.id for run in list_runs(settings, ListRuns()).runs] == list(before)
    for run_id in before:
        assert show_run(settings, NamedRun(run_id)).run.id == run_id
    assert [finding for finding in verify_tables(settings, NamedRuns()).findings if not finding.ok] == []
    stopped, trained = by_target(before, "train", "halted"), by_target(before, "train", "completed")
    whole = RLRuntime(tiny(**POLICY), settings).train()
    resumed = RLRuntime.from_run(stopped, settings).resume()
    assert resumed.status == "completed"
    assert resumed.checkpoint_sha256 == whole.checkpoint_sha256
    assert RLRuntime.from_run(trained, settings).replay().status == "completed"
    assert [finding for finding in verify_tables(settings, NamedRuns()).findings if not finding.ok] == []


def test_a_log_of_an_earlier_version_has_no_row_and_the_checkpoint_has_the_spec(settings, original):
    _, before = original
    for run_id in before:
        lines = [json.loads(line) for line in lines_of(settings, run_id)]
        for line in lines:
            line.pop("pinned", None)
        write_log(settings, run_id, map(json.dumps, lines))
    result = rebuild_ledger(settings)
    assert set(result.runs) == set(before)
    after = everything(settings)
    for run_id, expected in before.items():
        found, expected_row = after[run_id]["run"], expected["run"]
        for name in ("target", "status", "seed", "spec_hash", "exec_hash", "version_id", "timesteps", "mean_reward"):
            assert found[name] == expected_row[name], name
        if expected_row["target"] == "train":
            assert found["checkpoint_sha256"] == expected_row["checkpoint_sha256"]
            assert found["best_checkpoint"] == expected_row["best_checkpoint"]
            assert after[run_id]["evaluations"] == expected["evaluations"]
        assert after[run_id]["refs"] == expected["refs"]


def test_without_logs_the_checkpoints_tell_and_runs_go_on_from_them(settings, original):
    _, before = original
    shutil.rmtree(settings.logs_path)
    replayed, stopped = by_target(before, "replay", "completed"), by_target(before, "train", "halted")
    result = rebuild_ledger(settings)
    assert set(result.runs) == set(before) - {replayed}
    assert [line for line in result.lost if replayed in line and "nothing" not in line]
    with Ledger.open(settings) as ledger:
        row = ledger.run(stopped)
        assert (row.status, row.timesteps) == ("interrupted", before[stopped]["run"]["timesteps"])
        assert row.checkpoint_sha256 == before[stopped]["run"]["checkpoint_sha256"]
        assert row.seed == before[stopped]["run"]["seed"]
    assert RLRuntime.from_run(stopped, settings).resume().status == "completed"


def test_what_is_damaged_is_named_and_the_rest_comes_back(settings, original):
    _, before = original
    stopped = by_target(before, "train", "halted")
    lines = lines_of(settings, stopped)
    write_log(settings, stopped, [*lines[:-1], lines[-1][:20]])
    newest = max((settings.models_path / stopped).iterdir())
    (newest / "state.safetensors").write_bytes(b"")
    result = rebuild_ledger(settings)
    assert set(result.runs) == set(before)
    assert [line for line in result.lost if stopped in line and "1 lines of its log" in line]
    assert [line for line in result.lost if stopped in line and str(newest) in line]
    with Ledger.open(settings) as ledger:
        row = ledger.run(stopped)
        # Nothing tells of its end any more.
        assert row.status == "interrupted"
        assert row.checkpoint is None or str(newest) not in row.checkpoint


def test_a_damaged_checkpoint_is_named_once(settings, original):
    _, before = original
    validated = next(run_id for run_id in before if before[run_id]["run"]["best_checkpoint"] is not None)
    log = [json.loads(line) for line in lines_of(settings, validated)]
    named = [line["path"] for line in log if line["stage"] == "train.checkpoint"]
    assert len(named) > len(set(named))
    for path in set(named):
        shutil.rmtree(path, ignore_errors=True)
        Path(path).mkdir()
    result = rebuild_ledger(settings)
    lost = [line for line in result.lost if validated in line and "checkpoint.json is not there" in line]
    assert len(lost) == len(set(named))


def test_a_spec_that_this_code_reads_otherwise_is_not_brought_back(settings, original):
    _, before = original
    stopped = by_target(before, "train", "halted")
    lines = [json.loads(line) for line in lines_of(settings, stopped)]
    lines[0]["pinned"]["spec"]["training"]["total_timesteps"] += 1
    write_log(settings, stopped, map(json.dumps, lines))
    result = rebuild_ledger(settings)
    assert set(result.runs) == set(before) - {stopped}
    assert [line for line in result.lost if stopped in line and "hash" in line]


def test_a_rebuild_that_was_cut_short_is_refused_until_it_is_finished(settings, original, monkeypatch):
    _, before = original
    restore, calls = Ledger.restore_run, []

    def cut(self, lost):
        calls.append(lost)
        if len(calls) > 2:
            raise OSError("the power went")
        return restore(self, lost)

    monkeypatch.setattr(Ledger, "restore_run", cut)
    with pytest.raises(OSError, match="the power went"):
        rebuild_ledger(settings)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="cut short"):
        Ledger.open(settings)
    result = rebuild_ledger(settings)
    assert len(result.runs) == len(before) - 2
    assert everything(settings) == before


def test_runs_that_the_ledger_has_stay_as_they_are(settings, original):
    found, before = original
    shutil.copy(found.home.with_name("copy") / "ledger.db", settings.home / "ledger.db")
    with Ledger.open(settings) as ledger:
        ledger.update_run(ledger.run("latest").id, name="mine")
        first = ledger.id
    result = rebuild_ledger(settings)
    assert (result.ledger_id, result.runs, result.segments) == (first, (), 0)
    with Ledger.open(settings) as ledger:
        assert ledger.run("latest").name == "mine"
        assert len(ledger.runs()) == len(before)


def test_a_ledger_of_others_is_not_filled(settings, tmp_path):
    other = settings.model_copy(update={"ledger": LedgerSettings(url=f"sqlite:///{tmp_path}/other.db")})
    with Ledger.open_any(other) as ledger:
        new_run(ledger)
        with pytest.raises(LedgerError, match="rl db adopt"):
            rebuild_ledger(other)
        assert len(ledger.runs()) == 1


def test_it_works_on_postgresql(settings, original, new_postgres):
    _, before = original
    elsewhere = settings.model_copy(update={"ledger": LedgerSettings(url=new_postgres())})
    with Ledger.open_any(elsewhere):
        pass
    rebuild_ledger(elsewhere)
    assert everything(elsewhere) == before


def test_a_child_comes_after_its_parent_whatever_clocks_say(settings, original):
    _, before = original
    replayed, trained = by_target(before, "replay", "completed"), by_target(before, "train", "completed")
    lines = [json.loads(line) for line in lines_of(settings, replayed)]
    lines[0]["pinned"]["row"]["created_at"] = "1999-01-01T00:00:00+00:00"
    parent = lines[0]["pinned"]["row"]["parent_run_id"]
    write_log(settings, replayed, map(json.dumps, lines))
    runs = rebuild_ledger(settings).runs
    assert runs.index(parent) + 1 == runs.index(replayed)
    with Ledger.open(settings) as ledger:
        assert ledger.run(replayed).parent_run_id == parent
    assert trained in runs


def test_a_parent_that_nobody_knows_is_left_out_and_named(settings, original):
    _, before = original
    replayed = by_target(before, "replay", "completed")
    parent = before[replayed]["run"]["parent_run_id"]
    shutil.rmtree(settings.models_path / parent)
    (settings.logs_path / f"{parent}.jsonl").unlink()
    result = rebuild_ledger(settings)
    assert f"run {replayed}: its parent {parent}" in result.lost
    with Ledger.open(settings) as ledger:
        assert ledger.run(replayed).parent_run_id is None


def test_episodes_come_back_where_every_step_was_recorded(tmp_path):
    settings = Settings(home=tmp_path / "home", record=RecordSettings(train="sample:2"))
    run_id = RLRuntime(tiny(), settings).train().run_id
    lose(settings)
    result = rebuild_ledger(settings)
    assert [line for line in result.lost if run_id in line and "episodes" in line]
    with Ledger.open(settings) as ledger:
        assert ledger.episodes(run_id) == []
        assert ledger.evaluations(run_id)[0].metrics["returns"]


def test_many_short_episodes_become_their_means(settings, original):
    few = settings.model_copy(update={"ledger": LedgerSettings(episode_rate=0.001)})
    _, before = original
    stopped = by_target(before, "train", "halted")
    rebuild_ledger(few)
    with Ledger.open(settings) as ledger:
        rows = ledger.episodes(stopped)
    whole = before[stopped]["episodes"]
    assert sum(row.count for row in rows) == sum(row.count for row in whole)
    assert len(rows) <= before[stopped]["run"]["timesteps"] // 1000 + 1
    assert [row.last_episode + 1 for row in rows[:-1]] == [row.episode for row in rows[1:]]
    total = sum(row.mean_reward * row.count for row in rows)
    assert total == pytest.approx(sum(row.mean_reward * row.count for row in whole))
    assert all(row.env_idx is None for row in rows if row.count > 1)


def test_a_folder_of_another_name_is_no_run(settings, original):
    _, before = original
    (settings.models_path / "added-1").mkdir()
    assert set(rebuild.rebuild_ledger(settings).runs) == set(before)


def test_of_lines_with_one_number_that_of_the_newest_claim_counts(settings, original):
    _, before = original
    stopped = by_target(before, "train", "halted")
    lines = [json.loads(line) for line in lines_of(settings, stopped)]
    resumed = [{**line, "claim": 3} for line in lines[4:]]
    late = {**lines[5], "stage": "done", "metrics": {}}
    lost = {**lines[-1], "seq": lines[-1]["seq"] + 1, "stage": "done", "metrics": {}}
    write_log(settings, stopped, map(json.dumps, [*lines[:4], *resumed, late, lost]))
    rebuild_ledger(settings)
    with Ledger.open(settings) as ledger:
        row = ledger.run(stopped)
        assert (row.status, row.claim.number) == ("halted", 3)
        assert ledger.events(stopped) == before[stopped]["events"]
