"""`rl runs rm` and `rl runs gc`."""

import os
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pytest


def test_rm_removes_files_and_keeps_the_row(rl, trained, home):
    answer = rl("runs", "rm", trained["run_id"], "--yes", "--json").json
    assert answer["freed_bytes"] > 0
    assert not Path(trained["checkpoint"]).exists()
    assert not list((home / "logs").iterdir())
    assert rl("runs", "list", "--json").json == []
    assert [row["id"] for row in rl("runs", "list", "--removed", "--json").json] == [trained["run_id"]]
    assert rl("runs", "rm", trained["run_id"], "--yes").code == 2
    assert rl("replay", trained["run_id"]).code == 2
    assert rl("infer", "--run", trained["run_id"]).code == 2


def test_rm_asks(rl, trained):
    answer = rl("runs", "rm", trained["run_id"])
    assert answer.code == 2
    assert "--yes" in answer.err
    assert Path(trained["checkpoint"]).exists()


@pytest.mark.parametrize(("word", "code", "stays"), [("n", 3, True), ("y", 0, False)])
def test_rm_asks_at_a_terminal(trained, word, code, stays):
    ours, theirs = os.openpty()
    os.write(ours, f"{word}\n".encode())
    command = [sys.executable, "-m", "alphaswarm_rl.cli", "runs", "rm", trained["run_id"]]
    done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False)
    os.close(theirs)
    os.close(ours)
    assert done.returncode == code, done.stderr
    assert "Remove the files of run" in done.stderr
    assert Path(trained["checkpoint"]).exists() is stays


def test_rm_keeps_what_others_stand_on(rl, trained):
    evaluated = rl("evaluate", trained["run_id"], "--json").json
    replayed = rl("replay", evaluated["run_id"], "--json").json
    answer = rl("runs", "rm", trained["run_id"], "--yes")
    assert answer.code == 2
    # The replay is a grandchild, and stands on the same checkpoint.
    assert evaluated["run_id"] in answer.err
    assert replayed["run_id"] in answer.err
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "rm", trained["run_id"], "--yes", "--force").code == 0


def test_rm_of_an_evaluation_leaves_the_checkpoint(rl, trained):
    evaluated = rl("evaluate", trained["run_id"], "--json").json
    assert rl("runs", "rm", evaluated["run_id"], "--yes").code == 0
    assert Path(trained["checkpoint"]).exists()


def test_gc(rl, trained, home):
    models = home / "models"
    half = models / trained["run_id"] / ".unfinished-000000000999"
    unknown = models / str(uuid4()) / "000000000001"
    foreign = models / "thesis"
    foreign_too = models / str(uuid4()) / "notes"
    for folder in (half, unknown, foreign, foreign_too):
        folder.mkdir(parents=True)
        (folder / "data").write_bytes(b"x" * 100)
    planned = rl("runs", "gc", "--dry-run", "--json").json
    assert planned["bytes"] == 200
    assert half.exists()
    assert rl("runs", "gc").code == 2  # nobody can be asked
    done = rl("runs", "gc", "--yes", "--json").json
    assert [folder["path"] for folder in done["folders"]] == [folder["path"] for folder in planned["folders"]]
    assert not half.exists()
    assert not unknown.parent.exists()
    # Nothing that this program did not make, and nothing that a run needs.
    assert foreign.exists()
    assert foreign_too.exists()
    assert Path(trained["checkpoint"]).exists()
    assert rl("runs", "gc").out == "freed 0 B\n"


def test_gc_with_another_ledger_is_refused(rl, trained, home, tmp_path):
    answer = rl("runs", "gc", "--yes", "--db-url", f"sqlite:///{tmp_path}/other.db")
    assert answer.code == 2
    assert "another ledger" in answer.err
    assert (home / "models" / trained["run_id"]).is_dir()
