"""A ledger that is exchanged or put back while a run goes on, or before it is resumed."""

import json
import math
import shutil
from pathlib import Path

import pytest

from alphaswarm_rl.core.claims import Claim, UnknownClaim
from alphaswarm_rl.core.errors import LakeError
from alphaswarm_rl.lake.catalog import Lake
from alphaswarm_rl.lake.claims import announce
from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.models import ModelRegistry
from alphaswarm_rl.operations.rebuild import rebuild_ledger
from alphaswarm_rl.operations.run_removal import RemoveRun, remove_run
from alphaswarm_rl.runtime import RLRuntime, session
from alphaswarm_rl.runtime.claims import newest_claim
from alphaswarm_rl.runtime.session import TrainingSession
from tests.ledger.samples import new_run, open_ledger
from tests.ledger.troubles import copy_of, put_in_place
from tests.runtime.conftest import tiny
from tests.runtime.test_resume import POLICY, HaltAt, halted_run

RUN = "0a1b2c3d-0000-4000-8000-0123456789ab"
#: Logs nothing until its end: the brake, or the checkpoint at the end, is the first to meet the ledger.
SILENT = {**POLICY, "training": {**POLICY["training"], "log_interval": 10**6}}


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch):
    """However slow the machine is, no second of silence is an event."""
    monkeypatch.setattr(session, "_SECONDS_OF_SILENCE", math.inf)


@pytest.fixture
def exchange(monkeypatch, file):
    """Puts another file in the ledger's place once a training is under way; gives a list with the run's id then."""

    def arm(other):
        asked, runs = TrainingSession.should_halt, []

        def should_halt(session):
            if session.env.transitions >= 800 and not runs:
                runs.append(session.run.id)
                put_in_place(file, other)
            return asked(session)

        monkeypatch.setattr(TrainingSession, "should_halt", should_halt)
        return runs

    return arm


@pytest.fixture
def file(settings):
    Ledger.open(settings).close()
    return settings.home / "ledger.db"


def saved(settings, run_id):
    return sorted((settings.models_path / run_id).rglob("checkpoint.json"))


def quick(settings):
    return settings.model_copy(update={"ledger": settings.ledger.model_copy(update={"halt_poll_seconds": 0.001})})


def test_another_ledger_in_place_halts_and_what_is_saved_then_stays(settings, file, tmp_path, exchange):
    other = tmp_path / "other.db"
    with open_ledger(f"sqlite:///{other}") as opened:
        new_run(opened)
    runs = exchange(copy_of(other, tmp_path / "copy.db"))
    spec = tiny(**{**SILENT, "training": {**SILENT["training"], "total_timesteps": 40_000_000}})
    with pytest.raises(UnknownClaim, match="in the place of the one that this process began with") as caught:
        RLRuntime(spec, quick(settings)).train()
    assert caught.value.__notes__ == runs
    assert len(saved(settings, runs[0])) == 1


def test_a_copy_from_before_the_run_is_no_removal_and_a_rebuild_brings_the_run_back(settings, file, tmp_path, exchange):
    whole = RLRuntime(tiny(**SILENT), settings).train()
    runs = exchange(copy_of(file, tmp_path / "copy.db"))
    with pytest.raises(UnknownClaim, match="it does not know the run"):
        RLRuntime(tiny(**SILENT), settings).train()
    assert len(saved(settings, runs[0])) == 1
    rebuild_ledger(settings)
    resumed = RLRuntime.from_run(runs[0], settings).resume()
    assert (resumed.status, resumed.checkpoint_sha256) == ("completed", whole.checkpoint_sha256)


@pytest.mark.parametrize("store", ["iceberg", "parquet"])
def test_no_number_is_given_twice_after_a_copy_was_put_back(settings, file, tmp_path, store):
    spec = tiny(**POLICY, trajectory_store={"class": store})
    whole = RLRuntime(spec, settings).train()
    stopped = halted_run(spec, settings)
    copy = copy_of(file, tmp_path / "copy.db")
    second = RLRuntime.from_run(stopped.run_id, quick(settings), sinks=[HaltAt(settings, count=2)]).resume()
    assert second.status == "halted"
    put_in_place(file, copy)
    for halt in settings.home.glob("*.halt"):  # of the second halt
        halt.unlink()
    again = RLRuntime.from_run(stopped.run_id, settings).resume()
    assert again.checkpoint_sha256 == whole.checkpoint_sha256
    with Ledger.open(settings) as ledger:
        row = ledger.run(stopped.run_id)
        assert row.claim == Claim(row.id, 3)
        assert "claim-000003" in row.checkpoint
        assert row.recording["store"] == store
        events = ledger.events(row.id)
    lines = [json.loads(line) for line in (settings.logs_path / f"{row.id}.jsonl").read_text().splitlines()]
    assert {line["seq"] for line in lines if line.get("claim") == 3} <= {event.seq for event in events}


@pytest.mark.parametrize(
    "place",
    [
        f"models/{RUN}/claim-000004",
        f"lake/spool/{RUN}/claim-000004",
        f"trajectories/rl.trajectories/run_id={RUN}/claim-000004",
        f"trajectories/rl.equity_curves/run_id={RUN}/claim-000004",
    ],
)
def test_a_claim_is_known_by_its_folder(settings, place):
    assert newest_claim(settings, RUN, in_tables=False) == 1
    (settings.home / place).mkdir(parents=True)
    assert newest_claim(settings, RUN, in_tables=True) == 4
    assert not (settings.lake_path / "catalog.db").exists()


def test_a_claim_is_known_by_its_log(settings):
    settings.logs_path.mkdir(parents=True)
    line = {"run_id": RUN, "seq": 1, "stage": "start", "ts": "2026-01-01T00:00:00+00:00", "claim": 5}
    (settings.logs_path / f"{RUN}.jsonl").write_text(json.dumps(line))
    assert newest_claim(settings, RUN, in_tables=False) == 5


def test_a_claim_is_known_by_the_tables(settings):
    with Lake(settings) as lake:
        announce(lake, Claim(RUN, 6))
    assert newest_claim(settings, RUN, in_tables=True) == 6
    assert newest_claim(settings, RUN, in_tables=False) == 1
    assert newest_claim(settings, RUN.replace("0a", "0b"), in_tables=True) == 1


def test_a_claim_is_known_by_the_registry(settings):
    with ModelRegistry.open(settings) as registry:
        registry.holding(Claim(RUN, 7))
        assert registry.newest_claim(RUN) == 7
    assert newest_claim(settings, RUN, in_tables=False) == 7
    assert newest_claim(settings, RUN.replace("0a", "0b"), in_tables=False) == 1


@pytest.mark.parametrize("logs", [True, False])
def test_a_rebuilt_run_has_the_claims_that_it_had(settings, logs):
    stopped = halted_run(tiny(**POLICY), settings)
    assert RLRuntime.from_run(stopped.run_id, settings).resume().status == "completed"
    for path in settings.home.glob("ledger.db*"):
        path.unlink()
    if not logs:
        shutil.rmtree(settings.logs_path)
    rebuild_ledger(settings)
    with Ledger.open(settings) as ledger:
        row = ledger.run(stopped.run_id)
        assert row.claim == Claim(row.id, 2)
    if not logs:
        assert row.status == "interrupted"
        assert RLRuntime.from_run(row.id, settings).resume().status == "completed"
        with Ledger.open(settings) as ledger:
            assert ledger.run(row.id).claim == Claim(row.id, 3)
            assert Path(ledger.run(row.id).checkpoint).is_dir()


def test_in_a_home_that_was_copied_nothing_is_claimed_or_removed(settings, tmp_path):
    stopped = halted_run(tiny(**POLICY), settings)
    copied = settings.model_copy(update={"home": tmp_path / "copy"})
    shutil.copytree(settings.home, copied.home)
    with Ledger.open(copied) as ledger:
        before = ledger.run(stopped.run_id)
        with pytest.raises(LakeError, match="copied or moved"):
            RLRuntime.from_run(stopped.run_id, copied).resume()
        with pytest.raises(LakeError, match="copied or moved"):
            remove_run(copied, RemoveRun(stopped.run_id, force=True))
        assert ledger.run(stopped.run_id) == before
    assert (copied.models_path / stopped.run_id).exists()
    assert not (copied.home / "removing").exists()
