"""Runs the full counts (tests marked slow, and the benchmarks) and writes what came of them to docs/results/."""

import json
import platform
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results" / "full-counts.md"
BENCHMARKS = (
    "runtime_overhead.py",
    "import_time.py",
    "lake.py",
    "recording.py",
    "models.py",
    "telemetry.py",
    "native_ppo.py",
)


def slow_tests() -> tuple[list[tuple[str, str, float]], bool]:
    """(test, outcome, seconds) of every test marked slow, one after another so that they do not disturb each other."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-m", "slow", f"--junitxml={report}"]
        done = subprocess.run(command, cwd=ROOT, check=False)  # noqa: S603
        cases = ET.parse(report).getroot().iter("testcase")  # noqa: S314
        rows = [
            (
                f"{case.get('classname')}.{case.get('name')}",
                "failed" if len(case) else "passed",
                float(case.get("time") or 0),
            )
            for case in cases
        ]
    return rows, done.returncode == 0


def benchmark(name: str) -> tuple[dict, bool]:
    """The JSON report of one benchmark, and whether it reached its figure."""
    command = [sys.executable, str(ROOT / "benchmarks" / name), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603
    if not done.stdout.strip():
        raise SystemExit(f"{name} printed nothing:\n{done.stderr}")
    return json.loads(done.stdout), done.returncode == 0


def main() -> int:
    """Runs everything; 0 when everything passed."""
    rows, passed = slow_tests()
    lines = [
        "# Full counts",
        "",
        f"Written by `make test-all` on {datetime.now(UTC):%Y-%m-%d}; Python {platform.python_version()}.",
        "",
        "| test | outcome | seconds |",
        "|---|---|---|",
        *(f"| `{name}` | {outcome} | {seconds:.0f} |" for name, outcome, seconds in rows),
    ]
    for name in BENCHMARKS:
        report, reached = benchmark(name)
        passed = passed and reached
        lines += [
            "",
            f"## benchmarks/{name}: {'reached' if reached else 'missed'}",
            "",
            "```json",
            json.dumps(report, indent=1),
            "```",
        ]
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text("\n".join(lines) + "\n", encoding="utf-8")
    sys.stdout.write(f"wrote {RESULTS.relative_to(ROOT)}\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
