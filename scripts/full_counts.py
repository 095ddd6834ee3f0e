"""Runs the full counts (tests marked slow, and the benchmarks) and writes what came of them to docs/results/.

python scripts/full_counts.py [NAME ...]        all of them without a name; each has a page of its own
"""

import argparse
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
SLOW_TESTS = "slow-tests"
#: Each page, and the benchmark that fills it.
BENCHMARKS = {
    "runtime-overhead": "runtime_overhead.py",
    "import-time": "import_time.py",
    "lake": "lake.py",
    "recording-stocks": "recording.py stocks",
    "recording-cartpole": "recording.py cartpole",
    "recording-native": "recording.py native",
    "recording-rate": "recording.py speed memory",
    "models": "models.py",
    "telemetry-cartpole": "telemetry.py cartpole",
    "telemetry-native": "telemetry.py native",
    "telemetry-steps": "telemetry.py steps",
    "native-ppo-cartpole": "native_ppo.py cartpole",
    "native-ppo-stocks": "native_ppo.py stocks",
}


def slow_tests() -> bool:
    """Runs every test marked slow, one after another so that they do not disturb each other."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", f"--junitxml={report}"]
        passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        rows = [
            f"{'FAIL' if len(case) else 'pass'}  {float(case.get('time') or 0):6.0f} s  "
            f"{case.get('classname')}.{case.get('name')}"
            for case in ET.parse(report).getroot().iter("testcase")
        ]
    _write(SLOW_TESTS, "pytest -m slow", "\n".join(rows))
    return passed


def benchmark(page: str, words: str) -> bool:
    """Runs one benchmark; says whether it reached its figures."""
    name, *parts = words.split()
    command = [sys.executable, str(ROOT / "benchmarks" / name), *parts]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"{words} printed nothing")
    _write(page, f"python benchmarks/{words}", done.stdout.strip())
    return done.returncode == 0


def _write(page: str, command: str, output: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = f"# {page}\n\nPrinted by `{command}` on {datetime.now(UTC):%Y-%m-%d}.\n\n```\n{output}\n```\n"
    (RESULTS / f"{page}.md").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{output}\nwrote docs/results/{page}.md\n")


def main() -> int:
    """Runs what is asked for; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = (SLOW_TESTS, *BENCHMARKS)
    parser.add_argument("names", nargs="*", choices=names, default=names, metavar="NAME", help=", ".join(names))
    requested = parser.parse_args().names
    passed = [slow_tests() if name == SLOW_TESTS else benchmark(name, BENCHMARKS[name]) for name in requested]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
