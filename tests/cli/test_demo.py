import json
import os
import re
import subprocess
import sys


def test_the_demo_shows_its_table(tmp_path):
    """What `make demo` runs, with less training."""
    command = [sys.executable, "-m", "alphaswarm_rl.cli.demo", "--timesteps", "5000"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "COLUMNS": "140"})
    assert done.returncode == 0, done.stderr
    (worst,) = re.finditer(r"evaluation was (\S+), (\S+)% below its peak", done.stdout)
    (drawdown,) = re.findall(r"^PPO +\S+ +\S+ +\S+ +\S+ +\S+ +-(\S+)%", done.stdout, re.MULTILINE)
    assert worst[2] == drawdown
    assert worst[1].startswith("20")
    (command,) = re.findall(r"\(\.venv/bin/(rl runs holdings .+)\):", done.stdout)
    shown = subprocess.run(
        [sys.executable, "-m", "alphaswarm_rl.cli", *command.split()[1:], "--json"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    held = json.loads(shown.stdout)
    assert (held["phase"], held["ts"][:10]) == ("evaluate", worst[1])
    assert [row["symbol"] for row in held["holdings"]][:2] == ["CASH", "AAPL"]
    for row in held["holdings"]:
        assert re.search(rf"^{row['symbol']} +{row['quantity']:.6g} ", done.stdout, re.MULTILINE), row
    assert "COST SO FAR" in done.stdout
    assert "drawdown, %" in done.stdout
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
    tomorrow = done.stdout[done.stdout.index("What PPO would hold after 2022-12-28") :].splitlines()
    weights = {row.split()[0]: float(row.split()[-1].rstrip("%")) for row in tomorrow[3:] if row}
    assert len(weights) == 21
    assert abs(sum(weights.values()) - 100.0) < 0.2
    assert weights["CASH"] >= 0.0
