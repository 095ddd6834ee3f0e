"""The whole path on PostgreSQL."""

import json
import os
import subprocess
import sys

from alphaswarm_rl.ledger import Ledger
from alphaswarm_rl.runtime import RLRuntime
from alphaswarm_rl.settings import LedgerSettings, Settings
from tests.postgres import new_postgres, postgres_server  # noqa: F401
from tests.runtime.conftest import tiny


def test_train_and_replay_on_postgresql(new_postgres, tmp_path):  # noqa: F811
    settings = Settings(home=tmp_path / "home", ledger=LedgerSettings(url=new_postgres()))
    trained = RLRuntime(tiny(), settings).train()
    replayed = RLRuntime.from_run(trained.run_id, settings).replay(seed=8)
    assert replayed.version_id == trained.version_id
    with Ledger.open(settings) as ledger:
        assert [run.target for run in ledger.runs()] == ["replay", "train"]
        seqs = [event.seq for event in ledger.events(trained.run_id)]
    assert seqs == list(range(1, len(seqs) + 1))
    assert not (settings.home / "ledger.db").exists()


def test_the_command_line_on_postgresql(new_postgres, tmp_path):  # noqa: F811
    environment = {**os.environ, "ALPHASWARM_RL_DB_URL": new_postgres(), "RL_TRAIN_TOTAL_TIMESTEPS": "64"}

    def rl(*arguments):
        command = [sys.executable, "-m", "alphaswarm_rl.cli", *arguments, "--json"]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    run = rl("train", "cartpole_random")
    assert rl("runs", "list")[0]["id"] == run["run_id"]
