"""Fails when a source file is longer than a person wants to read."""

import statistics
import sys
from pathlib import Path

LONGEST = 800
ROOTS = ("src", "tests", "benchmarks", "scripts")


def main() -> int:
    """Checks every Python file; says which are too long, and the median of the package."""
    root = Path(__file__).resolve().parent.parent
    lengths = {
        path: len(path.read_text(encoding="utf-8").splitlines())
        for name in ROOTS
        for path in sorted((root / name).rglob("*.py"))
    }
    too_long = {path: count for path, count in lengths.items() if count > LONGEST}
    for path, count in too_long.items():
        sys.stderr.write(f"{path.relative_to(root)}: {count} lines, the most is {LONGEST}\n")
    package = [count for path, count in lengths.items() if path.is_relative_to(root / "src")]
    sys.stdout.write(
        f"{len(lengths)} files, longest {max(lengths.values())}, median in src {statistics.median(package):.0f}\n"
    )
    return 1 if too_long else 0


if __name__ == "__main__":
    sys.exit(main())
