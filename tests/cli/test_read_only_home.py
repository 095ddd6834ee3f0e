"""A home that cannot be written to can be read: in processes without the right to write there, also below root."""

import ctypes
import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

#: prctl(PR_CAPBSET_DROP), and what lets root write anywhere: CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_FOWNER.
_DROP, _PRIVILEGES = 24, (1, 2, 3)


def give_up_privileges():
    """Makes the process that is about to start an ordinary user's: permissions of files count for it."""
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for privilege in _PRIVILEGES:
            if libc.prctl(_DROP, privilege, 0, 0, 0) != 0:
                raise OSError(ctypes.get_errno(), "privileges cannot be given up")


def unprivileged(*command, stdin=""):
    return subprocess.run(
        [sys.executable, *map(str, command)],
        preexec_fn=give_up_privileges,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=600,
    )


def content(home):
    return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(home.rglob("*"))}


def set_writable(home, *, writable):
    for path in [home, *home.rglob("*")]:
        mode = path.stat().st_mode
        path.chmod(mode | 0o200 if writable else mode & ~0o222)


@pytest.fixture
def read_only(home):
    """Makes the home one that can only be read, until the test ends."""
    yield lambda: set_writable(home, writable=False)
    set_writable(home, writable=True)


#: Several commands in one process: each would load everything again.
_COMMANDS = """
import json, sys
from click.testing import CliRunner
from alphaswarm_rl.cli import rl
answers = []
for command in json.loads(sys.argv[1]):
    result = CliRunner().invoke(rl, [*command["words"], "--json"], input=command.get("input"))
    answers.append([result.exit_code, result.stdout, result.stderr, repr(result.exception)])
print(json.dumps(answers))
"""


def ask(*commands):
    given = [command if isinstance(command, dict) else {"words": command.split("|")} for command in commands]
    done = unprivileged("-c", _COMMANDS, json.dumps(given))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_home_that_cannot_be_written_to_can_be_read(rl, home, trained, read_only):
    run = trained["run_id"]
    assert rl("sql", "SELECT 1").code == 0
    read_only()
    before = content(home)
    assert "Permission denied" in unprivileged("-c", f"open({str(home / 'new')!r}, 'w')").stderr

    reading = {
        "runs|list": run,
        f"runs|show|{run}": run,
        "sql|SELECT id FROM runs": run,
        "sql|SELECT DISTINCT run_id FROM rl_trajectories": run,
        f"runs|trajectories|{run}": "reward",
        f"runs|equity|{run}": None,
        f"runs|positions|{run}": None,
        f"runs|holdings|{run}": None,
        "models|list": run,
        "db|status": "current",
        "lake|status": "rl.trajectories",
        "doctor": "can be read, and not written to",
    }
    infer = {"words": ["infer", "--run", run], "input": "[0, 0, 0, 0]\n"}
    answers = ask(*reading, infer)
    for (words, expected), (code, out, err, raised) in zip(
        [*reading.items(), ("infer", "action")], answers, strict=True
    ):
        if expected is None:  # cartpole has no account: refused for that, and not for the home
            assert "writ" not in out + err, (words, out, err)
            assert "read-only" not in out + err, (words, out, err)
            continue
        assert code == 0, (words, out, err, raised)
        assert expected in out, (words, out)
    assert content(home) == before


def test_what_must_write_says_why_it_cannot(rl, home, trained, ppo_spec, read_only):
    read_only()
    before = content(home)
    commands = (f"train|{ppo_spec}", f"runs|rm|{trained['run_id']}|--yes", "halt|--reason|test", "models|prune")
    for words, (code, out, err, raised) in zip(commands, ask(*commands), strict=True):
        assert code in (1, 2), (words, out, err, raised)
        error = json.loads(out)["error"]
        assert all(error[part] for part in ("what", "why", "remedy")), (words, error)
        assert "writable" in error["remedy"] or "write" in error["remedy"], (words, error)
    assert content(home) == before


_NEWEST = """
import sys
from pathlib import Path
from alphaswarm_rl.db.engine import open_engine, read
with read(open_engine(f"sqlite:///{sys.argv[1]}")) as connection:
    print(connection.exec_driver_sql("SELECT max(a) FROM t").scalar_one())
"""


@pytest.fixture
def unfinished(home, read_only):
    """A database whose newest row is in its log alone, as a writer leaves it that is killed."""
    home.mkdir()
    made, left = home / "made.db", home / "left.db"
    writer = sqlite3.connect(made, isolation_level=None)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (a)")
    writer.execute("INSERT INTO t VALUES (1)")
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    writer.execute("INSERT INTO t VALUES (2)")
    for suffix in ("", "-wal", "-shm"):
        shutil.copyfile(f"{made}{suffix}", f"{left}{suffix}")
    writer.close()
    return left


def test_changes_in_the_log_are_read_too(home, unfinished, read_only):
    read_only()
    done = unprivileged("-c", _NEWEST, unfinished)
    assert done.stdout == "2\n", done.stderr


def test_changes_in_a_log_that_cannot_be_read_are_never_left_out(home, unfinished, read_only):
    unfinished.with_name("left.db-shm").unlink()
    read_only()
    done = unprivileged("-c", _NEWEST, unfinished)
    assert done.stdout == ""
    assert "its newest changes are in left.db-wal" in done.stderr
