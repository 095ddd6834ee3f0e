"""How long `import alphaswarm_rl`, `rl --help` and `rl doctor` take, and that none loads a heavy library.

    python benchmarks/import_time.py [--rounds 11] [--json]

Wall time of fresh processes, medians, beside a bare interpreter. The doctor looks at a home with a run in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

CONTESTANTS = {
    "bare interpreter": [sys.executable, "-c", "pass"],
    "import alphaswarm_rl": [sys.executable, "-c", "import alphaswarm_rl"],
    "rl --help": [sys.executable, "-m", "alphaswarm_rl.cli", "--help"],
    "rl doctor": [sys.executable, "-m", "alphaswarm_rl.cli", "doctor"],
}
TRAINED = ["train", "cartpole_ppo", "--algorithm", "ppo_inhouse", "--total-timesteps", "512"]
HEAVY = {"torch", "pandas", "mlflow", "numba", "pyiceberg"}
#: What those that open no ledger need not load either.
NO_LEDGER = {"sqlalchemy"}
MOST_SECONDS = {"import alphaswarm_rl": 0.3, "rl --help": 0.6, "rl doctor": 2.0}


def loaded_modules(command: list[str]) -> set[str]:
    """Top-level modules that a command imports, as the interpreter itself reports them."""
    done = subprocess.run([command[0], "-X", "importtime", *command[1:]], check=True, capture_output=True, text=True)
    return {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines() if "|" in line}


def main() -> int:
    """Measures and judges."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["ALPHASWARM_RL_HOME"] = folder
        subprocess.run([sys.executable, "-m", "alphaswarm_rl.cli", *TRAINED], check=True, capture_output=True)
        return measure(arguments.rounds, as_json=arguments.json)


def measure(rounds: int, *, as_json: bool) -> int:
    """Prints medians; 0 when all are within their bounds."""
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for _ in range(rounds):
        for name, command in CONTESTANTS.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - started)
    for name, command in CONTESTANTS.items():
        heavy = (HEAVY | (set() if name == "rl doctor" else NO_LEDGER)) & loaded_modules(command)
        if heavy:
            raise SystemExit(f"{name} loads {', '.join(sorted(heavy))}")
    medians = {name: statistics.median(values) for name, values in times.items()}
    passed = all(medians[name] <= most for name, most in MOST_SECONDS.items())
    if as_json:
        print(json.dumps({"medians": medians, "passed": passed}))
    else:
        for name, seconds in medians.items():
            limit = f"   at most {MOST_SECONDS[name]} s" if name in MOST_SECONDS else ""
            print(f"{name:22} {seconds:.3f} s{limit}")
        print("PASS" if passed else "FAIL")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
