"""Runs the full counts (tests marked slow, the fuzz, and the benchmarks) and writes what came of them to docs/results/.

python scripts/full_counts.py [NAME ...]        all of them without a name; each has a page of its own
"""

import argparse
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
SLOW_TESTS = "slow-tests"
CHAOS = "chaos"
#: What the page of chaos says above its table.
CHAOS_TEXT = """\
A case counts as passed only if the command line then brings everything to the end that it has without trouble: the same
rows in all tables, none lost and none doubled, the same weights to the last bit, the same models, halts and trackers'
points, `rl lake verify` and `rl doctor` without a finding, nothing left in the spool.

- kill: the process is sent SIGKILL before its n-th call that syncs, renames, links or deletes a file, makes a folder or
  commits a transaction; n is drawn by the seed from all calls of that command.
- full: from the n-th such call on there is no room on the disk. io: that one call fails with EIO.
- pause: a training stands still (SIGSTOP) at the named place, another process resumes its run and is held at one of the
  stages of its life, and the first one wakes: it must end with exit code 4. At servers: ledger and catalogue in
  PostgreSQL, files in S3.
"""
#: Each page, and the program that fills it.
PROGRAMS = {
    "fuzz": "scripts/fuzz.py",
    "runtime-overhead": "benchmarks/runtime_overhead.py",
    "import-time": "benchmarks/import_time.py",
    "lake": "benchmarks/lake.py",
    "recording-stocks": "benchmarks/recording.py stocks",
    "recording-cartpole": "benchmarks/recording.py cartpole",
    "recording-native": "benchmarks/recording.py native",
    "recording-rate": "benchmarks/recording.py speed memory",
    "models": "benchmarks/models.py",
    "gates": "benchmarks/gates.py",
    "data-check": "benchmarks/data_check.py",
    "telemetry-cartpole": "benchmarks/telemetry.py cartpole",
    "telemetry-native": "benchmarks/telemetry.py native",
    "telemetry-steps": "benchmarks/telemetry.py steps",
    "native-ppo-cartpole": "benchmarks/native_ppo.py cartpole",
    "native-ppo-stocks": "benchmarks/native_ppo.py stocks",
    "brake": "benchmarks/brake.py",
}


def slow_tests() -> bool:
    """Runs every other test marked slow, one after another so that they do not disturb each other."""
    passed, cases = _pytest("--ignore=tests/chaos")
    rows = [
        f"{'FAIL' if len(case) else 'pass'}  {float(case.get('time') or 0):6.0f} s  "
        f"{case.get('classname')}.{case.get('name')}"
        for case in cases
    ]
    _write(SLOW_TESTS, "pytest -m slow --ignore=tests/chaos", _block("\n".join(rows)))
    return passed


def chaos() -> bool:
    """Runs the full counts of kills, pauses and failing disks, three at a time: they go by calls, not by the clock."""
    passed, cases = _pytest("tests/chaos", "--numprocesses=3", "--dist=worksteal")
    counts: dict[tuple[str, str], list[ET.Element]] = {}
    for case in cases:
        counts.setdefault(_trouble(str(case.get("name"))), []).append(case)
    rows = ["| trouble | where | cases | failed | seconds |", "| --- | --- | --- | --- | --- |"]
    for (trouble, where), found in sorted(counts.items()):
        seconds = sum(float(case.get("time") or 0) for case in found)
        rows.append(f"| {trouble} | {where} | {len(found)} | {sum(len(case) > 0 for case in found)} | {seconds:.0f} |")
    seeds = sorted({int(seed) for case in cases for seed in re.findall(r"-(\d+)\]", str(case.get("name")))})
    total = f"{len(cases)} cases, {sum(len(case) > 0 for case in cases)} failed. Seeds: {seeds[0]} to {seeds[-1]}."
    _write(
        CHAOS, "pytest -m slow tests/chaos --numprocesses 3 --dist worksteal", "\n".join([CHAOS_TEXT, total, "", *rows])
    )
    return passed


def _trouble(test: str) -> tuple[str, str]:
    """What happened in a case, and where, by the name of its test."""
    name, _, words = test.rstrip("]").partition("[")
    if "kills" in name:
        return "kill", words.rpartition("-")[0]
    if "disk" in name:
        # The order of the parameters: what, scene, seed.
        what, _, rest = words.partition("-")
        return what, rest.rpartition("-")[0]
    return ("pause at servers" if "servers" in name else "pause"), words.partition("-")[0]


def _pytest(*words: str) -> tuple[bool, list[ET.Element]]:
    """Runs tests marked slow; whether all passed, and every case."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", f"--junitxml={report}", *words]
        passed = subprocess.run(command, cwd=ROOT, check=False).returncode == 0
        return passed, list(ET.parse(report).getroot().iter("testcase"))


def _block(text: str) -> str:
    return f"```\n{text}\n```"


def program(page: str, words: str) -> bool:
    """Runs a benchmark or the fuzz; says whether it reached its figures."""
    name, *parts = words.split()
    command = [sys.executable, str(ROOT / name), *parts]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if not done.stdout.strip():
        raise SystemExit(f"{words} printed nothing")
    output = done.stdout.strip()
    # The fuzz prints Markdown.
    _write(page, f"python {words}", output if "\n| --- |" in output else _block(output))
    return done.returncode == 0


def _write(page: str, command: str, output: str) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    text = f"# {page}\n\nPrinted by `{command}` on {datetime.now(UTC):%Y-%m-%d}.\n\n{output}\n"
    (RESULTS / f"{page}.md").write_text(text, encoding="utf-8")
    sys.stdout.write(f"{output}\nwrote docs/results/{page}.md\n")


def main() -> int:
    """Runs what is asked for; 0 when everything passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    tests = {SLOW_TESTS: slow_tests, CHAOS: chaos}
    names = (*tests, *PROGRAMS)
    parser.add_argument("names", nargs="*", choices=names, default=names, metavar="NAME", help=", ".join(names))
    requested = parser.parse_args().names
    passed = [tests[name]() if name in tests else program(name, PROGRAMS[name]) for name in requested]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
