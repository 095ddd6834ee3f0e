"""This commit beside another: has a change of the house made anything slower?

    python benchmarks/commits.py 046972f [env] [native] [recorded] [runtime] [start] [--pairs 11] [--scale 1.0]

env: steps of `stock_trading` and `stock_portfolio`, 30 stocks in 1024 environments. native: our PPO on 30 stocks, not
recorded. recorded: the same, recorded. runtime: PPO of Stable-Baselines3 on CartPole through `RLRuntime`. Each in CPU
time, other / this / other, one whole run after another in an order that changes from round to round: a process that is
paused in between asks the kill switch anew when it wakes, which is no part of a run. The upper end of the 90 % interval
of this / other may be 1.03. start: seconds on the clock of `rl runs list`, `rl spec validate`, `rl components list` and
of `rl infer` up to its first answer, in turn; medians, and at most a half and a third of the other's.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from pairs import FEWEST_PAIRS, ratio

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
from compare_commits import Side, install  # noqa: E402

MOST = 1.03
LENGTHS = {"env": 600_000, "native": 200_000, "recorded": 200_000, "runtime": 40_000}
INDICATORS = ["macd", "rsi_30", "cci_30", "dx_30", "close_30_sma", "close_60_sma", "boll_ub", "boll_lb"]
STARTS = {
    "runs list": (("runs", "list"), 0.5),
    "spec validate": (("spec", "validate", "my_first_rl"), 0.5),
    "components list": (("components", "list"), 0.5),
}


def work(name: str, timesteps: int, home: Path) -> None:
    """What is measured, by public names alone: both commits run this very file."""
    from alphaswarm_rl import RLExperimentSpec, RLRuntime, Settings

    bars = {"class": "synthetic", "kwargs": {"n_assets": 30, "n_bars": 2000, "seed": 0, "features": INDICATORS}}
    if name == "env":
        return step_environments(timesteps)
    cartpole = {"env": {"class": "gymnasium", "kwargs": {"id": "CartPole-v1"}}, "agent": {"class": "ppo"}}
    stocks = {"env": {"class": "stock_trading"}, "data_pipeline": bars, "agent": {"class": "ppo_inhouse"}}
    data = {
        "name": name,
        **(cartpole if name == "runtime" else stocks),
        "training": {"total_timesteps": timesteps, "n_envs": 8, "seed": 0},
        "trajectory_store": {"enabled": name == "recorded"},
    }
    run = RLRuntime(RLExperimentSpec.from_data(data), Settings(home=home)).train()
    if run.status != "completed":
        raise SystemExit(f"run {run.run_id} is {run.status}")
    return None


def step_environments(timesteps: int) -> None:
    """Steps two environments with random actions."""
    import numpy as np

    from alphaswarm_rl import MarketPanel, make_env

    rng = np.random.default_rng(0)
    close = 100.0 * np.exp(np.cumsum(rng.normal(0.0002, 0.015, (2000, 30)), axis=0))
    arrays = {
        "timestamps": np.datetime64("2015-01-01") + np.arange(2000).astype("timedelta64[D]"),
        "assets": [f"A{index:02d}" for index in range(30)],
        "close": close,
        "open": close,
    }
    panel = MarketPanel.from_arrays(arrays).with_features({f"f{k}": rng.normal(size=(2000, 30)) for k in range(8)})
    for alias in ("stock_trading", "stock_portfolio"):
        env = make_env(alias, num_envs=1024, seed=0, panel=panel)
        env.action_space.seed(0)
        actions = [env.action_space.sample() for _ in range(8)]
        env.reset(seed=0)
        for step in range(max(1, timesteps // 2 // 1024)):
            env.step(actions[step % 8])
        env.close()


def serve(name: str, timesteps: int, home: Path) -> None:
    """A contestant: warms up, waits for its start, says what it spent."""
    import torch

    torch.set_num_threads(1)
    work(name, timesteps // 8, home)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    started = time.process_time()
    work(name, timesteps, home)
    sys.stdout.write(f"{time.process_time() - started}\n")


def race(name: str, timesteps: int, sides: dict[str, Side]) -> dict[str, float]:
    """CPU seconds of each contestant, who work one after the other once all have warmed up."""
    workers, spent = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for key, side in sides.items():
            words = [str(side.python), __file__, "--serve", name, str(timesteps), f"{folder}/{key}"]
            workers[key] = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            if workers[key].stdout.readline() != "ready\n":
                raise SystemExit(f"{key} did not start")
        for key, worker in workers.items():
            spent[key] = float(worker.communicate("go\n")[0])
    return spent


def compare(name: str, pairs: int, scale: float, other: Side, this: Side) -> bool:
    """Prints this / other in CPU time, and other / other; says whether it is within bounds."""
    times: dict[str, list[float]] = {"other": [], "this": [], "again": []}
    for number in range(pairs):
        keys = list(times)
        order = keys[number % 3 :] + keys[: number % 3]
        sides = {key: this if key == "this" else other for key in order}
        for key, spent in race(name, int(LENGTHS[name] * scale), sides).items():
            times[key].append(spent)
    base = [math.sqrt(one * two) for one, two in zip(times["other"], times["again"], strict=True)]
    price, noise = ratio(times["this"], base), ratio(times["again"], times["other"])
    sys.stdout.write(f"{name}: this / other {price}; other / other {noise}; {statistics.median(base):.1f} CPU s each\n")
    sys.stdout.flush()
    return price.high <= MOST


def compare_starts(pairs: int, other: Side, this: Side) -> bool:
    """Prints the median seconds of light commands and of the first answer, and their ratios."""
    for side in (other, this):
        side.rl("train", "my_first_rl", "--algorithm", "ppo_inhouse", "--total-timesteps", "2048")
    # A policy says itself what it wants to be asked.
    width = int(re.search(r"of shape \((\d+),\)", other.rl("infer", given="[0]\n", check=False)).group(1))
    observation = json.dumps([0.0] * width) + "\n"
    good = True
    for title, (words, most) in {**STARTS, "infer": (("infer",), 1 / 3)}.items():
        seconds: dict[str, list[float]] = {"other": [], "this": []}
        for _ in range(pairs):
            for side in (other, this):
                started = time.perf_counter()
                side.rl(*words, given=observation)
                seconds[side.name].append(time.perf_counter() - started)
        medians = {key: statistics.median(values) for key, values in seconds.items()}
        share = medians["this"] / medians["other"]
        sys.stdout.write(
            f"rl {title}: {medians['other']:.3f} s -> {medians['this']:.3f} s, {share:.2f} (at most {most:.2f})\n"
        )
        good &= share <= most
    return good


def main() -> int:
    """Measures and judges."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], int(sys.argv[3]), Path(sys.argv[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("commit")
    parser.add_argument("parts", nargs="*", default=[*LENGTHS, "start"])
    parser.add_argument("--pairs", type=int, default=FEWEST_PAIRS)
    parser.add_argument("--scale", type=float, default=1.0)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="commits-"))
    source = folder / "source"
    git = shutil.which("git") or "git"
    add = [git, "-C", str(ROOT), "worktree", "add", "--quiet", "--detach", str(source), arguments.commit]
    subprocess.run(add, check=True)
    try:
        other = Side("other", install(source, folder / "venv-other"), folder / "home-other")
        this = Side("this", install(ROOT, folder / "venv-this"), folder / "home-this")
        good = [
            compare(name, arguments.pairs, arguments.scale, other, this) for name in arguments.parts if name in LENGTHS
        ]
        if "start" in arguments.parts:
            good.append(compare_starts(arguments.pairs, other, this))
    finally:
        subprocess.run([git, "-C", str(ROOT), "worktree", "remove", "--force", str(source)], check=True)
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
