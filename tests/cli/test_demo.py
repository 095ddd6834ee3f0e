import os
import subprocess
import sys


def test_the_demo_shows_its_table(tmp_path):
    """What `make demo` runs, with less training."""
    command = [sys.executable, "-m", "alphaswarm_rl.cli.demo", "--timesteps", "5000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    for words in (
        "PPO",
        "equal weight",
        "buy and hold",
        "minimum variance",
        "mean variance",
        "random",
        "the same return as training's own: True",
        "Both replays gave the same bytes, under the version that trained: True",
        "survivors",
    ):
        assert words in done.stdout
