import os
import subprocess
import sys


def test_the_demo_shows_its_table(tmp_path):
    """What `make demo` runs, with less training."""
    command = [sys.executable, "-m", "alphaswarm_rl.cli.demo", "--timesteps", "4096"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "COLUMNS": "120"})
    assert done.returncode == 0, done.stderr
    for words in ("random actions", "train PPO", "replay, seed 7", "the same returns as training's own: True"):
        assert words in done.stdout
