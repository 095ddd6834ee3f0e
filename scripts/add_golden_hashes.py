"""Adds the hashes of specs to the golden file; pairs that are there are never changed.

Usage: add_golden_hashes.py FILE...
"""

import json
import sys
from pathlib import Path

from alphaswarm_rl.spec import RLExperimentSpec

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden" / "spec_hashes.json"


def main() -> None:
    """Appends a pair for every spec file named on the command line."""
    pairs = json.loads(GOLDEN.read_text(encoding="utf-8")) if GOLDEN.exists() else []
    known = {pair["spec_hash"] for pair in pairs}
    for path in map(Path, sys.argv[1:]):
        # As it was written, so that a default which changes is found out.
        text = path.read_text(encoding="utf-8")
        spec = RLExperimentSpec.from_yaml_str(text)
        if spec.spec_hash not in known:
            pairs.append({"yaml": text, "spec_hash": spec.spec_hash, "exec_hash": spec.exec_hash})
    GOLDEN.write_text(json.dumps(pairs, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
